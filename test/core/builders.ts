/**
 * Builders for core tests. Time is counted from zero: `nowAt(1_000)` is one second in, on the tick and on the wall.
 */
import type {
  Acquire,
  AcquireAll,
  Adopt,
  ClaimAll,
  ClaimOffer,
  Downgrade,
  RefuseDeadlock,
  Release,
  Renew,
  Revoke,
  Settle,
  Transfer,
  Trespass,
  Upgrade,
  Withdraw,
  WithdrawUpgrade,
} from '../../src/core/command.ts'
import type { LeaseEventType } from '../../src/core/event.ts'
import type { Entry, Lease, Ticket } from '../../src/core/lease.ts'
import type { Decision, RealmView } from '../../src/core/realm.ts'
import { parseResource, type Resource } from '../../src/core/resource.ts'
import { DEFAULT_SETTINGS } from '../../src/core/settings.ts'
import type { Now, Tick } from '../../src/core/time.ts'

export const DOMAIN = 'host-a/boot-1/0#1'
export const WALL_MS = 1_700_000_000_000
export const TTL_MS = 10_000
export const WINDOW_MS = 5_000
export const WORK: Resource = parseResource('work:W-1')

export interface Moment {
  readonly domain?: string
  /** Added to the wall, to set it forward or back. */
  readonly wallShiftMs?: number
  readonly domainSinceMs?: number
  /** Ticks more than the milliseconds say. */
  readonly us?: number
  readonly toleranceUs?: number
}

export function nowAt(ms: number, moment: Moment = {}): Now {
  return {
    tick: tickAt(ms, moment),
    wallMs: WALL_MS + ms + (moment.wallShiftMs ?? 0),
    domainSinceUs: (moment.domainSinceMs ?? 0) * 1000,
    toleranceUs: moment.toleranceUs ?? 0,
  }
}

export function tickAt(ms: number, { domain = DOMAIN, us = 0 }: Moment = {}): Tick {
  return { domain, us: ms * 1000 + us }
}

/** A readable id: `id(7)` ends in 7. */
export function id(number: number): string {
  return `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`
}

export function file(path: string): Resource {
  return parseResource(`file:${path}`)
}

/** A lease of `ada`, granted at zero. */
export function lease(change: Partial<Lease> = {}): Lease {
  return {
    kind: 'lease',
    epoch: 0,
    id: id(1),
    resource: WORK,
    mode: 'exclusive',
    extent: 'exact',
    holder: 'ada',
    session: `session-of-${change.holder ?? 'ada'}`,
    ttlMs: TTL_MS,
    maxRenewals: -1,
    maxHoldMs: null,
    slots: null,
    lockDelayMs: 0,
    breakable: false,
    reason: null,
    metadata: null,
    createdAtMs: WALL_MS,
    recorded: true,
    state: 'active',
    fence: 1000,
    grantedAtMs: WALL_MS,
    renewedAtMs: null,
    expiresAtMs: WALL_MS + TTL_MS,
    terminatedAtMs: null,
    deadline: tickAt(TTL_MS),
    holdUntilUs: null,
    renewals: 0,
    releaseReason: null,
    lockedUntil: null,
    revoking: null,
    upgrading: false,
    adopted: true,
    ...change,
  }
}

/** A ticket of `bob`, filed at zero. */
export function ticket(change: Partial<Ticket> = {}): Ticket {
  return {
    kind: 'ticket',
    id: id(2),
    resource: WORK,
    mode: 'exclusive',
    extent: 'exact',
    holder: 'bob',
    session: `session-of-${change.holder ?? 'bob'}`,
    ttlMs: TTL_MS,
    maxRenewals: -1,
    maxHoldMs: null,
    slots: null,
    lockDelayMs: 0,
    breakable: false,
    reason: null,
    metadata: null,
    createdAtMs: WALL_MS,
    recorded: true,
    state: 'pending',
    group: null,
    priority: 0,
    orderUs: 0,
    deadline: tickAt(WINDOW_MS),
    claimWindowMs: WINDOW_MS,
    offer: null,
    failure: null,
    cycle: null,
    ...change,
  }
}

export function view(entries: readonly Entry[] = [], change: Partial<RealmView> = {}): RealmView {
  const fences = entries.map((entry) => {
    return entry.kind === 'lease' ? entry.fence : (entry.offer?.fence ?? 0)
  })
  return {
    entries: new Map(entries.map((entry) => [entry.id, entry])),
    lastFence: Math.max(0, ...fences),
    epoch: 0,
    ticketCount: entries.filter((entry) => entry.state === 'pending').length,
    prior: null,
    settings: DEFAULT_SETTINGS,
    ...change,
  }
}

