/**
 * What the ledger says, as spans of time: each lease from its grant to its end, with the wait before it and the renewals in
 * it. What the events that were read do not tell of the beginning began before them.
 */
import type { LeaseEvent } from '../../core/event.ts'
import type { LeaseInfo } from '../../core/lease.ts'
import type { LedgerRow } from '../wire/answers.ts'

/** What a sign can stand for: the states of leases and waiters, and how they ended. */
export type MarkName =
  | 'held'
  | 'shared'
  | 'waiting'
  | 'offered'
  | 'expiring'
  | 'revoking'
  | 'released'
  | 'expired'
  | 'revoked'
  | 'transferred'
  | 'deadlock'
  | 'refused'
  | 'renewed'
  | 'other'

export interface Moment {
  readonly atMs: number
  readonly mark: MarkName
  readonly event: LeaseEvent
}

export interface Hold {
  readonly leaseId: string
  readonly resource: string
  readonly holder: string
  readonly isShared: boolean
  /** It covers everything below as well. */
  readonly isSubtree: boolean
  /** From when it was waited for; null: it was granted at once. */
  readonly askedAtMs: number | null
  /** Null: it was waited for, and not granted yet or never. */
  readonly grantedAtMs: number | null
  /** Null: it has not ended. */
  readonly endedAtMs: number | null
  /** How it ended. */
  readonly end: MarkName | null
  /** When it runs out unless it is renewed, as far as is known. */
  readonly expiresAtMs: number | null
  readonly reason: string | null
  readonly fence: number | null
  readonly renewedAtMs: readonly number[]
  readonly moments: readonly Moment[]
}

/** A hold while its events are read. */
type Draft = { -readonly [Field in keyof Hold]: Hold[Field] } & {
  renewedAtMs: number[]
  moments: Moment[]
}

/** `rows` in order of commit; `leases` as they are now, whether or not an event is among them. */
export function holdsOf(
  rows: readonly LedgerRow[],
  leases: Iterable<LeaseInfo>,
  fromMs: number,
): readonly Hold[] {
  const drafts = new Map<string, Draft>()
  for (const { event } of rows) {
    const draft = drafts.get(event.leaseId) ?? draftOf(event, fromMs)
    drafts.set(event.leaseId, draft)
    read(draft, event)
  }
  for (const lease of leases) complete(drafts, lease)
  return [...drafts.values()]
}

function draftOf(event: LeaseEvent, fromMs: number): Draft {
  const wasHeld = event.before === 'active'
  return {
    ...{ leaseId: event.leaseId, resource: event.resource, holder: event.holder },
    ...{ isShared: false, isSubtree: false },
    askedAtMs: event.before === 'pending' ? fromMs : null,
    grantedAtMs: wasHeld ? fromMs : null,
    ...{ endedAtMs: null, end: null, expiresAtMs: null, reason: null, fence: null },
    ...{ renewedAtMs: [], moments: [] },
  }
}

function read(draft: Draft, event: LeaseEvent): void {
  const { atMs } = event
  const mark = markOfEvent(event)
  if (event.type === 'lease.renewed') {
    draft.renewedAtMs.push(atMs)
    draft.expiresAtMs = event.expiresAtMs
    return
  }
  draft.moments.push({ atMs, mark, event })
  if (event.type === 'lease.issued') {
    const { mode, extent, createdAtMs, grantedAtMs, expiresAtMs, fence, reason } = event.lease
    draft.isShared = mode === 'shared'
    draft.isSubtree = extent === 'subtree'
    draft.grantedAtMs = grantedAtMs
    draft.askedAtMs = createdAtMs < grantedAtMs ? createdAtMs : draft.askedAtMs
    Object.assign(draft, { expiresAtMs, fence, reason })
  } else if (event.type === 'lease.queued') {
    draft.askedAtMs = atMs
    draft.reason = event.ticket.reason
    draft.isShared = event.ticket.mode === 'shared'
  } else if (event.type === 'lease.denied') {
    draft.askedAtMs = atMs
  } else if (event.type === 'lease.revoking' || event.type === 'lease.adopted') {
    draft.expiresAtMs = event.expiresAtMs
  }
  if (event.after === 'active' || event.after === 'pending') return
  const isTimed = event.type === 'lease.expired' || event.type === 'lease.revoked'
  draft.endedAtMs = isTimed ? Math.min(event.terminatedAtMs, atMs) : atMs
  draft.end = mark
}

