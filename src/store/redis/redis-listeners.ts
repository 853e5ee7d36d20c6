/**
 * Hears of wake-ups and of a growing ledger, on a connection of its own that is opened when the first listener asks. While
 * that connection is down, or the server refuses to be listened to, nothing is heard, so listeners are told at growing
 * intervals to look for themselves; that is slower, never wrong, and reported.
 */
import { RepeatedFault, report } from '../../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../../runtime/runtime.ts'
import type { Unsubscribe, WakeSignal } from '../../store-port/store.ts'
import type { RedisDriver } from '../../drivers/redis-driver.ts'
import { withoutCommand } from '../../drivers/redis-errors.ts'

type WakeListener = (signal: WakeSignal) => void

export interface ListenerParts {
  readonly driver: RedisDriver
  readonly runtime: Runtime
  readonly channelOf: (session: string) => string
  /** The name of this process, whose own wake-ups it has heard of already. */
  readonly sender: string
  /** How long to wait for a subscription before going on without. */
  readonly callMs: number
}

/** What is said to this one is that the ledger has grown. No session of a client has such a name. */
export const LEDGER_SESSION = '(ledger)'

const POLL_MS_MIN = 250
const POLL_MS_MAX = 5_000

/** Those who listen to one channel. */
interface Audience {
  readonly listeners: Set<WakeListener>
  /** Done when the server was asked to send what is said there, or could not be asked. */
  readonly joined: Promise<void>
}

export class WakeListeners {
  readonly #parts: ListenerParts
  readonly #audiences = new Map<string, Audience>()
  /** Channels that the server was asked for in vain. */
  readonly #refused = new Set<string>()
  readonly #fault: RepeatedFault
  #connection: RedisDriver | null = null
  #opening: Promise<RedisDriver> | null = null
  #poll: Timer | null = null
  #pollMs = POLL_MS_MIN
  /** Somebody has been listening while nothing could be heard. */
  #mayHaveMissed = false
  #closed = false

  constructor(parts: ListenerParts) {
    this.#parts = parts
    const monotonicMs = (): number => parts.runtime.monotonicMs()
    this.#fault = new RepeatedFault('store/redis/subscribe', { monotonicMs })
  }

  async subscribe(session: string, listener: WakeListener): Promise<Unsubscribe> {
    const channel = this.#parts.channelOf(session)
    const audience = this.#audienceOf(channel)
    // Each subscription is one of its own, although two may share a function.
    const own: WakeListener = (signal) => listener(signal)
    audience.listeners.add(own)
    await this.#within(audience.joined)
    if (!this.#isHearing) this.#mayHaveMissed = true
    this.#watchOver()
    return () => this.#leave(channel, audience, own)
  }

  /** Tells the listener at first too, because something may have come between its asking and our listening. */
  follow(listener: () => void): Unsubscribe {
    let leave: Unsubscribe | null = null
    let hasLeft = false
    void this.subscribe(LEDGER_SESSION, () => listener()).then((unsubscribe) => {
      leave = unsubscribe
      if (hasLeft) unsubscribe()
      else listener()
    })
    return () => {
      hasLeft = true
      leave?.()
    }
  }

  get #isHearing(): boolean {
    return this.#connection?.isReady === true && this.#refused.size === 0
  }

  #audienceOf(channel: string): Audience {
    const known = this.#audiences.get(channel)
    if (known !== undefined) return known
    const audience = { listeners: new Set<WakeListener>(), joined: this.#join(channel) }
    this.#audiences.set(channel, audience)
    return audience
  }

  #leave(channel: string, audience: Audience, listener: WakeListener): void {
    audience.listeners.delete(listener)
    if (audience.listeners.size > 0 || this.#audiences.get(channel) !== audience) return
    this.#audiences.delete(channel)
    this.#refused.delete(channel)
    if (this.#connection?.isReady !== true) return
    this.#connection.unsubscribe(channel).catch((error: unknown) => {
      // A connection that is closed has no subscriptions.
      if (!this.#closed) report('store/redis/unsubscribe', withoutCommand(error))
    })
  }

