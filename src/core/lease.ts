/**
 * The entries that a realm consists of: leases, and tickets of the requests that wait for one. A ticket and the lease it
 * becomes share one id, which the requester chose, so that a retry is recognised at every stage.
 */
import { remainingBudget, type Budget } from './budget.ts'
import type { Delegation } from './delegation.ts'
import { LeaseError, show } from './errors.ts'
import { hasEpoch, type Extent, type Mode, type Resource } from './resource.ts'
import type { Scope } from './scope.ts'
import { hasPassed, latestTick, remainingMs, type Now, type Tick } from './time.ts'

export type LeaseId = string
export type LeaseState = 'active' | 'released' | 'expired' | 'revoked'
export type TicketState = 'pending' | 'failed'
export type EntryState = LeaseState | TicketState
export type ReleaseReason = 'completed' | 'aborted' | 'voluntary' | 'transferred'
export type Metadata = Readonly<Record<string, string | number | boolean>>

/** The holder's metadata without what hooks and tools mark their leases with (`tenure.…`), to know them again. */
export function holderMetadata(metadata: Metadata | null): Metadata | null {
  const own = Object.entries(metadata ?? {}).filter(([name]) => !name.startsWith('tenure.'))
  return own.length === 0 ? null : Object.fromEntries(own)
}

export const RELEASE_REASONS: readonly ReleaseReason[] = [
  'completed',
  'aborted',
  'voluntary',
  'transferred',
]
export const ENTRY_STATES: readonly EntryState[] = [
  'active',
  'pending',
  'released',
  'expired',
  'revoked',
  'failed',
]

export function parseReleaseReason(value: unknown): ReleaseReason {
  const reason = RELEASE_REASONS.find((candidate) => candidate === value)
  if (reason !== undefined && reason !== 'transferred') return reason
  throw new LeaseError(
    'INVALID_REASON',
    `releaseReason must be completed, aborted or voluntary, got ${show(value)}`,
    { details: { field: 'releaseReason' } },
  )
}

export function parseState(value: unknown): EntryState {
  const state = ENTRY_STATES.find((candidate) => candidate === value)
  if (state !== undefined) return state
  throw new LeaseError(
    'INVALID_STATE',
    `state must be one of ${ENTRY_STATES.join(', ')}, got ${show(value)}`,
    { details: { field: 'state' } },
  )
}

/** What a requester asks for, and what stays the same from ticket to lease to its end. */
export interface Claim {
  readonly id: LeaseId
  readonly resource: Resource
  readonly mode: Mode
  readonly extent: Extent
  readonly holder: string
  /** A digest of the holder's session: a process incarnation, or for one-shot commands the holder's name. */
  readonly session: string
  readonly ttlMs: number
  /** -1 means no limit. */
  readonly maxRenewals: number
  readonly maxHoldMs: number | null
  /**
   * Up to how many, itself among them, share a counted resource: the smallest number among them counts. Null for any other
   * claim. A lease that was upgraded keeps it, for the time when it is downgraded.
   */
  readonly slots: number | null
  /** How long no request gets the resource after this lease has expired or was revoked. */
  readonly lockDelayMs: number
  /** Whether a waiter may ask the holder to finish. */
  readonly breakable: boolean
  /** The holder's own words, shown to the requests that it blocks. */
  readonly reason: string | null
  readonly metadata: Metadata | null
  readonly createdAtMs: number
  /** Whether the ledger tells of it from its beginning. If not, it tells nothing of it, whatever is configured later. */
  readonly recorded: boolean
  /** Of what was derived, of what others were derived from, and of what was asked for with a scope or a budget. */
  readonly delegation?: Delegation
  /** Of what waits: a ticket, or a lease that is being upgraded. */
  readonly under?: Under
  /** Of what was asked for through a server with tokens: the name of the token. Absent: of none. */
  readonly tokenName?: string
}

