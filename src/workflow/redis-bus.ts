/**
 * A bus on a Redis stream. Every target is a consumer group: of the processors that share the target one at a time
 * handles its messages, in order, and another takes over when it dies. A message is delivered again when its processor
 * dies or fails, and becomes a dead letter when it fails too often or cannot be read.
 *
 * One stream for all targets, because the order counts across them: an announcement to all targets keeps its place among
 * the actions. A message stays in the stream until every target has read it: a target that does not read fills the
 * stream, and then no further message is accepted.
 */
import { invalid, LeaseError } from '../core/errors.ts'
import { parseSpanMs, refuseUnknown } from '../core/input.ts'
import {
  commandsOf,
  runScript,
  type RedisCommand,
  type RedisLike,
} from '../drivers/redis-driver.ts'
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
import { RESENT_TO } from './redis-group.ts'
import { formatAction, formatRevocation, type Revocation } from './wire/action-json.ts'

export interface RedisBusOptions {
  /** The key of the stream; dead letters go to the same with `:dead`. Default `tenure:actions`. */
  readonly stream?: string
  /**
   * About how many messages the stream keeps, and how many dead letters. A message that a target has not read is never
   * dropped for a new one, which is refused instead. Default 1000000.
   */
  readonly lengthMax?: number
  /** After so many failures a message becomes a dead letter. Default 5. */
  readonly deliveriesMax?: number
  /** A message that was not acknowledged for so long is delivered again. Default 5000. */
  readonly retryAfterMs?: number
  readonly runtime?: Runtime
}

/** A client that can be duplicated: a subscription blocks a connection of its own. */
export type RedisBusClient = RedisLike & { duplicate(): RedisBusClient }

/** Redis trims whole blocks of at most about so many messages; so many more than `lengthMax` may be there. */
const TRIM_SLACK = 1_000

/**
 * KEYS: stream. ARGV: the length, then messages. A longer stream is trimmed by the oldest messages that every group has
 * acknowledged, in blocks of the server; if that is not enough, nothing is added, and the answer is the group that is
 * furthest behind.
 */
const ADD = `local function before(a, b)
  local ams, aseq = string.match(a, '(%d+)-(%d+)')
  local bms, bseq = string.match(b, '(%d+)-(%d+)')
  if ams ~= bms then return tonumber(ams) < tonumber(bms) end
  return tonumber(aseq) < tonumber(bseq)
end
local kept = tonumber(ARGV[1])
local over = redis.call('XLEN', KEYS[1]) + #ARGV - 1 - kept
if over > 0 and redis.call('EXISTS', KEYS[1]) == 1 then
  local needed, group = nil, ''
  for _, fields in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
    local found = {}
    for i = 1, #fields, 2 do found[fields[i]] = fields[i + 1] end
    local from = found['last-delivered-id']
    if found.pending > 0 then from = redis.call('XPENDING', KEYS[1], found.name)[2] end
    if needed == nil or before(from, needed) then needed, group = from, found.name end
  end
  if needed then
    redis.call('XTRIM', KEYS[1], 'MINID', '~', needed, 'LIMIT', over + ${TRIM_SLACK})
  end
  if redis.call('XLEN', KEYS[1]) + #ARGV - 1 > kept + ${TRIM_SLACK} then return group end
end
for i = 2, #ARGV do redis.call('XADD', KEYS[1], '*', 'message', ARGV[i]) end
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

  /** Also when the stream is full: a target that does not read must not keep a revocation from the others. */
  async announce(revocation: Revocation): Promise<void> {
    const message = formatRevocation(revocation)
    await this.#command(['XADD', this.#options.stream, '*', 'message', message])
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
    return this.#readDead(['-', '+', 'COUNT', String(limit)])
  }

  /**
   * Sends a dead letter again, to the target it failed at. It is carried out although later actions were, unless it
   * was carried out itself.
   */
  async resend(id: string): Promise<void> {
    if (typeof id !== 'string' || !/^\d{1,20}-\d{1,20}$/.test(id)) {
      throw invalid('id', 'must be that of a dead letter', id)
    }
    const [letter] = await this.#readDead([id, id])
    if (letter === undefined) throw invalid('id', 'must be that of a dead letter', id)
    const { target, message } = letter
    const { stream } = this.#options
    // First sent, then removed: twice is better than never, and a guard knows what it has carried out.
    await this.#command(['XADD', stream, '*', 'message', message, RESENT_TO, target])
    await this.#command(['XDEL', this.#deadKey, id])
  }

  /**
   * Removes a target that will have no subscriber any more, with its unread messages, so that they do not keep the stream
   * full. A later subscriber begins with the messages that the stream still has.
   */
  async forgetTarget(target: string): Promise<void> {
    const group = parseName(target, 'target')
    await this.#command(['XGROUP', 'DESTROY', this.#options.stream, group])
  }

  async #readDead(range: readonly string[]): Promise<readonly DeadLetter[]> {
    const reply = await this.#command(['XRANGE', this.#deadKey, ...range])
    return (reply as readonly (readonly [string, readonly string[]])[]).map(([id, fields]) => {
      const [, target = '', , reason = '', , message = ''] = fields
      return { id, target, reason, message }
    })
  }

  get #deadKey(): string {
    return `${this.#options.stream}:dead`
  }

  async #add(messages: readonly string[]): Promise<void> {
    const { stream, lengthMax } = this.#options
    const args = [String(lengthMax), ...messages]
    const answer = await runScript(this.#command, { script: ADD, keys: [stream], args })
    if (Number(answer) === messages.length) return
    const target = answer === '' ? null : String(answer)
    const who = target === null ? 'no target has' : `target ${target} has not`
    const message = `the stream ${stream} keeps ${lengthMax} messages and is full: ${who} read the oldest`
    throw new LeaseError('LIMIT_EXCEEDED', message, { details: { limit: lengthMax, target } })
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
