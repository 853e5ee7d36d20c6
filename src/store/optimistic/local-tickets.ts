/**
 * Tickets that were filed in this process. A session may have several processes, but a ticket is waited for where it was
 * filed: its wake-ups need not go through the server, where every process that listens would wake up for nothing.
 */
import type { LeaseId } from '../../core/lease.ts'
import type { Wake } from '../../core/realm.ts'
import type { EntryWrite } from './backend.ts'

/** Of tickets that other processes have ended this one never hears; so the oldest are forgotten, and woken by the server. */
const TICKETS_MAX = 10_000

export class LocalTickets {
  readonly #ids = new Set<LeaseId>()

  /** To be called with what was committed. */
  note(writes: readonly EntryWrite[]): void {
    for (const { id, before, after } of writes) {
      if (after?.entry.state !== 'pending') this.#ids.delete(id)
      else if (before === null) this.#ids.add(id)
    }
    for (const oldest of this.#ids) {
      if (this.#ids.size <= TICKETS_MAX) break
      this.#ids.delete(oldest)
    }
  }

  has({ leaseId }: Wake): boolean {
    return this.#ids.has(leaseId)
  }
}
