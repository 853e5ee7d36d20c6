/**
 * One consumer of a group on a Redis stream, on a connection of its own. While it has the group's turn it handles one
 * message after the other, in the order of the stream:
 *
 *  1. When the turn is new, or the connection was: everything that was delivered and not acknowledged, by whomever.
 *  2. What failed before and is due; nothing of its workflow passes it. Too often: a dead letter.
 *  3. What is new; if nothing is, it waits for it.
 *
 * A message is acknowledged when it was handled, and not before. One that processors have begun with again and again
 * without ever coming to an answer has brought them down, and becomes a dead letter unread. What only waited, behind
 * another or for a store that was away, was not begun with.
 */
import { endsWithin } from '../runtime/ends-within.ts'
import { report, RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { EVERY_TARGET } from './action.ts'
import type { Listener, Subscription } from './bus.ts'
import { Deliveries, orderOf, readMessage } from './delivery.ts'
import { HeldBack, isAway, type Failure } from './held-back.ts'
import type { RedisBusClient } from './redis-bus.ts'
import { RedisGroup, type Entry } from './redis-group.ts'
import { outside } from './within.ts'
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
  /** Another has the turn, or this is closed: nothing was begun. */
  | { readonly kind: 'left' }
  | { readonly kind: 'failed'; readonly failure: Failure }

const PAUSE_MS = 200
const PAUSE_MS_MAX = 5_000
const TURN_MS_MIN = 1_000
const CLOSE_WITHIN_MS = 1_000

export class RedisConsumer implements Subscription {
  readonly #options: ConsumerOptions
  readonly #connection: RedisBusClient
  readonly #group: RedisGroup
  readonly #held: HeldBack<Entry>
  readonly #deliveries: Deliveries
  readonly #turnMs: number
  readonly #fault: RepeatedFault
  readonly #turnFault: RepeatedFault
  #closed = false
  #closing: Promise<void> | null = null
  /** What is pending in Redis and not known here has to be fetched first. */
  #isBehind = true
  /** How far that has come; null: to its end. */
  #pendingFrom: string | null = null
  #keepingTurn: Timer | null = null
  #running: Promise<void> = Promise.resolve()
  /** Ends a pause before its time. */
  #wake: () => void = () => undefined

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
    outside(() => {
      consumer.#keepTurn()
      consumer.#running = consumer.#run()
    })
    return consumer
  }

  private constructor(options: ConsumerOptions, connection: RedisBusClient) {
    const { listener, runtime } = options
    this.#options = options
    this.#connection = connection
    this.#held = new HeldBack(options)
    this.#deliveries = new Deliveries(listener, runtime)
    this.#turnMs = Math.max(TURN_MS_MIN, options.retryAfterMs)
    this.#group = new RedisGroup(connection, { ...options, turnMs: this.#turnMs })
    this.#fault = new RepeatedFault('workflow/redis-consumer', runtime)
    this.#turnFault = new RepeatedFault('workflow/redis-turn', runtime)
  }

  /**
   * Waits for what is being handled, and keeps the turn until then, but does not wait for a server that does not answer.
   * A listener that closes its own subscription is not waited for: it could not end.
   */
  async close(): Promise<void> {
    this.#closed = true
    this.#wake()
    this.#closing ??= outside(() => this.#leave())
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

  /** Nothing that the server does ends it: it tries again, ever more rarely, until it is closed. */
  async #run(): Promise<void> {
    while (!this.#closed) {
      try {
        await this.#step()
        this.#fault.succeeded()
      } catch (error) {
        this.#isBehind = true
        this.#fault.failed(error)
        await this.#pause(Math.min(PAUSE_MS_MAX, PAUSE_MS * 2 ** (this.#fault.count - 1)))
        if (!this.#closed && isWithoutGroup(error)) await this.#createGroup()
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
      this.#held.clear()
      this.#isBehind = false
      await this.#takePending()
    }
    await this.#retry()
    if (this.#held.isFull) return this.#pause(PAUSE_MS)
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

  /** What is left over when it may not is still pending, for whoever has the next turn. */
  #mayGoOn(): boolean {
    if (!this.#closed && this.#group.hasTurn && !this.#isBehind) return true
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
    if (order !== null && this.#held.join(order, entry)) return
    const outcome = await this.#attempt(entry, message)
    if (outcome.kind === 'handled') return this.#group.acknowledge(entry.id)
    if (outcome.kind === 'left' || this.#held.keep(order, entry, outcome.failure)) return
    await this.#group.bury(entry, reasonOf(outcome.failure.error))
  }

  async #retry(): Promise<void> {
    const { runtime } = this.#options
    for (const key of this.#held.due(runtime.monotonicMs())) await this.#retryLine(key)
  }

  async #retryLine(key: string): Promise<void> {
    for (let entry = this.#held.first(key); entry !== undefined; entry = this.#held.first(key)) {
      const message = readMessage(entry.text)
      if ('reason' in message || !this.#mayGoOn()) return
      const outcome = await this.#attempt(entry, message)
      if (outcome.kind === 'left') return
      if (outcome.kind === 'failed' && this.#held.again(key, outcome.failure)) return
      if (outcome.kind === 'handled') await this.#group.acknowledge(entry.id)
      else await this.#group.bury(entry, reasonOf(outcome.failure.error))
      this.#held.next(key)
    }
  }

  #isMine(message: BusMessage, { resentTo }: Entry): boolean {
    const { group } = this.#options
    if (resentTo !== null && resentTo !== group) return false
    return message.kind === 'revoked' || [group, EVERY_TARGET].includes(message.action.target)
  }

  /**
   * What was found pending is counted before it is begun with, because whoever is brought down by it cannot count any
   * more; and not counted after all if it was not begun with. What is new has its first delivery counted by Redis.
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
    if (attempts !== null && isAway(failure.error)) await this.#group.countAttempts(id, attempts)
    return { kind: 'failed', failure }
  }

  /** However long something is being handled. A turn that has to be taken anew was another's meanwhile. */
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
    const { dueMs } = this.#held
    if (dueMs === null) return PAUSE_MS
    return Math.min(PAUSE_MS, dueMs - this.#options.runtime.monotonicMs())
  }

  #pause(pauseMs: number): Promise<void> {
    if (this.#closed) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = this.#options.runtime.setTimer(pauseMs, resolve, { keepAlive: true })
      this.#wake = () => {
        timer.cancel()
        resolve()
      }
    })
  }
}

function isWithoutGroup(error: unknown): boolean {
  return String(error).includes('NOGROUP')
}

/** node-redis connects when it is told to, ioredis by itself. Both connect again by themselves, and tell of each failure. */
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
