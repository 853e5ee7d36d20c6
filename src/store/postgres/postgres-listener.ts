/**
 * Hears what other processes tell by NOTIFY, on a connection of its own that is opened when somebody first listens.
 *
 * When the connection is lost it is opened again with growing pauses. Whoever listens is then called once, because
 * something may have been missed. Nothing but latency depends on any of this: waiters ask for their turn by themselves,
 * and followers look at the ledger at least once in a while.
 */
import type { Runtime, Timer } from '../../runtime/runtime.ts'
import type { Unsubscribe } from '../../store-port/store.ts'
import type { PostgresCaller, PostgresClient, PostgresNotification } from './postgres-client.ts'

/** Null: something may have been missed. */
export type Heard = (payload: string | null) => void

export interface ListenerOptions {
  readonly caller: PostgresCaller
  readonly runtime: Runtime
}

const RETRY_MS_MIN = 50
const RETRY_MS_MAX = 5_000
/** A connection that has fallen silent in the network is found out by asking it something. */
const PING_MS = 15_000

export class PostgresListener {
  readonly #options: ListenerOptions
  readonly #heard = new Map<string, Set<Heard>>()
  #client: PostgresClient | null = null
  #connecting: Promise<void> | null = null
  #timer: Timer | null = null
  #failures = 0
  #closed = false

  constructor(options: ListenerOptions) {
    this.#options = options
  }

  /** Whether notifications arrive at present. */
  get isUp(): boolean {
    return this.#client !== null
  }

  /** Settles when the channel is listened to, or at once if that cannot be done now. */
  async listen(channel: string, heard: Heard): Promise<Unsubscribe> {
    const known = this.#heard.get(channel) ?? new Set()
    this.#heard.set(channel, known.add(heard))
    if (this.#client === null) await this.#connect()
    else if (known.size === 1) await this.#tell(`LISTEN ${channel}`)
    return () => this.#stop(channel, heard)
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
    if (this.#client !== null) void this.#tell(`UNLISTEN ${channel}`)
  }

  #connect(): Promise<void> {
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = null
    })
    return this.#connecting
  }

  async #open(): Promise<void> {
    if (this.#closed || this.#client !== null) return
    try {
      const client = await this.#options.caller.connect()
      client.on('notification', (message) => this.#hear(client, message))
      client.on('error', () => this.#lost(client))
      this.#client = client
    } catch {
      this.#retry()
      return
    }
    const channels = [...this.#heard.keys()]
    if (channels.length > 0) {
      await this.#tell(channels.map((channel) => `LISTEN ${channel}`).join('; '))
    }
    if (this.#client === null) return
    if (this.#failures > 0) this.#callAll()
    this.#failures = 0
    this.#schedulePing()
  }

  /** Channel names are made by us of letters and digits only; LISTEN takes no values. */
  async #tell(text: string): Promise<void> {
    const client = this.#client
    if (client === null) return
    try {
      await this.#options.caller.ask(client, text)
    } catch {
      this.#lost(client)
    }
  }

  #hear(client: PostgresClient, { channel, payload }: PostgresNotification): void {
    if (client !== this.#client) return
    for (const heard of this.#heard.get(channel) ?? []) heard(payload ?? '')
  }

  /** Also for connections that were given up before: one that is being closed may still complain. */
  #lost(client: PostgresClient): void {
    if (client !== this.#client) return
    this.#drop()
    this.#retry()
  }

  #drop(): void {
    const client = this.#client
    if (client === null) return
    this.#client = null
    client.release(true)
  }

  #retry(): void {
    if (this.#closed || this.#heard.size === 0) return
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
        if (this.#client !== null && !this.#closed) this.#schedulePing()
      })
    }
    this.#timer = this.#options.runtime.setTimer(PING_MS, ping, { keepAlive: false })
  }

  #callAll(): void {
    for (const listeners of this.#heard.values()) for (const heard of listeners) heard(null)
  }
}
