/**
 * A bus on a Redis stream. Every target is a consumer group: of the processors that share the target one at a time
 * handles its messages, in order, and another takes over when it dies. A message is delivered again when its processor
 * dies or fails, and becomes a dead letter when it fails too often or cannot be read.
 *
 * One stream for all targets, because the order counts across them: an announcement to all targets keeps its place among
 * the actions. A message stays in the stream until every target has read it: a target that does not read fills the
 * stream, and then no further message is accepted.
 */
import { isRetryable } from '../client/retry.ts'
import { batchesOf } from '../core/batches.ts'
import { invalid, LeaseError } from '../core/errors.ts'
import { parseSpanMs, refuseUnknown } from '../core/input.ts'
import {
  commandsOf,
  type RedisCommand,
  type RedisLike,
  runScript,
} from '../drivers/redis-driver.ts'
import { RepeatedFault, report } from '../runtime/diagnostics.ts'
import { endsWithin } from '../runtime/ends-within.ts'
import { backOffMs, pause } from '../runtime/pause.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import { type Action, EVERY_TARGET, parseName } from './action.ts'
import {
  type Bus,
  type DeadLetter,
  type Listener,
  parseOwnTarget,
  requireListener,
  type Subscription,
} from './bus.ts'
import { Deliveries, orderOf, readMessage } from './delivery.ts'
import { type StreamEntry, RedisGroup, RESENT_TO } from './redis-group.ts'
import { type Failure, parseRetryOptions, RetryQueues } from './retry-queues.ts'
import {
  type BusMessage,
  formatAction,
  formatRevocation,
  reasonOf,
  type Revocation,
} from './wire/action-json.ts'
import { runOutsideScopes } from './work-scope.ts'

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
  /** A message that was not acknowledged for so many milliseconds is delivered again. Default 5000. */
  readonly retryAfterMs?: number
  /** For tests: time, timers and ids to go by instead of the real ones, such as `FakeRuntime`. Default: the real ones. */
  readonly runtime?: Runtime
}

/** A client that can be duplicated: a subscription blocks a connection of its own. */
export type RedisBusClient = RedisLike & { duplicate(): RedisBusClient }

/** Redis trims whole blocks of at most about so many messages; so many more than `lengthMax` may be there. */
const TRIM_SLACK = 1_000

/**
 * KEYS: stream. ARGV: the length, then messages. A longer stream is trimmed by the oldest messages that every group has
 * acknowledged, in blocks of the server; if that is not enough, nothing is added, and the answer is the group that is
 * furthest behind. Otherwise there is none: any other answer might be the name of a group.
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
return false`
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
    for (const some of batchesOf(actions, PUBLISHED_AT_ONCE)) {
      await this.#add(some.map(formatAction))
    }
  }

  /** Also when the stream is full: a target that does not read must not keep a revocation from the others. */
  async announce(revocation: Revocation): Promise<void> {
    const message = formatRevocation(revocation)
    await this.#command(['XADD', this.#options.stream, '*', 'message', message])
  }

  /** What was sent before the first subscription to a target is delivered as well, as long as the stream has it. */
  async subscribe(target: string, listener: Listener): Promise<Subscription> {
    const group = parseOwnTarget(target)
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
    if (typeof answer !== 'string') return
    const target = answer === '' ? null : answer
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
    ...parseRetryOptions({ deliveriesMax, retryAfterMs }),
    runtime,
  }
}

interface ConsumerOptions extends Required<RedisBusOptions> {
  readonly client: RedisBusClient
  readonly group: string
  readonly listener: Listener
}

type Outcome =
  | { readonly kind: 'handled' }
  /** Another consumer is active, or this one is closed: the message was not processed. */
  | { readonly kind: 'left' }
  | { readonly kind: 'failed'; readonly failure: Failure }

const PAUSE_MS = 200
const RETRY = { firstMs: PAUSE_MS, maxMs: 5_000 }
const TURN_MS_MIN = 1_000
const CLOSE_WITHIN_MS = 1_000

/**
 * One consumer of a group on a Redis stream, on a connection of its own. While it is the active consumer of the group it
 * handles one message after the other, in the order of the stream:
 *
 *  1. After it became active or reconnected: every message that was delivered to any consumer and not acknowledged.
 *  2. Messages that failed before and are due; no later message of the same workflow passes them. After too many failures
 *     a message becomes a dead letter.
 *  3. New messages; it blocks until there are some.
 *
 * A message is acknowledged after it was handled. A message whose processing was started several times without an answer
 * has crashed its processors, and becomes a dead letter without another attempt. Waiting behind another message, or for
 * a store that is unavailable, does not count as an attempt.
 */
