/**
 * Those of this process who are to hear of commits of this process, without the way to the server and back. Whom nobody
 * but this process waits for, the server need not tell at all: all who listen to it would wake up for nothing.
 */
import { queueMicrotask } from '../../runtime/system-runtime.ts'
import type { LeaseId } from '../../core/lease.ts'
import type { Wake } from '../../core/realm.ts'
import type { Unsubscribe, WakeSignal } from '../../store-port/store.ts'
import type { Attempt, EntryWrite } from './backend.ts'

type WakeListener = (signal: WakeSignal) => void

/** Of those that others have ended nobody hears here; so the oldest are forgotten, and the server tells of them again. */
const TICKETS_MAX = 10_000

export class LocalListeners {
  readonly #sessions = new Map<string, Set<WakeListener>>()
  readonly #followers = new Set<() => void>()
  /** Tickets that were filed here. A session may have several processes, but a ticket is waited for where it was filed. */
  readonly #tickets = new Set<LeaseId>()

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

  /** To be called with what was committed. */
  note(writes: readonly EntryWrite[]): void {
    for (const { id, before, after } of writes) {
      if (after?.entry.state !== 'pending') this.#tickets.delete(id)
      else if (before === null) this.#tickets.add(id)
    }
    for (const oldest of this.#tickets) {
      if (this.#tickets.size <= TICKETS_MAX) break
      this.#tickets.delete(oldest)
    }
  }

  /** An attempt as the server is to see it: without wake-ups that concern this process alone. */
  withoutOwn(attempt: Attempt): Attempt {
    if (attempt.wakes.length === 0) return attempt
    const wakes = attempt.wakes.filter(({ session, leaseId }) => {
      return !this.#sessions.has(session) || !this.#tickets.has(leaseId)
    })
    return wakes.length === attempt.wakes.length ? attempt : { ...attempt, wakes }
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
    this.#tickets.clear()
  }
}
