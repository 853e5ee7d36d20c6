/**
 * Every live lease and ticket of the namespace. A list fills it, page by page; the lease in each event of the stream, which
 * begins at the position of the ledger before the list was read, keeps it up to date. An event is newer than any page of the list.
 */
import { isLiveState, type LeaseId, type LeaseInfo } from '../../core/lease.ts'
import { kindOf, type Resource } from '../../core/resource.ts'
import type { StreamedRow } from '../wire/answers.ts'

export interface LeaseCounts {
  readonly held: number
  readonly waiting: number
}

/** The ids of leases that have changed, for a view that reads them now and then. */
export class Changes {
  readonly end: () => void
  #ids = new Set<LeaseId>()

  constructor(end: () => void) {
    this.end = end
  }

  add(id: LeaseId): void {
    this.#ids.add(id)
  }

  /** Since the last call. */
  take(): ReadonlySet<LeaseId> {
    const ids = this.#ids
    this.#ids = new Set()
    return ids
  }
}

export class LiveLeases {
  readonly #byId = new Map<LeaseId, LeaseInfo>()
  readonly #waitingFor = new Map<Resource, number>()
  readonly #kinds = new Map<string, number>()
  /** While a list is read: the ids on its pages, and the ids in events meanwhile. */
  #listing: { readonly listed: Set<LeaseId>; readonly told: Set<LeaseId> } | null = null
  readonly #followers = new Set<Changes>()
  #waiting = 0

  get size(): number {
    return this.#byId.size
  }

  get counts(): LeaseCounts {
    return { held: this.#byId.size - this.#waiting, waiting: this.#waiting }
  }

  get(id: LeaseId): LeaseInfo | undefined {
    return this.#byId.get(id)
  }

  all(): Iterable<LeaseInfo> {
    return this.#byId.values()
  }

  /** Of what there are leases or tickets, by name. */
  kinds(): readonly string[] {
    return [...this.#kinds.keys()].toSorted()
  }

  /** How many wait for exactly this resource. */
  queueOf(resource: Resource): number {
    return this.#waitingFor.get(resource) ?? 0
  }

  beginListing(): void {
    this.#listing = { listed: new Set(), told: new Set() }
  }

  addListed(leases: readonly LeaseInfo[]): void {
    for (const lease of leases) {
      this.#listing?.listed.add(lease.id)
      if (this.#listing?.told.has(lease.id) !== true) this.put(lease)
    }
  }

  /** A lease that is neither on a page of the list nor in an event since has ended. */
  endListing(): void {
    const listing = this.#listing
    this.#listing = null
    if (listing === null) return
    for (const id of this.#byId.keys()) {
      if (!listing.listed.has(id) && !listing.told.has(id)) this.remove(id)
    }
  }

  apply({ event, lease }: StreamedRow): void {
    this.#listing?.told.add(event.leaseId)
    const isLive = event.after === 'active' || event.after === 'pending'
    if (!isLive) this.remove(event.leaseId)
    else if (lease !== null) this.put(lease)
  }

  put(lease: LeaseInfo): void {
    if (!isLiveState(lease.state)) return this.remove(lease.id)
    this.#count(this.#byId.get(lease.id), -1)
    this.#byId.set(lease.id, lease)
    this.#count(lease, 1)
    for (const follower of this.#followers) follower.add(lease.id)
  }

  remove(id: LeaseId): void {
    const lease = this.#byId.get(id)
    if (lease === undefined) return
    this.#count(lease, -1)
    this.#byId.delete(id)
    for (const follower of this.#followers) follower.add(id)
  }

  /** Collects the ids of what changes from now on, until it is ended. */
  follow(): Changes {
    const changes = new Changes(() => this.#followers.delete(changes))
    this.#followers.add(changes)
    return changes
  }

  #count(lease: LeaseInfo | undefined, change: 1 | -1): void {
    if (lease === undefined) return
    add(this.#kinds, kindOf(lease.resource), change)
    if (lease.state !== 'pending') return
    this.#waiting += change
    add(this.#waitingFor, lease.resource, change)
  }
}

function add<Key>(counts: Map<Key, number>, key: Key, change: 1 | -1): void {
  const left = (counts.get(key) ?? 0) + change
  if (left === 0) counts.delete(key)
  else counts.set(key, left)
}
