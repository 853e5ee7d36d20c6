/**
 * Folds a ledger that no signature vouches for, and asks of each event whether a store could have decided it: with the rules
 * that decisions go by, on what the events before it have left. It knows no clock, so it cannot tell whether a lease
 * ended too early, nor, where renewals are not recorded, too late. Retention takes leases that have ended out of a ledger:
 * a family may lack some of its members, but none that is live.
 */
import { shortageOf } from '../core/budget.ts'
import { canonicalJson } from '../core/canonical-json.ts'
import { isBlockedBy } from '../core/conflict.ts'
import { type AccountChange, delegationOf, parentOf, rootForChildren } from '../core/delegation.ts'
import { derivationProblem, reservedOf, unusedOf } from '../core/derivation.ts'
import type { LeaseAccounted, LeaseEvent, LeaseIssued } from '../core/event.ts'
import { evolveEntry } from '../core/evolve.ts'
import type { Claim, Entry, Lease, LeaseId } from '../core/lease.ts'
import { COMMIT_SLACK_MS_MAX, EPOCHS_PER_ADVANCE_MAX, TTL_MS_MAX } from '../core/limits.ts'
import { ancestorsOf, hasEpoch, type Reach, realmOf, type Resource } from '../core/resource.ts'

/** What is remembered of a realm beside its entries. */
interface RealmMark {
  /** Of events that were decided over more than their own lease. */
  lastAtMs: number
  lastFence: number
  /** The next epoch of a workflow, as far as the ledger tells. */
  epoch: number
  /** A lease of which its parent must say next what it gave to it. */
  unpaid: Lease | null
}

type GivenToChild = Exclude<AccountChange, { readonly kind: 'spent' }>

export class CheckedFold {
  readonly #entries: Map<LeaseId, Entry> = new Map()
  readonly #standing = new StandingEntries()
  readonly #realms: Map<string, RealmMark> = new Map()
  /** Those of which no parent has said what it gave to them, and the line that tells of them. */
  readonly #orphans: Map<LeaseId, number> = new Map()

  /** Takes the next event; tells what is wrong with it, and then takes nothing, or null. */
  take(event: LeaseEvent, line: number): string | null {
    const before = this.#entries.get(event.leaseId)
    const after = evolveEntry(before, event)
    const mark = this.#markOf(event)
    const problem =
      commonProblem(event, before, after) ??
      orderProblem(event, mark, before) ??
      epochProblem(event, mark, before) ??
      termProblem(event, before, after) ??
      this.#ownProblem(event, before, after)
    if (problem !== null) return problem
    this.#keep(event, after, line)
    if (after.kind === 'lease') mark.epoch = Math.max(mark.epoch, after.epoch)
    mark.lastFence = Math.max(mark.lastFence, fenceOf(event) ?? 0)
    if (isOfOneEntry(event)) return null
    mark.lastAtMs = event.atMs
    mark.unpaid = event.type === 'lease.issued' && this.#hasParent(event.lease) ? event.lease : null
    return null
  }

  /** The first line that lacks something at the end of the ledger, and what; null if none does. */
  missing(): { readonly line: number; readonly problem: string } | null {
    for (const [id, line] of this.#orphans) {
      return { line, problem: `lease ${id} is live, and no parent tells what it gave to it` }
    }
    return null
  }