class RedisConsumer implements Subscription {
  readonly #options: ConsumerOptions
  readonly #connection: RedisBusClient
  readonly #group: RedisGroup
  readonly #retries: RetryQueues<StreamEntry>
  readonly #deliveries: Deliveries
  readonly #turnMs: number
  readonly #fault: RepeatedFault
  readonly #turnFault: RepeatedFault
  #closing: Promise<void> | null = null
  /** Messages are pending in Redis that this consumer has not fetched. */
  #isBehind = true
  /** Where fetching them continues; null: all are fetched. */
  #pendingFrom: string | null = null
  #keepingTurn: Timer | null = null
  #running: Promise<void> = Promise.resolve()
  /** Ends a pause when this is closed. */
  readonly #closed = new AbortController()

  static async start(options: ConsumerOptions): Promise<RedisConsumer> {
    const connection = await connected(options)
    const consumer = new RedisConsumer(options, connection)
    try {
      await consumer.#group.create()
      await consumer.#group.forgetConsumers()
    } catch (error) {
      disconnect(connection)
      throw error
    }
    runOutsideScopes(() => {
      consumer.#keepTurn()
      consumer.#running = consumer.#run()
    })
    return consumer
  }

  private constructor(options: ConsumerOptions, connection: RedisBusClient) {
    const { listener, runtime } = options
    this.#options = options
    this.#connection = connection
    this.#retries = new RetryQueues(options)
    this.#deliveries = new Deliveries(listener, runtime)
    this.#turnMs = Math.max(TURN_MS_MIN, options.retryAfterMs)
    this.#group = new RedisGroup(connection, { ...options, turnMs: this.#turnMs })
    this.#fault = new RepeatedFault('workflow/redis-consumer', runtime)
    this.#turnFault = new RepeatedFault('workflow/redis-turn', runtime)
  }

