/**
 * Hears what other processes tell by NOTIFY, on a connection of its own that is taken when somebody first listens, and
 * given back when nobody does any more.
 *
 * When the connection is lost it is opened again with growing pauses, which is reported. Whoever listens is then called once, because
 * something may have been missed. Nothing but latency depends on any of this: waiters ask for their turn by themselves,
 * and followers look at the ledger at least once in a while.
 */
import { RepeatedFault } from '../../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../../runtime/runtime.ts'
import type { Unsubscribe } from '../../store-port/store.ts'
import type {
  PostgresCaller,
  PostgresClient,
  PostgresHear,
  PostgresPool,
} from './postgres-client.ts'

/** Null: something may have been missed. */
export type Heard = (payload: string | null) => void

/** What a store needs of a listener, whether or not others use it as well. */
export interface Listening {
  /** Whether notifications arrive at present. */
  readonly isUp: boolean
  /** Settles when the channel is listened to, or at once if that cannot be done now. */
  listen(channel: string, heard: Heard): Promise<Unsubscribe>
  close(): Promise<void>
}

export interface ListenerOptions {
  readonly caller: PostgresCaller
  readonly runtime: Runtime
}

/** A connection for as long as it is kept. The pool may give the same client again, for another line. */
interface Line {
  readonly client: PostgresClient
  readonly hear: PostgresHear
  readonly lose: (error: unknown) => void
}

const RETRY_MS_MIN = 50
const RETRY_MS_MAX = 5_000
/** A connection that has fallen silent in the network is found out by asking it something. */
const PING_MS = 15_000

export class PostgresListener implements Listening {
  readonly #options: ListenerOptions
  readonly #heard = new Map<string, Set<Heard>>()
  readonly #fault: RepeatedFault
  #line: Line | null = null
  #connecting: Promise<void> | null = null
  /** The last statement: a connection takes one at a time. */
  #tail: Promise<void> = Promise.resolve()
  #timer: Timer | null = null
  #failures = 0
  #closed = false

  constructor(options: ListenerOptions) {
    this.#options = options
    const monotonicMs = (): number => options.runtime.monotonicMs()
    this.#fault = new RepeatedFault('store/postgres/listen', { monotonicMs })
  }

  get isUp(): boolean {
    return this.#line !== null
  }