/** The leases of its own holder that a request waits under: none of them can be released before the request ends. */
export interface Under {
  readonly leaseIds: readonly LeaseId[]
  /** The requester did not say so; it follows from its having stood still for a while. */
  readonly implied: boolean
}

export interface Lease extends Claim {
  readonly kind: 'lease'
  readonly state: LeaseState
  readonly fence: number
  readonly grantedAtMs: number
  readonly renewedAtMs: number | null
  readonly expiresAtMs: number
  readonly terminatedAtMs: number | null
  /** The tick that decides. */
  readonly deadline: Tick
  /** No renewal moves the deadline past this tick of the deadline's domain. */
  readonly holdUntilUs: number | null
  readonly renewals: number
  readonly releaseReason: ReleaseReason | null
  /** After the end: no new grant of the resource before this tick. */
  readonly lockedUntil: Tick | null
  /** The holder was asked to finish: the deadline is the end of the grace, and renewal has stopped. */
  readonly revoking: Revoking | null
  /** The holder waits for the other sharers to leave; no other may come in meanwhile. */
  readonly upgrading: boolean
  /** False for a lease that was transferred to a named holder, until that holder adopts it. */
  readonly adopted: boolean
  /** The next epoch of the workflow that this lease is of; 0 for any other resource. */
  readonly epoch: number
  /**
   * When it was changed in any other way than by a renewal, its end or an epoch, where that came last: wall time, for people.
   * Absent otherwise, and where an earlier version made the change.
   */
  readonly changedAtMs?: number
}

export interface Revoking {
  readonly by: string
  readonly reason: string | null
}

/** A lease held open for the waiter whose turn it is. */
export interface Offer {
  readonly fence: number
  readonly deadline: Tick
}

export interface Ticket extends Claim {
  readonly kind: 'ticket'
  readonly state: TicketState
  /** What several tickets that are served together, or not at all, have in common; null for one that is alone. */
  readonly group: string | null
  /** -100..100. */
  readonly priority: number
  /** Smaller is served first: arrival, less ten seconds per point of priority. */
  readonly orderUs: number
  /** The claim window: a waiter that is not heard of before it passes is taken for dead. */
  readonly deadline: Tick
  readonly claimWindowMs: number
  /** Tickets of its own client stand before it in the same queue, and are kept alive for it as well. */
  readonly behindOwn?: true
  readonly offer: Offer | null
  readonly failure: TicketFailure | null
  /** Of a ticket that was refused because waiting would never end. */
  readonly cycle: readonly CycleStep[] | null
}

/** One who waits, and for what, in a cycle of requests that wait for each other. */
export interface CycleStep {
  readonly holder: string
  /** A digest. */
  readonly session: string
  readonly resource: string
  /** What the request is under was implied, not said. */
  readonly implied?: true
}

/** `ann → work:A → bob → work:B → ann`. */
export function cycleText(cycle: readonly CycleStep[]): string {
  const steps = cycle.flatMap(({ holder, resource }) => [holder, resource])
  return [...steps, steps[0]].join(' → ')
}

export type TicketFailure = 'denied' | 'timed_out' | 'aborted' | 'abandoned' | 'lapsed' | 'deadlock'

export type Entry = Lease | Ticket

/** When an entry ended, on the wall; null while it is live. A failed ticket counts from its arrival. */
export function endedAtMs(entry: Entry): number | null {
  if (isLive(entry)) return null
  return entry.kind === 'lease' ? entry.terminatedAtMs : entry.createdAtMs
}

export function isOver(lease: Lease, now: Now): boolean {
  return hasPassed(lease.deadline, now.tick)
}

/** An active lease whose deadline has not passed: the only thing that counts as held. */
export function isHeld(entry: Entry, now: Now): entry is Lease & { state: 'active' } {
  return entry.state === 'active' && !isOver(entry, now)
}

