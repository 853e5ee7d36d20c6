/**
 * The leases that a reducer has seen, with the indices that make its questions cheap. It keeps what it is told; which
 * changes are allowed is decided before.
 */
import { createHash } from 'node:crypto'
import type { Ticket } from '../core/lease.ts'
import type { RegisteredLease } from './registered-lease.ts'
import type { RegistrarState } from './registrar-words.ts'

export class LeaseTable {
  readonly leases: Map<string, RegisteredLease> = new Map()
  /** The one exclusive active lease of each work; of several in one line, the first. */
  readonly activeByWork: Map<string, string> = new Map()
  /** Active leases beside it: those that share a work, and those derived from the one above; of stores that know such. */
  readonly sharersByWork: Map<string, Set<string>> = new Map()
  /** Those who wait, of stores that know such. */
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
    for (const map of [this.leases, this.activeByWork, this.sharersByWork, this.tickets])
      map.clear()
    this.pruned.clear()
    this.counts.ACTIVE = this.counts.RELEASED = this.counts.EXPIRED = this.counts.REVOKED = 0
  }

  /**
   * A derived lease stands beside the one that it was derived from, which is the answer for the work, whichever of the
   * two the table has heard of first.
   */
  #list(lease: RegisteredLease): void {
    const { workId, leaseId, entry } = lease
    const listed = this.leases.get(this.activeByWork.get(workId) ?? '')
    const isFirst = listed === undefined || depthOf(lease) < depthOf(listed)
    if (entry.mode === 'shared' || !isFirst) return this.#addSharer(workId, leaseId)
    this.activeByWork.set(workId, leaseId)
    if (listed !== undefined) this.#addSharer(workId, listed.leaseId)
  }

  #unlist({ workId, leaseId }: RegisteredLease): void {
    this.#removeSharer(workId, leaseId)
    if (this.activeByWork.get(workId) !== leaseId) return
    this.activeByWork.delete(workId)
    const next = this.#firstExclusive(workId)
    if (next === undefined) return
    this.#removeSharer(workId, next.leaseId)
    this.activeByWork.set(workId, next.leaseId)
  }

  #firstExclusive(workId: string): RegisteredLease | undefined {
    const leases = [...(this.sharersByWork.get(workId) ?? [])].map((id) => this.leases.get(id))
    return leases
      .filter((lease) => lease?.entry.mode === 'exclusive')
      .toSorted((a, b) => depthOf(a) - depthOf(b))[0]
  }

  #addSharer(workId: string, leaseId: string): void {
    this.sharersByWork.set(workId, (this.sharersByWork.get(workId) ?? new Set()).add(leaseId))
  }

  #removeSharer(workId: string, leaseId: string): void {
    const sharers = this.sharersByWork.get(workId)
    if (sharers?.delete(leaseId) === true && sharers.size === 0) this.sharersByWork.delete(workId)
  }
}

/** How far from its root a lease is. */
function depthOf(lease: RegisteredLease | undefined): number {
  return lease?.entry.delegation?.line.length ?? 0
}

const DIGEST_LENGTH = 24

/** 144 bits of the id's hash: short, and nobody finds a second id for them. */
function idDigest(leaseId: string): string {
  return createHash('sha256').update(leaseId).digest('base64url').slice(0, DIGEST_LENGTH)
}
