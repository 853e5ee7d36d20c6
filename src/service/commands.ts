/**
 * Requests into commands, and outcomes into answers. Nothing is checked here, because every request was read by its
 * description (`src/protocol`) where it entered the service. What was left out gets its default.
 */
import type {
  Acquire,
  AcquireAll,
  Adopt,
  Advance,
  ClaimAll,
  ClaimOffer,
  Derive,
  Downgrade,
  KeepAlive,
  Release,
  ReleaseAll,
  Renew,
  Revoke,
  Spend,
  TakeUp,
  Transfer,
  Trespass,
  Update,
  Upgrade,
  Wait,
  Withdraw,
  WithdrawUpgrade,
} from '../core/command.ts'
import { blockersOf, compareTickets } from '../core/conflict.ts'
import type { Authority } from '../core/delegation.ts'
import { invalid } from '../core/errors.ts'
import {
  describeEntry,
  isHeld,
  isWaiting,
  type Claim,
  type Entry,
  type LeaseId,
} from '../core/lease.ts'
import { CLAIM_WINDOW_MS_DEFAULT } from '../core/limits.ts'
import type { Granted, ReleaseOutcome } from '../core/outcome.ts'
import { isTree, type Extent, type Reach, type Resource } from '../core/resource.ts'
import { NO_SCOPE, UNLIMITED_SCOPE, type Scope } from '../core/scope.ts'
import type { Now } from '../core/time.ts'
import { sessionDigest } from './session-digest.ts'
import type {
  AcquireAllRequest,
  AcquireAnswer,
  AcquireRequest,
  AdoptRequest,
  AdvanceRequest,
  ClaimAllRequest,
  DeriveRequest,
  HolderRequest,
  Inspection,
  ReleaseAllRequest,
  ReleaseAnswer,
  ReleaseRequest,
  RenewRequest,
  RevokeRequest,
  SpendRequest,
  TicketRef,
  TransferRequest,
  TrespassRequest,
  UpdateRequest,
  UpgradeRequest,
  WithdrawRequest,
} from './lease-api.ts'

/** Where a lease is to be found. */
export interface Place {
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
}

export function acquireCommand(request: AcquireRequest): Acquire {
  const { ttlMs, maxRenewals, maxHoldMs, breakGraceMs, slots } = request
  const command: Acquire = {
    kind: 'acquire',
    leaseId: request.id,
    resource: request.resource,
    mode: request.mode ?? (slots === undefined ? 'exclusive' : 'shared'),
    extent: request.extent ?? 'exact',
    slots: slots ?? null,
    holder: request.holder,
    session: sessionDigest(request.session),
    ttlMs: ttlMs ?? null,
    isRenewed: request.isRenewed === true,
    maxRenewals: maxRenewals ?? null,
    maxHoldMs: maxHoldMs ?? null,
    priority: request.priority ?? 0,
    lockDelayMs: request.lockDelayMs ?? 0,
    breakable: request.breakable ?? false,
    breakGraceMs: breakGraceMs ?? null,
    reason: request.reason ?? null,
    metadata: request.metadata ?? null,
    wait: waitOf(request.waitMs),
    claimWindowMs: request.claimWindowMs ?? CLAIM_WINDOW_MS_DEFAULT,
  }
  const { under, sequential, behindOwn, tokenName } = request
  const authority = authorityOf(request)
  const isPlain =
    authority === null && under === undefined && sequential !== true && behindOwn !== true
  if (isPlain && tokenName === undefined) return command
  return {
    ...command,
    ...(authority === null ? {} : { authority }),
    ...(under === undefined ? {} : { under: withoutRepeats(under) }),
    ...(sequential === true ? { sequential } : {}),
    ...(behindOwn === true ? { behindOwn } : {}),
    ...(tokenName === undefined ? {} : { tokenName }),
  }
}

/** A request that names a scope or a budget has no more than that; one that names neither has everything. */
function authorityOf({ scope, budget }: AcquireRequest): Authority | null {
  if (scope === undefined && budget === undefined) return null
  return {
    scope: scope === undefined ? UNLIMITED_SCOPE : wholeScope(scope),
    limits: budget ?? {},
  }
}

/** A set that was left out allows nothing. */
function wholeScope(scope: Partial<Scope> | undefined): Scope {
  return { ...NO_SCOPE, ...scope }
}