/** A ticket whose waiter has been heard of in time; an offer has a window of its own. */
export function isWaiting(entry: Entry, now: Now): entry is Ticket & { state: 'pending' } {
  if (entry.state !== 'pending') return false
  return !hasPassed(entry.offer?.deadline ?? entry.deadline, now.tick)
}

/** The states of what has not ended. */
export function isLiveState(state: EntryState): boolean {
  return state === 'active' || state === 'pending'
}

/** Live entries are those that may still stand in another's way. */
export function isLive(entry: Entry): boolean {
  if (isLiveState(entry.state)) return true
  return entry.kind === 'lease' && entry.lockedUntil !== null
}

/** The tick at which a live entry stops standing in the way by itself; null for one that is not live. */
export function liveDeadline(entry: Entry): Tick | null {
  if (entry.kind === 'lease') return entry.state === 'active' ? entry.deadline : entry.lockedUntil
  if (entry.state !== 'pending') return null
  return entry.offer?.deadline ?? entry.deadline
}

/** What a delegation says of its lease, for a reader that asks what the lease may be used for. */
export interface DelegatedFacts {
  /** The lease that it was derived from; null for one that was acquired. */
  readonly parentId: LeaseId | null
  /** How many derivations it is below the root. */
  readonly depth: number
  readonly scope: Scope
  /** A dimension that is absent is unlimited. */
  readonly budget: Budget
  /** What is left of it, in the dimensions that are limited: what children were given counts as used. */
  readonly budgetLeft: Budget
}

export function delegatedFacts({ line, scope, limits, used }: Delegation): DelegatedFacts {
  const budgetLeft = remainingBudget(limits, used)
  return { parentId: line.at(-1) ?? null, depth: line.length, scope, budget: limits, budgetLeft }
}

/** A lease or ticket as the world is told about it; field names are the same in every face. */
export interface LeaseInfo extends Partial<DelegatedFacts> {
  readonly id: LeaseId
  readonly resource: Resource
  readonly mode: Mode
  readonly extent: Extent
  readonly holder: string
  readonly session: string
  readonly state: EntryState
  /** Null while waiting; a pending entry that has one is an offer, held open for its waiter. */
  readonly fence: number | null
  readonly ttlMs: number
  readonly createdAtMs: number
  readonly grantedAtMs: number | null
  readonly renewedAtMs: number | null
  /** When it was upgraded, downgraded, described anew, … since its last renewal; absent: not at all. */
  readonly changedAtMs?: number
  readonly expiresAtMs: number | null
  readonly terminatedAtMs: number | null
  readonly deadline: Tick | null
  readonly remainingMs: number
  readonly renewals: number
  readonly maxRenewals: number
  readonly maxHoldMs: number | null
  readonly slots: number | null
  readonly lockDelayMs: number
  readonly breakable: boolean
  readonly revoking: Revoking | null
  readonly upgrading: boolean
  /** Of the lease of a workflow: its next epoch, as far as this lease has advanced it. */
  readonly epoch: number | null
  /** False: it was transferred to this holder, who has not taken it over yet. */
  readonly adopted: boolean
  /** Of a ticket: what those that were asked for together, all or none, have in common. */
  readonly group: string | null
  /** Of a ticket; null for a lease. */
  readonly priority: number | null
  readonly releaseReason: ReleaseReason | null
  readonly reason: string | null
  readonly metadata: Metadata | null
  /**
   * Of leases that were derived, that others were derived from, or that have a scope or a budget; what it says of the lease
   * (`parentId`, `depth`, `scope`, `budget`, `budgetLeft`) stands beside it. Absent: it may be used for everything.
   */
  readonly delegation?: Delegation
  /** The name of the token with which it was asked for through a server; absent: without one. */
  readonly tokenName?: string
}

/** What a store says of a lease, with its delegation and what that says of it. */
export function withDelegation(info: LeaseInfo, delegation: Delegation): LeaseInfo {
  return { ...info, ...delegatedFacts(delegation), delegation }
}

/**
 * The entry as it stands at `now`, whether or not a commit has settled it yet: a lease past its deadline is expired
 * since its own expiry, never since the moment that was noticed.
 */
