/**
 * Decides what a holder may believe of its lease and what it does about it; `lease-handle.ts` sends and listens. Pure: it
 * reads no clock, sends nothing, and answers every event with the next state and the actions that follow.
 *
 *  1. The term runs from before the first send of the request that granted or last renewed the lease, so it ends no later
 *     than the store's. Of two terms that the store confirmed the one that ends later counts; both are safe.
 *  2. Every event looks at the clock first. At the end of its term the lease is lost, whatever arrives later: a renewal
 *     that is confirmed after the loss makes the holder give the lease back and nothing else. There is no way back.
 *  3. A holder that is asked to finish counts on the shorter of its own term and the grace, from before it looked. No
 *     renewal moves that end again, and none is sent.
 *  4. A renewal is due at a third of the term. After a failure it is sent again soon, with growing pauses that stay well
 *     inside the term. One without an answer until the lease is in doubt is sent once more beside the first, because the
 *     one call may hang while the store itself is well. Doubt begins with a failure, or with two thirds of the term.
 *  5. Answers may arrive in another order than the store gave them: a fence only grows, a mode that is older than the
 *     fence is not believed, and the description with more renewals is the newer one.
 *
 * What it does not know: after a revocation without grace the store may have granted the resource to another before any
 * event says so. Until then only the fence protects.
 */
import { accountAfter, delegationOf } from '../core/delegation.ts'
import { reservedOf } from '../core/derivation.ts'
import { isLeaseError, type LeaseError } from '../core/errors.ts'
import { withDelegation, type LeaseInfo } from '../core/lease.ts'
import { refusalError, type Refusal } from '../core/outcome.ts'
import type { Mode } from '../core/resource.ts'
import type { HandleState, LeaseEvents } from './contract.ts'
import {
  termState,
  type HolderClock,
  type Moment,
  type TermState,
  type Term,
} from './holder-clock.ts'
import { lossError, lossOf, lossSeen, type LossReason } from './lease-loss.ts'
import type { DueWindow } from './renewal-scheduler.ts'
import { effectOf, isRetryable } from './retry.ts'

/** The moment at which an event is decided. */
export interface Instant {
  readonly clock: Pick<HolderClock, 'elapsedMs' | 'remainingMs'>
  readonly now: Moment
}

/** A renewal as it is sent. A repeated one keeps its id, and its term runs from before it was first sent. */
export interface SentRenewal {
  readonly requestId: string | null
  readonly firstSent: Moment
}

/** When the next automatic renewal goes, and what it repeats. */
interface RenewalPlan {
  readonly next: DueWindow | null
  /** In a row. */
  readonly failures: number
  /** The renewal was sent and is not answered yet. */
  readonly isSent: boolean
  /** A renewal with an id that has no definite answer yet. */
  readonly open: SentRenewal | null
  /** An answer to it was lost, so that it may have happened, whatever was heard since. */
  readonly isInDoubt: boolean
}

/** How long the lease renews itself, as the configuration said when it was read. */
interface MaxHold {
  readonly ms: number
  readonly readAtMs: number
  readonly askedAtMs: number
  readonly isReached: boolean
}

export interface Holding {
  readonly state: HandleState
  readonly info: LeaseInfo
  readonly mode: Mode
  readonly fence: number
  readonly term: Term
  /** When the grant arrived. */
  readonly began: Moment
  /** The end of the grace by the store's clock, once the holder is asked to finish. */
  readonly graceEndUs: number | null
  readonly renewsItself: boolean
  readonly renewal: RenewalPlan
  /** Null: nothing limits how long it renews itself. */
  readonly maxHold: MaxHold | null
  /** Of a renewal, if none has been confirmed since. */
  readonly failure: unknown
  /** Why the store, or the holder's own configuration, renews no further. */
  readonly limit: LeaseError | null
  /** A transfer was sent and has no definite answer. */
  readonly isTransferring: boolean
  readonly isAbandoned: boolean
  readonly loss: LeaseError | null
}

