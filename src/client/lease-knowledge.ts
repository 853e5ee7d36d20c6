/**
 * What a holder knows of its lease: what the store said last, and how long that may be counted on.
 *
 * Answers may arrive in another order than the store gave them. So a fence only grows, a mode that is older than the
 * fence is not believed, and once somebody has asked for the lease nothing makes its end later.
 */
import { accountAfter, delegationOf } from '../core/delegation.ts'
import { reservedOf } from '../core/derivation.ts'
import { withDelegation, type LeaseInfo } from '../core/lease.ts'
import type { Mode } from '../core/resource.ts'
import type { HolderClock, Moment, Term } from './holder-clock.ts'

/** What a handle starts from. */
export interface HandleFacts {
  readonly lease: LeaseInfo
  readonly fence: number
  readonly term: Term
  /** When the grant arrived. */
  readonly now: Moment
  readonly autoRenew: boolean
}

export class LeaseKnowledge {
  readonly #clock: HolderClock
  #info: LeaseInfo
  #mode: Mode
  #fence: number
  #term: Term
  /** The end of the grace by the store's clock, when somebody asked for the lease. */
  #graceEndUs: number | null = null

  constructor(clock: HolderClock, { lease, fence, term }: HandleFacts) {
    this.#clock = clock
    this.#info = lease
    this.#mode = lease.mode
    this.#fence = fence
    this.#term = term
  }

  get info(): LeaseInfo {
    return this.#info
  }

  get mode(): Mode {
    return this.#mode
  }

  get fence(): number {
    return this.#fence
  }

  get spanMs(): number {
    return this.#term.spanMs
  }

  /** Whether somebody asked for the lease. */
  get isRevoking(): boolean {
    return this.#graceEndUs !== null
  }

  leftMs(now: Moment): number {
    return this.#clock.remainingMs(this.#term, now)
  }

  /** Until the next renewal should go. */
  untilThirdMs(now: Moment): number {
    return this.#term.spanMs / 3 - this.#clock.elapsedMs(this.#term.from, now)
  }

  /** Until so little is left that a renewal should have been confirmed. */
  untilDoubtMs(now: Moment): number {
    return this.leftMs(now) - this.#term.spanMs / 3
  }

  /** The holder's own word: it does not count on more than this from now on. */
  setMode(mode: Mode): void {
    this.#mode = mode
  }

  /** The lease as the store described it. True if it has a new fence. */
  take(lease: LeaseInfo): boolean {
    const isNewer = lease.fence !== null && lease.fence > this.#fence
    if (isNewer) this.#fence = lease.fence
    if (isNewer || (lease.fence === this.#fence && lease.mode === 'shared')) this.#mode = lease.mode
    if (lease.renewals >= this.#info.renewals) this.#info = this.#corrected(lease)
    return isNewer
  }

  /** What the store said, but for what is known better. */
  #corrected(lease: LeaseInfo): LeaseInfo {
    const revoking = this.#info.revoking ?? lease.revoking
    const isSame = lease.mode === this.#mode && lease.fence === this.#fence
    if (isSame && lease.revoking === revoking) return lease
    return { ...lease, mode: this.#mode, fence: this.#fence, revoking }
  }

  /** The store gave a part of the lease to a child: until it says more, what the child was given is used. */
  takeDerived({ id: childId, budget = {} }: Pick<LeaseInfo, 'id' | 'budget'>): void {
    if (delegationOf(this.#info).children.includes(childId)) return
    const amounts = reservedOf(this.#info, budget)
    const delegation = accountAfter(this.#info, { kind: 'derived', childId, amounts })
    this.#info = withDelegation(this.#info, delegation)
  }

  /** The lease is over, and this is how the store tells it. */
  takeEnd(lease: LeaseInfo): void {
    this.#info = lease
  }

  /** The store renewed the lease, asked at `from`. Of two terms that it confirmed, both are safe. */
  extend(lease: LeaseInfo, from: Moment, now: Moment): void {
    if (this.isRevoking) return
    // `maxHoldMs` or the end of a parent may have cut the term short, and the store rounds up what is left: hence the
    // millisecond.
    const { ttlMs, maxHoldMs, remainingMs } = lease
    const isWhole = maxHoldMs === null && delegationOf(lease).line.length === 0
    const spanMs = isWhole ? ttlMs : Math.min(ttlMs, remainingMs - 1)
    const term = { from, spanMs }
    if (this.#clock.remainingMs(term, now) > this.leftMs(now)) this.#term = term
  }

  /**
   * Somebody may have asked for the lease, as the store said when it was asked at `sent` or later: then the sooner of
   * two ends counts. True if this is news.
   */
  noteRevoking({ revoking, deadline, remainingMs }: LeaseInfo, sent: Moment): boolean {
    if (revoking === null || deadline === null || deadline.us === this.#graceEndUs) return false
    this.#graceEndUs = deadline.us
    this.#info = { ...this.#info, revoking }
    const now = this.#clock.now()
    const term = { from: sent, spanMs: Math.max(0, remainingMs - 1) }
    if (this.#clock.remainingMs(term, now) < this.leftMs(now)) this.#term = term
    return true
  }
}
