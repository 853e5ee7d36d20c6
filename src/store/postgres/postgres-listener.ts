/**
 * Hears what other processes tell by NOTIFY, on a connection of its own beside the pool. It is opened when a store first
 * listens, and closed when none has listened for a while, or with the last store. So the program may end its pool before
 * its stores, and every connection of the pool is there for calls.
 *
 * When the connection is lost, or cannot be made, it is opened again with growing pauses, which is reported. Whoever
 * listens is then called once, because something may have been missed. Nothing but latency depends on any of this: waiters ask for their turn by themselves,
 * and followers look at the ledger at least once in a while.
 */
import { RepeatedFault, reportTo } from '../../runtime/diagnostics.ts'
import { endsWithin } from '../../runtime/ends-within.ts'
import type { Runtime, Timer } from '../../runtime/runtime.ts'
import type { Unsubscribe } from '../../store-port/store.ts'
import type { LoneClient, PostgresCaller, PostgresPool } from '../../drivers/postgres-driver.ts'

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

const RETRY_MS_MIN = 50
const RETRY_MS_MAX = 5_000
/** A connection that has fallen silent in the network is found out by asking it something. */
const PING_MS = 15_000
/** Opening it for each of many leases, one after the other, would cost more than the leases. */
const KEPT_IDLE_MS = 10_000
/** A server that has gone silent does not answer a farewell. */
const END_MS = 1_000

class PostgresListener {
  readonly #options: ListenerOptions
  readonly #heard = new Map<string, Set<Heard>>()
  readonly #fault: RepeatedFault
  #client: LoneClient | null = null
  #connecting: Promise<void> | null = null
  /** The last statement: a connection takes one at a time. */
  #tail: Promise<void> = Promise.resolve()
  /** For the next attempt, the next ping, or the end of a connection that nobody needs. */
  #timer: Timer | null = null
  #failures = 0

  constructor(options: ListenerOptions) {
    this.#options = options
    const monotonicMs = (): number => options.runtime.monotonicMs()
    this.#fault = new RepeatedFault('store/postgres/listen', { monotonicMs })
  }

  get isUp(): boolean {
    return this.#client !== null
  }

  async listen(channel: string, heard: Heard): Promise<Unsubscribe> {
    const known = this.#heard.get(channel) ?? new Set()
    this.#heard.set(channel, known.add(heard))
    if (this.#client === null) await this.#connect()
    else if (known.size === 1) await this.#tell(`LISTEN ${channel}`)
    else await this.#tail
    return () => this.#stop(channel, heard)
  }

  /** When all that was asked for has been done, and a connection that nobody needs is closed. */
  async settled(): Promise<void> {
    await this.#connecting
    await this.#tail
    if (this.#isIdle) await this.#hangUp()
  }

  #stop(channel: string, heard: Heard): void {
    const known = this.#heard.get(channel)
    if (known?.delete(heard) !== true || known.size > 0) return
    this.#heard.delete(channel)
    void this.#tell(`UNLISTEN ${channel}`)
    if (this.#isIdle) this.#after(KEPT_IDLE_MS, () => this.#ping())
  }

  #connect(): Promise<void> {
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = null
    })
    return this.#connecting
  }

  async #open(): Promise<void> {
    if (this.#isIdle || this.#client !== null) return
    try {
      this.#use(await this.#options.caller.connectBeside())
    } catch (error) {
      this.#fault.failed(error)
      this.#retry()
      return
    }
    if (this.#isIdle) return this.#hangUp()
    await this.#tell([...this.#heard.keys()].map((channel) => `LISTEN ${channel}`).join('; '))
    if (this.#client === null) return
    if (this.#failures > 0) this.#callAll()
    this.#failures = 0
    this.#fault.succeeded()
    this.#after(PING_MS, () => this.#ping())
  }

  get #isIdle(): boolean {
    return this.#heard.size === 0
  }

  #use(client: LoneClient): void {
    this.#client = client
    client.on('notification', ({ channel, payload }) => {
      if (client !== this.#client) return
      for (const heard of this.#heard.get(channel) ?? []) heard(payload ?? '')
    })
    client.on('error', (error) => this.#lost(client, error))
    // Whoever listens is served as long as something else keeps the process alive: a wait does, a held lease does not.
    client.unref?.()
  }

  /**
   * Sends a statement when those before it are done, unless the connection is another by then. Channel names are made
   * by us of letters and digits only; LISTEN takes no values.
   */
  #tell(text: string): Promise<void> {
    const client = this.#client
    const send = async (): Promise<void> => {
      if (client === null || client !== this.#client) return
      try {
        await this.#options.caller.ask(client, text)
      } catch (error) {
        this.#lost(client, error)
      }
    }
    this.#tail = this.#tail.then(send)
    return this.#tail
  }

  /** Also for connections that were given up before: one that is being closed may still complain. */
  #lost(client: LoneClient, error: unknown): void {
    if (client !== this.#client) return
    this.#fault.failed(error)
    void this.#hangUp()
    this.#retry()
  }

  async #hangUp(): Promise<void> {
    const client = this.#client
    this.#client = null
    this.#timer?.cancel()
    if (client === null) return
    const ending = client.end().catch(reportTo('store/postgres/listen'))
    await endsWithin(this.#options.runtime, END_MS, ending)
  }

  #retry(): void {
    if (this.#isIdle) return
    const spanMs = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** this.#failures)
    this.#failures += 1
    this.#after(spanMs * (0.5 + this.#options.runtime.random() / 2), () => void this.#connect())
  }

  #ping(): void {
    if (this.#isIdle) return void this.#hangUp()
    void this.#tell('SELECT 1').then(() => {
      if (this.#client !== null) this.#after(PING_MS, () => this.#ping())
    })
  }

  #after(delayMs: number, work: () => void): void {
    this.#timer?.cancel()
    this.#timer = this.#options.runtime.setTimer(delayMs, work, { keepAlive: false })
  }

  #callAll(): void {
    for (const listeners of this.#heard.values()) for (const heard of listeners) heard(null)
  }
}

const listeners = new WeakMap<PostgresPool, PostgresListener>()

/**
 * A part of the one listener beside a pool: however many stores are on it, listening takes one connection. The options
 * are those of the first who asks.
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