/** What a holding begins with. */
export interface GrantedLease {
  readonly lease: LeaseInfo
  readonly fence: number
  readonly term: Term
  readonly autoRenew: boolean
  readonly limitsHold: boolean
}

export type HoldingEvent =
  /** Only the clock has moved. */
  | { readonly kind: 'time' }
  /** The scheduler calls. `newId` makes the id of a renewal that the store counts; `isAsked`: the holder has sent one. */
  | { readonly kind: 'due'; readonly newId: () => string; readonly isAsked?: boolean }
  /** `from`: before the renewal was first sent. */
  | { readonly kind: 'renewed'; readonly lease: LeaseInfo; readonly from: Moment }
  | { readonly kind: 'renewal_refused'; readonly refusal: Refusal }
  | { readonly kind: 'renewal_failed'; readonly error: unknown }
  /** The store described the lease as active, asked at `sent` or later. */
  | { readonly kind: 'described'; readonly lease: LeaseInfo; readonly sent: Moment }
  /** The store was asked at `sent` how the lease stands, and may not know it. */
  | { readonly kind: 'looked'; readonly lease: LeaseInfo | null; readonly sent: Moment }
  /** The store refused something else that the holder asked for. */
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  | { readonly kind: 'max_hold'; readonly ms: number; readonly askedAtMs: number }
  /** The holder counts on no other mode from now on. */
  | { readonly kind: 'mode'; readonly mode: Mode }
  | { readonly kind: 'derived'; readonly child: Pick<LeaseInfo, 'id' | 'budget'> }
  | { readonly kind: 'transferring'; readonly isOpen: boolean }
  | { readonly kind: 'transferred' }
  | { readonly kind: 'parent_ended' }
  | { readonly kind: 'abandoned' }
  /** The holder gives the lease up; then, what the store says to that. */
  | { readonly kind: 'released' }
  | { readonly kind: 'release_confirmed'; readonly lease: LeaseInfo }
  | { readonly kind: 'release_refused'; readonly refusal: Refusal }

type Notification<Name extends keyof LeaseEvents> = {
  readonly kind: 'notify'
  readonly name: Name
  readonly event: LeaseEvents[Name]
}

export type HoldingAction =
  | { [Name in keyof LeaseEvents]: Notification<Name> }[keyof LeaseEvents]
  | { readonly kind: 'send_renewal'; readonly renewal: SentRenewal }
  /** Release, in the background, what the store may still keep: no waiter should have to wait for its deadline. */
  | { readonly kind: 'give_back' }
  /** Only the store knows how the lease stands: look. */
  | { readonly kind: 'look' }
  | { readonly kind: 'read_max_hold' }
  | { readonly kind: 'max_hold_reached'; readonly error: LeaseError }
  | { readonly kind: 'new_fence'; readonly lease: LeaseInfo }

export interface HoldingStep {
  readonly holding: Holding
  readonly actions: readonly HoldingAction[]
}

const FIRST_PAUSE_MS = 100
const PAUSE_MS_MIN = 5
/** The longest pause between two tries, as a part of the term. */
const PAUSE_SHARE = 1 / 12
/** How much sooner than planned a renewal may go along with others: a tenth of the term when all is well. */
const EARLY_SHARE = 0.3
/** The configuration may change while the lease is held. */
const MAX_HOLD_FRESH_MS = 60_000

const NOTHING: readonly HoldingAction[] = []

const UNREAD: MaxHold = { ms: Infinity, readAtMs: 0, askedAtMs: 0, isReached: false }

export function isOverForHolder({ state }: Holding): boolean {
  return state === 'lost' || state === 'released'
}

export function leftMs({ term }: Holding, { clock, now }: Instant): number {
  return clock.remainingMs(term, now)
}