  #keep(event: LeaseEvent, after: Entry, line: number): void {
    this.#entries.set(event.leaseId, after)
    this.#standing.put(after)
    if (after.state !== 'active') this.#orphans.delete(after.id)
    if (event.type === 'lease.issued' && parentOf(after) !== null) this.#orphans.set(after.id, line)
    if (event.type !== 'lease.accounted') return
    const childId = childOf(event.change)
    if (childId !== null) this.#orphans.delete(childId)
  }

  #hasParent(claim: Claim): boolean {
    return this.#entries.has(parentOf(claim) ?? '')
  }

  #markOf(event: LeaseEvent): RealmMark {
    const realm = realmOf(event.resource)
    const known = this.#realms.get(realm)
    if (known !== undefined) return known
    const mark = { lastAtMs: 0, lastFence: 0, epoch: 0, unpaid: null }
    this.#realms.set(realm, mark)
    return mark
  }

  #ownProblem(event: LeaseEvent, before: Entry | undefined, after: Entry): string | null {
    if (event.type === 'lease.issued') return this.#issueProblem(event)
    if (event.type === 'lease.accounted') return this.#accountProblem(event, before)
    const claims = event.type === 'lease.offered' || event.type === 'lease.upgraded'
    return claims ? this.#conflictOf(after) : endProblem(before, after)
  }

  #conflictOf(claim: Entry): string | null {
    const isBlocked = isBlockedBy(claim, this.#standing.near(claim), () => true)
    return isBlocked ? `${claim.resource} is held by another` : null
  }

  #issueProblem({ lease, atMs }: LeaseIssued): string | null {
    const { limits, used, children } = delegationOf(lease)
    if (lease.grantedAtMs !== atMs) return `grantedAtMs must be ${atMs}, got ${lease.grantedAtMs}`
    if (children.length > 0) return 'a lease begins without children'
    const { renewals, renewedAtMs, terminatedAtMs, releaseReason, lockedUntil, upgrading } = lease
    const ended = [renewedAtMs, terminatedAtMs, releaseReason, lockedUntil]
    const isNew = renewals === 0 && !upgrading && ended.every((fact) => fact === null)
    if (!isNew) return 'a lease begins without renewals, an upgrade request, and an end'
    if (shortageOf(limits, {}, used) !== null) return 'more is used than there is'
    const parent = this.#entries.get(parentOf(lease) ?? '')
    if (parent !== undefined && parent.state !== 'active') return 'its parent has ended'
    return this.#conflictOf(lease)
  }

  #accountProblem({ change, renewals }: LeaseAccounted, before: Entry | undefined): string | null {
    if (before?.kind !== 'lease' || before.state !== 'active') return 'the lease has ended'
    const { limits, used, children } = delegationOf(before)
    if (change.kind === 'spent') {
      const shortage = shortageOf(limits, used, change.amounts)
      if (shortage === null) return null
      return `${shortage.dimension} must be at most ${shortage.left}, got ${shortage.asked}`
    }
    const child = this.#entries.get(change.childId)
    if (child === undefined) return forgottenProblem(change, before)
    if (child.kind !== 'lease' || parentOf(child) !== before.id) return 'it has no such child'
    if (change.kind === 'derived') {
      const isRecorded = renewals === before.renewals
      return (
        derivedProblem(before, child, isRecorded) ?? amountsProblem(change.amounts, before, child)
      )
    }
    if (child.state === 'active' || !children.includes(child.id)) return 'its child has not ended'
    return isEqual(change.amounts, unusedOf(before, child)) ? null : 'other amounts came back'
  }
}

/** Of a child that retention has taken out, only the account of its parent is left. */
function forgottenProblem({ kind, amounts, childId }: GivenToChild, parent: Lease): string | null {
  const { limits, used, children } = delegationOf(parent)
  if (kind === 'derived') {
    return shortageOf(limits, used, amounts) === null ? null : 'it gave more than it had'
  }
  if (!children.includes(childId)) return 'it has no such child'
  return shortageOf(used, {}, amounts) === null ? null : 'more came back than was given'
}

function commonProblem(event: LeaseEvent, before: Entry | undefined, after: Entry): string | null {
  const was = before?.state ?? null
  if (event.before !== was) return `before must be ${was}, got ${event.before}`
  if (event.after !== after.state) return `after must be ${after.state}, got ${event.after}`
  if (event.holder !== after.holder) return `holder must be ${after.holder}, got ${event.holder}`
  if (event.session !== after.session) {
    return `session must be ${after.session}, got ${event.session}`
  }
  if (before !== undefined && event.resource !== before.resource) {
    return `resource must be ${before.resource}, got ${event.resource}`
  }
  const renewals = before?.kind === 'lease' ? before.renewals : 0
  return event.renewals < renewals ? `renewals must be at least ${renewals}` : null
}

