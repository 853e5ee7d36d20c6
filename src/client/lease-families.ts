/**
 * Which handles of a client are of leases derived from others of it, so that they end with them. Most leases are derived
 * from nothing, and cost nothing here.
 */
import { delegationOf } from '../core/delegation.ts'
import type { LeaseId } from '../core/lease.ts'
import type { LeaseHandle } from './lease-handle.ts'

export class LeaseFamilies {
  /** By the id of each ancestor. */
  readonly #derived = new Map<LeaseId, Set<LeaseHandle>>()

  add(handle: LeaseHandle): void {
    for (const ancestor of delegationOf(handle.info).line) {
      const family = this.#derived.get(ancestor) ?? new Set()
      this.#derived.set(ancestor, family.add(handle))
    }
  }

  remove(handle: LeaseHandle): void {
    for (const ancestor of delegationOf(handle.info).line) {
      const family = this.#derived.get(ancestor)
      family?.delete(handle)
      if (family?.size === 0) this.#derived.delete(ancestor)
    }
  }

  /** What was derived from a lease ends when its holder ends it, or no longer knows that it lives. */
  endBelow({ id }: LeaseHandle): void {
    for (const derived of [...(this.#derived.get(id) ?? [])]) derived.endWithParent()
  }
}