/** When the next event is due: at the end of the term, the beginning of doubt, or the next renewal. */
export function dueWindow(holding: Holding, at: Instant): DueWindow {
  const nowMs = at.now.monotonicMs
  const endMs = nowMs + leftMs(holding, at)
  if (!holding.renewsItself) return { dueMs: endMs, earliestMs: endMs }
  const doubtMs = holding.state === 'uncertain' ? endMs : nowMs + untilDoubtMs(holding, at)
  const { next } = holding.renewal
  return {
    dueMs: Math.min(doubtMs, next?.dueMs ?? endMs, endMs),
    earliestMs: Math.min(doubtMs, next?.earliestMs ?? endMs, endMs),
  }
}

/** When a grant was asked for. */
export interface AskedAt extends Instant {
  /** Before the request was sent for the first time. */
  readonly first: Moment
  /** Before it was sent the time that was answered. */
  readonly last: Moment
}

/**
 * How long a grant may be counted on. A repeated grant may be older than its request, when the caller chose its id: then
 * what the store says is left, from before the last send, is an upper bound as well, and the sooner end counts. So it is
 * with a lease that came by transfer, whose end may have been fixed before. The store rounds up what is left, hence the
 * millisecond.
 */
export function grantedTerm(
  { ttlMs, maxHoldMs, remainingMs }: LeaseInfo,
  { isOlder }: { readonly isOlder: boolean },
  { first, last, clock, now }: AskedAt,
): Term {
  if (!isOlder) return { from: first, spanMs: Math.min(ttlMs, remainingMs) }
  const whole: Term = { from: first, spanMs: Math.min(ttlMs, maxHoldMs ?? ttlMs) }
  const rest: Term = { from: last, spanMs: Math.min(ttlMs, remainingMs - 1) }
  return clock.remainingMs(whole, now) < clock.remainingMs(rest, now) ? whole : rest
}

export function beginHolding(granted: GrantedLease, at: Instant): HoldingStep {
  const { lease, fence, term, autoRenew, limitsHold } = granted
  const readsMaxHold = autoRenew && limitsHold
  const holding: Holding = {
    state: 'held',
    info: lease,
    mode: lease.mode,
    fence,
    term,
    began: at.now,
    graceEndUs: null,
    renewsItself: autoRenew,
    renewal: planned(at, untilThirdMs(term, at)),
    maxHold: readsMaxHold ? { ...UNREAD, askedAtMs: at.now.monotonicMs } : null,
    failure: null,
    limit: null,
    isTransferring: false,
    isAbandoned: false,
    loss: null,
  }
  const draft = new Draft(holding, at)
  if (readsMaxHold) draft.does({ kind: 'read_max_hold' })
  draft.noteRevoking(lease, term.from)
  return draft
}

/** Answers an event. The state is the same object when nothing has changed. */
export function stepHolding(holding: Holding, event: HoldingEvent, at: Instant): HoldingStep {
  const draft = new Draft(holding, at)
  draft.look()
  decide(draft, event)
  return draft
}

/** Of a lease that is not over. One that does not renew itself is not in doubt before its end. */
function stateNow(holding: Holding, at: Instant): TermState {
  const { renewsItself, failure, maxHold } = holding
  return termState(leftMs(holding, at), {
    isTroubled: renewsItself && (failure !== null || maxHold?.isReached === true),
    untilDoubtMs: renewsItself ? untilDoubtMs(holding, at) : Infinity,
  })
}

/** Until so little is left that a renewal should have been confirmed. */
function untilDoubtMs(holding: Holding, at: Instant): number {
  return leftMs(holding, at) - holding.term.spanMs / 3
}

