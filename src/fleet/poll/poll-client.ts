/**
 * One connection to Redis for asking and one for listening, by ioredis, which is typed by what is used of it.
 *
 *  - Commands of one call go out together and are one round trip.
 *  - A command is sent once. It is neither kept for better times nor sent again after a reconnect: an acquire that is
 *    carried out long after everybody gave it up would own a session that nobody polls.
 *  - A connection that does not answer in time is given up and made anew.
 *  - A server that is another than before, or has begun anew, is told of before anything is sent to it.
 */
import { LeaseError } from '../../core/errors.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import { answerWithin } from '../answer-within.ts'

/** What is used of an ioredis client. */
interface IoredisClient {
  connect(): Promise<unknown>
  disconnect(reconnect?: boolean): void
  pipeline(commands: string[][]): { exec(): Promise<[Error | null, unknown][] | null> }
  subscribe(...channels: string[]): Promise<unknown>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: string, listener: (...args: string[]) => void): unknown
}

type IoredisConstructor = new (
  url: string,
  options: Readonly<Record<string, unknown>>,
) => IoredisClient

export interface PollClientParts {
  readonly url: string
  readonly runtime: Runtime
  readonly callMs: number
}

export interface ConnectionListener {
  message(channel: string, text: string): void
  disconnected(): void
  restarted(): void
}

interface Letter {
  readonly commands: readonly Command[]
  readonly resolve: (replies: readonly Reply[]) => void
  readonly reject: (error: unknown) => void
}

export type Command = readonly string[]
/** What the server said to one command; an `Error` when it refused. */
export type Reply = unknown

/** A connection takes longer than a call: names are looked up, and a server that has just started is slow. */
const CONNECT_MS_MIN = 2_000
/** For all attempts of the first time together. */
const OPEN_MS_MIN = 10_000
const RETRY_STEP_MS = 50
const RETRY_MS_MAX = 500

export class PollClient {
  readonly #parts: PollClientParts
  /** What is sent at the end of this turn. */
  readonly #letters: Letter[] = []
  #asking: IoredisClient | null = null
  #listening: IoredisClient | null = null
  #listener: ConnectionListener | null = null
  /** The server's own name for its incarnation; null until one was met. */
  #runId: string | null = null
  #isReady = false
  #isClosed = false

  constructor(parts: PollClientParts) {
    this.#parts = parts
  }

  /** Connects and subscribes. Throws `STORE_UNAVAILABLE` if that takes too long. */
  async open(listener: ConnectionListener, channels: readonly string[]): Promise<void> {
    const Redis = await loadDriver()
    const { url, runtime, callMs } = this.#parts
    const withinMs = Math.max(OPEN_MS_MIN, callMs)
    this.#listener = listener
    this.#isClosed = false
    const listening = new Redis(url, this.#options())
    this.#listening = listening
    listening.on('error', () => undefined)
    listening.on('message', (channel = '', text = '') => this.#listener?.message(channel, text))
    // Later the driver tries again for as long as it takes; whoever starts wants to know.
    const connected = new Promise<void>((resolve, reject) => {
      this.#asking = this.#connect(Redis, resolve)
      this.#asking.on('error', reject)
    })
    try {
      const subscribed = connected.then(() => listening.subscribe(...channels))
      await answerWithin({ runtime, withinMs }, subscribed)
    } catch (error) {
      this.close()
      throw unavailable(url, error)
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

  close(): void {
    this.#isClosed = true
    this.#isReady = false
    this.#listener = null
    this.#asking?.disconnect()
    this.#listening?.disconnect()
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
    const { url, runtime, callMs } = this.#parts
    const client = this.#asking
    if (this.#isClosed) throw new LeaseError('CLOSED', 'the connection was closed')
    if (client === null || !this.#isReady) throw unavailable(url, new Error('not connected'))
    const call = client.pipeline(commands.map(asCall)).exec()
    const onLate = (): void => this.#reconnect(client)
    const replies = await answerWithin({ runtime, withinMs: callMs, onLate }, call)
    return (replies ?? []).map(([error, reply]) => requireAnswer(error, reply))
  }

  #connect(Redis: IoredisConstructor, onReady: () => void): IoredisClient {
    const client = new Redis(this.#parts.url, this.#options())
    // The driver repeats the reason of a failed attempt here; whoever sends something hears of it.
    client.on('error', () => undefined)
    client.on('ready', () => void this.#welcome(client, onReady))
    client.on('close', () => this.#onClose())
    return client
  }

  #options(): Readonly<Record<string, unknown>> {
    return {
      enableReadyCheck: false,
      enableOfflineQueue: true,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      connectTimeout: this.#connectMs,
      retryStrategy: (attempt: number) => Math.min(attempt * RETRY_STEP_MS, RETRY_MS_MAX),
    }
  }

  get #connectMs(): number {
    return Math.max(CONNECT_MS_MIN, this.#parts.callMs)
  }

  /** Finds out which server this is before anybody uses it. */
  async #welcome(client: IoredisClient, onReady: () => void): Promise<void> {
    const { runtime } = this.#parts
    try {
      const asked = client.pipeline([asCall(['INFO', 'server'])]).exec()
      const replies = await answerWithin({ runtime, withinMs: this.#connectMs }, asked)
      const [error, info] = replies?.[0] ?? [new Error('no reply'), null]
      const runId = /^run_id:(\w+)/m.exec(String(info))?.[1]
      if (error !== null || runId === undefined) throw error ?? new Error('no run_id')
      if (this.#isClosed) return
      const isOther = this.#runId !== null && this.#runId !== runId
      this.#runId = runId
      if (isOther) this.#listener?.restarted()
      this.#isReady = true
      onReady()
    } catch {
      if (!this.#isClosed) client.disconnect(true)
    }
  }

  #onClose(): void {
    if (!this.#isReady) return
    this.#isReady = false
    this.#listener?.disconnected()
  }

  /** The connection that listens goes the same way, and cannot tell by itself that it has gone silent. */
  #reconnect(silent: IoredisClient): void {
    if (this.#isClosed) return
    silent.disconnect(true)
    this.#listening?.disconnect(true)
  }
}

/** The driver takes any command by this name, and others only if it has a method for them. */
function asCall(command: Command): string[] {
  return ['call', ...command]
}

/** An error of the server is its answer; any other means that there was none. */
function requireAnswer(error: Error | null, reply: unknown): Reply {
  if (error === null) return reply
  if (error.name === 'ReplyError') return error
  throw new LeaseError('STORE_OUTCOME_UNKNOWN', `the answer was lost: ${error.message}`, {
    cause: error,
  })
}

function unavailable(url: string, cause: unknown): LeaseError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  const message = `${withoutSecrets(url)} cannot be reached: ${reason}`
  return new LeaseError('STORE_UNAVAILABLE', message, { cause })
}

function withoutSecrets(url: string): string {
  return url.replace(/\/\/[^@/]*@/, '//')
}

/** Loaded when a fleet on Redis is opened and not before: who uses another store need not have it. */
async function loadDriver(): Promise<IoredisConstructor> {
  try {
    const { Redis } = (await import('ioredis')) as unknown as { Redis: IoredisConstructor }
    return Redis
  } catch (cause) {
    const message = 'a fleet on Redis needs the package ioredis: npm install ioredis'
    throw new LeaseError('STORE_UNAVAILABLE', message, { cause })
  }
}
