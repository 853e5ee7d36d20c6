/**
 * Compares what a store tells of its past with what was sealed. A store may have pruned leases that have ended, all of
 * their history at once, and renewals and advances that a later one has superseded; anything else that is missing,
 * more, or other than it was sealed is found at its position. Where the retention of the store is known, what it would
 * not have pruned yet is missing, too.
 *
 * It is about events, and not about what a store keeps of its leases beside them.
 */
import { hash } from 'node:crypto'
import type { LeaseEvent } from '../core/event.ts'
import type { EntryState, LeaseId } from '../core/lease.ts'
import type { Resource } from '../core/resource.ts'
import { SUPERSEDED_TYPES } from '../core/retention.ts'
import type { LedgerEntry, Position } from '../store-port/store.ts'
import { canonicalJson } from '../core/canonical-json.ts'

export interface StoreDifference {
  readonly position: Position
  readonly problem: 'altered' | 'removed' | 'inserted'
  /** Of what was removed although pruning might have taken it later: until when retention keeps it. */
  readonly keptUntilMs?: number
}

/** What a store keeps of the past, by its settings. */
export interface Retention {
  /** How long what has ended, or was superseded, is kept. */
  readonly keepMs: number
  readonly nowMs: number
  /** Whether anything is kept of a resource beyond its live leases. */
  readonly keepsHistory: (resource: Resource) => boolean
}

export interface Comparison {
  readonly first: StoreDifference | null
  /** Leases that are sealed and that the store no longer has. */
  readonly prunedLeases: number
}

/**
 * `kept`: the events of the store, up to the last position that is sealed; both in order of commit. Without `retention`
 * whatever has ended may have been pruned.
 */
export function compareLedgers(
  sealed: readonly LedgerEntry[],
  kept: readonly LedgerEntry[],
  retention: Retention | null = null,
): Comparison {
  const comparison = new LedgerComparison(retention)
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
  readonly keptUntilMs?: number | null
}

/** What the sealed events of a lease have shown. */
interface SealedLease {
  readonly resource: Resource
  state: EntryState
  /** When its last event was recorded: retention counts from there. */
  changedAtMs: number
  /** The first that is missing, of whatever type. */
  missing: Place | null
  /** The first that is missing although no pruning takes it away alone. */
  lost: Place | null
  /** By type: the first that is missing and that none which is kept has superseded. */
  readonly last: Map<LeaseEvent['type'], Place>
}

type Finding = StoreDifference & { readonly number: number }

/**
 * The same one event after the other, for ledgers that do not fit into memory: of what the store keeps a digest is
 * remembered, of what is sealed no more than what is missing. First all that the store has, then all that was sealed.
 */
export class LedgerComparison {
  readonly #kept = new Map<Position, Kept>()
  readonly #keptLeases = new Set<LeaseId>()
  readonly #leases = new Map<LeaseId, SealedLease>()
  readonly #findings: Finding[] = []
  readonly #retention: Retention | null
  #count = 0

  constructor(retention: Retention | null) {
    this.#retention = retention
  }

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
    const lease = this.#leaseOf(event)
    lease.state = event.after
    lease.changedAtMs = event.atMs
    const kept = this.#kept.get(position)
    if (kept === undefined) return this.#noteMissing(lease, event, place)
    lease.last.delete(event.type)
    kept.number = this.#count
    if (kept.digest !== digestOf(event)) this.#find('altered', place)
  }

  end(): Comparison {
    let prunedLeases = 0
    for (const [leaseId, lease] of this.#leases) {
      const { missing } = lease
      if (missing === null) continue
      const isGone = !this.#keptLeases.has(leaseId)
      const keptUntilMs = this.#keptUntilMs(lease.changedAtMs)
      if (isGone && this.#mayBeUnkept(lease)) prunedLeases += 1
      else if (isGone && isOver(lease) && keptUntilMs === null) prunedLeases += 1
      else if (isGone && isOver(lease)) this.#find('removed', { ...missing, keptUntilMs })
      else for (const place of unexplained(lease)) this.#find('removed', place)
    }
    this.#findInserted()
    const [first] = this.#findings.toSorted((a, b) => a.number - b.number)
    if (first === undefined) return { first: null, prunedLeases }
    const { number: _, ...difference } = first
    return { first: difference, prunedLeases }
  }

  /**
   * Whether it may have gone when it ended, because no history is kept of its resource now. A lease whose end was sealed
   * ended while history was kept, and nothing happens to it afterwards that could take it away; a request that failed
   * may have been sent again.
   */
  #mayBeUnkept({ resource, state }: SealedLease): boolean {
    const hasEnded = state === 'released' || state === 'expired' || state === 'revoked'
    return !hasEnded && this.#retention?.keepsHistory(resource) === false
  }

  /** Until when retention keeps what ended then, or was superseded since; null if that is over, or not known. */
  #keptUntilMs(atMs: number): number | null {
    if (this.#retention === null) return null
    const { keepMs, nowMs } = this.#retention
    return atMs + keepMs < nowMs ? null : atMs + keepMs
  }

  #noteMissing(lease: SealedLease, { type, atMs }: LeaseEvent, place: Place): void {
    lease.missing ??= place
    const isSuperseded = SUPERSEDED_TYPES.includes(type)
    const keptUntilMs = isSuperseded ? this.#keptUntilMs(atMs) : null
    if (!isSuperseded) lease.lost ??= place
    else if (keptUntilMs !== null) lease.lost ??= { ...place, keptUntilMs }
    else if (!lease.last.has(type)) lease.last.set(type, place)
  }

  #findInserted(): void {
    let number = 0
    for (const [position, kept] of this.#kept) {
      if (kept.number === null) return this.#find('inserted', { number: number + 0.5, position })
      number = kept.number
    }
  }

  #leaseOf({ leaseId, resource, atMs, after }: LeaseEvent): SealedLease {
    const known = this.#leases.get(leaseId)
    if (known !== undefined) return known
    const facts = { resource, state: after, changedAtMs: atMs }
    const lease: SealedLease = { ...facts, missing: null, lost: null, last: new Map() }
    this.#leases.set(leaseId, lease)
    return lease
  }

  #find(problem: Finding['problem'], { keptUntilMs = null, ...place }: Place): void {
    this.#findings.push({ ...place, problem, ...(keptUntilMs === null ? {} : { keptUntilMs }) })
  }
}

function isOver({ state }: SealedLease): boolean {
  return state !== 'active' && state !== 'pending'
}

function unexplained({ lost, last }: SealedLease): readonly Place[] {
  return lost === null ? [...last.values()] : [lost, ...last.values()]
}

function digestOf(event: LeaseEvent): string {
  return hash('sha256', canonicalJson(event), 'base64')
}
