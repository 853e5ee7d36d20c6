/**
 * Sends commands to Redis and listens to its channels.
 *
 *  - Calls of one turn of the event loop go out together.
 *  - A command is sent once, and not while there is no connection: an acquire that is carried out long after everybody
 *    gave it up would own a session that nobody polls.
 *  - A connection of our own that does not answer in time is given up and made anew.
 *  - Whoever uses it meets the server before anything else is sent: it may be another than before, or have lost data.
 */
import { isMistake, LeaseError } from '../../core/errors.ts'
import { RepeatedFault } from '../../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../../runtime/runtime.ts'
import type { RedisClient } from '../../drivers/redis-driver.ts'
import { addressOf } from '../../drivers/redis-connection.ts'
import { answerWithin, backOffMs } from '../answer-within.ts'
import { connectionOf, connectTo, type PollConnection } from './poll-connection.ts'
import type { Command, Reply } from './poll-connection.ts'
import { PollEar, type EarListener } from './poll-ear.ts'

export interface PollClientParts {
  readonly source: string | RedisClient
  readonly runtime: Runtime
  readonly callMs: number
}

export interface ConnectionListener extends EarListener {
  disconnected(): void
  /** Before anything else is sent over a connection that is new or there again. Not for a Cluster, which is many. */
  met(send: Send): Promise<void>
}

export type Send = (commands: readonly Command[]) => Promise<readonly Reply[]>

/** Which server a connection leads to, and to what there. */
export interface ServerIdentity {
  /** The server's own name for its incarnation. */
  readonly runId: string
  readonly database: string
}

interface Letter {
  readonly commands: readonly Command[]
  readonly resolve: (replies: readonly Reply[]) => void
  readonly reject: (error: unknown) => void
}

/** A connection takes longer than a call: names are looked up, and a server that has just started is slow. */
const CONNECT_MS_MIN = 5_000
/** Between two attempts to meet a server that is there and cannot be met. */
const MEET_AGAIN = { firstMs: 100, mostMs: 5_000 }
/** For all connections of the first time together: a Cluster has several. */
const OPEN_MS_MIN = 20_000

export class PollClient {
  readonly #parts: PollClientParts
  /** What is sent at the end of this turn. */
  readonly #letters: Letter[] = []
  #connection: PollConnection | null = null
  #ear: PollEar | null = null
  #listener: ConnectionListener | null = null
  #unwatch: (() => void) | null = null
  /** Of the server that was met last. */
  #server: ServerIdentity = { runId: '', database: '0' }
  /** Why a connection could not be made. */
  #lastError: unknown = null
  /** How many connections were lost so far. */
  #losses = 0
  #isReady = false
  #isClosed = false
  readonly #connectionFault: RepeatedFault
  readonly #meetFault: RepeatedFault
  #meetTimer: Timer | null = null

  constructor(parts: PollClientParts) {
    this.#parts = parts
    const clock = { monotonicMs: () => parts.runtime.monotonicMs() }
    this.#connectionFault = new RepeatedFault('fleet/redis/connection', clock)
    this.#meetFault = new RepeatedFault('fleet/redis/meet', clock)
    // What is neither a URL nor a client is refused before anything is opened.
    if (typeof parts.source === 'string') addressOf(parts.source)
    else connectionOf(parts.source)
  }

  /** The keys of a Cluster lie on several servers, and no script can reach them all. */
  get isCluster(): boolean {
    return this.#connection?.isCluster === true
  }

  get server(): ServerIdentity {
    return this.#server
  }