  async listen(channel: string, heard: Heard): Promise<Unsubscribe> {
    const known = this.#heard.get(channel) ?? new Set()
    this.#heard.set(channel, known.add(heard))
    if (this.#line === null) await this.#connect()
    else if (known.size === 1) await this.#tell(`LISTEN ${channel}`)
    else await this.#tail
    return () => this.#stop(channel, heard)
  }

  /** When all that was asked for has been done, and a connection that nobody needs is given back. */
  async settled(): Promise<void> {
    await this.#connecting
    await this.#tail
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#timer?.cancel()
    this.#heard.clear()
    await this.#connecting
    this.#drop()
  }

  #stop(channel: string, heard: Heard): void {
    const known = this.#heard.get(channel)
    if (known?.delete(heard) !== true || known.size > 0) return
    this.#heard.delete(channel)
    if (this.#heard.size > 0) void this.#tell(`UNLISTEN ${channel}`)
    else void this.#tell('UNLISTEN *', () => this.#giveBack())
  }

  #connect(): Promise<void> {
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = null
    })
    return this.#connecting
  }

  async #open(): Promise<void> {
    if (this.#isIdle || this.#line !== null) return
    try {
      const client = await this.#options.caller.connect()
      if (this.#isIdle) return client.release()
      this.#line = this.#lineOn(client)
    } catch (error) {
      this.#fault.failed(error)
      this.#retry()
      return
    }
    await this.#tell([...this.#heard.keys()].map((channel) => `LISTEN ${channel}`).join('; '))
    if (this.#line === null) return
    if (this.#failures > 0) this.#callAll()
    this.#failures = 0
    this.#fault.succeeded()
    this.#schedulePing()
  }

  get #isIdle(): boolean {
    return this.#closed || this.#heard.size === 0
  }

  #lineOn(client: PostgresClient): Line {
    const line: Line = {
      client,
      hear: ({ channel, payload }) => {
        for (const heard of this.#heard.get(channel) ?? []) heard(payload ?? '')
      },
      lose: (error) => this.#lost(line, error),
    }
    client.on('notification', line.hear)
    client.on('error', line.lose)
    // Whoever listens is served as long as something else keeps the process alive: a wait does, a held lease does not.
    client.unref?.()
    return line
  }

  /**
   * Sends a statement when those before it are done, unless the connection is another by then. Channel names are made
   * by us of letters and digits only; LISTEN takes no values.
   */
  #tell(text: string, done: () => void = () => undefined): Promise<void> {
    const line = this.#line
    const send = async (): Promise<void> => {
      if (line === null || line !== this.#line) return
      try {
        await this.#options.caller.ask(line.client, text)
        if (line === this.#line) done()
      } catch (error) {
        this.#lost(line, error)
      }
    }
    this.#tail = this.#tail.then(send)
    return this.#tail
  }

  /** Somebody may have begun to listen while the last channel was being left. */
  #giveBack(): void {
    if (this.#heard.size > 0) return
    this.#timer?.cancel()
    this.#hangUp()?.release()
  }

  /** Also for connections that were given up before: one that is being closed may still complain. */
  #lost(line: Line, error: unknown): void {
    if (line !== this.#line) return
    this.#fault.failed(error)
    this.#drop()
    this.#retry()
  }

  #drop(): void {
    this.#hangUp()?.release(true)
  }

  /** Whoever has the connection next hears nothing of ours. */
  #hangUp(): PostgresClient | null {
    const line = this.#line
    if (line === null) return null
    this.#line = null
    line.client.removeListener('notification', line.hear)
    line.client.removeListener('error', line.lose)
    line.client.ref?.()
    return line.client
  }

  #retry(): void {
    if (this.#isIdle) return
    const { runtime } = this.#options
    const spanMs = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** this.#failures)
    this.#failures += 1
    this.#timer?.cancel()
    const delayMs = spanMs * (0.5 + runtime.random() / 2)
    this.#timer = runtime.setTimer(delayMs, () => void this.#connect(), { keepAlive: false })
  }

  #schedulePing(): void {
    this.#timer?.cancel()
    const ping = (): void => {
      void this.#tell('SELECT 1').then(() => {
        if (this.#line !== null && !this.#closed) this.#schedulePing()
      })
    }
    this.#timer = this.#options.runtime.setTimer(PING_MS, ping, { keepAlive: false })
  }

  #callAll(): void {
    for (const listeners of this.#heard.values()) for (const heard of listeners) heard(null)
  }
}

const listeners = new WeakMap<PostgresPool, PostgresListener>()

/**
 * A part of the one listener on a pool that the program has: however many stores are on it, listening takes one of its
 * connections. The options are those of the first who asks.
 */
export function listenOn(pool: PostgresPool, options: ListenerOptions): Listening {
  const listener = listeners.get(pool) ?? new PostgresListener(options)
  listeners.set(pool, listener)
  return new ListenerShare(listener)
}

/** Closing it ends only what was listened to through it. */
class ListenerShare implements Listening {
  readonly #listener: PostgresListener
  readonly #begun = new Set<Promise<Unsubscribe>>()

  constructor(listener: PostgresListener) {
    this.#listener = listener
  }

  get isUp(): boolean {
    return this.#listener.isUp
  }

  async listen(channel: string, heard: Heard): Promise<Unsubscribe> {
    const listening = this.#listener.listen(channel, heard)
    this.#begun.add(listening)
    const stop = await listening
    return () => {
      this.#begun.delete(listening)
      stop()
    }
  }

  async close(): Promise<void> {
    for (const stop of await Promise.all(this.#begun)) stop()
    this.#begun.clear()
    await this.#listener.settled()
  }
}
