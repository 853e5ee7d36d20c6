/**
 * What the checkers are given, and two ways of reading it that most of them share: the life of each lease as the
 * ledger tells it, and the time during which each holder believed that it held one.
 */
import type { LeaseIssued, LeaseRenewed } from '../src/core/event.ts'
import type { Entry, Lease, LeaseId } from '../src/core/lease.ts'
import type { Tick } from '../src/core/time.ts'
import type { Believed, Logged } from './log.ts'
import type { ClockChange, Heard, TimedEvent } from './store-host.ts'

export interface Evidence {
  readonly log: readonly Logged[]
  readonly ledger: readonly TimedEvent[]
  /** The ledger, lease by lease, in order of their grants. */
  readonly lives: readonly LeaseLife[]
  /** The log, handle by handle. */
  readonly handles: readonly HandleLog[]
  /** All that the store keeps at the end. */
  readonly entries: readonly Entry[]
  readonly heard: ReadonlyMap<LeaseId, readonly Heard[]>
  readonly clockChanges: readonly ClockChange[]
  readonly endUs: number
  readonly claimWindowMs: number
  /** When, in true time, a tick of the store's clock is or was. */
  trueUs(tick: Tick): number
}

/** One promise was broken; what, when and by whom, in one line. */
export type Complaint = string

export interface Checker {
  /** I1 to I9. */
  readonly promise: string
  readonly name: string
  check(evidence: Evidence): readonly Complaint[]
}

/** A time span of the deciding clock that the store granted. */
export interface Term {
  readonly atUs: number
  readonly tick: Tick
  readonly ttlMs: number
  readonly deadline: Tick
}

/** The life of one lease, as the ledger tells it. */
export interface LeaseLife {
  readonly lease: Lease
  readonly issued: TimedEvent
  /** The grant and each renewal, in order. */
  readonly terms: readonly [Term, ...Term[]]
  readonly end: TimedEvent | null
}

const END_TYPES: ReadonlySet<string> = new Set(['lease.released', 'lease.expired', 'lease.revoked'])

export function leaseLives(ledger: readonly TimedEvent[]): readonly LeaseLife[] {
  const lives = new Map<LeaseId, { -readonly [K in keyof LeaseLife]: LeaseLife[K] }>()
  for (const timed of ledger) {
    const { event } = timed
    if (event.type === 'lease.issued') {
      const term = termOf(timed, event, event.lease.ttlMs)
      lives.set(event.leaseId, { lease: event.lease, issued: timed, terms: [term], end: null })
    }
    const life = lives.get(event.leaseId)
    if (life === undefined) continue
    if (event.type === 'lease.renewed') {
      life.terms = [...life.terms, termOf(timed, event, event.ttlMs)]
    }
    if (END_TYPES.has(event.type)) life.end ??= timed
  }
  return [...lives.values()]
}

function termOf(timed: TimedEvent, event: LeaseIssued | LeaseRenewed, ttlMs: number): Term {
  const deadline = event.type === 'lease.issued' ? event.lease.deadline : event.deadline
  return { atUs: timed.atUs, tick: timed.tick, ttlMs, deadline }
}

/** The term that was in force at a moment: the last one that the store had granted by then. */
export function termAt(life: LeaseLife, atUs: number): Term {
  let current = life.terms[0]
  for (const term of life.terms) if (term.atUs <= atUs) current = term
  return current
}

/** When a holder thought that a lease was its own: from hearing of the grant to the earliest reason to stop. */
export interface Belief {
  readonly session: string
  readonly leaseId: LeaseId
  readonly resource: string
  readonly fence: number
  readonly fromUs: number
  readonly untilUs: number
}

export type Look = Believed & { readonly atUs: number }

/** All that one handle saw. */
export interface HandleLog {
  readonly session: string
  readonly leaseId: LeaseId
  readonly looks: readonly Look[]
  /** When it heard that the lease was lost. */
  readonly signalUs: number | null
  /** When it released, abandoned or closed it by itself, or died. */
  readonly letGoUs: number | null
}

interface HandleRecord {
  readonly session: string
  readonly leaseId: LeaseId
  readonly looks: Look[]
  signalUs: number | null
  letGoUs: number | null
}

export function handleLogs(log: readonly Logged[]): readonly HandleLog[] {
  const records = new Map<string, HandleRecord>()
  for (const entry of log) {
    if (entry.kind === 'believed') recordOf(records, entry).looks.push(entry)
    else if (entry.kind === 'signal') recordOf(records, entry).signalUs ??= entry.atUs
    else if (entry.kind === 'let_go') recordOf(records, entry).letGoUs ??= entry.atUs
    else if (entry.kind === 'crashed' || entry.kind === 'closed') {
      for (const record of records.values()) {
        if (record.session === entry.session) record.letGoUs ??= entry.atUs
      }
    }
  }
  return [...records.values()]
}

function recordOf(
  records: Map<string, HandleRecord>,
  { session, leaseId }: { readonly session: string; readonly leaseId: LeaseId },
): HandleRecord {
  const name = `${session} ${leaseId}`
  const known = records.get(name)
  if (known !== undefined) return known
  const record = { session, leaseId, looks: [], signalUs: null, letGoUs: null }
  records.set(name, record)
  return record
}

/** A belief ends at the earliest of letting go, the signal, and the holder's own deadline as it last knew it. */
export function beliefs(handles: readonly HandleLog[]): readonly Belief[] {
  const found: Belief[] = []
  for (const handle of handles) {
    const first = handle.looks[0]
    if (first === undefined || !isHolding(first)) continue
    let { deadlineUs } = first
    for (const look of handle.looks) {
      if (look.atUs < deadlineUs && isHolding(look)) deadlineUs = look.deadlineUs
    }
    const untilUs = Math.min(deadlineUs, handle.signalUs ?? Infinity, handle.letGoUs ?? Infinity)
    const { session, leaseId, resource, fence, atUs: fromUs } = first
    found.push({ session, leaseId, resource, fence, fromUs, untilUs })
  }
  return found
}

export function isHolding({ state }: Believed): boolean {
  return state === 'held' || state === 'uncertain'
}

/** A short name for a long id. */
export function short(leaseId: LeaseId): string {
  return leaseId.slice(0, 8)
}

export function seconds(us: number): string {
  return `${(us / 1_000_000).toFixed(6)} s`
}
