/**
 * A decision in the making: the view it started from, the entries as its events have left them, and the events.
 * Local to one call of `decide` and never seen outside it. Beside it is what a holder's command begins with, the look at
 * the lease that it is about (`ownLease`).
 */
import { delegationOf, parentOf, type AccountChange } from './delegation.ts'
import { unusedOf } from './derivation.ts'
import { LeaseError } from './errors.ts'
import type { EventCommon, LeaseDenied, LeaseEvent, LeaseEventType } from './event.ts'
import { evolveEntry } from './evolve.ts'
import {
  expiryWallMs,
  liveDeadline,
  type Claim,
  type Entry,
  type EntryState,
  type Lease,
  type LeaseId,
} from './lease.ts'
import type { NeedsMoreReads, Refusal } from './outcome.ts'
import type { Decision, RealmView, Wake } from './realm.ts'
import { covers, overlap, type Reach, type Resource } from './resource.ts'
import { hasPassed, US_PER_MS, type Now } from './time.ts'

const NO_REFUSALS: readonly LeaseDenied[] = []
const NO_IDS: readonly LeaseId[] = []

export class Draft {
  readonly view: RealmView
  readonly now: Now
  readonly #reaches: readonly Reach[]
  readonly #events: LeaseEvent[] = []
  readonly #wakes: Wake[] = []
  #refusals: readonly LeaseDenied[] = NO_REFUSALS
  #reliedOn: readonly LeaseId[] = NO_IDS
  #entries: Map<LeaseId, Entry> | null = null
  /** Relatives of leases that this decision depends on and that were not read. */
  #unseen: Map<LeaseId, Resource> | null = null
  #firstFence = 0
  #lastFence: number

  constructor(view: RealmView, now: Now, ...reaches: readonly Reach[]) {
    this.view = view
    this.now = now
    this.#reaches = reaches
    this.#lastFence = view.lastFence
  }

  get entries(): ReadonlyMap<LeaseId, Entry> {
    return this.#entries ?? this.view.entries
  }

  /** Whether the view shows all that can stand in the way of a claim; beyond it the draft may promise nothing. */
  sees(claim: Reach): boolean {
    return this.#reaches.some((reach) => covers(reach, claim))
  }

  /** Tells a waiter to come and look for itself. */
  wake({ session, id: leaseId }: Claim): void {
    this.#wakes.push({ session, leaseId })
  }