function decide(draft: Draft, event: HoldingEvent): void {
  switch (event.kind) {
    case 'release_confirmed':
      return void (draft.next.info = event.lease)
    case 'release_refused':
      return draft.lose(lossOf(event.refusal) ?? 'released', refusalError(event.refusal))
    case 'transferring':
      return void (draft.next.isTransferring = event.isOpen)
    case 'transferred':
      return draft.lose('transferred')
    case 'derived':
      return void (draft.next.info = withChild(draft.holding.info, event.child))
    case 'mode':
      return void (draft.next.mode = event.mode)
    case 'max_hold':
      return draft.noteMaxHold(event.ms, event.askedAtMs)
    case 'released':
      return draft.release()
    case 'renewed':
      return draft.isOver ? draft.giveBack() : whileHeld(draft, event)
    case 'time':
    case 'due':
    case 'renewal_refused':
    case 'renewal_failed':
    case 'described':
    case 'looked':
    case 'refused':
    case 'parent_ended':
    case 'abandoned':
      return draft.isOver ? undefined : whileHeld(draft, event)
  }
}

/** Events without effect once the lease is over. */
type HeldEvent = Exclude<
  HoldingEvent,
  | { kind: 'release_confirmed' | 'release_refused' | 'transferring' | 'transferred' | 'derived' }
  | { kind: 'mode' | 'max_hold' | 'released' }
>

function whileHeld(draft: Draft, event: HeldEvent): void {
  switch (event.kind) {
    case 'time':
      return
    case 'due':
      return draft.renewIfDue(event)
    case 'renewed':
      return draft.confirmRenewal(event.lease, event.from)
    case 'renewal_refused':
      draft.refuse(event.refusal)
      return draft.isOver ? undefined : draft.goOnAsItIs(event.refusal)
    case 'renewal_failed':
      return draft.doubt(event.error)
    case 'described':
      return draft.describe(event.lease, event.sent)
    case 'looked':
      return draft.compare(event.lease, event.sent)
    case 'refused':
      return draft.refuse(event.refusal)
    case 'parent_ended':
      return draft.lose('parent_ended')
    case 'abandoned':
      return draft.abandon()
  }
}

/** Until the next renewal of a term should go. */
function untilThirdMs(term: Term, { clock, now }: Instant): number {
  return term.spanMs / 3 - clock.elapsedMs(term.from, now)
}

/** The lease is known to be held, and `inMs` from now it should be renewed. */
function planned({ now }: Instant, inMs: number): RenewalPlan {
  const next = windowIn(now.monotonicMs, inMs)
  return { next, failures: 0, isSent: false, open: null, isInDoubt: false }
}

function windowIn(nowMs: number, inMs: number): DueWindow {
  const delayMs = Math.max(0, inMs)
  const dueMs = nowMs + delayMs
  return { dueMs, earliestMs: dueMs - delayMs * EARLY_SHARE }
}

type Mutable<Type> = { -readonly [Name in keyof Type]: Type[Name] }

/** Field by field: each renewal changes the state twice, and a spread of so many takes V8 longer than the rest of a step. */
function copyOf(holding: Holding): Mutable<Holding> {
  return {
    state: holding.state,
    info: holding.info,
    mode: holding.mode,
    fence: holding.fence,
    term: holding.term,
    began: holding.began,
    graceEndUs: holding.graceEndUs,
    renewsItself: holding.renewsItself,
    renewal: holding.renewal,
    maxHold: holding.maxHold,
    failure: holding.failure,
    limit: holding.limit,
    isTransferring: holding.isTransferring,
    isAbandoned: holding.isAbandoned,
    loss: holding.loss,
  }
}

/** One decision under way: the state as it is so far, and what is to be done. */
class Draft implements HoldingStep {
  holding: Holding
  actions: readonly HoldingAction[] = NOTHING
  readonly #at: Instant
  #copy: Mutable<Holding> | null = null

  constructor(holding: Holding, at: Instant) {
    this.holding = holding
    this.#at = at
  }

  /** The state as it is changed; copied once. */
  get next(): Mutable<Holding> {
    if (this.#copy === null) {
      this.#copy = copyOf(this.holding)
      this.holding = this.#copy
    }
    return this.#copy
  }

  get isOver(): boolean {
    return isOverForHolder(this.holding)
  }