/**
 * Decided with a look at its own entry alone: in a realm it may stand between the events of one commit, and by its time
 * a little before or behind its neighbours.
 */
function isOfOneEntry(event: LeaseEvent): boolean {
  if (event.type === 'lease.accounted') return event.change.kind === 'spent'
  return ONE_ENTRY_TYPES.has(event.type)
}

const ONE_ENTRY_TYPES: ReadonlySet<LeaseEvent['type']> = new Set<LeaseEvent['type']>([
  'lease.renewed',
  'lease.advanced',
  'lease.waiting',
  'lease.trespassed',
])

/** Wall time and fences of a realm do not go back, and what a child was given is told at once. */
function orderProblem(
  event: LeaseEvent,
  { lastAtMs, lastFence, unpaid }: RealmMark,
  before: Entry | undefined,
): string | null {
  if (isOfOneEntry(event)) return null
  if (event.atMs < lastAtMs) return `atMs must be at least ${lastAtMs}, got ${event.atMs}`
  const childId = event.type === 'lease.accounted' ? childOf(event.change) : null
  if (unpaid !== null && childId !== unpaid.id) {
    return `what ${parentOf(unpaid)} gave to ${unpaid.id} must be told first`
  }
  const fence = fenceOf(event)
  const isOffered = before?.kind === 'ticket' && before.offer?.fence === fence
  if (fence === null || isOffered || fence > lastFence) return null
  return `fence must be more than ${lastFence}, got ${fence}`
}

/** Epochs are used up once. Advances that a later one has superseded may be gone, so that an epoch may leave some out. */
function epochProblem(
  event: LeaseEvent,
  mark: RealmMark,
  before: Entry | undefined,
): string | null {
  if (event.type === 'lease.issued') {
    const { epoch } = event.lease
    if (!hasEpoch(event.resource)) return epoch === 0 ? null : `epoch must be 0, got ${epoch}`
    return epoch >= mark.epoch ? null : `epoch must be at least ${mark.epoch}, got ${epoch}`
  }
  if (event.type !== 'lease.advanced') return null
  const { from, to } = event
  if (!hasEpoch(event.resource) || before?.mode !== 'exclusive') return 'it has no epoch to use up'
  if (from < mark.epoch) return `from must be at least ${mark.epoch}, got ${from}`
  const most = from + EPOCHS_PER_ADVANCE_MAX
  return to > from && to <= most ? null : `to must be ${from + 1}..${most}, got ${to}`
}

/** A lease ends within its TTL, is renewed as often as it may be, and on the clock that it began on. */
function termProblem(event: LeaseEvent, before: Entry | undefined, after: Entry): string | null {
  if (after.kind !== 'lease' || !TERM_TYPES.has(event.type)) return null
  const { expiresAtMs, ttlMs, deadline, holdUntilUs, maxRenewals } = after
  const spanMs = event.type === 'lease.revoking' ? TTL_MS_MAX : ttlMs
  const most = event.atMs + spanMs + COMMIT_SLACK_MS_MAX
  if (expiresAtMs > most) return `expiresAtMs must be at most ${most}, got ${expiresAtMs}`
  if (expiresAtMs < event.atMs) {
    return `expiresAtMs must be at least ${event.atMs}, got ${expiresAtMs}`
  }
  if (deadline.us > (holdUntilUs ?? Infinity)) return `deadline must be at most ${holdUntilUs}`
  if (event.type !== 'lease.renewed') return null
  if (before?.deadline.domain !== deadline.domain) return 'it was renewed on another clock'
  const isAllowed = maxRenewals < 0 || after.renewals <= maxRenewals
  return isAllowed ? null : `renewals must be at most ${maxRenewals}, got ${after.renewals}`
}

const TERM_TYPES: ReadonlySet<LeaseEvent['type']> = new Set<LeaseEvent['type']>([
  'lease.issued',
  'lease.renewed',
  'lease.revoking',
  'lease.adopted',
])

/** The child that is given something. */
function childOf(change: AccountChange): LeaseId | null {
  return change.kind === 'derived' ? change.childId : null
}

