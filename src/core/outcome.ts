/**
 * What a command can come to. Being refused is a value; `refusalError` turns it into a `LeaseError` at the surface.
 */
import type { Shortage } from './budget.ts'
import type { Blocker } from './conflict.ts'
import { LeaseError, show, showData } from './errors.ts'
import {
  cycleText,
  holderMetadata,
  type CycleStep,
  type EntryState,
  type Lease,
  type LeaseId,
} from './lease.ts'
import type { Resource } from './resource.ts'

export interface Granted {
  readonly kind: 'granted'
  readonly lease: Lease
  /** True when the request was heard before and this is its first effect again. */
  readonly repeated: boolean
}

export interface Queued {
  readonly kind: 'queued'
  readonly leaseId: LeaseId
  /** 0 is the head of the queue. */
  readonly position: number
  /** By what it is served: the waiter with less goes first. */
  readonly orderUs: number
  readonly blockers: readonly Blocker[]
  /** How long this request is ready to wait, once the configuration has had its say. */
  readonly waitMs: number
  readonly waitedMs: number
  /** How often the waiter must be heard of, or its ticket is dropped. */
  readonly keepAliveMs: number
  /** When to claim again, if no wake-up comes before; further back in the queue that is later. */
  readonly checkAfterMs: number
}

/** The ticket stands as it stood, and lives for another window. */
export interface Waiting {
  readonly kind: 'waiting'
  readonly leaseId: LeaseId
  readonly waitedMs: number
  readonly keepAliveMs: number
}

/** The ticket neither waits nor was dropped: it has an offer, has ended otherwise, or is one of several. */
export interface ClaimNeeded {
  readonly kind: 'claim_needed'
  readonly leaseId: LeaseId
}

/** All of several resources, in the order in which they were asked for. */
export interface GrantedAll {
  readonly kind: 'granted_all'
  readonly leases: readonly Lease[]
  readonly repeated: boolean
}

export interface QueuedAll {
  readonly kind: 'queued_all'
  readonly leaseIds: readonly LeaseId[]
  readonly blockers: readonly Blocker[]
  readonly waitMs: number
  readonly waitedMs: number
  readonly keepAliveMs: number
  readonly checkAfterMs: number
}

/** The ticket is gone: its waiter was not heard of in time. Asking again starts at the end of the queue. */
export interface Dropped {
  readonly kind: 'dropped'
  readonly leaseId: LeaseId
}

/** There is no offer that could be taken up without a look at anything else. */
export interface NoOffer {
  readonly kind: 'no_offer'
  readonly leaseId: LeaseId
}

export interface Renewed {
  readonly kind: 'renewed'
  readonly lease: Lease
}

export interface Released {
  readonly kind: 'released'
  readonly lease: Lease
  /** What became the lease of the waiter that stood by, if it was that one's turn. */
  readonly claimed?: Lease
}

/** What became of each of several, in the order in which they were named. */
export interface ReleasedAll {
  readonly kind: 'released_all'
  readonly outcomes: readonly ReleaseOutcome[]
}

export interface Revoked {
  readonly kind: 'revoked'
  readonly leaseId: LeaseId
}

export interface Upgraded {
  readonly kind: 'upgraded'
  readonly lease: Lease
  /** False when the lease was exclusive already. */
  readonly changed: boolean
}

/** The upgrade request is recorded: no new sharer comes in, and the upgrade is done when the last of the others has left. */
export interface Upgrading {
  readonly kind: 'upgrading'
  readonly leaseId: LeaseId
  readonly blockers: readonly Blocker[]
  readonly checkAfterMs: number
}

export interface UpgradeWithdrawn {
  readonly kind: 'upgrade_withdrawn'
  readonly leaseId: LeaseId
}

export interface Downgraded {
  readonly kind: 'downgraded'
  readonly lease: Lease
  readonly changed: boolean
}

export interface Updated {
  readonly kind: 'updated'
  readonly lease: Lease
}

export interface Transferred {
  readonly kind: 'transferred'
  /** What the named receiver got; null when it went to the queue. */
  readonly lease: Lease | null
}

