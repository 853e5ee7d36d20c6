/** Those of this process who are to hear of commits of this process, without the way to the server and back. */
import type { Wake } from '../../core/realm.ts'
import type { Unsubscribe, WakeSignal } from '../../store-port/store.ts'

type WakeListener = (signal: WakeSignal) => void

export class LocalListeners {
  readonly #sessions = new Map<string, Set<WakeListener>>()
  readonly #followers = new Set<() => void>()

  subscribe(session: string, listener: WakeListener): Unsubscribe {
    const listeners = this.#sessions.get(session) ?? new Set()
    listeners.add(listener)
    this.#sessions.set(session, listeners)
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0 && this.#sessions.get(session) === listeners) {
        this.#sessions.delete(session)
      }
    }
  }

  follow(listener: () => void): Unsubscribe {
    this.#followers.add(listener)
    return () => this.#followers.delete(listener)
  }

  wake(wakes: readonly Wake[]): void {
    for (const { session, leaseId } of wakes) {
      for (const listener of this.#sessions.get(session) ?? []) {
        queueMicrotask(() => listener({ leaseIds: [leaseId] }))
      }
    }
  }

  tellFollowers(): void {
    for (const follower of this.#followers) queueMicrotask(follower)
  }

  clear(): void {
    this.#sessions.clear()
    this.#followers.clear()
  }
}