function fenceOf(event: LeaseEvent): number | null {
  if (event.type === 'lease.issued') return event.lease.fence
  return event.type === 'lease.offered' || event.type === 'lease.upgraded' ? event.fence : null
}

/** Those that were derived from a lease end before it does. */
function endProblem(before: Entry | undefined, after: Entry): string | null {
  const ends = before?.state === 'active' && after.state !== 'active'
  return ends && delegationOf(after).children.length > 0 ? 'its children have not ended' : null
}

/** `isRecorded`: all renewals of the parent are in the ledger, so that its deadline is known. */
function derivedProblem(parent: Lease, child: Lease, isRecorded: boolean): string | null {
  const { line, children } = delegationOf(parent)
  const {
    scope,
    limits,
    audience = null,
    line: childLine,
    rootFence,
    rootMode,
  } = delegationOf(child)
  if (children.includes(child.id)) return 'its child was told before'
  if (!isEqual(childLine, [...line, parent.id])) return 'its child is of another ancestor chain'
  const root = rootForChildren(parent)
  // An older ledger does not tell the root's mode, and its children then count as those of an exclusive root.
  const isMoreShared = rootMode === 'shared' && root.mode === 'exclusive'
  if (rootFence !== root.fence || isMoreShared) return 'its child has another root'
  const { resource, extent, mode, ttlMs, deadline } = child
  const end = isRecorded ? deadline.us : 0
  const request = { resource, extent, mode, scope, limits, audience, ttlMs, end }
  return derivationProblem(parent, request)?.problem ?? null
}

function amountsProblem(amounts: unknown, parent: Lease, child: Lease): string | null {
  const given = reservedOf(parent, delegationOf(child).limits)
  return isEqual(amounts, given) ? null : 'it gave other amounts than its child has'
}

function isEqual(a: unknown, b: unknown): boolean {
  return canonicalJson(a) === canonicalJson(b)
}

/**
 * The entries of a folded ledger that stand in the way of others: leases that have not ended, offers, and lock delays. They
 * are found by where they are, so that a claim looks at those that it may touch and at no others.
 */
class StandingEntries {
  readonly #at: Map<Resource, Map<LeaseId, Entry>> = new Map()
  /** By each of the resources that contain them. */
  readonly #below: Map<Resource, Map<LeaseId, Entry>> = new Map()

  put(told: Entry): void {
    if (!isStanding(told)) return this.#remove(told)
    // An upgrade request keeps new sharers out, but a waiter that was offered a share before it still gets it.
    const entry = told.kind === 'lease' && told.upgrading ? { ...told, upgrading: false } : told
    entriesOf(this.#at, entry.resource).set(entry.id, entry)
    for (const above of ancestorsOf(entry.resource)) {
      entriesOf(this.#below, above).set(entry.id, entry)
    }
  }

  /** All that overlap it, and maybe some that do not. */
  near({ resource, extent }: Reach): readonly Entry[] {
    const above = ancestorsOf(resource).flatMap((each) => [...(this.#at.get(each)?.values() ?? [])])
    const below = extent === 'subtree' ? (this.#below.get(resource)?.values() ?? []) : []
    return [...(this.#at.get(resource)?.values() ?? []), ...above, ...below]
  }

  #remove({ id, resource }: Entry): void {
    forget(this.#at, resource, id)
    for (const above of ancestorsOf(resource)) forget(this.#below, above, id)
  }
}

/** By the ledger alone: a store that decided over it wrote down first what had ended meanwhile. */
function isStanding(entry: Entry): boolean {
  if (entry.kind === 'lease') return entry.state === 'active' || entry.lockedUntil !== null
  return entry.offer !== null
}

type Places = Map<Resource, Map<LeaseId, Entry>>

function entriesOf(places: Places, resource: Resource): Map<LeaseId, Entry> {
  const known = places.get(resource)
  if (known !== undefined) return known
  const entries = new Map<LeaseId, Entry>()
  places.set(resource, entries)
  return entries
}

function forget(places: Places, resource: Resource, id: LeaseId): void {
  const entries = places.get(resource)
  entries?.delete(id)
  if (entries?.size === 0) places.delete(resource)
}
