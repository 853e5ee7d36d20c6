/**
 * Hears what other processes publish on channels of a server, on a connection of its own. The connection is opened with
 * the first subscription, and closed when none is left for a while.
 *
 * When the connection is lost, cannot be made, or the server refuses a subscription, it is opened again with growing
 * pauses, which is reported. Subscribers are then called at each pause and once more when it is back, because something
 * may have been missed: they look for themselves, which is slower and never wrong.
 */
import { RepeatedFault, report } from '../../runtime/diagnostics.ts'
import { endsWithin } from '../../runtime/ends-within.ts'
import { backOffMs } from '../../runtime/pause.ts'
import type { Runtime, Timer } from '../../runtime/runtime.ts'
import type { Unsubscribe } from '../../store-port/store.ts'

/** Null: something may have been missed. */
export type ChannelSubscriber = (payload: string | null) => void

/** The connection that listens. What `listen`, `unlisten` and `ping` throw means that it is of no more use as it is. */
export interface ListeningConnection {
  /** Makes the connection, or makes it again. Rejects when there is none. */
  open(): Promise<unknown>
  listen(channels: readonly string[]): Promise<unknown>
  unlisten(channel: string): Promise<unknown>
  /** Without an answer the connection has fallen silent: no driver finds that out of one that only listens. */
  ping?(): Promise<unknown>
  /** Also of one that was lost, or never made. */
  close(): Promise<unknown>
}

export interface ChannelEvents {
  message(channel: string, payload: string): void
  /** May be called more than once, and after the connection was closed. */
  lost(error: unknown): void
}

export interface ChannelListenerOptions {
  readonly runtime: Runtime
  /** Under which name its faults are reported. */
  readonly source: string
  /** How long a caller waits for its subscription before it goes on without. */
  readonly callMs: number
  connection(events: ChannelEvents): ListeningConnection
}

const RETRY = { firstMs: 50, maxMs: 5_000 } as const
const PING_MS = 15_000
/** Opening it for each of many leases, one after the other, would cost more than the leases. */
const IDLE_MS_MAX = 10_000
/** A server that has gone silent does not answer a farewell. */
const CLOSE_MS = 1_000

export class ChannelListener {
  readonly #options: ChannelListenerOptions
  readonly #connection: ListeningConnection
  readonly #channels = new Map<string, Set<ChannelSubscriber>>()
  /** Those of them that the server was not asked for yet. */
  readonly #unasked = new Set<string>()
  readonly #fault: RepeatedFault
  /** Whether messages arrive at present. */
  isUp = false
  #connecting: Promise<void> | null = null
  /** The last statement: a connection takes one at a time. */
  #last: Promise<void> = Promise.resolve()
  /** For the next try to connect, the next ping, or the end of an idle connection. */
  #timer: Timer | null = null