/** All members are asked for alike. */
export function acquireAllCommand(request: AcquireAllRequest): AcquireAll {
  const { members, group, ...common } = request
  const commands = members.map((member) => acquireCommand({ ...common, ...member }))
  return { kind: 'acquire_all', group, members: commands }
}

export function claimAllCommand({ tickets }: ClaimAllRequest): ClaimAll {
  return { kind: 'claim_all', members: tickets.map(claimCommand) }
}

function waitOf(waitMs: AcquireRequest['waitMs']): Wait {
  if (waitMs === undefined || waitMs === 'configured') return { kind: 'configured' }
  return waitMs === 0 ? { kind: 'none' } : { kind: 'up_to', waitMs }
}

export function claimCommand(ticket: TicketRef): ClaimOffer {
  return { kind: 'claim', ...ticketPlace(ticket), ...claimHints(ticket) }
}

export function keepAliveCommand(ticket: TicketRef): KeepAlive {
  return { kind: 'keep_alive', ...ticketPlace(ticket), ...claimHints(ticket) }
}

function claimHints({ implied, behindOwn }: TicketRef): Pick<ClaimOffer, 'implied' | 'behindOwn'> {
  return {
    ...(implied === undefined ? {} : { implied: withoutRepeats(implied) }),
    ...(behindOwn === true ? { behindOwn } : {}),
  }
}

function withoutRepeats(leaseIds: readonly LeaseId[]): readonly LeaseId[] {
  return [...new Set(leaseIds)]
}

export function takeUpCommand(ticket: TicketRef): TakeUp {
  return { kind: 'take_up', ...ticketPlace(ticket) }
}

export function withdrawCommand(ticket: WithdrawRequest): Withdraw {
  return { kind: 'withdraw', ...ticketPlace(ticket), why: ticket.why }
}

/** From here on inwards a session is known by its digest alone. */
function ticketPlace(
  ticket: Omit<TicketRef, 'expects' | 'implied' | 'behindOwn'>,
): Place & { readonly holder: string; readonly session: string } {
  return {
    leaseId: ticket.id,
    resource: ticket.resource,
    extent: ticket.extent ?? 'exact',
    holder: ticket.holder,
    session: sessionDigest(ticket.session),
  }
}

export function renewCommand(request: RenewRequest, place: Place): Renew {
  // Not a spread of the place: V8 takes ten times as long for it, and this is done for every renewal.
  return {
    kind: 'renew',
    leaseId: place.leaseId,
    resource: place.resource,
    extent: place.extent,
    holder: request.holder,
    ttlMs: request.ttlMs ?? null,
    requestId: request.requestId ?? null,
  }
}

export function releaseCommand(
  request: Pick<ReleaseRequest, 'holder' | 'session' | 'releaseReason' | 'requestId' | 'note'>,
  place: Place,
): Release {
  return {
    kind: 'release',
    leaseId: place.leaseId,
    resource: place.resource,
    extent: place.extent,
    holder: request.holder,
    releaseReason: request.releaseReason ?? 'voluntary',
    requestId: request.requestId ?? null,
    ...(request.session === undefined ? {} : { session: sessionDigest(request.session) }),
    ...(request.note === undefined ? {} : { note: request.note }),
  }
}

export function releaseAllCommand(request: ReleaseAllRequest): ReleaseAll {
  const { members, ...common } = request
  const commands = members.map(({ id: leaseId, resource, extent = 'exact', requestId, note }) => {
    const last = note === undefined ? {} : { note }
    return releaseCommand({ ...common, ...last, requestId }, { leaseId, resource, extent })
  })
  return { kind: 'release_all', members: commands }
}

export function revokeCommand(request: RevokeRequest, place: Place): Revoke {
  return {
    kind: 'revoke',
    ...place,
    by: request.by,
    reason: request.reason ?? null,
    graceMs: request.graceMs ?? 0,
    requestId: request.requestId ?? null,
  }
}

export function upgradeCommand(request: UpgradeRequest, place: Place): Upgrade {
  const { holder, mayWait, under, implied = false, sequential } = request
  return {
    kind: 'upgrade',
    ...place,
    holder,
    mayWait,
    ...(under === undefined ? {} : { under: { leaseIds: withoutRepeats(under), implied } }),
    ...(sequential === true ? { sequential } : {}),
  }
}

export function withdrawUpgradeCommand({ holder }: HolderRequest, place: Place): WithdrawUpgrade {
  return { kind: 'withdraw_upgrade', ...place, holder }
}

