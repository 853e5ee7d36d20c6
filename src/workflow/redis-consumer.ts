/**
 * One consumer of a group on a Redis stream, on a connection of its own. While it has the group's turn it handles one
 * message after the other, in the order of the stream:
 *
 *  1. When the turn is new, or the connection was: everything that was delivered and not acknowledged, by whomever.
 *  2. What failed before and is due; nothing of its workflow passes it. Too often: a dead letter.
 *  3. What is new; if nothing is, it waits for it.
 *
 * A message is acknowledged when it was handled, and not before. One that was delivered again and again without ever
 * being answered has brought its processors down, and becomes a dead letter unread.
 */
import { endsWithin } from '../runtime/ends-within.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { EVERY_TARGET } from './action.ts'
import type { Listener, Subscription } from './bus.ts'
import { HeldBack, type Failure } from './held-back.ts'
import { readMessage } from './local-bus.ts'
import type { RedisBusClient } from './redis-bus.ts'
import { RedisGroup, type Entry } from './redis-group.ts'
import { reasonOf } from './wire/action-json.ts'

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

const PAUSE_MS = 200
const TURN_MS_MIN = 1_000
const HELD_MAX = 10_000
const CLOSE_WITHIN_MS = 1_000

export class RedisConsumer implements Subscription {
  readonly #options: ConsumerOptions
  readonly #connection: RedisBusClient
  readonly #group: RedisGroup
  readonly #held: HeldBack<Entry>
  readonly #turnMs: number
  #closed = false
  /** What is pending in Redis and not known here has to be fetched first. */
  #isBehind = true
  #keepingTurn: Timer | null = null
  #handling: Promise<unknown> | null = null
  #running: Promise<void> = Promise.resolve()

  static async start(options: ConsumerOptions): Promise<RedisConsumer> {
    const connection = await connected(options.client.duplicate())
    const consumer = new RedisConsumer(options, connection)
    try {
      await consumer.#group.create()
      await consumer.#group.forgetConsumers()
    } catch (error) {
      disconnect(connection)
      throw error
    }
    consumer.#keepTurn()
    consumer.#running = consumer.#run()
    return consumer
  }

  private constructor(options: ConsumerOptions, connection: RedisBusClient) {
    this.#options = options
    this.#connection = connection
    this.#held = new HeldBack(options)
    this.#turnMs = Math.max(TURN_MS_MIN, options.retryAfterMs)
    this.#group = new RedisGroup(connection, { ...options, turnMs: this.#turnMs })
  }

  /** Waits for what is being handled, but not for a server that does not answer. */
  async close(): Promise<void> {
    this.#closed = true
    this.#keepingTurn?.cancel()
    await this.#handling
    const leaving = this.#running.then(() => this.#group.leave()).catch(() => undefined)
    await endsWithin(this.#options.runtime, CLOSE_WITHIN_MS, leaving)
    disconnect(this.#connection)
  }

  /** Nothing that the server does ends it: it tries again until it is closed. */
  async #run(): Promise<void> {
    while (!this.#closed) {
      try {
        await this.#step()
      } catch (error) {
        this.#isBehind = true
        if (String(error).includes('NOGROUP')) await this.#group.create().catch(() => undefined)
        else await this.#pause()
      }
    }
  }

  async #step(): Promise<void> {
    const turn = await this.#group.takeTurn()
    if (turn === 'refused') {
      this.#isBehind = true
      return this.#pause()
    }
    if (turn === 'taken' || this.#isBehind) await this.#catchUp()
    await this.#retry()
    if (this.#held.size >= HELD_MAX) return this.#pause()
    for (const entry of await this.#group.readFresh(this.#blockMs())) {
      if (!this.#mayGoOn()) return
      await this.#handle(entry)
    }
  }

  async #catchUp(): Promise<void> {
    this.#held.clear()
    const entries = await this.#group.claimPending()
    this.#isBehind = false
    const [first, ...rest] = entries
    if (first === undefined) return
    // Only the first can have been under way when its processor died: the others wait behind it.
    const deliveries = await this.#group.deliveriesOf(first.id)
    if (deliveries > this.#options.deliveriesMax) {
      await this.#group.bury(first, `was delivered ${deliveries} times and never answered`)
    }
    const left = deliveries > this.#options.deliveriesMax ? rest : entries
    for (const entry of left) {
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
    const { workflowId } = message.kind === 'action' ? message.action : message.revocation
    if (message.kind === 'action' && this.#held.join(workflowId, entry)) return
    const failure = await this.#deliver(entry)
    if (failure === null) return this.#group.acknowledge(entry.id)
    if (!this.#held.keep(workflowId, entry, failure)) {
      await this.#group.bury(entry, reasonOf(failure.error))
    }
  }

  async #retry(): Promise<void> {
    const { runtime } = this.#options
    for (const key of this.#held.due(runtime.monotonicMs())) await this.#retryLine(key)
  }

  async #retryLine(key: string): Promise<void> {
    for (let entry = this.#held.first(key); entry !== undefined; entry = this.#held.first(key)) {
      if (!this.#mayGoOn()) return
      const failure = await this.#deliver(entry)
      if (failure !== null && this.#held.again(key, failure)) return
      if (failure === null) await this.#group.acknowledge(entry.id)
      else await this.#group.bury(entry, reasonOf(failure.error))
      this.#held.next(key)
    }
  }

  /** Null, or what the listener threw. */
  async #deliver({ text }: Entry): Promise<Failure | null> {
    const { group, listener, runtime } = this.#options
    const message = readMessage(text)
    if ('reason' in message) return null
    const call = async (): Promise<void> => {
      if (message.kind === 'revoked') await listener.onRevoked?.(message.revocation)
      else if ([group, EVERY_TARGET].includes(message.action.target)) {
        await listener.onAction(message.action)
      }
    }
    const handling = call().then(
      () => null,
      (error: unknown) => ({ error, atMs: runtime.monotonicMs() }),
    )
    this.#handling = handling
    const outcome = await handling
    this.#handling = null
    return outcome
  }

  /** However long something is being handled. A turn that has to be taken anew was another's meanwhile. */
  #keepTurn(): void {
    const keep = async (): Promise<void> => {
      if (!this.#closed) this.#keepTurn()
      if (!this.#group.hasTurn) return
      const turn = await this.#group.takeTurn().catch(() => 'refused')
      if (turn !== 'kept') this.#isBehind = true
    }
    const { runtime } = this.#options
    this.#keepingTurn = runtime.setTimer(this.#turnMs / 3, () => void keep(), { keepAlive: false })
  }

  #blockMs(): number {
    const { dueMs } = this.#held
    if (dueMs === null) return PAUSE_MS
    return Math.min(PAUSE_MS, dueMs - this.#options.runtime.monotonicMs())
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      this.#options.runtime.setTimer(PAUSE_MS, resolve, { keepAlive: true })
    })
  }
}

/** node-redis connects when it is told to, ioredis by itself. Both tell of a lost connection, and neither needs help. */
async function connected(client: RedisBusClient): Promise<RedisBusClient> {
  if ('on' in client && typeof client.on === 'function') client.on('error', () => undefined)
  if ('isOpen' in client && client.isOpen === false && 'connect' in client) {
    await (client.connect as () => Promise<unknown>).call(client)
  }
  return client
}

function disconnect(client: RedisBusClient): void {
  const name = 'destroy' in client ? 'destroy' : 'disconnect'
  const end = (client as unknown as Readonly<Record<string, () => void>>)[name]
  end?.call(client)
}
