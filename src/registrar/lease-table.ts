/**
 * The leases that a reducer has seen, with the indices that make its questions cheap. It keeps what it is told; which
 * changes are allowed is decided before.
 */
import { createHash } from 'node:crypto'
import type { Ticket } from '../core/lease.ts'
import type { Resource } from '../core/resource.ts'
import type { RegisteredLease } from './registered-lease.ts'
import type { RegistrarState } from './registrar-words.ts'

export class LeaseTable {
  readonly leases: Map<string, RegisteredLease> = new Map()
  /** The one exclusive active lease of each resource (`work:` and the id, for a work); of several in one line, the first. */
  readonly activeByResource: Map<Resource, string> = new Map()
  /** Active leases beside it: those that share it, and those derived from the one above; of stores that know such. */
  readonly sharersByResource: Map<Resource, Set<string>> = new Map()
  /** Waiters, of stores that know such. */
  readonly tickets: Map<string, Ticket> = new Map()
  /** What is left of leases that were pruned: enough to know their ids again. */
  readonly pruned: Set<string> = new Set()
  readonly counts: Record<RegistrarState, number> = {
    ACTIVE: 0,
    RELEASED: 0,
    EXPIRED: 0,
    REVOKED: 0,
  }

  /** Whether a lease of this id was ever issued. */
  knows(leaseId: string): boolean {
    if (this.leases.has(leaseId)) return true
    return this.pruned.size > 0 && this.pruned.has(idDigest(leaseId))
  }

  put(lease: RegisteredLease, before: RegisteredLease | undefined): void {
    this.leases.set(lease.leaseId, lease)
    if (before?.state === lease.state && before.entry.mode === lease.entry.mode) return
    if (before !== undefined) {
      this.counts[before.state] -= 1
      if (before.state === 'ACTIVE') this.#unlist(before)
    }
    this.counts[lease.state] += 1
    if (lease.state === 'ACTIVE') this.#list(lease)
  }

  prune(lease: RegisteredLease): void {
    this.leases.delete(lease.leaseId)
    this.counts[lease.state] -= 1
    this.pruned.add(idDigest(lease.leaseId))
  }

  clear(): void {
    const { leases, activeByResource, sharersByResource, tickets } = this
    for (const map of [leases, activeByResource, sharersByResource, tickets]) map.clear()
    this.pruned.clear()
    this.counts.ACTIVE = this.counts.RELEASED = this.counts.EXPIRED = this.counts.REVOKED = 0
  }

  /**
   * A derived lease stands beside the one that it was derived from, which is the answer for the resource, whichever of the
   * two the table has heard of first.
   */
  #list(lease: RegisteredLease): void {
    const { leaseId, entry } = lease
    const { resource } = entry
    const listed = this.leases.get(this.activeByResource.get(resource) ?? '')
    const isFirst = listed === undefined || depthOf(lease) < depthOf(listed)
    if (entry.mode === 'shared' || !isFirst) return this.#addSharer(resource, leaseId)
    this.activeByResource.set(resource, leaseId)
    if (listed !== undefined) this.#addSharer(resource, listed.leaseId)
  }

  #unlist({ leaseId, entry: { resource } }: RegisteredLease): void {
    this.#removeSharer(resource, leaseId)
    if (this.activeByResource.get(resource) !== leaseId) return
    this.activeByResource.delete(resource)
    const next = this.#firstExclusive(resource)
    if (next === undefined) return
    this.#removeSharer(resource, next.leaseId)
    this.activeByResource.set(resource, next.leaseId)
  }

  #firstExclusive(resource: Resource): RegisteredLease | undefined {
    const leases = [...(this.sharersByResource.get(resource) ?? [])].map((id) =>
      this.leases.get(id),
    )
    return leases
      .filter((lease) => lease?.entry.mode === 'exclusive')
      .toSorted((a, b) => depthOf(a) - depthOf(b))[0]
  }

  #addSharer(resource: Resource, leaseId: string): void {
    this.sharersByResource.set(
      resource,
      (this.sharersByResource.get(resource) ?? new Set()).add(leaseId),
    )
  }

  #removeSharer(resource: Resource, leaseId: string): void {
    const sharers = this.sharersByResource.get(resource)
    if (sharers?.delete(leaseId) === true && sharers.size === 0)
      this.sharersByResource.delete(resource)
  }
}

/** How far from its root a lease is. */
function depthOf(lease: RegisteredLease | undefined): number {
  return lease?.entry.delegation?.line.length ?? 0
}

const DIGEST_LENGTH = 24

/** 144 bits of the id's hash: short, and no second id can be found for them. */
function idDigest(leaseId: string): string {
  return createHash('sha256').update(leaseId).digest('base64url').slice(0, DIGEST_LENGTH)
}