/** The epochs from `from` up to and without `to` are the holder's to use, and no other's ever. */
export interface Advanced {
  readonly kind: 'advanced'
  readonly lease: Lease
  readonly from: number
  readonly to: number
}

export interface Withdrawn {
  readonly kind: 'withdrawn'
  /** True when the lease had been granted already and was released. */
  readonly released: boolean
}

export interface Settled {
  readonly kind: 'settled'
  readonly expired: number
}

export interface Held {
  readonly kind: 'held'
  readonly resource: string
  readonly blockers: readonly Blocker[]
  readonly retryAfterMs: number
  /** Why the request did not wait although it might have asked to. */
  readonly notWaiting: 'not_asked' | 'own' | 'own_transfer' | 'waiting_disabled'
  /** Of `own_transfer`: in what the lease that waits for the requester is not what it asked for. */
  readonly difference?: string
}

/** Of a revoked lease: by whom, why and when. Its holder may hear of it from nothing but the refusal. */
export interface RevocationFacts {
  readonly revokedBy?: string
  readonly revokedFor?: string | null
  readonly revokedAtMs?: number | null
}

export type Refusal =
  | Held
  | { readonly kind: 'not_found'; readonly leaseId: LeaseId }
  | { readonly kind: 'not_holder'; readonly leaseId: LeaseId; readonly holder: string }
  | ({
      readonly kind: 'terminal'
      readonly leaseId: LeaseId
      readonly state: EntryState
      /** Of a lease that was given to another: its holder must hear that it was not merely released. */
      readonly releaseReason?: 'transferred'
    } & RevocationFacts)
  | { readonly kind: 'expired'; readonly leaseId: LeaseId; readonly terminatedAtMs: number }
  | { readonly kind: 'id_taken'; readonly leaseId: LeaseId; readonly resource: string }
  | { readonly kind: 'request_reused'; readonly leaseId: LeaseId }
  | {
      readonly kind: 'renewal_limit'
      readonly leaseId: LeaseId
      readonly limit: string
      /** Of a derived lease that ends when its parent does: it can be renewed once the parent was. */
      readonly parentId?: LeaseId
    }
  | { readonly kind: 'does_not_extend'; readonly leaseId: LeaseId; readonly expiresAtMs: number }
  | {
      readonly kind: 'deadlock'
      readonly leaseId: LeaseId
      readonly cycle: readonly CycleStep[]
    }
  | {
      readonly kind: 'stale_epoch'
      readonly leaseId: LeaseId
      readonly from: number
      readonly epoch: number
    }
  | { readonly kind: 'no_epoch'; readonly leaseId: LeaseId; readonly why: string }
  | { readonly kind: 'nobody_waiting'; readonly leaseId: LeaseId }
  | { readonly kind: 'already_adopted'; readonly leaseId: LeaseId }
  | { readonly kind: 'queue_full'; readonly resource: string; readonly limit: number }
  | { readonly kind: 'malformed_setting'; readonly problem: string }
  | {
      readonly kind: 'invalid_derivation'
      readonly leaseId: LeaseId
      readonly problem: string
      readonly shortage?: Shortage
    }
  | ({ readonly kind: 'budget_exhausted'; readonly leaseId: LeaseId } & Shortage)
  | NeedsMoreReads

export interface Spent {
  readonly kind: 'spent'
  readonly lease: Lease
}

/** Nothing was decided: the answer depends on these entries too, and they were not read. */
export interface NeedsMoreReads {
  readonly kind: 'look_further'
  readonly unseen: readonly MissingRead[]
}

/** An entry, and a resource of the realm that it is in. */
export interface MissingRead {
  readonly leaseId: LeaseId
  readonly resource: Resource
}

export type SpendOutcome = Spent | Refusal
export type AcquireOutcome = Granted | Queued | Refusal
export type AcquireAllOutcome = GrantedAll | QueuedAll | Dropped | Refusal
export type ClaimOutcome = Granted | Queued | Dropped | Refusal
export type KeepAliveOutcome = Waiting | Dropped | ClaimNeeded | NeedsMoreReads
export type TakeUpOutcome = Granted | NoOffer | NeedsMoreReads
export type RenewOutcome = Renewed | Refusal
export type ReleaseOutcome = Released | Refusal
export type ReleaseAllOutcome = ReleasedAll | NeedsMoreReads
export type SettleOutcome = Settled | NeedsMoreReads
export type RevokeOutcome = Revoked | Refusal
export type UpgradeOutcome = Upgraded | Upgrading | UpgradeWithdrawn | Refusal
export type DowngradeOutcome = Downgraded | Refusal
/** The write was written down; the lease is as it was. */
export interface Trespassed {
  readonly kind: 'trespassed'
  readonly lease: Lease
}