function complete(drafts: Map<string, Draft>, lease: LeaseInfo): void {
  const {
    id,
    resource,
    holder,
    mode,
    extent,
    createdAtMs,
    grantedAtMs,
    expiresAtMs,
    terminatedAtMs,
    reason,
    fence,
  } = lease
  const known = drafts.get(id)
  const isWaited = grantedAtMs === null || createdAtMs < grantedAtMs
  const facts = {
    ...{ leaseId: id, resource, holder, grantedAtMs, expiresAtMs },
    ...{ isShared: mode === 'shared', isSubtree: extent === 'subtree' },
    ...{
      askedAtMs: isWaited ? createdAtMs : null,
      endedAtMs: terminatedAtMs,
      end: endOf(lease),
      reason,
      fence,
    },
  }
  const { renewedAtMs = [], moments = [] } = known ?? {}
  drafts.set(id, { ...facts, renewedAtMs, moments })
}

/** How it ended; null: it has not. */
function endOf({ state, releaseReason }: LeaseInfo): MarkName | null {
  if (state === 'active' || state === 'pending') return null
  if (releaseReason === 'transferred') return 'transferred'
  return state === 'failed' ? 'refused' : state
}

const MARKS: Readonly<Partial<Record<LeaseEvent['type'], MarkName>>> = {
  'lease.issued': 'held',
  'lease.renewed': 'renewed',
  'lease.released': 'released',
  'lease.expired': 'expired',
  'lease.revoked': 'revoked',
  'lease.revoking': 'revoking',
  'lease.transferred': 'transferred',
  'lease.queued': 'waiting',
  'lease.offered': 'offered',
  'lease.denied': 'refused',
}

export function markOfEvent(event: LeaseEvent): MarkName {
  if (event.type !== 'lease.failed') return MARKS[event.type] ?? 'other'
  return event.failure === 'deadlock' ? 'deadlock' : 'refused'
}

/** Who held it at a moment: granted, and neither ended nor run out by then. What has ended was renewed up to then, told or not. */
export function heldAt(holds: readonly Hold[], atMs: number): readonly Hold[] {
  return holds.filter(({ grantedAtMs, endedAtMs, expiresAtMs }) => {
    if (grantedAtMs === null || grantedAtMs > atMs) return false
    return (endedAtMs ?? expiresAtMs ?? Infinity) > atMs
  })
}

export interface Lane {
  readonly name: string
  /** Spans that overlap stand below each other. */
  readonly tracks: readonly (readonly Hold[])[]
}

/** One lane for each resource, or for each holder, by name. */
export function lanesOf(holds: readonly Hold[], by: 'resource' | 'holder'): readonly Lane[] {
  const lanes = new Map<string, Hold[]>()
  for (const hold of holds) {
    const own = lanes.get(hold[by])
    if (own === undefined) lanes.set(hold[by], [hold])
    else own.push(hold)
  }
  return [...lanes]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, own]) => ({ name, tracks: tracksOf(own) }))
}

function tracksOf(holds: readonly Hold[]): readonly (readonly Hold[])[] {
  const sorted = holds.toSorted((one, other) => firstMs(one) - firstMs(other))
  const tracks: { readonly holds: Hold[]; untilMs: number }[] = []
  for (const hold of sorted) {
    const free = tracks.find(({ untilMs }) => untilMs <= firstMs(hold))
    const untilMs = hold.endedAtMs ?? Infinity
    if (free === undefined) tracks.push({ holds: [hold], untilMs })
    else {
      free.holds.push(hold)
      free.untilMs = untilMs
    }
  }
  return tracks.map((track) => track.holds)
}

export function firstMs({ askedAtMs, grantedAtMs }: Hold): number {
  return askedAtMs ?? grantedAtMs ?? 0
}
