/**
 * Requests into commands: everything that a caller passed is read and checked here, once for all faces.
 */
import { parseBudget } from '../core/budget.ts'
import type {
  Acquire,
  AcquireAll,
  Adopt,
  Advance,
  ClaimAll,
  ClaimOffer,
  Downgrade,
  KeepAlive,
  Release,
  ReleaseAll,
  Renew,
  Revoke,
  TakeUp,
  Transfer,
  Update,
  Upgrade,
  Wait,
  Withdraw,
  WithdrawUpgrade,
} from '../core/command.ts'
import type { Authority } from '../core/delegation.ts'
import { invalid } from '../core/errors.ts'
import {
  parseExtent,
  parseGraceMs,
  parseHolder,
  parseLeaseId,
  parseLockDelayMs,
  parseMaxHoldMs,
  parseMaxRenewals,
  parseMode,
  parseNote,
  parsePriority,
  parseReleaseReason,
  parseSession,
  parseSlots,
  parseSpanMs,
  parseTtlMs,
  parseWaitMs,
  type Note,
} from '../core/input.ts'
import type { Claim, LeaseId } from '../core/lease.ts'
import {
  ALL_MEMBERS_MAX,
  CLAIM_WINDOW_MS_DEFAULT,
  CLAIM_WINDOW_MS_MAX,
  CLAIM_WINDOW_MS_MIN,
  EPOCHS_PER_ADVANCE_MAX,
  UNDER_MAX,
} from '../core/limits.ts'
import { isTree, overlap, type Extent, type Resource } from '../core/resource.ts'
import { parseScope, UNLIMITED_SCOPE } from '../core/scope.ts'
import { sessionDigest } from '../runtime/session-digest.ts'
import type {
  AcquireAllRequest,
  AcquireRequest,
  AdoptRequest,
  AdvanceRequest,
  HolderRequest,
  ReleaseAllRequest,
  ReleaseRequest,
  RenewRequest,
  RevokeRequest,
  TicketRef,
  TransferRequest,
  UpdateRequest,
  UpgradeRequest,
} from './lease-api.ts'

/** Where a lease is to be found. */
export interface Place {
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
}

export function acquireCommand(request: AcquireRequest): Acquire {
  const { ttlMs, maxRenewals, maxHoldMs, breakGraceMs } = request
  const { mode, extent, slots } = sharing(request)
  const { reason, metadata } = parseNote(request.reason, request.metadata)
  const command: Acquire = {
    kind: 'acquire',
    leaseId: parseLeaseId(request.leaseId),
    resource: requireResource(request.resource),
    mode,
    extent,
    slots,
    holder: parseHolder(request.holder),
    session: readSession(request.session),
    ttlMs: ttlMs === undefined ? null : parseTtlMs(ttlMs),
    isRenewed: request.isRenewed === true,
    maxRenewals: maxRenewals === undefined ? null : parseMaxRenewals(maxRenewals),
    maxHoldMs: maxHoldMs === undefined ? null : parseMaxHoldMs(maxHoldMs),
    priority: parsePriority(request.priority ?? 0),
    lockDelayMs: parseLockDelayMs(request.lockDelayMs ?? 0),
    breakable: request.breakable ?? false,
    breakGraceMs: breakGraceMs === undefined ? null : parseGraceMs(breakGraceMs, 'breakGraceMs'),
    reason,
    metadata,
    wait: waitOf(request.waitMs),
    claimWindowMs: parseClaimWindow(request.claimWindowMs),
  }
  const { under, sequential } = request
  const authority = authorityOf(request)
  if (authority === null && under === undefined && sequential !== true) return command
  return {
    ...command,
    ...(authority === null ? {} : { authority }),
    ...(under === undefined ? {} : { under: parseLeaseIds('under', under) }),
    ...(sequential === true ? { sequential } : {}),
  }
}

/** Whoever names a scope or a budget has no more than that; whoever names neither has everything. */
function authorityOf({ scope, budget }: AcquireRequest): Authority | null {
  if (scope === undefined && budget === undefined) return null
  const limits = parseBudget('budget', budget)
  return { scope: scope === undefined ? UNLIMITED_SCOPE : parseScope(scope), limits }
}

