/**
 * The subscribers of one process: sessions that wait, and followers of the ledger. A commit of this process reaches them
 * without the way through the store. They are called in a microtask, so that none of them runs inside a commit.
 */
import { queueMicrotask } from '../runtime/system-runtime.ts'
import type { Unsubscribe, WakeSignal } from '../store-port/store.ts'

export type WakeListener = (signal: WakeSignal) => void

/** A session that no client has: all followers of the ledger. */
export const FOLLOWERS = '(ledger)'

/** Something may have been missed: a subscriber is to look. */
export const MISSED: WakeSignal = { leaseIds: null }

export class Subscribers {
  readonly #sessions = new Map<string, Set<WakeListener>>()

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
    return this.subscribe(FOLLOWERS, () => listener())
  }

  has(session: string): boolean {
    return this.#sessions.has(session)
  }

  /** Of which there is a subscriber. */
  get sessions(): readonly string[] {
    return [...this.#sessions.keys()]
  }

  get hasFollowers(): boolean {
    return this.has(FOLLOWERS)
  }

  wake(session: string, signal: WakeSignal): void {
    this.#sessions.get(session)?.forEach((listener) => queueMicrotask(() => listener(signal)))
  }

  notifyFollowers(): void {
    this.wake(FOLLOWERS, MISSED)
  }

  clear(): void {
    this.#sessions.clear()
  }
}