  /**
   * Waits for the message in progress, and stays the active consumer until then, but does not wait for a server that does
   * not answer. When a listener closes its own subscription, this does not wait for that listener.
   */
  async close(): Promise<void> {
    this.#closed.abort()
    this.#closing ??= runOutsideScopes(() => this.#leave())
    if (!this.#deliveries.isInside) await this.#closing
  }

  async #leave(): Promise<void> {
    await this.#deliveries.ended()
    const leaving = this.#running.then(() => {
      this.#keepingTurn?.cancel()
      return this.#group.leave()
    })
    try {
      if (!(await endsWithin(this.#options.runtime, CLOSE_WITHIN_MS, leaving))) {
        throw new Error(`Redis did not answer within ${CLOSE_WITHIN_MS} ms; the turn will run out`)
      }
    } catch (error) {
      report('workflow/redis-close', error)
    }
    this.#keepingTurn?.cancel()
    disconnect(this.#connection)
  }

  /** No error of the server ends the loop: it retries with back-off until it is closed. */
  async #run(): Promise<void> {
    while (!this.#isClosed) {
      try {
        await this.#step()
        this.#fault.succeeded()
      } catch (error) {
        this.#isBehind = true
        this.#fault.failed(error)
        await this.#pause(backOffMs(this.#fault.count, RETRY))
        if (!this.#isClosed && isWithoutGroup(error)) await this.#createGroup()
      }
    }
  }

  /** The stream was deleted, and the group with it. */
  async #createGroup(): Promise<void> {
    try {
      await this.#group.create()
    } catch (error) {
      this.#fault.failed(error)
    }
  }

  async #step(): Promise<void> {
    const turn = await this.#group.takeTurn()
    if (turn === 'refused') {
      this.#isBehind = true
      return this.#pause(PAUSE_MS)
    }
    if (turn === 'taken' || this.#isBehind) {
      this.#retries.clear()
      this.#isBehind = false
      await this.#takePending()
    }
    await this.#retryDue()
    if (this.#retries.isFull) return this.#pause(PAUSE_MS)
    if (this.#pendingFrom !== null) return this.#takePending(this.#pendingFrom)
    await this.#handleAll(await this.#group.readFresh(this.#blockMs()))
  }

  async #takePending(from?: string): Promise<void> {
    const { entries, next } = await this.#group.claimPending(from)
    this.#pendingFrom = next
    await this.#handleAll(entries)
  }

  async #handleAll(entries: readonly StreamEntry[]): Promise<void> {
    for (const entry of entries) {
      if (!this.#mayGoOn()) return
      await this.#handle(entry)
    }
  }

  /** When this returns false, the remaining messages stay pending for the next active consumer. */
  #mayGoOn(): boolean {
    if (!this.#isClosed && this.#group.hasTurn && !this.#isBehind) return true
    this.#isBehind = true
    return false
  }

  async #handle(entry: StreamEntry): Promise<void> {
    const { group, deliveriesMax } = this.#options
    if (entry.resentTo !== null && entry.resentTo !== group) {
      return this.#group.acknowledge(entry.id)
    }
    const message = readMessage(entry.text)
    if ('reason' in message) return this.#group.bury(entry, message.reason)
    if (!this.#isMine(message)) return this.#group.acknowledge(entry.id)
    if (entry.attempts !== null && entry.attempts > deliveriesMax) {
      return this.#group.bury(entry, `was delivered ${entry.attempts} times and never answered`)
    }
    const order = orderOf(message)
    if (order !== null && this.#retries.enqueueBehind(order, entry)) return
    const outcome = await this.#attempt(entry, message)
    if (outcome.kind === 'handled') return this.#group.acknowledge(entry.id)
    if (outcome.kind === 'left' || this.#retries.add(order, entry, outcome.failure)) return
    await this.#group.bury(entry, reasonOf(outcome.failure.error))
  }

  async #retryDue(): Promise<void> {
    const { runtime } = this.#options
    for (const key of this.#retries.due(runtime.monotonicMs())) await this.#retryQueue(key)
  }

  async #retryQueue(key: string): Promise<void> {
    for (
      let entry = this.#retries.first(key);
      entry !== undefined;
      entry = this.#retries.first(key)
    ) {
      const message = readMessage(entry.text)
      if ('reason' in message || !this.#mayGoOn()) return
      const outcome = await this.#attempt(entry, message)
      if (outcome.kind === 'left') return
      if (outcome.kind === 'failed' && this.#retries.failed(key, outcome.failure)) return
      if (outcome.kind === 'handled') await this.#group.acknowledge(entry.id)
      else await this.#group.bury(entry, reasonOf(outcome.failure.error))
      this.#retries.shift(key)
    }
  }

  #isMine(message: BusMessage): boolean {
    const { group } = this.#options
    return message.kind === 'revoked' || [group, EVERY_TARGET].includes(message.action.target)
  }

  /**
   * The attempt of a pending message is counted before it is processed, because a process that crashes on it cannot count
   * any more, and taken back if the message was not processed. Redis counts the first delivery of a new message.
   */
  async #attempt(entry: StreamEntry, message: BusMessage): Promise<Outcome> {
    const { id, attempts, resentTo } = entry
    if (attempts !== null) await this.#group.countAttempts(id, attempts + 1)
    if (!this.#mayGoOn()) {
      if (attempts !== null) await this.#group.countAttempts(id, attempts)
      return { kind: 'left' }
    }
    const failure = await this.#deliveries.deliver(message, resentTo !== null)
    if (failure === null) return { kind: 'handled' }
    if (attempts !== null && isRetryable(failure.error))
      await this.#group.countAttempts(id, attempts)
    return { kind: 'failed', failure }
  }

  /** Stays active however long a message takes. If the key has to be set anew, another consumer was active meanwhile. */
  #keepTurn(): void {
    const keep = async (): Promise<void> => {
      this.#keepTurn()
      if (!this.#group.hasTurn) return
      try {
        if ((await this.#group.takeTurn()) !== 'kept') this.#isBehind = true
        this.#turnFault.succeeded()
      } catch (error) {
        this.#isBehind = true
        this.#turnFault.failed(error)
      }
    }
    const { runtime } = this.#options
    this.#keepingTurn = runtime.setTimer(this.#turnMs / 3, () => void keep(), { keepAlive: false })
  }

  #blockMs(): number {
    const { dueMs } = this.#retries
    if (dueMs === null) return PAUSE_MS
    return Math.min(PAUSE_MS, dueMs - this.#options.runtime.monotonicMs())
  }

  #pause(pauseMs: number): Promise<void> {
    const { signal } = this.#closed
    return pause(this.#options.runtime, pauseMs, { keepAlive: true, signal })
  }

  get #isClosed(): boolean {
    return this.#closed.signal.aborted
  }
}

function isWithoutGroup(error: unknown): boolean {
  return String(error).includes('NOGROUP')
}

/** node-redis connects on demand, ioredis by itself. Both reconnect by themselves, and emit each failure. */
async function connected({ client, runtime }: ConsumerOptions): Promise<RedisBusClient> {
  const connection = client.duplicate()
  const fault = new RepeatedFault('workflow/redis-connection', runtime)
  if ('on' in connection && typeof connection.on === 'function') {
    connection.on('error', (error: unknown) => fault.failed(error))
    connection.on('ready', () => fault.succeeded())
  }
  if ('isOpen' in connection && connection.isOpen === false && 'connect' in connection) {
    await (connection.connect as () => Promise<unknown>).call(connection)
  }
  return connection
}

function disconnect(client: RedisBusClient): void {
  const name = 'destroy' in client ? 'destroy' : 'disconnect'
  const end = (client as unknown as Readonly<Record<string, () => void>>)[name]
  end?.call(client)
}