export function describeEntry(entry: Entry, now: Now): LeaseInfo {
  return entry.kind === 'lease' ? describeLease(entry, now) : describeTicket(entry, now)
}

/** How a lease stands that is over or not, whether or not a commit has settled it yet. */
export function settledState({ state, revoking }: Lease, isOver: boolean): LeaseState {
  if (state !== 'active' || !isOver) return state
  return revoking === null ? 'expired' : 'revoked'
}

function describeLease(lease: Lease, now: Now): LeaseInfo {
  const state = settledState(lease, isOver(lease, now))
  const info: LeaseInfo = {
    id: lease.id,
    resource: lease.resource,
    mode: lease.mode,
    extent: lease.extent,
    holder: lease.holder,
    session: lease.session,
    state,
    fence: lease.fence,
    ttlMs: lease.ttlMs,
    createdAtMs: lease.createdAtMs,
    grantedAtMs: lease.grantedAtMs,
    renewedAtMs: lease.renewedAtMs,
    expiresAtMs: lease.expiresAtMs,
    terminatedAtMs: state === lease.state ? lease.terminatedAtMs : expiryWallMs(lease, now),
    deadline: lease.deadline,
    remainingMs: lease.state === 'active' ? remainingMs(lease.deadline, latestTick(now)) : 0,
    renewals: lease.renewals,
    maxRenewals: lease.maxRenewals,
    maxHoldMs: lease.maxHoldMs,
    slots: lease.slots,
    lockDelayMs: lease.lockDelayMs,
    breakable: lease.breakable,
    revoking: lease.revoking,
    upgrading: lease.upgrading,
    epoch: hasEpoch(lease.resource) ? lease.epoch : null,
    adopted: lease.adopted,
    group: null,
    priority: null,
    releaseReason: lease.releaseReason,
    reason: lease.reason,
    metadata: lease.metadata,
  }
  // Not as a part of the literal: that would take V8 ten times as long for every lease.
  const { changedAtMs } = lease
  return withRareFacts(changedAtMs === undefined ? info : { ...info, changedAtMs }, lease)
}

function withRareFacts(info: LeaseInfo, { delegation, tokenName }: Claim): LeaseInfo {
  const named = tokenName === undefined ? info : { ...info, tokenName }
  return delegation === undefined ? named : withDelegation(named, delegation)
}

function describeTicket(ticket: Ticket, now: Now): LeaseInfo {
  const waiting = isWaiting(ticket, now)
  const info: LeaseInfo = {
    id: ticket.id,
    resource: ticket.resource,
    mode: ticket.mode,
    extent: ticket.extent,
    holder: ticket.holder,
    session: ticket.session,
    state: waiting ? 'pending' : 'failed',
    fence: waiting ? (ticket.offer?.fence ?? null) : null,
    ttlMs: ticket.ttlMs,
    createdAtMs: ticket.createdAtMs,
    grantedAtMs: null,
    renewedAtMs: null,
    expiresAtMs: null,
    terminatedAtMs: null,
    deadline: waiting ? ticket.deadline : null,
    remainingMs: 0,
    renewals: 0,
    maxRenewals: ticket.maxRenewals,
    maxHoldMs: ticket.maxHoldMs,
    slots: ticket.slots,
    lockDelayMs: ticket.lockDelayMs,
    breakable: ticket.breakable,
    revoking: null,
    upgrading: false,
    epoch: null,
    adopted: true,
    group: ticket.group,
    priority: ticket.priority,
    releaseReason: null,
    reason: ticket.reason,
    metadata: ticket.metadata,
  }
  return withRareFacts(info, ticket)
}

/** When an expired lease ended, on the wall: its own expiry, or now if the wall clock was set back meanwhile. */
export function expiryWallMs(lease: Lease, now: Now): number {
  return Math.min(lease.expiresAtMs, now.wallMs)
}
