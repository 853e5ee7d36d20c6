/**
 * Requests that were refused: acquires that would not wait, and renewals. A refusal changes nothing, so the ledger does not
 * tell of it. Each store counts refusals beside its ledger, in a table of `REFUSALS_MAX` rows: one for each resource, holder and
 * reason, with the last refusal in full and how many there were. The row whose last refusal is the longest ago makes room.
 *
 * What it does not promise: a process counts its refusals some time after it has answered them (`RefusalCounter`), and one that
 * is killed meanwhile takes them along. Nothing is sealed, folded or watched here.
 */
import type { Renew } from './command.ts'
import { eventCommon, type Draft } from './draft.ts'
import type { LeaseDenied } from './event.ts'
import type { Entry, LeaseId, Ticket } from './lease.ts'
import { REFUSALS_MAX } from './limits.ts'
import type { Blocker } from './conflict.ts'
import type { RenewOutcome } from './outcome.ts'
import { decodeEvent, encodeEvent, type RecordBody } from './record.ts'
import type { Resource } from './resource.ts'

/** How often requests of one holder for one resource were refused for one reason. */
export interface CountedRefusal {
  /** The last of them. */
  readonly event: LeaseDenied
  readonly count: number
}

/** By the time of the last; the rest only makes the order the same on every store. */
export function compareRefusals(a: CountedRefusal, b: CountedRefusal): number {
  return (
    a.event.atMs - b.event.atMs ||
    compareText(a.event.leaseId, b.event.leaseId) ||
    compareText(a.event.reason ?? '', b.event.reason ?? '') ||
    compareText(a.event.holder, b.event.holder)
  )
}

/** By code points, as databases compare UTF-8; `<` would compare halves of surrogate pairs. */
function compareText(a: string, b: string): number {
  for (let at = 0; ; at += 1) {
    const [left = -1, right = -1] = [a.codePointAt(at), b.codePointAt(at)]
    if (left !== right || left === -1) return left - right
  }
}

/** What refusals that are counted together have in common. */
function refusalKey({ resource, holder, reason }: LeaseDenied): string {
  return JSON.stringify([resource, holder, reason])
}

/** Rows of refusals in memory: what a store without a database keeps, and what a process has not counted yet. */
export class RefusalTable {
  readonly #rows = new Map<string, CountedRefusal>()

  get isEmpty(): boolean {
    return this.#rows.size === 0
  }

  add(refusals: readonly CountedRefusal[]): void {
    for (const more of refusals) {
      const key = refusalKey(more.event)
      const { event, count } = this.#rows.get(key) ?? { event: more.event, count: 0 }
      const last = event.atMs > more.event.atMs ? event : more.event
      this.#rows.set(key, { event: last, count: count + more.count })
    }
    if (this.#rows.size <= REFUSALS_MAX) return
    for (const { event } of this.inOrder().slice(0, this.#rows.size - REFUSALS_MAX)) {
      this.#rows.delete(refusalKey(event))
    }
  }

  /** By the time of the last refusal. */
  inOrder(): readonly CountedRefusal[] {
    return [...this.#rows.values()].toSorted(compareRefusals)
  }

  removeBefore(atMs: number): void {
    for (const [key, { event }] of this.#rows) if (event.atMs < atMs) this.#rows.delete(key)
  }
}

/** A request for what another holds. Nothing is told of it where no history is kept. */
export function noteDenied(draft: Draft, denied: Ticket, blockers: readonly Blocker[]): void {
  if (!denied.recorded) return
  const holder = blockers[0]?.holder
  const facts = {
    before: draft.entries.get(denied.id)?.state ?? null,
    after: 'failed',
    reason: holder === undefined ? 'held' : `held by ${holder}`,
  } as const
  draft.refuse({
    type: 'lease.denied',
    ...eventCommon(denied, draft.now, facts),
    ticket: { ...denied, state: 'failed', failure: 'denied' },
  })
}

/** A renewal of what is known here. Of a lease that is not known, and of a request id that is taken, there is nothing to tell. */
export function noteRenewalDenied(
  draft: Draft,
  { leaseId, holder }: Renew,
  outcome: RenewOutcome,
): void {
  const entry = draft.view.entries.get(leaseId)
  if (entry?.recorded !== true) return
  const why = renewalReason(entry, outcome)
  if (why === null) return
  const { state, renewals = 0 } = entry as Entry & { readonly renewals?: number }
  const facts = { before: state, after: state, renewals, reason: `renewal refused: ${why}` }
  const common = eventCommon({ ...entry, holder }, draft.now, facts)
  draft.refuse({ type: 'lease.denied', ...common, ticket: null })
}

function renewalReason(entry: Entry, outcome: RenewOutcome): string | null {
  if (outcome.kind === 'not_holder') return `held by ${entry.holder}`
  if (outcome.kind === 'renewal_limit') return `limited by ${outcome.limit}`
  if (outcome.kind === 'does_not_extend') return 'it would not extend the lease'
  if (outcome.kind === 'expired') return 'the lease has expired'
  return outcome.kind === 'terminal' ? `the lease was ${outcome.state}` : null
}

/** A row as a database keeps it: the first three fields are its key, and the detail is written as JSON. */
export interface RefusalRow {
  readonly resource: Resource
  readonly holder: string
  readonly reason: string
  readonly count: number
  readonly lastAtMs: number
  readonly leaseId: LeaseId
  readonly detail: RecordBody
}

/** No clock has this name, so that a tick tells which one it is of wherever the row is read. */
const NO_DOMAIN = ''

export function refusalRow({ event, count }: CountedRefusal): RefusalRow {
  const { resource, holder, leaseId, session, atMs: lastAtMs } = event
  const { body } = encodeEvent({ event, ended: null }, NO_DOMAIN)
  const reason = event.reason ?? ''
  return { resource, holder, reason, count, lastAtMs, leaseId, detail: { session, body } }
}

export function refusalOf(row: RefusalRow): CountedRefusal {
  const { resource, holder, leaseId, lastAtMs: atMs, count } = row
  const { session, body } = row.detail as { readonly session: string; readonly body: RecordBody }
  const keys = { leaseId, resource, holder, session, atMs, requestId: null, fence: 0 }
  const { event } = decodeEvent({ ...keys, type: 'lease.denied', body }, NO_DOMAIN)
  return { event: event as LeaseDenied, count }
}
