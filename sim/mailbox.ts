/** How a holder notifies the receiver of a transfer, outside of Tenure: a note with the id, by holder. */
import type { LeaseId } from '../src/core/lease.ts'

export class Mailbox {
  readonly #notes = new Map<string, LeaseId[]>()

  put(holder: string, leaseId: LeaseId): void {
    const notes = this.#notes.get(holder) ?? []
    notes.push(leaseId)
    this.#notes.set(holder, notes)
  }

  take(holder: string): LeaseId | null {
    return this.#notes.get(holder)?.shift() ?? null
  }
}
