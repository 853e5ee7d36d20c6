/**
 * A bus on a Redis stream. Every target is a consumer group: of the processors that share the target one at a time
 * handles its messages, in order, and another takes over when it dies. A message is delivered again when its processor
 * dies or fails, and becomes a dead letter when it fails too often or cannot be read.
 *
 * One stream for all targets, because the order counts across them: an announcement to everybody must not pass, nor be
 * passed by, the actions that went before it.
 */
import { invalid } from '../core/errors.ts'
import { parseSpanMs, refuseUnknown } from '../core/input.ts'
import { commandsOf, runScript, type RedisCommand, type RedisLike } from '../guard/redis-client.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import { EVERY_TARGET, parseName, type Action } from './action.ts'
import {
  requireListener,
  type Bus,
  type DeadLetter,
  type Listener,
  type Subscription,
} from './bus.ts'
import { RedisConsumer } from './redis-consumer.ts'
import { formatAction, formatRevocation, type Revocation } from './wire/action-json.ts'

export interface RedisBusOptions {
  /** The key of the stream; dead letters go to the same with `:dead`. Default `tenure:actions`. */
  readonly stream?: string
  /** About how many messages the stream keeps, and how many dead letters. Default 1000000. */
  readonly lengthMax?: number
  /** After so many failures a message becomes a dead letter. Default 5. */
  readonly deliveriesMax?: number
  /** A message that nobody has acknowledged for so long is delivered again. Default 5000. */
  readonly retryAfterMs?: number
  readonly runtime?: Runtime
}

/** A client, and how to get another connection like it: a subscription waits on one of its own. */
export type RedisBusClient = RedisLike & { duplicate(): RedisBusClient }

const ADD = `for i = 2, #ARGV do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'message', ARGV[i])
end
return #ARGV - 1`
const OPTIONS = ['stream', 'lengthMax', 'deliveriesMax', 'retryAfterMs', 'runtime']
/** Actions in one script, so that a large batch does not hold the server up. */
const PUBLISHED_AT_ONCE = 500
const DEAD_LETTERS_READ_MAX = 10_000

export class RedisBus implements Bus {
  readonly #client: RedisBusClient
  readonly #command: RedisCommand
  readonly #options: Required<RedisBusOptions>

  constructor(client: RedisBusClient, options: RedisBusOptions = {}) {
    refuseUnknown(options, OPTIONS)
    this.#command = commandsOf(client)
    this.#client = client
    this.#options = readOptions(options)
  }

  async publish(actions: readonly Action[]): Promise<void> {
    for (let at = 0; at < actions.length; at += PUBLISHED_AT_ONCE) {
      await this.#add(actions.slice(at, at + PUBLISHED_AT_ONCE).map(formatAction))
    }
  }

  async announce(revocation: Revocation): Promise<void> {
    await this.#add([formatRevocation(revocation)])
  }

  /** What was sent before the first subscription to a target is delivered as well, as long as the stream has it. */
  async subscribe(target: string, listener: Listener): Promise<Subscription> {
    const group = parseName(target, 'target')
    if (group === EVERY_TARGET) throw invalid('target', 'must be a target of its own', group)
    requireListener(listener)
    return RedisConsumer.start({ ...this.#options, client: this.#client, group, listener })
  }

  /** The oldest dead letters, of all targets. */
  async deadLetters(limit = 100): Promise<readonly DeadLetter[]> {
    parseSpanMs({ field: 'limit', min: 1, max: DEAD_LETTERS_READ_MAX }, limit)
    const key = `${this.#options.stream}:dead`
    const reply = await this.#command(['XRANGE', key, '-', '+', 'COUNT', String(limit)])
    return (reply as readonly (readonly [string, readonly string[]])[]).map(([, fields]) => {
      const [, target = '', , reason = '', , message = ''] = fields
      return { target, reason, message }
    })
  }

  async #add(messages: readonly string[]): Promise<void> {
    const { stream, lengthMax } = this.#options
    const args = [String(lengthMax), ...messages]
    await runScript(this.#command, { script: ADD, keys: [stream], args })
  }
}

function readOptions(options: RedisBusOptions): Required<RedisBusOptions> {
  const { stream = 'tenure:actions', runtime = systemRuntime } = options
  const { lengthMax = 1_000_000, deliveriesMax = 5, retryAfterMs = 5_000 } = options
  if (typeof stream !== 'string' || stream === '') throw invalid('stream', 'must be text', stream)
  return {
    stream,
    lengthMax: parseSpanMs({ field: 'lengthMax', min: 1, max: 1_000_000_000 }, lengthMax),
    deliveriesMax: parseSpanMs({ field: 'deliveriesMax', min: 1, max: 1_000 }, deliveriesMax),
    retryAfterMs: parseSpanMs({ field: 'retryAfterMs', min: 1, max: 3_600_000 }, retryAfterMs),
    runtime,
  }
}