export type TrespassOutcome = Trespassed | Refusal
export type UpdateOutcome = Updated | Refusal
export type TransferOutcome = Transferred | Refusal
export type AdvanceOutcome = Advanced | Refusal

/** How a lease that is no longer held is spoken of: expired ones by their expiry, the others by their state. */
export function endedOutcome(lease: Lease): Refusal {
  if (lease.state === 'revoked' || (lease.state === 'active' && lease.revoking !== null)) {
    const terminatedAtMs = lease.terminatedAtMs ?? lease.expiresAtMs
    const facts = revocationFacts({ ...lease, terminatedAtMs })
    return { kind: 'terminal', leaseId: lease.id, state: 'revoked', ...facts }
  }
  if (lease.state === 'active' || lease.state === 'expired') {
    const terminatedAtMs = lease.terminatedAtMs ?? lease.expiresAtMs
    return { kind: 'expired', leaseId: lease.id, terminatedAtMs }
  }
  const { id: leaseId, state, releaseReason } = lease
  if (releaseReason !== 'transferred') return { kind: 'terminal', leaseId, state }
  return { kind: 'terminal', leaseId, state, releaseReason }
}

export function revocationFacts({
  revoking,
  terminatedAtMs: revokedAtMs,
}: Pick<Lease, 'revoking' | 'terminatedAtMs'>): RevocationFacts {
  if (revoking === null) return {}
  return { revokedBy: revoking.by, revokedFor: revoking.reason, revokedAtMs }
}

export function refusalError(refusal: Refusal): LeaseError {
  switch (refusal.kind) {
    case 'held':
      return heldError(refusal)
    case 'not_found':
      return error('LEASE_NOT_FOUND', `no lease has the id ${show(refusal.leaseId)}`, refusal)
    case 'not_holder': {
      const { leaseId, holder } = refusal
      return error('NOT_HOLDER', `lease ${leaseId} is held by ${show(holder)}`, refusal)
    }
    case 'terminal': {
      const how = refusal.releaseReason ?? refusal.state
      return error('LEASE_TERMINAL', `lease ${refusal.leaseId} is already ${how}`, refusal)
    }
    case 'expired':
      return error('LEASE_EXPIRED', `lease ${refusal.leaseId} has expired`, refusal)
    case 'id_taken':
      return error(
        'LEASE_EXISTS',
        `lease id ${refusal.leaseId} is in use for ${show(refusal.resource)}`,
        refusal,
      )
    case 'request_reused':
      return error('INVALID_INPUT', 'requestId must be new, got one of another request', {
        field: 'requestId',
        leaseId: refusal.leaseId,
      })
    case 'renewal_limit':
      return error(
        'RENEWAL_LIMIT',
        `lease ${refusal.leaseId} has reached ${refusal.limit}`,
        refusal,
      )
    case 'does_not_extend':
      return error(
        'RENEWAL_DOES_NOT_EXTEND',
        `renewal of lease ${refusal.leaseId} would not move its deadline forward`,
        refusal,
      )
    case 'deadlock':
      return deadlockError(refusal)
    case 'stale_epoch':
    case 'no_epoch':
      return epochError(refusal)
    case 'nobody_waiting':
      return error('WAIT_TIMEOUT', 'nobody waits for the resource, so it stays as it is', refusal)
    case 'already_adopted':
      return error('LEASE_EXISTS', `lease ${refusal.leaseId} was taken over already`, refusal)
    case 'queue_full':
      return error(
        'LIMIT_EXCEEDED',
        `at most ${refusal.limit} may wait at once, and so many wait for ${show(refusal.resource)}`,
        refusal,
      )
    case 'invalid_derivation':
    case 'budget_exhausted':
    case 'look_further':
      return delegationError(refusal)
    case 'malformed_setting':
      return error('INVALID_INPUT', `configuration: ${refusal.problem}`, { field: 'config' })
  }
}

