/**
 * Sends commands to Redis and listens to its channels.
 *
 *  - Calls of one turn of the event loop are sent together.
 *  - A command is sent once, and not while there is no connection: an acquire that Redis carries out after its caller
 *    gave up would own a session that no instance polls.
 *  - A connection of our own that does not answer in time is closed and opened again.
 *  - A handshake comes before any other command of a connection: the server may be another one, or have lost data.
 */
import { isMistake, LeaseError } from '../../core/errors.ts'
import { RepeatedFault, reportTo } from '../../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../../runtime/runtime.ts'
import type { RedisClient, RedisDriver } from '../../drivers/redis-driver.ts'
import { addressOf } from '../../drivers/redis-connect.ts'
import { isReply } from '../../drivers/redis-errors.ts'
import { backOffMs } from '../../runtime/pause.ts'
import {
  answerOf,
  connectionOf,
  connectTo,
  exchange,
  reconnect,
  type PollCommand,
  type PollConnection,
  type PollReply,
} from './poll-connection.ts'
import { answerWithin, type CallBound } from '../../client/retry.ts'

export interface PollClientOptions {
  readonly source: string | RedisClient
  readonly runtime: Runtime
  readonly callMs: number
}

interface ChannelListener {
  message(channel: string, text: string): void
  /** Subscribed again after a time without a subscription, in which messages may have been missed. */
  resubscribed(): void
}

export interface ConnectionListener extends ChannelListener {
  disconnected(): void
  /** Runs before any other command on a connection that is new or was lost. Not for a Cluster, which is many servers. */
  handshake(send: Send): Promise<void>
}

export type Send = (commands: readonly PollCommand[]) => Promise<readonly PollReply[]>

/** The server of a connection, and the database that it uses there. */
export interface ServerIdentity {
  /** The `run_id` of the server: another one after each start. */
  readonly runId: string
  readonly database: string
}

interface QueuedCall {
  readonly commands: readonly PollCommand[]
  readonly resolve: (replies: readonly PollReply[]) => void
  readonly reject: (error: unknown) => void
}

/** A connection takes longer than a call: names are looked up, and a server that has just started is slow. */
const CONNECT_MS_MIN = 5_000
/** The back-off after a handshake that failed. */
const HANDSHAKE_AGAIN = { firstMs: 100, maxMs: 5_000 }
/** For all first connections together: a Cluster has several. */
const OPEN_MS_MIN = 20_000

export class PollClient {
  readonly #options: PollClientOptions
  /** The calls that are sent at the end of this turn of the event loop. */
  readonly #queue: QueuedCall[] = []
  #connection: PollConnection | null = null
  #subscriber: PollSubscriber | null = null
  #listener: ConnectionListener | null = null
  #unwatch: (() => void) | null = null
  /** The server of the last handshake. */
  #server: ServerIdentity = { runId: '', database: '0' }
  /** Why a connection could not be made. */
  #lastError: unknown = null
  /** How many connections were lost so far. */
  #losses = 0
  #isReady = false
  #isClosed = false
  readonly #connectionFault: RepeatedFault
  readonly #handshakeFault: RepeatedFault
  #handshakeTimer: Timer | null = null

  constructor(options: PollClientOptions) {
    this.#options = options
    this.#connectionFault = new RepeatedFault('fleet/redis/connection', options.runtime)
    this.#handshakeFault = new RepeatedFault('fleet/redis/meet', options.runtime)
    // Refuses what is neither a URL nor a client, before anything is opened.
    if (typeof options.source === 'string') addressOf(options.source)
    else connectionOf(options.source)
  }

  /** The keys of a Cluster lie on several servers, and no script can reach them all. */
  get isCluster(): boolean {
    return this.#connection?.driver.isCluster === true
  }

  get server(): ServerIdentity {
    return this.#server
  }

