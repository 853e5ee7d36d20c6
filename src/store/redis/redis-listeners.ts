/**
 * Hears of wake-ups and of a growing ledger, each on a connection of its own that is opened when the first listener
 * asks. While such a connection is down nothing is heard, so listeners are told at growing intervals to look for
 * themselves; that is slower, never wrong.
 */
import type { Runtime, Timer } from '../../runtime/runtime.ts'
import type { Unsubscribe, WakeSignal } from '../../store-port/store.ts'
import type { RedisDriver } from './redis-client.ts'

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

const POLL_MS_MIN = 250
const POLL_MS_MAX = 5_000

export class WakeListeners {
  readonly #parts: ListenerParts
  readonly #listeners = new Map<string, Set<WakeListener>>()
  #connection: RedisDriver | null = null
  #poll: Timer | null = null
  #pollMs = POLL_MS_MIN
  #wasReady = false
  #closed = false

  constructor(parts: ListenerParts) {
    this.#parts = parts
  }

  async subscribe(session: string, listener: WakeListener): Promise<Unsubscribe> {
    const channel = this.#parts.channelOf(session)
    const listeners = this.#listeners.get(channel) ?? new Set()
    const isFirst = listeners.size === 0
    // Each subscription is one of its own, although two may share a function.
    const own: WakeListener = (signal) => listener(signal)
    listeners.add(own)
    this.#listeners.set(channel, listeners)
    if (isFirst) await this.#within(this.#join(channel))
    return () => this.#leave(channel, listeners, own)
  }

  #leave(channel: string, listeners: Set<WakeListener>, listener: WakeListener): void {
    listeners.delete(listener)
    if (listeners.size > 0 || this.#listeners.get(channel) !== listeners) return
    this.#listeners.delete(channel)
    if (this.#connection?.isReady === true) ignore(this.#connection.unsubscribe(channel))
  }

  /** Never fails: without a connection the listeners are told to look for themselves. */
  async #join(channel: string): Promise<void> {
    const connection = this.#connection ?? (await this.#open())
    this.#watchOver()
    if (!connection.isReady) return
    try {
      await connection.subscribe(channel)
    } catch {
      // The connection was lost meanwhile; when it is back it subscribes to everything again.
    }
  }

  async #open(): Promise<RedisDriver> {
    const connection = this.#parts.driver.duplicate()
    this.#connection = connection
    connection.onMessage((channel, message) => this.#hear(channel, message))
    connection.onReady(() => this.#resume(connection))
    try {
      await connection.connect()
    } catch {
      // The driver goes on trying.
    }
    return connection
  }

  /** What was said while the connection was down is not said again. */
  #resume(connection: RedisDriver): void {
    const isFirst = !this.#wasReady
    this.#wasReady = true
    if (isFirst) return
    for (const channel of this.#listeners.keys()) ignore(connection.subscribe(channel))
    this.#pollMs = POLL_MS_MIN
    this.#tellAll()
  }

  #hear(channel: string, message: string): void {
    const [sender, leaseId] = message.split(' ')
    if (sender === this.#parts.sender || leaseId === undefined) return
    for (const listener of this.#listeners.get(channel) ?? []) listener({ leaseIds: [leaseId] })
  }

  #tellAll(): void {
    for (const listeners of this.#listeners.values()) {
      for (const listener of listeners) listener({ leaseIds: null })
    }
  }

  #watchOver(): void {
    if (this.#poll !== null || this.#closed) return
    const look = (): void => {
      this.#poll = null
      if (this.#closed || this.#listeners.size === 0) return
      if (this.#connection?.isReady === true) this.#pollMs = POLL_MS_MIN
      else {
        this.#tellAll()
        this.#pollMs = Math.min(POLL_MS_MAX, 2 * this.#pollMs)
      }
      this.#watchOver()
    }
    this.#poll = this.#parts.runtime.setTimer(this.#pollMs, look, { keepAlive: false })
  }

  #within(work: Promise<void>): Promise<void> {
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
    this.#listeners.clear()
    this.#connection?.disconnect()
  }
}

export interface FollowerParts {
  readonly driver: RedisDriver
  readonly runtime: Runtime
  /** The ledger's stream; null where there are several, which no single connection can wait for. */
  readonly stream: string | null
  readonly callMs: number
  /** Where the ledger ends now. */
  end(): Promise<string>
}

/** How long the server is asked to wait for the ledger to grow. */
const BLOCK_MS = 2_000

export class LedgerFollowers {
  readonly #parts: FollowerParts
  readonly #followers = new Set<() => void>()
  #connection: RedisDriver | null = null
  #isFollowing = false
  #pause: Timer | null = null
  #resume: (() => void) | null = null
  #closed = false

  constructor(parts: FollowerParts) {
    this.#parts = parts
  }

  follow(listener: () => void): Unsubscribe {
    const own = (): void => listener()
    this.#followers.add(own)
    if (!this.#isFollowing) void this.#run()
    return () => {
      this.#followers.delete(own)
      if (this.#followers.size === 0) this.#stop()
    }
  }

  /** Tells everybody at first, because something may have come between their asking and our looking. */
  async #run(): Promise<void> {
    this.#isFollowing = true
    let pauseMs = POLL_MS_MIN
    let known: string | null = null
    while (this.#followers.size > 0 && !this.#closed) {
      try {
        const end = await this.#parts.end()
        if (end !== known) for (const follower of this.#followers) follower()
        known = end
        pauseMs = POLL_MS_MIN
        if (this.#parts.stream === null) await this.#rest(POLL_MS_MIN)
        else await this.#waitForMore(this.#parts.stream, end)
      } catch {
        // Whoever follows finds out by asking; meanwhile look again, at growing intervals.
        this.#disconnect()
        for (const follower of this.#followers) follower()
        await this.#rest(pauseMs)
        pauseMs = Math.min(POLL_MS_MAX, 2 * pauseMs)
      }
    }
    this.#disconnect()
    this.#isFollowing = false
  }

  async #waitForMore(stream: string, end: string): Promise<void> {
    const connection = this.#connection ?? this.#parts.driver.duplicate()
    if (this.#connection === null) {
      this.#connection = connection
      await this.#bounded(connection.connect())
    }
    const args = ['XREAD', 'COUNT', '1', 'BLOCK', String(BLOCK_MS), 'STREAMS', stream, `${end}-0`]
    await this.#bounded(connection.send(args))
  }

  #bounded(work: Promise<unknown>): Promise<unknown> {
    const { runtime, callMs } = this.#parts
    return new Promise((resolve, reject) => {
      const late = (): void => reject(new Error('no answer'))
      const timer = runtime.setTimer(BLOCK_MS + callMs, late, { keepAlive: false })
      work.then(resolve, reject).finally(() => timer.cancel())
    })
  }

  #rest(spanMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#resume = resolve
      this.#pause = this.#parts.runtime.setTimer(spanMs, resolve, { keepAlive: false })
    })
  }

  #disconnect(): void {
    const connection = this.#connection
    this.#connection = null
    try {
      connection?.disconnect()
    } catch {
      // It was closed already.
    }
  }

  #stop(): void {
    this.#disconnect()
    this.#pause?.cancel()
    this.#resume?.()
  }

  close(): void {
    this.#closed = true
    this.#followers.clear()
    this.#stop()
  }
}

function ignore(work: Promise<unknown>): void {
  work.catch(() => undefined)
}