  /**
   * Whether this decision has taken something away that may have stood in the way of a claim. Only then is there news
   * for a waiter that must look for itself: two of them that woke each other whenever they look would never stop.
   */
  hasMadeRoomFor(claim: Claim): boolean {
    return this.#events.some((event) => {
      const entry = this.entries.get(event.leaseId)
      return makesRoom(event) && entry !== undefined && overlap(entry, claim)
    })
  }

  /** The lease of this id, which must be there. */
  lease(id: LeaseId): Lease {
    const entry = this.entries.get(id)
    if (entry?.kind === 'lease') return entry
    throw new Error(`the decision about lease ${id} left no lease behind`)
  }

  /** Lets a refusal be counted; it changes nothing. */
  refuse(refusal: LeaseDenied): void {
    this.#refusals = [...this.#refusals, refusal]
  }

  /**
   * What happens to a lease happens to those derived from it. They end before it does, so that what they did not use
   * has come back to it when it gives back in turn what it did not use.
   */
  record(event: LeaseEvent): void {
    const subject = this.entries.get(event.leaseId)
    if (subject?.kind !== 'lease') return this.#append(event, evolveEntry(subject, event))
    const ends = subject.state === 'active' && event.after !== 'active'
    if (ends) this.#endChildren(subject)
    const before = this.lease(subject.id)
    this.#append(event, evolveEntry(before, event))
    if (event.type === 'lease.revoking') {
      for (const child of this.childrenOf(before)) {
        if (child.deadline.us <= event.deadline.us) this.#reliedOn = [...this.#reliedOn, child.id]
        else {
          this.record({ ...event, ...subjectOf(child), renewals: child.renewals, requestId: null })
        }
      }
    }
    if (ends) this.#refund(before)
  }

  #append(event: LeaseEvent, entry: Entry): void {
    this.#events.push(event)
    this.#entries ??= copyOf(this.view.entries)
    this.#entries.set(event.leaseId, entry)
  }

  /** Writes down what a derivation, a spending or an end does to the budget of a lease. */
  account(lease: Lease, change: AccountChange, requestId: string | null = null): void {
    const { renewals } = lease
    const facts = { before: 'active', after: 'active', renewals, requestId } as const
    const reason = change.kind
    const common = eventCommon(lease, this.now, { ...facts, reason })
    this.record({ type: 'lease.accounted', ...common, change })
  }

  #endChildren(lease: Lease): void {
    for (const child of this.childrenOf(lease)) {
      const isOver = hasPassed(child.deadline, this.now.tick)
      this.record(
        isOver ? overWithParent(child, this.now) : endedWithParent(child, lease, this.now),
      )
    }
  }

  #refund(lease: Lease): void {
    const parent = this.parentOf(lease)
    if (parent === null) return
    const amounts = unusedOf(parent, lease)
    this.account(parent, { kind: 'refunded', childId: lease.id, amounts })
  }

  /** The lease that another was derived from, if it lives. */
  parentOf(lease: Lease): Lease | null {
    const parentId = parentOf(lease)
    return parentId === null ? null : this.#relative(lease, parentId)
  }

  /** Those that live and were derived from this very lease. */
  childrenOf(lease: Lease): readonly Lease[] {
    const children: Lease[] = []
    for (const id of delegationOf(lease).children) {
      const child = this.#relative(lease, id)
      if (child !== null) children.push(child)
    }
    return children
  }

  #relative({ resource }: Lease, id: LeaseId): Lease | null {
    const entry = this.entries.get(id)
    if (entry === undefined && this.view.absent?.has(id) !== true) {
      this.#unseen ??= new Map()
      this.#unseen.set(id, resource)
    }
    return entry?.kind === 'lease' && entry.state === 'active' ? entry : null
  }

  /**
   * The next fence: above all before it, and at least the wall time in microseconds, so that a store which lost its
   * data still gives higher ones.
   */
  nextFence(): number {
    const fence = Math.max(this.#lastFence + 1, this.now.wallMs * US_PER_MS)
    if (!Number.isSafeInteger(fence)) {
      throw new LeaseError('STORE_UNAVAILABLE', `no fence is left at wall time ${this.now.wallMs}`)
    }
    if (this.#firstFence === 0) this.#firstFence = fence
    this.#lastFence = fence
    return fence
  }

  /** A decision that depends on what was not read is none: no lease is ended without those derived from it. */
  answer<Outcome>(outcome: Outcome): Decision<Outcome | NeedsMoreReads> {
    const { entries } = this
    if (this.#unseen !== null) {
      const unseen = [...this.#unseen].map(([leaseId, resource]) => ({ leaseId, resource }))
      return new Draft(this.view, this.now).answer({ kind: 'look_further', unseen } as const)
    }
    const firstFence = this.#firstFence
    return {
      outcome,
      events: this.#events,
      refusals: this.#refusals,
      entries,
      reliedOn: this.#reliedOn,
      wakes: this.#wakes,
      validUntilUs: this.#validUntilUs(),
      firstFence,
      lastFence: firstFence === 0 ? 0 : this.#lastFence,
    }
  }

  #validUntilUs(): number | null {
    let earliest = Infinity
    for (const entry of this.view.entries.values()) {
      earliest = Math.min(earliest, runningUntilUs(entry, this.now))
    }
    for (const { leaseId } of this.#events) {
      earliest = Math.min(earliest, runningUntilUs(this.entries.get(leaseId), this.now))
    }
    return earliest === Infinity ? null : earliest
  }
}

/** Not by the constructor of the map, which makes a pair of each entry, and most decisions change one of one or none. */
function copyOf(entries: ReadonlyMap<LeaseId, Entry>): Map<LeaseId, Entry> {
  const copy = new Map<LeaseId, Entry>()
  entries.forEach((entry, id) => copy.set(id, entry))
  return copy
}

/** The deadline of an entry, if it is still running; else never. */
function runningUntilUs(entry: Entry | undefined, { tick }: Now): number {
  const deadline = entry === undefined ? null : liveDeadline(entry)
  if (deadline === null || deadline.domain !== tick.domain) return Infinity
  return deadline.us <= tick.us ? Infinity : deadline.us
}

const ROOM_MAKING: ReadonlySet<LeaseEventType> = new Set<LeaseEventType>([
  'lease.released',
  'lease.expired',
  'lease.revoked',
  'lease.transferred',
  'lease.unlocked',
  'lease.downgraded',
  'lease.failed',
])

function makesRoom(event: LeaseEvent): boolean {
  return ROOM_MAKING.has(event.type) || (event.type === 'lease.upgrading' && !event.wished)
}

function subjectOf(lease: Lease): Pick<EventCommon, 'leaseId' | 'resource' | 'holder' | 'session'> {
  const { id: leaseId, resource, holder, session } = lease
  return { leaseId, resource, holder, session }
}

/** Its own time was over too: it ended then, whatever becomes of its parent. */
function overWithParent(child: Lease, now: Now): LeaseEvent {
  const { renewals, revoking } = child
  const rest = { terminatedAtMs: expiryWallMs(child, now), lockedUntil: null }
  if (revoking === null) {
    const facts = { before: 'active', after: 'expired', renewals, reason: 'ttl passed' } as const
    return { type: 'lease.expired', ...eventCommon(child, now, facts), ...rest }
  }
  const { by, reason } = revoking
  const facts = { before: 'active', after: 'revoked', renewals, reason } as const
  return { type: 'lease.revoked', ...eventCommon(child, now, facts), by, ...rest }
}

/** The holder of a derived lease did not give it back; it was taken away with what it came from. */
function endedWithParent(child: Lease, parent: Lease, now: Now): LeaseEvent {
  const { renewals } = child
  const reason = `its parent ${parent.id} has ended`
  return {
    type: 'lease.revoked',
    ...eventCommon(child, now, { before: 'active', after: 'revoked', renewals, reason }),
    by: 'its parent',
    terminatedAtMs: now.wallMs,
    lockedUntil: null,
  }
}

interface EventFacts {
  readonly before: EntryState | null
  readonly after: EntryState
  readonly renewals?: number
  readonly reason?: string | null
  readonly requestId?: string | null
}

/**
 * An event of a kind that happens all the time. It adds to what it is given, because V8 takes microseconds for a spread
 * that gets more properties, and a tenth of one for this.
 */
export function frequentEvent<Rest extends object>(
  common: EventCommon,
  rest: Rest,
): EventCommon & Rest {
  return Object.assign(common, rest)
}

/** The fields that every event carries, taken from the claim it is about. */
export function eventCommon(claim: Claim, now: Now, facts: EventFacts): EventCommon {
  return {
    leaseId: claim.id,
    resource: claim.resource,
    holder: claim.holder,
    session: claim.session,
    atMs: now.wallMs,
    before: facts.before,
    after: facts.after,
    renewals: facts.renewals ?? 0,
    reason: facts.reason ?? null,
    requestId: facts.requestId ?? null,
  }
}

/** Whose command it is, and what about. */
export interface OwnLeaseQuery {
  readonly leaseId: LeaseId
  /** Null for an operator, who needs no right of a holder. */
  readonly holder: string | null
  /** The event that the command would record; a prior effect of another kind is not a repeat. */
  readonly effect: LeaseEventType
}

export type OwnLease =
  | { readonly kind: 'found'; readonly lease: Lease; readonly repeated: boolean }
  | { readonly kind: 'refused'; readonly refusal: Refusal }

/** The lease that a holder's command is about, if the holder has a right to it and its request has had no other effect. */
export function ownLease(view: RealmView, query: OwnLeaseQuery): OwnLease {
  const { leaseId, holder } = query
  const entry = view.entries.get(leaseId)
  if (entry === undefined) return { kind: 'refused', refusal: goneRefusal(view, query) }
  if (holder !== null && entry.holder !== holder) {
    return { kind: 'refused', refusal: { kind: 'not_holder', leaseId, holder: entry.holder } }
  }
  if (entry.kind === 'ticket') {
    const { state } = entry
    const refusal: Refusal =
      state === 'failed' ? { kind: 'terminal', leaseId, state } : { kind: 'not_found', leaseId }
    return { kind: 'refused', refusal }
  }
  const { prior } = view
  if (prior !== null && (prior.leaseId !== leaseId || prior.type !== query.effect)) {
    return { kind: 'refused', refusal: { kind: 'request_reused', leaseId } }
  }
  return { kind: 'found', lease: entry, repeated: prior !== null }
}

/**
 * Where no history is kept, a released lease leaves nothing behind but the request that released it. Its repeat must
 * hear that the lease is released, not that there never was one.
 */
function goneRefusal({ prior }: RealmView, { leaseId, effect }: OwnLeaseQuery): Refusal {
  const released = effect === 'lease.released' && prior?.type === effect
  if (released && prior.leaseId === leaseId) return { kind: 'terminal', leaseId, state: 'released' }
  return { kind: 'not_found', leaseId }
}