  /** Connects and subscribes. Throws `STORE_UNAVAILABLE` if that takes too long. */
  async open(listener: ConnectionListener, channels: () => readonly string[]): Promise<void> {
    const { runtime } = this.#options
    this.#isClosed = false
    this.#listener = listener
    this.#lastError = null
    const withinMs = Math.max(OPEN_MS_MIN, this.#connectMs)
    const bound = { runtime, withinMs }
    try {
      const connection = await answerWithin(bound, () => this.#connect())
      this.#connection = connection
      const { driver } = connection
      const stops = [
        driver.onReady(() => void this.#onReady(connection)),
        driver.onClosed(() => this.#onClose()),
      ]
      // A client of the caller lives on.
      this.#unwatch = () => stops.forEach((stop) => stop())
      await this.#handshake(connection, withinMs)
      const subscriber = new PollSubscriber({
        ...{ driver, listener, runtime },
        channels: channels(),
      })
      this.#subscriber = subscriber
      await answerWithin(bound, () => subscriber.open())
      if (this.#isClosed) throw new LeaseError('CLOSED', 'the connection was closed')
    } catch (error) {
      this.close()
      if (isMistake(error)) throw error
      throw unavailable(this.#displayUrl, this.#lastError ?? error)
    }
  }

  /**
   * Sends all commands together with those of other calls in the same turn of the event loop. Rejects when the answers may
   * be lost; the reply to a command that the server refuses is an `Error`.
   */
  send(commands: readonly PollCommand[]): Promise<readonly PollReply[]> {
    if (commands.length === 0) return Promise.resolve([])
    return new Promise((resolve, reject) => {
      this.#queue.push({ commands, resolve, reject })
      if (this.#queue.length === 1) queueMicrotask(() => void this.#flush())
    })
  }

  /** How many servers have the data: one, or the masters of a Cluster. */
  get masters(): number {
    return this.#usable().driver.keepers.length
  }

  /** Sends to one of them. */
  async sendTo(index: number, command: PollCommand): Promise<PollReply> {
    const { runtime, callMs } = this.#options
    const master = this.#usable().driver.keepers[index]
    if (master === undefined)
      throw unavailable(this.#displayUrl, new Error('its Cluster has changed'))
    return answerWithin({ runtime, withinMs: callMs }, () => master(command).catch(answerOf))
  }

  /** Ends the subscription; the listener has every message that was published before when this resolves. */
  async unsubscribe(): Promise<void> {
    const { runtime, callMs } = this.#options
    const subscriber = this.#subscriber
    this.#subscriber = null
    if (subscriber !== null) await subscriber.end({ runtime, withinMs: callMs })
  }

  close(): void {
    this.#isClosed = true
    this.#isReady = false
    this.#listener = null
    this.#unwatch?.()
    this.#handshakeTimer?.cancel()
    this.#subscriber?.close()
    if (this.#connection?.isOwn === true) this.#connection.driver.disconnect()
    this.#connection = null
    this.#subscriber = null
  }

  async #connect(): Promise<PollConnection> {
    const { source } = this.#options
    if (typeof source !== 'string') {
      const connection = connectionOf(source)
      if (!connection.driver.isReady) await connection.driver.connect()
      return connection
    }
    const onError = (error: unknown): void => {
      this.#lastError = error
      // Until the client is open, the caller of `open` gets the error.
      if (this.#subscriber !== null) this.#connectionFault.failed(error)
    }
    const connectMs = this.#connectMs
    const connection = await connectTo({ url: source, connectMs, onError })
    // The caller of `open` may have given up meanwhile.
    if (this.#isClosed) connection.driver.disconnect()
    return connection
  }

  async #flush(): Promise<void> {
    const calls = this.#queue.splice(0)
    try {
      const replies = await this.#exchange(calls.flatMap(({ commands }) => commands))
      let start = 0
      for (const { commands, resolve } of calls) {
        resolve(replies.slice(start, start + commands.length))
        start += commands.length
      }
    } catch (error) {
      for (const { reject } of calls) reject(error)
    }
  }

  async #exchange(commands: readonly PollCommand[]): Promise<readonly PollReply[]> {
    const { runtime, callMs } = this.#options
    const connection = this.#usable()
    const onLate = (): void => this.#onSilence(connection)
    const losses = this.#losses
    const bound = { runtime, withinMs: callMs, onLate }
    const replies = await exchange(connection.driver, commands, bound)
    if (losses === this.#losses) return replies
    // A client of the caller may have sent the commands again, to a server without a handshake.
    throw new LeaseError('STORE_OUTCOME_UNKNOWN', 'the connection was lost meanwhile')
  }

  #usable(): PollConnection {
    const connection = this.#connection
    if (this.#isClosed) throw new LeaseError('CLOSED', 'the connection was closed')
    if (connection !== null && this.#isReady && connection.driver.isReady) return connection
    throw unavailable(this.#displayUrl, new Error('not connected'))
  }

  get #connectMs(): number {
    return Math.max(CONNECT_MS_MIN, this.#options.callMs)
  }

  get #displayUrl(): string {
    const { source } = this.#options
    if (this.#connection !== null) return this.#connection.displayUrl
    return typeof source === 'string' ? source.replace(/\/\/[^@/]*@/, '//') : 'redis:'
  }

  /** The connection was made again. */
  async #onReady(connection: PollConnection): Promise<void> {
    try {
      await this.#handshake(connection, this.#connectMs)
      this.#handshakeFault.succeeded()
      this.#connectionFault.succeeded()
    } catch (error) {
      // A connection that was lost meanwhile is made again by its driver, and calls this again.
      if (this.#isClosed || !connection.driver.isReady) return
      this.#handshakeFault.failed(error)
      const delayMs = backOffMs(this.#handshakeFault.count, HANDSHAKE_AGAIN)
      const again = (): void => this.#retryHandshake(connection)
      this.#handshakeTimer?.cancel()
      this.#handshakeTimer = this.#options.runtime.setTimer(delayMs, again, { keepAlive: false })
    }
  }

  #retryHandshake(connection: PollConnection): void {
    if (this.#isClosed || this.#isReady || !connection.driver.isReady) return
    if (!reconnect(connection)) void this.#onReady(connection)
  }

  /** Identifies the server before the connection is used. A Cluster has no identity of its own. */
  async #handshake({ driver }: PollConnection, withinMs: number): Promise<void> {
    const { runtime } = this.#options
    const send: Send = (commands) => exchange(driver, commands, { runtime, withinMs })
    if (!driver.isCluster) {
      this.#server = await identify(send)
      await this.#listener?.handshake(send)
    }
    this.#isReady = !this.#isClosed
  }

  #onClose(): void {
    if (!this.#isReady) return
    this.#isReady = false
    this.#losses += 1
    this.#listener?.disconnected()
  }

  /** Also reopens the subscriber, whose connection to the same server cannot detect the silence itself. */
  #onSilence(connection: PollConnection): void {
    // One server of a Cluster is silent; the driver reconnects to it.
    if (this.#isClosed || connection.driver.isCluster) return
    reconnect(connection)
    this.#subscriber?.reopen()
  }
}

interface SubscriberOptions {
  /** The connection is a duplicate of this one's. */
  readonly driver: RedisDriver
  readonly channels: readonly string[]
  readonly listener: ChannelListener
  readonly runtime: Runtime
}

/**
 * Subscribes to channels on a connection of its own, which is made again when it is lost. It subscribes by itself
 * whenever the connection is ready: where a driver does that and loses the connection meanwhile, no code handles the
 * rejection, which ends the process.
 */
class PollSubscriber {
  readonly #options: SubscriberOptions
  readonly #fault: RepeatedFault
  #driver: RedisDriver | null = null
  #wasSubscribed = false

  constructor(options: SubscriberOptions) {
    this.#options = options
    this.#fault = new RepeatedFault('fleet/redis/subscribe', options.runtime)
  }

  /** Resolves when every channel is subscribed to for the first time; rejects when the server refuses. */
  open(): Promise<void> {
    const driver = this.#options.driver.duplicate()
    this.#driver = driver
    const isCurrent = (): boolean => this.#driver === driver
    driver.onMessage((channel, text) => {
      if (isCurrent()) this.#options.listener.message(channel, text)
    })
    return new Promise((resolve, reject) => {
      const fail = (error: unknown): void => {
        if (!isCurrent()) return
        this.#fault.failed(error)
        if (isReply(error)) reject(error)
      }
      driver.onReady(() => {
        if (isCurrent()) this.#subscribe(driver).then(resolve, fail)
      })
      // The driver retries when the first attempt fails; then the connection is ready later.
      driver.connect().catch(fail)
    })
  }

  /** For a connection whose server has gone silent, which the driver does not detect. */
  reopen(): void {
    if (this.#driver === null) return
    this.#driver.disconnect()
    this.open().catch(reportTo('fleet/redis/subscribe'))
  }

  /** The server answers after the last message; the wait for it is bounded. */
  async end(bound: CallBound): Promise<void> {
    const driver = this.#driver
    if (driver === null) return
    const ended = this.#options.channels.map((channel) => driver.unsubscribe(channel))
    try {
      await answerWithin(bound, () => Promise.all(ended))
    } finally {
      this.close()
    }
  }

  close(): void {
    this.#driver?.disconnect()
    this.#driver = null
  }

  async #subscribe(driver: RedisDriver): Promise<void> {
    const { channels, listener } = this.#options
    await Promise.all(channels.map((channel) => driver.subscribe(channel)))
    this.#fault.succeeded()
    if (this.#wasSubscribed) listener.resubscribed()
    this.#wasSubscribed = true
  }
}

async function identify(send: Send): Promise<ServerIdentity> {
  const [info, client] = await send([
    ['INFO', 'server'],
    ['CLIENT', 'INFO'],
  ])
  const runId = /^run_id:(\w+)/m.exec(String(info))?.[1]
  if (runId === undefined) throw info instanceof Error ? info : new Error('it has no run_id')
  // A user without the right to CLIENT INFO uses the channel of database 0; at worst a new fleet waits for a grace period.
  return { runId, database: /\bdb=(\d+)/.exec(String(client))?.[1] ?? '0' }
}

function unavailable(displayUrl: string, cause: unknown): LeaseError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  const message = `${displayUrl} cannot be reached: ${reason}`
  return new LeaseError('STORE_UNAVAILABLE', message, { cause })
}
