/**
 * Compares what a store tells of its past with what was sealed. A store may have pruned leases that have ended, all of
 * their history at once, and renewals and advances that a later one has superseded; anything else that is missing,
 * more, or other than it was sealed is found at its position.
 *
 * It is about events, and not about what a store keeps of its leases beside them.
 */
import { hash } from 'node:crypto'
import type { LeaseEvent } from '../core/event.ts'
import type { LeaseId } from '../core/lease.ts'
import type { LedgerEntry, Position } from '../store-port/store.ts'
import { canonicalJson } from './fold.ts'

export interface StoreDifference {
  readonly position: Position
  readonly problem: 'altered' | 'removed' | 'inserted'
}

export interface Comparison {
  readonly first: StoreDifference | null
  /** Leases that are sealed and that the store no longer has. */
  readonly prunedLeases: number
}

/** `kept`: the events of the store, up to the last position that is sealed; both in order of commit. */
export function compareLedgers(
  sealed: readonly LedgerEntry[],
  kept: readonly LedgerEntry[],
): Comparison {
  const comparison = new LedgerComparison()
  for (const entry of kept) comparison.keep(entry)
  for (const entry of sealed) comparison.seal(entry)
  return comparison.end()
}

interface Kept {
  readonly digest: string
  /** Of the sealed event that it is; null as long as none was. */
  number: number | null
}

interface Place {
  readonly number: number
  readonly position: Position
}

/** What the sealed events of a lease have shown. */
interface SealedLease {
  isOver: boolean
  /** The first that is missing, of whatever type. */
  missing: Place | null
  /** The first that is missing although no pruning takes it away alone. */
  lost: Place | null
  /** By type: the first that is missing and that none which is kept has superseded. */
  readonly last: Map<LeaseEvent['type'], Place>
}

type Finding = StoreDifference & { readonly number: number }

/**
 * The same one event after the other, for ledgers that nobody has in memory: of what the store keeps a digest is
 * remembered, of what is sealed no more than what is missing. First all that the store has, then all that was sealed.
 */
export class LedgerComparison {
  readonly #kept = new Map<Position, Kept>()
  readonly #keptLeases = new Set<LeaseId>()
  readonly #leases = new Map<LeaseId, SealedLease>()
  readonly #findings: Finding[] = []
  #count = 0

  keep({ position, event }: LedgerEntry): void {
    this.#kept.set(position, { digest: digestOf(event), number: null })
    this.#keptLeases.add(event.leaseId)
  }

  /** Leaves out what came after all that was sealed. */
  forget(position: Position): void {
    this.#kept.delete(position)
  }

  seal({ position, event }: LedgerEntry): void {
    this.#count += 1
    const place = { number: this.#count, position }
    const lease = this.#leaseOf(event.leaseId)
    lease.isOver = event.after !== 'active' && event.after !== 'pending'
    const kept = this.#kept.get(position)
    if (kept === undefined) return noteMissing(lease, event, place)
    lease.last.delete(event.type)
    kept.number = this.#count
    if (kept.digest !== digestOf(event)) this.#find('altered', place)
  }

  end(): Comparison {
    let prunedLeases = 0
    for (const [leaseId, lease] of this.#leases) {
      const isPruned = !this.#keptLeases.has(leaseId) && lease.isOver
      if (isPruned) prunedLeases += lease.missing === null ? 0 : 1
      else for (const place of unexplained(lease)) this.#find('removed', place)
    }
    this.#findInserted()
    const [first] = this.#findings.toSorted((a, b) => a.number - b.number)
    if (first === undefined) return { first: null, prunedLeases }
    return { first: { position: first.position, problem: first.problem }, prunedLeases }
  }

  #findInserted(): void {
    let number = 0
    for (const [position, kept] of this.#kept) {
      if (kept.number === null) return this.#find('inserted', { number: number + 0.5, position })
      number = kept.number
    }
  }

  #leaseOf(leaseId: LeaseId): SealedLease {
    const known = this.#leases.get(leaseId)
    if (known !== undefined) return known
    const lease = { isOver: false, missing: null, lost: null, last: new Map() }
    this.#leases.set(leaseId, lease)
    return lease
  }

  #find(problem: Finding['problem'], place: Place): void {
    this.#findings.push({ ...place, problem })
  }
}

function noteMissing(lease: SealedLease, { type }: LeaseEvent, place: Place): void {
  lease.missing ??= place
  const isSuperseded = type === 'lease.renewed' || type === 'lease.advanced'
  if (!isSuperseded) lease.lost ??= place
  else if (!lease.last.has(type)) lease.last.set(type, place)
}

function unexplained({ lost, last }: SealedLease): readonly Place[] {
  return lost === null ? [...last.values()] : [lost, ...last.values()]
}

function digestOf(event: LeaseEvent): string {
  return hash('sha256', canonicalJson(event), 'base64')
}