function deadlockError(refusal: Refusal & { readonly kind: 'deadlock' }): LeaseError {
  const implied = refusal.cycle.some((step) => step.implied === true)
  const condition = implied ? ', if those who stand still wait for it' : ''
  const message = `waiting would never end${condition}: ${cycleText(refusal.cycle)}`
  return error('DEADLOCK', message, implied ? { ...refusal, implied } : refusal)
}

type DelegationRefusal = Extract<
  Refusal,
  { readonly kind: 'invalid_derivation' | 'budget_exhausted' | 'look_further' }
>

function delegationError(refusal: DelegationRefusal): LeaseError {
  if (refusal.kind === 'look_further') {
    return error('STORE_CONFLICT', 'the derived leases kept changing', refusal)
  }
  const { leaseId } = refusal
  if (refusal.kind === 'invalid_derivation') {
    const { problem, shortage = {} } = refusal
    const details = { leaseId, problem, ...shortage }
    return error('INVALID_DERIVATION', `lease ${leaseId}: ${problem}`, details)
  }
  const { dimension, asked, left } = refusal
  const message = `lease ${leaseId} has ${left} ${dimension} left, got ${asked}`
  return error('BUDGET_EXHAUSTED', message, { leaseId, dimension, asked, left })
}

function epochError(refusal: Refusal & { readonly kind: 'stale_epoch' | 'no_epoch' }): LeaseError {
  const { leaseId } = refusal
  if (refusal.kind === 'stale_epoch') {
    const { from, epoch } = refusal
    return error('STALE_EPOCH', `from must be the next epoch, ${epoch}, got ${from}`, refusal)
  }
  const message = `leaseId must be of ${refusal.why}, got ${leaseId}`
  return error('INVALID_INPUT', message, { field: 'leaseId', leaseId })
}

function heldError(held: Held): LeaseError {
  const who = held.blockers.slice(0, HOLDERS_NAMED_MAX).map((each) => describeHolder(each, held))
  if (who.length === 0) who.push('held by another')
  if (held.blockers.length > HOLDERS_NAMED_MAX) who.push('and by others')
  return error('RESOURCE_HELD', `${held.resource} is ${who.join(', ')}${whyNotWaiting(held)}`, held)
}

/** The message is one line; the details tell of all. */
const HOLDERS_NAMED_MAX = 3

function whyNotWaiting({ notWaiting, difference, blockers }: Held): string {
  switch (notWaiting) {
    case 'not_asked':
      return ''
    case 'own':
      return ' (it cannot end before this request does: release it first)'
    case 'own_transfer':
      return `: lease ${blockers[0]?.leaseId}, transferred to it, ${difference} (adopt it by its id)`
    case 'waiting_disabled':
      return ' (waiting is turned off: blocking_mode_enabled=false)'
  }
}

/** Who, through what if that is another resource than the one asked for, and in whose words. */
function describeHolder(blocker: Blocker, { resource }: Held): string {
  const below = blocker.extent === 'subtree' ? ' and what is below it' : ''
  const through = blocker.resource === resource ? '' : ` through ${blocker.resource}${below}`
  const { reason } = blocker
  const metadata = holderMetadata(blocker.metadata)
  const words = [
    ...(reason === null ? [] : [show(reason)]),
    ...(metadata === null ? [] : [showData(metadata)]),
  ].join(' ')
  return `${standingWords(blocker)}${through}${words === '' ? '' : ` (${words})`}`
}

function standingWords({ kind, holder }: Blocker): string {
  const name = show(holder)
  switch (kind) {
    case 'lease':
      return `held by ${name}`
    case 'offer':
      return `offered to ${name}`
    case 'ticket':
      return `waited for by ${name}`
    case 'lock_delay':
      return `kept free after ${name}`
  }
}

function error(
  code: ConstructorParameters<typeof LeaseError>[0],
  message: string,
  facts: object,
): LeaseError {
  const details = Object.fromEntries(Object.entries(facts).filter(([name]) => name !== 'kind'))
  return new LeaseError(code, message, { details })
}
