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
  /** The one exclusive active lease of each work. */
  readonly activeByWork: Map<string, string> = new Map()
  /** Active leases that share a work, of stores that know such. */
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

  #list({ workId, leaseId, entry }: RegisteredLease): void {
    // A derived lease stands beside the one that it was derived from, which stays the answer for the work.
    const isRoot = !this.activeByWork.has(workId)
    if (entry.mode === 'exclusive' && isRoot) this.activeByWork.set(workId, leaseId)
    else this.sharersByWork.set(workId, (this.sharersByWork.get(workId) ?? new Set()).add(leaseId))
  }

  #unlist({ workId, leaseId }: RegisteredLease): void {
    if (this.activeByWork.get(workId) === leaseId) this.activeByWork.delete(workId)
    const sharers = this.sharersByWork.get(workId)
    if (sharers?.delete(leaseId) === true && sharers.size === 0) this.sharersByWork.delete(workId)
  }
}

const DIGEST_LENGTH = 24

/** 144 bits of the id's hash: short, and nobody finds a second id for them. */
function idDigest(leaseId: string): string {
  return createHash('sha256').update(leaseId).digest('base64url').slice(0, DIGEST_LENGTH)
}