/** A request of `cyd`, who does not wait. */
export function acquire(change: Partial<Acquire> = {}): Acquire {
  return {
    kind: 'acquire',
    leaseId: id(3),
    resource: WORK,
    mode: 'exclusive',
    extent: 'exact',
    holder: 'cyd',
    session: `session-of-${change.holder ?? 'cyd'}`,
    ttlMs: TTL_MS,
    maxRenewals: null,
    maxHoldMs: null,
    slots: null,
    priority: 0,
    lockDelayMs: 0,
    breakable: false,
    breakGraceMs: null,
    reason: null,
    metadata: null,
    wait: { kind: 'none' },
    claimWindowMs: WINDOW_MS,
    ...change,
  }
}

export const WAITING = { wait: { kind: 'up_to', waitMs: 60_000 } } as const

export function claim(change: Partial<ClaimOffer> = {}): ClaimOffer {
  return { kind: 'claim', leaseId: id(2), resource: WORK, extent: 'exact', ...asker(change) }
}

/** Whoever has a session that is named after it, unless another is named. */
function asker<Change extends { readonly holder?: string; readonly session?: string }>(
  change: Change,
): Change & { readonly holder: string; readonly session: string } {
  const { session = 'session-of-bob' } = change
  return { holder: session.replace('session-of-', ''), session, ...change }
}

export function withdraw(change: Partial<Withdraw> = {}): Withdraw {
  return {
    kind: 'withdraw',
    leaseId: id(2),
    resource: WORK,
    extent: 'exact',
    why: 'timed_out',
    ...asker(change),
  }
}

export function renew(change: Partial<Renew> = {}): Renew {
  return {
    kind: 'renew',
    leaseId: id(1),
    resource: WORK,
    extent: 'exact',
    holder: 'ada',
    ttlMs: null,
    requestId: null,
    ...change,
  }
}

export function release(change: Partial<Release> = {}): Release {
  return {
    kind: 'release',
    leaseId: id(1),
    resource: WORK,
    extent: 'exact',
    holder: 'ada',
    session: 'session-of-ada',
    releaseReason: 'voluntary',
    requestId: null,
    ...change,
  }
}

export function revoke(change: Partial<Revoke> = {}): Revoke {
  return {
    kind: 'revoke',
    leaseId: id(1),
    resource: WORK,
    extent: 'exact',
    by: 'operator',
    reason: null,
    graceMs: 0,
    requestId: null,
    ...change,
  }
}

export function settle(change: Partial<Settle> = {}): Settle {
  return { kind: 'settle', leaseId: id(1), resource: WORK, extent: 'exact', ...change }
}

const ADAS = { leaseId: id(1), resource: WORK, extent: 'exact', holder: 'ada' } as const

export function upgrade(change: Partial<Upgrade> = {}): Upgrade {
  return { kind: 'upgrade', ...ADAS, mayWait: true, ...change }
}

export function withdrawUpgrade(change: Partial<WithdrawUpgrade> = {}): WithdrawUpgrade {
  return { kind: 'withdraw_upgrade', ...ADAS, ...change }
}

export function downgrade(change: Partial<Downgrade> = {}): Downgrade {
  return { kind: 'downgrade', ...ADAS, requestId: null, ...change }
}

/** Mallory writes to what Ada holds. */
export function trespass(change: Partial<Trespass> = {}): Trespass {
  const { leaseId, resource, extent } = ADAS
  const write = { by: 'mallory', target: resource, reason: null, requestId: null }
  return { kind: 'trespass', leaseId, resource, extent, ...write, ...change }
}

/** Ada gives her lease to `eve`, who gets the id 6. */
export function transfer(change: Partial<Transfer> = {}): Transfer {
  return { kind: 'transfer', ...ADAS, to: 'eve', newLeaseId: id(6), requestId: null, ...change }
}

export function adopt(change: Partial<Adopt> = {}): Adopt {
  const eves = { leaseId: id(6), holder: 'eve', session: 'session-of-eve' }
  return { kind: 'adopt', ...ADAS, ...eves, ...change }
}

export function refuseDeadlock(change: Partial<RefuseDeadlock> = {}): RefuseDeadlock {
  const cycle = [
    { holder: 'bob', session: 'session-of-bob', resource: 'work:W-1' },
    { holder: 'ada', session: 'session-of-ada', resource: 'work:W-2' },
  ]
  const place = { leaseId: id(2), resource: WORK, extent: 'exact' } as const
  return { kind: 'refuse_deadlock', ...place, orderUs: 0, cycle, ...change }
}

export const GROUP = id(900)

export function acquireAll(members: readonly Partial<Acquire>[], group = GROUP): AcquireAll {
  return { kind: 'acquire_all', group, members: members.map((member) => acquire(member)) }
}

export function claimAll(members: readonly Partial<ClaimOffer>[]): ClaimAll {
  return { kind: 'claim_all', members: members.map((member) => claim(member)) }
}

/** The events of a decision as `type of id`, in order. */
/** What a decision wrote down, and then what it refused. */
export function told({ events, refusals }: Decision<unknown>): readonly string[] {
  return [...events, ...refusals].map(
    (event) => `${event.type} ${Number(event.leaseId.slice(-12))}`,
  )
}

export function typesOf(decision: Decision<unknown>): readonly LeaseEventType[] {
  return decision.events.map((event) => event.type)
}
