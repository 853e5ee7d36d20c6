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
import { endsWithin } from '../runtime/ends-within.ts'
import { report, RepeatedFault } from '../runtime/diagnostics.ts'
import { backOffMs, pause } from '../runtime/pause.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { EVERY_TARGET } from './action.ts'
import type { Listener, Subscription } from './bus.ts'
import { Deliveries, orderOf, readMessage } from './delivery.ts'
import { RetryQueues, isStoreUnavailable, type Failure } from './retry-queues.ts'
import type { RedisBusClient } from './redis-bus.ts'
import { RedisGroup, type Entry } from './redis-group.ts'
import { runOutsideScopes } from './work-scope.ts'
import { reasonOf, type BusMessage } from './wire/action-json.ts'

export interface ConsumerOptions {
  readonly client: RedisBusClient
  readonly stream: string
  readonly group: string
  readonly listener: Listener
  readonly lengthMax: number
  readonly deliveriesMax: number
  readonly retryAfterMs: number
  readonly runtime: Runtime
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

export class RedisConsumer implements Subscription {
  readonly #options: ConsumerOptions
  readonly #connection: RedisBusClient
  readonly #group: RedisGroup
  readonly #retries: RetryQueues<Entry>
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

  async #handleAll(entries: readonly Entry[]): Promise<void> {
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

  async #handle(entry: Entry): Promise<void> {
    const message = readMessage(entry.text)
    if ('reason' in message) return this.#group.bury(entry, message.reason)
    if (!this.#isMine(message, entry)) return this.#group.acknowledge(entry.id)
    if (entry.attempts !== null && entry.attempts > this.#options.deliveriesMax) {
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

  #isMine(message: BusMessage, { resentTo }: Entry): boolean {
    const { group } = this.#options
    if (resentTo !== null && resentTo !== group) return false
    return message.kind === 'revoked' || [group, EVERY_TARGET].includes(message.action.target)
  }

  /**
   * The attempt of a pending message is counted before it is processed, because a process that crashes on it cannot count
   * any more, and taken back if the message was not processed. Redis counts the first delivery of a new message.
   */
  async #attempt(entry: Entry, message: BusMessage): Promise<Outcome> {
    const { id, attempts, resentTo } = entry
    if (attempts !== null) await this.#group.countAttempts(id, attempts + 1)
    if (!this.#mayGoOn()) {
      if (attempts !== null) await this.#group.countAttempts(id, attempts)
      return { kind: 'left' }
    }
    const failure = await this.#deliveries.deliver(message, resentTo !== null)
    if (failure === null) return { kind: 'handled' }
    if (attempts !== null && isStoreUnavailable(failure.error))
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