export function downgradeCommand(request: HolderRequest, place: Place): Downgrade {
  const { holder, requestId = null } = request
  return { kind: 'downgrade', ...place, holder, requestId }
}

export function updateCommand(request: UpdateRequest, place: Place): Update {
  const { holder, reason = null, metadata = null, requestId = null } = request
  return { kind: 'update', ...place, holder, note: { reason, metadata }, requestId }
}

export function trespassCommand(request: TrespassRequest, place: Place): Trespass {
  const { by, target, reason = null, requestId = null } = request
  return { kind: 'trespass', ...place, by, target, reason, requestId }
}

export function transferCommand(request: TransferRequest, place: Place): Transfer {
  const { holder, to, newId: newLeaseId, requestId = null } = request
  return {
    kind: 'transfer',
    ...place,
    holder,
    to,
    ...(to === null ? {} : { toSession: sessionDigest(to) }),
    newLeaseId,
    requestId,
  }
}

export function advanceCommand(request: AdvanceRequest, place: Place): Advance {
  const { holder, from, count = 1, reason = null, requestId = null } = request
  return { kind: 'advance', ...place, holder, from, count, reason, requestId }
}

export function adoptCommand({ holder, session }: AdoptRequest, place: Place): Adopt {
  return { kind: 'adopt', ...place, holder, session: sessionDigest(session) }
}

/** Without a resource a child has its parent's, shared; with one of its own it has that alone. */
export function deriveCommand(request: DeriveRequest, parent: Place): Derive {
  const { resource = parent.resource, audience, tokenName } = request
  const isOwn = request.resource !== undefined
  const extent = request.extent ?? (isOwn ? 'exact' : parent.extent)
  if (extent === 'subtree' && !isTree(resource)) {
    throw invalid('extent', 'must be exact for a kind that is not a tree', extent)
  }
  return {
    kind: 'derive',
    leaseId: request.id,
    parentId: parent.leaseId,
    resource,
    extent,
    mode: request.mode ?? (isOwn ? 'exclusive' : 'shared'),
    holder: request.holder,
    session: sessionDigest(request.session),
    by: request.by,
    ttlMs: request.ttlMs ?? null,
    scope: wholeScope(request.scope),
    budget: request.budget ?? {},
    ...(audience === undefined ? {} : { audience }),
    ...(tokenName === undefined ? {} : { tokenName }),
    reason: request.reason ?? null,
  }
}

export function spendCommand(request: SpendRequest, place: Place): Spend {
  const { holder, amounts, requestId = null } = request
  return { kind: 'spend', ...place, holder, amounts, requestId }
}

/** A claim that is never made: what blocks it is what would block a new request. */
function probeClaim(resource: Resource): Claim {
  return {
    id: '',
    resource,
    mode: 'exclusive',
    extent: 'exact',
    holder: '',
    session: '',
    ttlMs: 1,
    maxRenewals: -1,
    maxHoldMs: null,
    slots: null,
    lockDelayMs: 0,
    breakable: false,
    reason: null,
    metadata: null,
    createdAtMs: 0,
    recorded: false,
  }
}

export function grantedAnswer(granted: Granted, now: Now): AcquireAnswer {
  const { kind, lease, repeated } = granted
  return { kind, lease: describeEntry(lease, now), repeated }
}

export function releaseAnswer(outcome: ReleaseOutcome, now: Now): ReleaseAnswer {
  if (outcome.kind !== 'released') return outcome
  return { kind: 'released', lease: describeEntry(outcome.lease, now) }
}

export function inspectionOf(
  { resource, extent }: Reach,
  entries: readonly Entry[],
  now: Now,
): Omit<Inspection, 'cycles'> {
  const leases = entries.filter((entry) => isHeld(entry, now)).sort((a, b) => a.fence - b.fence)
  const queue = entries.filter((entry) => isWaiting(entry, now)).sort(compareTickets)
  const probe = { ...probeClaim(resource), extent }
  return {
    resource,
    leases: leases.map((lease) => describeEntry(lease, now)),
    queue: queue.map((ticket) => describeEntry(ticket, now)),
    blockers: blockersOf(probe, [...leases, ...queue, ...lockDelays(entries)], now),
  }
}

function lockDelays(entries: readonly Entry[]): readonly Entry[] {
  return entries.filter((entry) => entry.kind === 'lease' && entry.lockedUntil !== null)
}