/** All members are asked for alike; no two of them may overlap, or the request would stand in its own way. */
export function acquireAllCommand(request: AcquireAllRequest): AcquireAll {
  const { members, group, ...common } = request
  if (!Array.isArray(members) || members.length === 0 || members.length > ALL_MEMBERS_MAX) {
    throw invalid('resources', `must be 1..${ALL_MEMBERS_MAX}`, members?.length ?? members)
  }
  const commands = members.map((member) => acquireCommand({ ...common, ...member }))
  for (const [index, member] of commands.entries()) {
    const other = commands.slice(0, index).find((earlier) => overlap(earlier, member))
    if (other !== undefined) {
      throw invalid('resources', `must not overlap ${other.resource}`, member.resource)
    }
  }
  return { kind: 'acquire_all', group: parseLeaseId(group, 'group'), members: commands }
}

/** Callers pass what `parseResource` gave them; whatever else comes here is refused, and not looked for. */
export function requireResource(resource: unknown): Resource {
  if (typeof resource === 'string' && resource.includes(':')) return resource as Resource
  throw invalid('resource', 'must be a resource, such as work:W-17', resource)
}

export function claimAllCommand(tickets: readonly TicketRef[]): ClaimAll {
  if (!Array.isArray(tickets) || tickets.length === 0 || tickets.length > ALL_MEMBERS_MAX) {
    throw invalid('tickets', `must be 1..${ALL_MEMBERS_MAX}`, tickets?.length ?? tickets)
  }
  return { kind: 'claim_all', members: tickets.map(claimCommand) }
}

/** A counted resource is always shared; only trees have subtrees. */
function sharing(request: AcquireRequest): Pick<Acquire, 'mode' | 'extent' | 'slots'> {
  const slots = request.slots === undefined ? null : parseSlots(request.slots)
  const mode = parseMode(request.mode ?? (slots === null ? 'exclusive' : 'shared'))
  const extent = parseExtent(request.extent ?? 'exact')
  if (slots !== null && mode === 'exclusive') {
    throw invalid('slots', 'must not be given for an exclusive lease', slots)
  }
  if (extent === 'subtree' && !isTree(request.resource)) {
    throw invalid('extent', 'must be exact for a kind that is not a tree', extent)
  }
  return { mode, extent, slots }
}

function waitOf(waitMs: number | 'configured'): Wait {
  if (waitMs === 'configured') return { kind: 'configured' }
  const parsed = parseWaitMs(waitMs)
  return parsed === 0 ? { kind: 'none' } : { kind: 'up_to', waitMs: parsed }
}

function parseClaimWindow(value: number | undefined): number {
  if (value === undefined) return CLAIM_WINDOW_MS_DEFAULT
  const limit = { field: 'claimWindowMs', min: CLAIM_WINDOW_MS_MIN, max: CLAIM_WINDOW_MS_MAX }
  return parseSpanMs(limit, value)
}

export function claimCommand(ticket: TicketRef): ClaimOffer {
  return { kind: 'claim', ...ticketPlace(ticket), ...impliedOf(ticket) }
}

export function keepAliveCommand(ticket: TicketRef): KeepAlive {
  return { kind: 'keep_alive', ...ticketPlace(ticket), ...impliedOf(ticket) }
}

function impliedOf({ implied }: TicketRef): Pick<ClaimOffer, 'implied'> {
  return implied === undefined ? {} : { implied: parseLeaseIds('implied', implied) }
}

/** Leases that a request waits under. */
function parseLeaseIds(field: string, value: unknown): readonly LeaseId[] {
  if (!Array.isArray(value) || value.length > UNDER_MAX) {
    const got = Array.isArray(value) ? value.length : value
    throw invalid(field, `must be at most ${UNDER_MAX} lease ids`, got)
  }
  return [...new Set(value.map((leaseId) => parseLeaseId(leaseId, field)))]
}

/** From here on inwards a session is known by its digest alone. */
export function readSession(session: unknown): string {
  return sessionDigest(parseSession(session))
}

export function takeUpCommand(ticket: TicketRef): TakeUp {
  return { kind: 'take_up', ...ticketPlace(ticket) }
}

export function withdrawCommand(
  ticket: TicketRef & { readonly why: 'timed_out' | 'aborted' },
): Withdraw {
  return { kind: 'withdraw', ...ticketPlace(ticket), why: ticket.why }
}

function ticketPlace(
  ticket: TicketRef,
): Place & { readonly holder: string; readonly session: string } {
  return {
    leaseId: parseLeaseId(ticket.leaseId),
    resource: requireResource(ticket.resource),
    extent: ticket.extent ?? 'exact',
    holder: parseHolder(ticket.holder),
    session: readSession(ticket.session),
  }
}

export function renewCommand(request: RenewRequest, place: Place): Renew {
  // Not a spread of the place: V8 takes ten times as long for it, and this is done for every renewal.
  return {
    kind: 'renew',
    leaseId: place.leaseId,
    resource: place.resource,
    extent: place.extent,
    holder: parseHolder(request.holder),
    ttlMs: request.ttlMs === undefined ? null : parseTtlMs(request.ttlMs),
    requestId: parseRequestId(request.requestId),
  }
}