  constructor(options: ChannelListenerOptions) {
    this.#options = options
    this.#fault = new RepeatedFault(options.source, options.runtime)
    this.#connection = options.connection({
      message: (channel, payload) => {
        for (const subscriber of this.#channels.get(channel) ?? []) subscriber(payload)
      },
      lost: (error) => {
        if (this.isUp) this.#fail(error)
      },
    })
  }

  /** Settles when the server listens to the channel, or when that cannot be had now. */
  async listen(channel: string, subscriber: ChannelSubscriber): Promise<Unsubscribe> {
    const own: ChannelSubscriber = (payload) => subscriber(payload)
    const subscribers = this.#channels.get(channel) ?? new Set()
    this.#channels.set(channel, subscribers.add(own))
    if (subscribers.size === 1) this.#unasked.add(channel)
    const { runtime, callMs } = this.#options
    await endsWithin(runtime, callMs, this.isUp ? this.#ask() : this.#connect())
    return () => this.#leave(channel, own)
  }

  /** For a caller that cannot wait: it is called once when `listen` would have settled. */
  listenSoon(channel: string, subscriber: ChannelSubscriber): Unsubscribe {
    let leave: Unsubscribe | null = null
    let hasLeft = false
    void this.listen(channel, subscriber).then((unsubscribe) => {
      leave = unsubscribe
      if (hasLeft) unsubscribe()
      else subscriber(null)
    })
    return () => {
      hasLeft = true
      leave?.()
    }
  }

  /** When all that was asked for is done, and a connection without subscriptions is closed. */
  async settled(): Promise<void> {
    await this.#connecting
    await this.#last
    if (this.#isIdle) await this.#hangUp()
  }

  get #isIdle(): boolean {
    return this.#channels.size === 0
  }

  #leave(channel: string, subscriber: ChannelSubscriber): void {
    const subscribers = this.#channels.get(channel)
    if (subscribers?.delete(subscriber) !== true || subscribers.size > 0) return
    this.#channels.delete(channel)
    if (this.#unasked.delete(channel)) return
    void this.#inTurn(async () => {
      // A subscriber that came meanwhile may have been asked for together with others, before its turn.
      if (!this.#channels.has(channel)) await this.#connection.unlisten(channel)
    })
    if (this.#isIdle) this.#after(IDLE_MS_MAX, () => this.#ping())
  }

  #connect(): Promise<void> {
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = null
    })
    return this.#connecting
  }

  async #open(): Promise<void> {
    if (this.#isIdle || this.isUp) return
    const { runtime, callMs } = this.#options
    try {
      this.isUp = await endsWithin(runtime, callMs, this.#connection.open())
    } catch (error) {
      return this.#fail(error)
    }
    if (this.#isIdle || !this.isUp) await this.#hangUp()
    if (this.#isIdle) return
    if (!this.isUp) return this.#fail(new Error(`no connection within ${callMs} ms`))
    for (const channel of this.#channels.keys()) this.#unasked.add(channel)
    await this.#ask()
    if (!this.isUp) return
    if (this.#fault.count > 0) this.#callAll()
    this.#fault.succeeded()
    this.#after(PING_MS, () => this.#ping())
  }

  /** The first of several callers asks for the channels of all. */
  #ask(): Promise<void> {
    return this.#inTurn(async () => {
      const channels = [...this.#unasked]
      this.#unasked.clear()
      if (channels.length > 0) await this.#connection.listen(channels)
    })
  }

  /** When the statements before it are done. What is not answered in time says that nothing is heard on the connection any more. */
  #inTurn(work: () => Promise<unknown>): Promise<void> {
    const { runtime, callMs } = this.#options
    this.#last = this.#last.then(async () => {
      if (!this.isUp) return
      try {
        if (await endsWithin(runtime, callMs, work())) return
        await this.#hangUp()
        this.#fail(new Error(`no answer within ${callMs} ms`))
      } catch (error) {
        if (this.isUp) this.#fail(error)
      }
    })
    return this.#last
  }

  #fail(error: unknown): void {
    this.#fault.failed(error)
    this.isUp = false
    this.#timer?.cancel()
    if (this.#isIdle) return
    const { runtime } = this.#options
    const spanMs = backOffMs(this.#fault.count, RETRY)
    this.#after(spanMs * (0.5 + runtime.random() / 2), () => {
      this.#callAll()
      void this.#connect()
    })
  }

  async #hangUp(): Promise<void> {
    this.isUp = false
    this.#timer?.cancel()
    const { runtime, source } = this.#options
    try {
      await endsWithin(runtime, CLOSE_MS, this.#connection.close())
    } catch (error) {
      report(source, error)
    }
  }

  #ping(): void {
    if (this.#isIdle) return void this.#hangUp()
    void this.#inTurn(async () => this.#connection.ping?.()).then(() => {
      if (this.isUp) this.#after(PING_MS, () => this.#ping())
    })
  }

  #after(delayMs: number, work: () => void): void {
    this.#timer?.cancel()
    this.#timer = this.#options.runtime.setTimer(delayMs, work, { keepAlive: false })
  }

  #callAll(): void {
    for (const subscribers of this.#channels.values()) {
      for (const subscriber of subscribers) subscriber(null)
    }
  }
}