  get #remainingMs(): number {
    return Math.max(0, Math.floor(leftMs(this.holding, this.#at)))
  }

  get #nowMs(): number {
    return this.#at.now.monotonicMs
  }

  does(action: HoldingAction): void {
    this.actions = this.actions === NOTHING ? [action] : [...this.actions, action]
  }

  abandon(): void {
    this.next.isAbandoned = true
    this.next.state = 'held'
    this.next.renewsItself = false
  }

  /** Draws the conclusions that the clock allows at this moment. */
  look(): void {
    if (this.isOver) return
    const found = stateNow(this.holding, this.#at)
    const { graceEndUs, failure, limit, state } = this.holding
    if (found === state) return
    const trouble = failure ?? limit
    const remainingMs = this.#remainingMs
    if (found === 'lost') {
      this.lose(graceEndUs === null ? 'deadline_passed' : 'revoked', trouble)
      this.giveBack()
    } else if (found === 'held') {
      this.next.state = 'held'
      this.does({ kind: 'notify', name: 'recovered', event: { remainingMs } })
    } else {
      const cause = isLeaseError(trouble) ? trouble : null
      this.next.state = 'uncertain'
      this.does({ kind: 'notify', name: 'uncertain', event: { remainingMs, cause } })
    }
  }

  lose(found: LossReason, cause: unknown = null): void {
    if (this.holding.state === 'lost') return
    // A lease that is gone while its own transfer is under way has gone that way.
    const isGone = found === 'released' || found === 'not_found'
    const reason = isGone && this.holding.isTransferring ? 'transferred' : found
    const loss = lossError(this.holding.info, reason, cause)
    this.next.state = 'lost'
    this.next.loss = loss
    this.next.renewsItself = false
    this.does({ kind: 'notify', name: 'lost', event: { error: loss } })
  }

  /**
   * With a lock delay the holder wants others kept out for a while after a loss, and a release would let them in at once.
   * An abandoned lease is no longer this client's to end, and one whose grace is used up is left to the revocation, which
   * is what the ledger should say has ended it.
   */
  giveBack(): void {
    const { isAbandoned, info } = this.holding
    if (!isAbandoned && info.lockDelayMs === 0) this.#giveBackIfDue()
  }

  #giveBackIfDue(): void {
    const isByTime = this.holding.loss?.details['reason'] === 'deadline_passed'
    if (isByTime) this.does({ kind: 'give_back' })
  }

  /** A holder that releases what it has lost is not asked about the lock delay: it wants the lease gone. */
  release(): void {
    if (this.holding.state === 'lost') this.#giveBackIfDue()
    if (this.isOver) return
    this.next.state = 'released'
    this.next.renewsItself = false
  }

  /** Draws the conclusions about the lease itself; it may well live on. */
  refuse(refusal: Refusal): void {
    const reason = lossOf(refusal)
    if (reason !== null) this.lose(reason, refusalError(refusal))
  }

  compare(lease: LeaseInfo | null, sent: Moment): void {
    if (lease === null) return this.lose('not_found')
    const reason = lossSeen(lease)
    if (reason === null) return this.describe(lease, sent)
    this.next.info = lease
    this.lose(reason)
  }

  describe(lease: LeaseInfo, sent: Moment): void {
    const { fence, info } = this.holding
    const isNewer = lease.fence !== null && lease.fence > fence
    const isBelieved = isNewer || (lease.fence === fence && lease.mode === 'shared')
    if (isNewer) this.next.fence = lease.fence
    if (isBelieved) this.next.mode = lease.mode
    if (lease.renewals >= info.renewals) this.next.info = corrected(lease, this.holding)
    if (isNewer) this.does({ kind: 'new_fence', lease })
    this.noteRevoking(lease, sent)
  }

  /** The holder is asked to finish: the sooner of two ends counts, and nothing is renewed any more. */
  noteRevoking({ revoking, deadline, remainingMs }: LeaseInfo, sent: Moment): void {
    const { info, graceEndUs } = this.holding
    if (revoking === null || deadline === null || deadline.us === graceEndUs) return
    const term: Term = { from: sent, spanMs: Math.max(0, remainingMs - 1) }
    const isSooner = this.#termLeftMs(term) < leftMs(this.holding, this.#at)
    this.next.graceEndUs = deadline.us
    this.next.info = { ...info, revoking }
    if (isSooner) this.next.term = term
    const limit = `the end that ${revoking.by} asked for`
    this.#limitTo(refusalError({ kind: 'renewal_limit', leaseId: info.id, limit }))
    const event = { ...revoking, remainingMs: this.#remainingMs }
    this.does({ kind: 'notify', name: 'revoking', event })
    this.look()
  }

  confirmRenewal(lease: LeaseInfo, from: Moment): void {
    this.describe(lease, from)
    if (this.isOver || this.holding.graceEndUs !== null) return
    const term = renewedTerm(lease, from)
    const isLater = this.#termLeftMs(term) > leftMs(this.holding, this.#at)
    if (isLater) this.next.term = term
    this.next.failure = null
    this.next.renewal = planned(this.#at, untilThirdMs(this.holding.term, this.#at))
    this.look()
    const event = { remainingMs: this.#remainingMs, renewals: lease.renewals }
    this.does({ kind: 'notify', name: 'renewed', event })
  }

  /**
   * A renewal was refused and the lease lives on as it is: at its limit, or too soon after another renewal to be extended,
   * or too soon for its parent, which was not renewed yet.
   */
  goOnAsItIs(refusal: Refusal): void {
    const { limit, graceEndUs, term } = this.holding
    this.next.failure = null
    if (refusal.kind === 'renewal_limit' && refusal.parentId === undefined) {
      this.#limitTo(limit ?? refusalError(refusal))
      // The limit may be the end of a grace, and then the end is nearer than this holder knows.
      if (graceEndUs === null) this.does({ kind: 'look' })
    } else {
      const pauseMs = Math.max(untilThirdMs(term, this.#at), term.spanMs * PAUSE_SHARE)
      this.next.renewal = planned(this.#at, pauseMs)
    }
    this.look()
  }

  /** After a mistake of the program, too, the next renewal may succeed; only a store that refuses is not asked again. */
  doubt(error: unknown): void {
    this.next.failure = error
    if (isLeaseError(error) && !isRetryable(error)) this.#planNothing()
    else this.#planAgain(effectOf(error) === 'unknown')
    this.look()
  }

  /** One that the holder has asked for goes instead of the planned one, which follows when doubt begins. */
  renewIfDue({ newId, isAsked = false }: HoldingEvent & { readonly kind: 'due' }): void {
    const { renewsItself, renewal, info } = this.holding
    const isDue = renewal.next !== null && renewal.next.earliestMs <= this.#nowMs
    if (!renewsItself || !isDue || this.#isAtMaxHold()) return
    if (isAsked && !renewal.isSent) return void this.#sending(() => null)
    const isCounted = info.maxRenewals >= 0
    const sent = this.#sending(() => (isCounted ? newId() : null))
    this.does({ kind: 'send_renewal', renewal: sent })
  }

  /**
   * A renewal is being sent. Unless it is answered before, it goes once more when doubt begins; a request with an id keeps
   * it until it has a definite answer, so that it counts once.
   */
  #sending(id: () => string | null): SentRenewal {
    const { renewal } = this.holding
    const sent = renewal.open ?? { requestId: id(), firstSent: this.#at.now }
    const inMs = untilDoubtMs(this.holding, this.#at)
    const dueMs = this.#nowMs + inMs
    const next = renewal.isSent || inMs <= 0 ? null : { dueMs, earliestMs: dueMs }
    const { failures, isInDoubt } = renewal
    const open = sent.requestId === null ? null : sent
    this.next.renewal = { next, failures, isSent: true, open, isInDoubt }
    return sent
  }

  noteMaxHold(ms: number, readAtMs: number): void {
    const { maxHold } = this.holding
    if (maxHold !== null) this.next.maxHold = { ...maxHold, ms, readAtMs }
  }

  /** What was granted is not cut short: it is only not renewed any more, unless its holder asks. */
  #isAtMaxHold(): boolean {
    const { maxHold, info } = this.holding
    if (maxHold === null || !this.#hasReached(maxHold)) return false
    const limit = `the max_hold_seconds of ${maxHold.ms / 1000}`
    const error = refusalError({ kind: 'renewal_limit', leaseId: info.id, limit })
    if (!maxHold.isReached) this.does({ kind: 'max_hold_reached', error })
    this.next.maxHold = { ...maxHold, isReached: true }
    this.#limitTo(error)
    this.look()
    return true
  }

  /**
   * A limit that was read before it was reached may have been raised since: then it is read once more, and the next
   * renewal obeys. One that cannot be read ends nothing.
   */
  #hasReached(maxHold: MaxHold): boolean {
    const { clock, now } = this.#at
    const overMs = clock.elapsedMs(this.holding.began, now) - maxHold.ms
    const isConfirmed = maxHold.readAtMs >= this.#nowMs - overMs
    const isOld = overMs >= 0 || this.#nowMs - maxHold.askedAtMs >= MAX_HOLD_FRESH_MS
    if (!isConfirmed && isOld) {
      this.next.maxHold = { ...maxHold, askedAtMs: this.#nowMs }
      this.does({ kind: 'read_max_hold' })
    }
    return isConfirmed
  }

  /** No renewal moves the end any more, for this reason. */
  #limitTo(limit: LeaseError): void {
    this.next.limit = limit
    this.#planNothing()
  }

  /** The renewal that was sent did not happen, or nothing is known of it: then the next one repeats it. */
  #planAgain(isUnknown: boolean): void {
    const { renewal, term } = this.holding
    const isInDoubt = renewal.isInDoubt || isUnknown
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** renewal.failures, term.spanMs * PAUSE_SHARE)
    this.next.renewal = {
      next: windowIn(this.#nowMs, Math.max(PAUSE_MS_MIN, pauseMs)),
      failures: Math.min(renewal.failures + 1, 30),
      isSent: false,
      open: isInDoubt ? renewal.open : null,
      isInDoubt,
    }
  }

  #planNothing(): void {
    this.next.renewal = { ...this.holding.renewal, next: null }
  }

  #termLeftMs(term: Term): number {
    return this.#at.clock.remainingMs(term, this.#at.now)
  }
}

/** What the store said, but for what the holder knows better. */
function corrected(lease: LeaseInfo, { info, mode, fence }: Holding): LeaseInfo {
  const revoking = info.revoking ?? lease.revoking
  const isSame = lease.mode === mode && lease.fence === fence && lease.revoking === revoking
  return isSame ? lease : { ...lease, mode, fence, revoking }
}

/**
 * `maxHoldMs` or the end of a parent may have cut the term short, and the store rounds up what is left: hence the
 * millisecond.
 */
function renewedTerm(lease: LeaseInfo, from: Moment): Term {
  const { ttlMs, maxHoldMs, remainingMs, delegation } = lease
  const isRoot = delegation === undefined || delegation.line.length === 0
  const isWhole = maxHoldMs === null && isRoot
  return { from, spanMs: isWhole ? ttlMs : Math.min(ttlMs, remainingMs - 1) }
}

/** The store gave a part of the lease to a child: until it says more, the child's part counts as used. */
function withChild(
  info: LeaseInfo,
  { id: childId, budget = {} }: Pick<LeaseInfo, 'id' | 'budget'>,
): LeaseInfo {
  if (delegationOf(info).children.includes(childId)) return info
  const amounts = reservedOf(info, budget)
  return withDelegation(info, accountAfter(info, { kind: 'derived', childId, amounts }))
}