export function releaseCommand(request: ReleaseRequest, place: Place): Release {
  return {
    kind: 'release',
    leaseId: place.leaseId,
    resource: place.resource,
    extent: place.extent,
    holder: parseHolder(request.holder),
    releaseReason: parseReleaseReason(request.releaseReason ?? 'voluntary'),
    requestId: parseRequestId(request.requestId),
    ...(request.session === undefined ? {} : { session: readSession(request.session) }),
    ...(request.note === undefined ? {} : { note: readNote(request.note) }),
  }
}

function readNote({ reason, metadata }: Note): Note {
  return parseNote(reason, metadata)
}

export function releaseAllCommand(request: ReleaseAllRequest): ReleaseAll {
  const { members, ...common } = request
  if (!Array.isArray(members) || members.length === 0 || members.length > ALL_MEMBERS_MAX) {
    throw invalid('leases', `must be 1..${ALL_MEMBERS_MAX}`, members?.length ?? members)
  }
  const commands = members.map(({ leaseId, resource, extent = 'exact', requestId, note }) => {
    const own = { leaseId: parseLeaseId(leaseId), resource, extent }
    const last = note === undefined ? {} : { note }
    return releaseCommand({ ...common, ...own, ...last, requestId }, own)
  })
  return { kind: 'release_all', members: commands }
}

export function revokeCommand(request: RevokeRequest, place: Place): Revoke {
  return {
    kind: 'revoke',
    ...place,
    by: parseHolder(request.by),
    reason: parseNote(request.reason, undefined).reason,
    graceMs: parseGraceMs(request.graceMs ?? 0),
    requestId: parseRequestId(request.requestId),
  }
}

export function upgradeCommand(request: UpgradeRequest, place: Place): Upgrade {
  const { mayWait, under, implied = false, sequential } = request
  return {
    kind: 'upgrade',
    ...place,
    holder: parseHolder(request.holder),
    mayWait,
    ...(under === undefined ? {} : { under: { leaseIds: parseLeaseIds('under', under), implied } }),
    ...(sequential === true ? { sequential } : {}),
  }
}

export function withdrawUpgradeCommand(request: HolderRequest, place: Place): WithdrawUpgrade {
  return { kind: 'withdraw_upgrade', ...place, holder: parseHolder(request.holder) }
}

export function downgradeCommand(request: HolderRequest, place: Place): Downgrade {
  const holder = parseHolder(request.holder)
  return { kind: 'downgrade', ...place, holder, requestId: parseRequestId(request.requestId) }
}

export function updateCommand(request: UpdateRequest, place: Place): Update {
  const holder = parseHolder(request.holder)
  const note = parseNote(request.reason, request.metadata)
  return { kind: 'update', ...place, holder, note, requestId: parseRequestId(request.requestId) }
}

export function transferCommand(request: TransferRequest, place: Place): Transfer {
  const holder = parseHolder(request.holder)
  const to = request.to === null ? null : parseHolder(request.to, 'to')
  if (to === holder) throw invalid('to', 'must be another than the holder', to)
  return {
    kind: 'transfer',
    ...place,
    holder,
    to,
    ...(to === null ? {} : { toSession: sessionDigest(to) }),
    newLeaseId: parseLeaseId(request.newLeaseId, 'newLeaseId'),
    requestId: parseRequestId(request.requestId),
  }
}

export function advanceCommand(request: AdvanceRequest, place: Place): Advance {
  const { count = 1, reason } = request
  const counted = parseSpanMs({ field: 'count', min: 1, max: EPOCHS_PER_ADVANCE_MAX }, count)
  const max = Number.MAX_SAFE_INTEGER - counted
  return {
    kind: 'advance',
    ...place,
    holder: parseHolder(request.holder),
    from: parseSpanMs({ field: 'from', min: 0, max }, request.from),
    count: counted,
    reason: parseNote(reason, undefined).reason,
    requestId: parseRequestId(request.requestId),
  }
}

export function adoptCommand(request: AdoptRequest, place: Place): Adopt {
  const holder = parseHolder(request.holder)
  return { kind: 'adopt', ...place, holder, session: readSession(request.session) }
}

function parseRequestId(value: string | undefined): string | null {
  return value === undefined ? null : parseLeaseId(value, 'requestId')
}

/** A claim that nobody makes: what blocks it is what would block a newcomer. */
export function probeClaim(resource: Resource): Claim {
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