  /** Never fails: without a connection the listeners are told to look for themselves. */
  async #join(channel: string): Promise<void> {
    this.#opening ??= this.#open()
    const connection = await this.#opening
    if (connection.isReady && this.#audiences.has(channel)) await this.#ask(connection, channel)
  }

  /** Never fails: what the server refuses is asked for again, and meanwhile its listeners look for themselves. */
  async #ask(connection: RedisDriver, channel: string): Promise<void> {
    try {
      await connection.subscribe(channel)
      this.#refused.delete(channel)
      if (this.#refused.size === 0) this.#fault.succeeded()
    } catch (error) {
      if (this.#closed || !this.#audiences.has(channel)) return
      this.#refused.add(channel)
      this.#fault.failed(withoutCommand(error))
    }
  }

  async #open(): Promise<RedisDriver> {
    const connection = this.#parts.driver.duplicate()
    this.#connection = connection
    connection.onMessage((channel, message) => this.#hear(channel, message))
    connection.onReady(() => this.#resume(connection))
    try {
      await connection.connect()
    } catch (error) {
      // The driver goes on trying.
      if (!this.#closed) this.#fault.failed(withoutCommand(error))
    }
    return connection
  }

  /**
   * At the first time as at every other: the connection may have become ready after somebody had found that it was not.
   * What was said meanwhile is not said again, so everybody looks, but not before the server has heard who listens:
   * what is said between the look and the subscription would be lost.
   */
  #resume(connection: RedisDriver): void {
    const channels = [...this.#audiences.keys()]
    const all = Promise.all(channels.map((channel) => this.#ask(connection, channel)))
    const mustTell = this.#mayHaveMissed
    this.#mayHaveMissed = true
    this.#pollMs = POLL_MS_MIN
    if (mustTell) void this.#within(all).then(() => this.#tellAll())
  }

  #hear(channel: string, message: string): void {
    const [sender, leaseId] = message.split(' ')
    if (sender === this.#parts.sender || leaseId === undefined) return
    const { listeners } = this.#audiences.get(channel) ?? { listeners: [] }
    for (const listener of listeners) listener({ leaseIds: [leaseId] })
  }

  #tellAll(): void {
    for (const { listeners } of this.#audiences.values()) {
      for (const listener of listeners) listener({ leaseIds: null })
    }
  }

  #watchOver(): void {
    if (this.#poll !== null || this.#closed) return
    const look = (): void => {
      this.#poll = null
      if (this.#closed || this.#audiences.size === 0) return
      if (this.#isHearing) this.#pollMs = POLL_MS_MIN
      else {
        this.#tellAll()
        this.#askAgain()
        this.#pollMs = Math.min(POLL_MS_MAX, 2 * this.#pollMs)
      }
      this.#watchOver()
    }
    this.#poll = this.#parts.runtime.setTimer(this.#pollMs, look, { keepAlive: false })
  }

  #askAgain(): void {
    const connection = this.#connection
    if (connection?.isReady !== true) return
    for (const channel of this.#refused) void this.#ask(connection, channel)
  }

  #within(work: Promise<unknown>): Promise<void> {
    return new Promise((resolve) => {
      const { runtime, callMs } = this.#parts
      const timer = runtime.setTimer(callMs, resolve, { keepAlive: true })
      void work.finally(() => {
        timer.cancel()
        resolve()
      })
    })
  }

  close(): void {
    this.#closed = true
    this.#poll?.cancel()
    this.#audiences.clear()
    this.#refused.clear()
    disconnect(this.#connection)
  }
}

/** Some versions of the drivers throw when the connection was closed already; then there is nothing left to close. */
function disconnect(connection: RedisDriver | null): void {
  try {
    connection?.disconnect()
  } catch (error) {
    if (!/closed/i.test(String(error))) report('store/redis/disconnect', withoutCommand(error))
  }
}
