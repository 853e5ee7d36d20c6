/**
 * The subscribers of one process: sessions that wait, and followers of the ledger. A commit of this process reaches them
 * without the way through the store. They are called in a microtask, so that none of them runs inside a commit.
 */
import { queueMicrotask } from '../runtime/system-runtime.ts'
import type { Unsubscribe, WakeSignal } from '../store-port/store.ts'

export type WakeListener = (signal: WakeSignal) => void

export class Subscribers {
  readonly #sessions = new Map<string, Set<WakeListener>>()
  readonly #followers = new Set<() => void>()

  /** Each call is a subscription of its own, also of a listener that is subscribed already. */
  subscribe(session: string, listener: WakeListener): Unsubscribe {
    const own: WakeListener = (signal) => listener(signal)
    const listeners = this.#sessions.get(session) ?? new Set()
    this.#sessions.set(session, listeners.add(own))
    return () => {
      listeners.delete(own)
      if (listeners.size === 0 && this.#sessions.get(session) === listeners) {
        this.#sessions.delete(session)
      }
    }
  }

  follow(listener: () => void): Unsubscribe {
    const own = (): void => listener()
    this.#followers.add(own)
    return () => this.#followers.delete(own)
  }

  has(session: string): boolean {
    return this.#sessions.has(session)
  }

  get sessions(): Iterable<string> {
    return this.#sessions.keys()
  }

  get hasFollowers(): boolean {
    return this.#followers.size > 0
  }

  get isEmpty(): boolean {
    return this.#sessions.size === 0 && !this.hasFollowers
  }

  wake(session: string, signal: WakeSignal): void {
    for (const listener of this.#sessions.get(session) ?? []) {
      queueMicrotask(() => listener(signal))
    }
  }

  notifyFollowers(): void {
    for (const follower of this.#followers) queueMicrotask(follower)
  }

  /** Something may have been missed: every subscriber is to look. */
  notifyAll(): void {
    this.notifyFollowers()
    for (const session of this.#sessions.keys()) this.wake(session, { leaseIds: null })
  }

  clear(): void {
    this.#sessions.clear()
    this.#followers.clear()
  }
}
