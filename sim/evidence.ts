/** What the checkers are given. */
import type { Entry, LeaseId } from '../src/core/lease.ts'
import type { Tick } from '../src/core/time.ts'
import type { HandleLog } from './holder-views.ts'
import type { LeaseLife } from './lease-life.ts'
import type { Logged } from './log.ts'
import type { ClockChange, ConfiguredTtl, Heard, StoreKind, TimedEvent } from './store-host.ts'

export interface Evidence {
  readonly store: StoreKind
  readonly log: readonly Logged[]
  readonly ledger: readonly TimedEvent[]
  /** Of these the ledger does not tell. */
  readonly refusals: readonly TimedEvent[]
  /** The ledger, lease by lease, in order of their grants. */
  readonly lives: readonly LeaseLife[]
  /** The log, handle by handle. */
  readonly handles: readonly HandleLog[]
  /** What each derived lease was derived from, by the request that derived it. */
  readonly parents: Parents
  /** All that the store keeps at the end. */
  readonly entries: readonly Entry[]
  readonly heard: ReadonlyMap<LeaseId, readonly Heard[]>
  readonly clockChanges: readonly ClockChange[]
  readonly configured: readonly ConfiguredTtl[]
  readonly endUs: number
  readonly claimWindowMs: number
  /** When, in true time, a tick of the store's clock is or was. */
  trueUs(tick: Tick): number
}

/** The ledger with the requests that were refused, each in its place. */
export function ledgerWithRefusals({ ledger, refusals }: Evidence): readonly TimedEvent[] {
  const requests = refusals.filter(({ event }) => 'ticket' in event && event.ticket !== null)
  return [...ledger, ...requests].toSorted((a, b) => a.commit - b.commit)
}

export type Parents = ReadonlyMap<LeaseId, LeaseId>

export function parentsOf(log: readonly Logged[]): Parents {
  const parents = new Map<LeaseId, LeaseId>()
  for (const entry of log) {
    if (entry.kind !== 'asked' || entry.parentId === null) continue
    parents.set(entry.leaseId, entry.parentId)
  }
  return parents
}

/** Whether one of the two was derived from the other, however far up: such leases may overlap. */
export function areAncestorAndDescendant(parents: Parents, a: LeaseId, b: LeaseId): boolean {
  return isAbove(parents, a, b) || isAbove(parents, b, a)
}

function isAbove(parents: Parents, upper: LeaseId, lower: LeaseId): boolean {
  for (let id = parents.get(lower); id !== undefined; id = parents.get(id)) {
    if (id === upper) return true
  }
  return false
}

/** One promise was broken; what, when and by whom, in one line. */
export type Complaint = string

export interface Checker {
  /** I1 to I11. */
  readonly promise: string
  readonly name: string
  check(evidence: Evidence): readonly Complaint[]
}

/** Whether the deciding clock became another one in between. */
export function clockChanged(
  { clockChanges }: Evidence,
  { fromUs, toUs }: { readonly fromUs: number; readonly toUs: number },
): boolean {
  return clockChanges.some(({ atUs }) => atUs >= fromUs && atUs <= toUs)
}

/** A short name for a long id. */
export function short(leaseId: LeaseId): string {
  return leaseId.slice(0, 8)
}

export function seconds(us: number): string {
  return `${(us / 1_000_000).toFixed(6)} s`
}