  /** Connects and subscribes. Throws `STORE_UNAVAILABLE` if that takes too long. */
  async open(listener: ConnectionListener, channels: () => readonly string[]): Promise<void> {
    const { runtime } = this.#parts
    this.#isClosed = false
    this.#listener = listener
    this.#lastError = null
    const withinMs = Math.max(OPEN_MS_MIN, this.#connectMs)
    const bound = { runtime, withinMs }
    try {
      const connection = await answerWithin(bound, this.#connect())
      this.#connection = connection
      this.#unwatch = connection.watch(
        () => void this.#welcome(connection),
        () => this.#onClose(),
      )
      await this.#meet(connection, withinMs)
      const ear = new PollEar({ connection, channels: channels(), listener, runtime })
      this.#ear = ear
      await answerWithin(bound, ear.open())
      if (this.#isClosed) throw new LeaseError('CLOSED', 'the connection was closed')
    } catch (error) {
      this.close()
      if (isMistake(error)) throw error
      throw unavailable(this.#shown, this.#lastError ?? error)
    }
  }

  /**
   * Sends all at once, together with what others send in the same turn of the event loop. Rejects when the answers may
   * be lost; what the server refuses is in its place as an `Error`.
   */
  send(commands: readonly Command[]): Promise<readonly Reply[]> {
    if (commands.length === 0) return Promise.resolve([])
    return new Promise((resolve, reject) => {
      this.#letters.push({ commands, resolve, reject })
      if (this.#letters.length === 1) queueMicrotask(() => void this.#flush())
    })
  }

  /** How many servers keep the data: one, or the masters of a Cluster. */
  get keepers(): number {
    return this.#usable().keepers.length
  }

  /** Asks one of them. */
  async sendTo(index: number, command: Command): Promise<Reply> {
    const { runtime, callMs } = this.#parts
    const keeper = this.#usable().keepers[index]
    if (keeper === undefined) throw unavailable(this.#shown, new Error('its Cluster has changed'))
    return answerWithin({ runtime, withinMs: callMs }, keeper(command))
  }

  /** Every message that was published before has been told when this resolves, and none is after. */
  async unlisten(): Promise<void> {
    const { runtime, callMs } = this.#parts
    const ear = this.#ear
    this.#ear = null
    if (ear !== null) await ear.end({ runtime, withinMs: callMs })
  }

  close(): void {
    this.#isClosed = true
    this.#isReady = false
    this.#listener = null
    this.#unwatch?.()
    this.#meetTimer?.cancel()
    this.#ear?.close()
    this.#connection?.close()
    this.#connection = null
    this.#ear = null
  }

  async #connect(): Promise<PollConnection> {
    const { source } = this.#parts
    if (typeof source !== 'string') {
      const given = connectionOf(source)
      if (!given.isReady) await given.connect()
      return given
    }
    const onError = (error: unknown): void => {
      this.#lastError = error
      // Until it is open, whoever opens it hears of it.
      if (this.#ear !== null) this.#connectionFault.failed(error)
    }
    const connectMs = this.#connectMs
    const connection = await connectTo({ url: source, connectMs, onError })
    // Whoever waited for it may have given up meanwhile.
    if (this.#isClosed) connection.close()
    return connection
  }

  async #flush(): Promise<void> {
    const letters = this.#letters.splice(0)
    try {
      const replies = await this.#exchange(letters.flatMap(({ commands }) => commands))
      let start = 0
      for (const { commands, resolve } of letters) {
        resolve(replies.slice(start, start + commands.length))
        start += commands.length
      }
    } catch (error) {
      for (const { reject } of letters) reject(error)
    }
  }

  async #exchange(commands: readonly Command[]): Promise<readonly Reply[]> {
    const { runtime, callMs } = this.#parts
    const connection = this.#usable()
    const onLate = (): void => this.#onSilence(connection)
    const losses = this.#losses
    const replies = await connection.exchange(commands, { runtime, withinMs: callMs, onLate })
    if (losses === this.#losses) return replies
    // A client that was given may have sent the commands again, to a server that nobody had asked for its name.
    throw new LeaseError('STORE_OUTCOME_UNKNOWN', 'the connection was lost meanwhile')
  }

  #usable(): PollConnection {
    const connection = this.#connection
    if (this.#isClosed) throw new LeaseError('CLOSED', 'the connection was closed')
    if (connection !== null && this.#isReady && connection.isReady) return connection
    throw unavailable(this.#shown, new Error('not connected'))
  }

  get #connectMs(): number {
    return Math.max(CONNECT_MS_MIN, this.#parts.callMs)
  }

  get #shown(): string {
    const { source } = this.#parts
    if (this.#connection !== null) return this.#connection.shown
    return typeof source === 'string' ? source.replace(/\/\/[^@/]*@/, '//') : 'redis:'
  }

  /** A connection that is there again. */
  async #welcome(connection: PollConnection): Promise<void> {
    try {
      await this.#meet(connection, this.#connectMs)
      this.#meetFault.succeeded()
      this.#connectionFault.succeeded()
    } catch (error) {
      // A connection that was lost meanwhile comes back by itself.
      if (this.#isClosed || !connection.isReady) return
      this.#meetFault.failed(error)
      const delayMs = backOffMs(this.#meetFault.count, MEET_AGAIN)
      const again = (): void => this.#welcomeAgain(connection)
      this.#meetTimer?.cancel()
      this.#meetTimer = this.#parts.runtime.setTimer(delayMs, again, { keepAlive: false })
    }
  }

  #welcomeAgain(connection: PollConnection): void {
    if (this.#isClosed || this.#isReady || !connection.isReady) return
    if (!connection.reconnect()) void this.#welcome(connection)
  }

  /** Finds out which server this is before anybody uses it. A Cluster has no name of its own. */
  async #meet(connection: PollConnection, withinMs: number): Promise<void> {
    const { runtime } = this.#parts
    const send: Send = (commands) => connection.exchange(commands, { runtime, withinMs })
    if (!connection.isCluster) {
      this.#server = await identify(send)
      await this.#listener?.met(send)
    }
    this.#isReady = !this.#isClosed
  }

  #onClose(): void {
    if (!this.#isReady) return
    this.#isReady = false
    this.#losses += 1
    this.#listener?.disconnected()
  }

  /** The connection that listens goes the same way, and cannot tell by itself that it has gone silent. */
  #onSilence(connection: PollConnection): void {
    // Of a Cluster one server is silent, and its client sees to that by itself.
    if (this.#isClosed || connection.isCluster) return
    connection.reconnect()
    this.#ear?.reopen()
  }
}

async function identify(send: Send): Promise<ServerIdentity> {
  const [info, client] = await send([
    ['INFO', 'server'],
    ['CLIENT', 'INFO'],
  ])
  const runId = /^run_id:(\w+)/m.exec(String(info))?.[1]
  if (runId === undefined) throw info instanceof Error ? info : new Error('it has no run_id')
  // A user that may not ask for it shares the channel of the first database, which at worst makes a new fleet wait.
  return { runId, database: /\bdb=(\d+)/.exec(String(client))?.[1] ?? '0' }
}

function unavailable(shown: string, cause: unknown): LeaseError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  const message = `${shown} cannot be reached: ${reason}`
  return new LeaseError('STORE_UNAVAILABLE', message, { cause })
}
