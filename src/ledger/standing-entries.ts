/**
 * The entries of a folded ledger that stand in somebody's way: leases that have not ended, offers, and lock delays. They
 * are found by where they are, so that a claim looks at those that it may touch and at no others.
 */
import type { Entry, LeaseId } from '../core/lease.ts'
import { ancestorsOf, type Reach, type Resource } from '../core/resource.ts'

export class StandingEntries {
  readonly #at: Map<Resource, Map<LeaseId, Entry>> = new Map()
  /** By each of the resources that contain them. */
  readonly #below: Map<Resource, Map<LeaseId, Entry>> = new Map()

  put(told: Entry): void {
    if (!isStanding(told)) return this.#remove(told)
    // An upgrade request keeps new sharers out, but a waiter that was offered a share before it still gets it.
    const entry = told.kind === 'lease' && told.upgrading ? { ...told, upgrading: false } : told
    entriesOf(this.#at, entry.resource).set(entry.id, entry)
    for (const above of ancestorsOf(entry.resource)) {
      entriesOf(this.#below, above).set(entry.id, entry)
    }
  }

  /** All that overlap it, and maybe some that do not. */
  near({ resource, extent }: Reach): readonly Entry[] {
    const above = ancestorsOf(resource).flatMap((each) => [...(this.#at.get(each)?.values() ?? [])])
    const below = extent === 'subtree' ? (this.#below.get(resource)?.values() ?? []) : []
    return [...(this.#at.get(resource)?.values() ?? []), ...above, ...below]
  }

  #remove({ id, resource }: Entry): void {
    forget(this.#at, resource, id)
    for (const above of ancestorsOf(resource)) forget(this.#below, above, id)
  }
}

/** By the ledger alone: whoever decided over it wrote down first what had ended meanwhile. */
function isStanding(entry: Entry): boolean {
  if (entry.kind === 'lease') return entry.state === 'active' || entry.lockedUntil !== null
  return entry.state === 'pending' && entry.offer !== null
}

type Places = Map<Resource, Map<LeaseId, Entry>>

function entriesOf(places: Places, resource: Resource): Map<LeaseId, Entry> {
  const known = places.get(resource)
  if (known !== undefined) return known
  const entries = new Map<LeaseId, Entry>()
  places.set(resource, entries)
  return entries
}

function forget(places: Places, resource: Resource, id: LeaseId): void {
  const entries = places.get(resource)
  entries?.delete(id)
  if (entries?.size === 0) places.delete(resource)
}
