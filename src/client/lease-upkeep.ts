/**
 * Keeps one lease alive: renews it as planned or when its holder asks, and draws from every answer what it means for the
 * renewals to come. What an answer means for the lease itself is the handle's to say, and it always looks at the clock
 * first: a renewal that is confirmed after the loss changes nothing.
 */
import { isLeaseError, type LeaseError } from '../core/errors.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import { refusalError, type Refusal } from '../core/outcome.ts'
import { report, reportTo, type RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { LeaseApi, RenewAnswer } from '../service/lease-api.ts'
import type { HolderClock, Moment } from './holder-clock.ts'
import { effectOf, isRetryable } from './retry.ts'
import type { LeaseKnowledge } from './lease-knowledge.ts'
import type { LeaseTarget } from './lease-release.ts'
import { LeaseRenewer, type Renewed } from './lease-renewer.ts'
import type { LossRace } from './loss-race.ts'
import type { Attention } from './renewal-scheduler.ts'

/** What the upkeep asks of the handle, and tells it. */
export interface Upheld {
  /** Lost, or given up by its holder. */
  readonly isOver: () => boolean
  /** Draws the conclusions that the clock allows at this moment. */
  readonly look: (now: Moment) => void
  readonly reschedule: (now: Moment) => void
  /** The store described the lease, asked at `sent` or later. */
  readonly onChanged: (lease: LeaseInfo, sent: Moment) => void
  readonly onRenewed: (lease: LeaseInfo, now: Moment) => void
  /** A renewal was confirmed when the lease was over already. */
  readonly onTooLate: () => void
  readonly onRefused: (refusal: Refusal) => void
  /** Only the store knows how the lease stands. */
  readonly onPuzzled: () => void
}

export interface UpkeepParts {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly clock: HolderClock
  readonly target: LeaseTarget
  readonly known: LeaseKnowledge
  readonly fault: RepeatedFault
  /** How long the lease is renewed by itself, as the store says now (`Infinity`: no limit); null: nothing limits it. */
  readonly readMaxHoldMs: (() => Promise<number>) | null
  readonly handle: Upheld
}

/** A limit may be changed while the lease is held. */
const MAX_HOLD_FRESH_MS = 60_000

export class LeaseUpkeep implements Renewed {
  readonly #clock: HolderClock
  readonly #known: LeaseKnowledge
  readonly #handle: Upheld
  readonly #renewer: LeaseRenewer
  /** Whether the lease is renewed without anybody asking. */
  #isAutomatic: boolean
  #isUncertain = false
  /** Of a renewal, if none has been confirmed since. */
  #failure: unknown = null
  /** The store will not renew any further. */
  #limit: LeaseError | null = null
  readonly #leaseId: LeaseId
  readonly #began: Moment
  readonly #readMaxHoldMs: (() => Promise<number>) | null
  #maxHold = { ms: Infinity, askedAtMs: -Infinity }
  #askedMaxHoldAtMs = -Infinity
  /** It was renewed by itself for as long as it may be. */
  #isAtMaxHold = false

  constructor(parts: UpkeepParts, begin: { readonly now: Moment; readonly autoRenew: boolean }) {
    const { api, runtime, target, clock, known, fault, handle } = parts
    this.#clock = clock
    this.#known = known
    this.#handle = handle
    this.#isAutomatic = begin.autoRenew
    this.#leaseId = target.id
    this.#began = begin.now
    this.#readMaxHoldMs = begin.autoRenew ? parts.readMaxHoldMs : null
    this.#askMaxHold(begin.now)
    this.#renewer = new LeaseRenewer({ api, runtime, target, fault, renewed: this })
    this.#renewer.plan.confirmed(begin.now.monotonicMs, known.untilThirdMs(begin.now))
  }

  /** Whether the holder was told that the next renewal may come too late. */
  get isUncertain(): boolean {
    return this.#isUncertain
  }

  /** Why the lease may come to its end, if a reason is known. */
  get trouble(): unknown {
    return this.#failure ?? this.#limit
  }

  /** How the prospects have changed since the last time, if they have. */
  judge(now: Moment): 'uncertain' | 'recovered' | null {
    if (!this.#isAutomatic) return null
    const isUncertain =
      this.#failure !== null || this.#isAtMaxHold || this.#known.untilDoubtMs(now) <= 0
    if (isUncertain === this.#isUncertain) return null
    this.#isUncertain = isUncertain
    return isUncertain ? 'uncertain' : 'recovered'
  }

  /** A renewal that is under way anyway answers for another one; true if it was confirmed. */
  async join(race: LossRace): Promise<boolean> {
    const { underWay } = this.#renewer
    if (underWay === null) return false
    try {
      const answer = await race.run(underWay)
      return answer.kind === 'renewed'
    } catch (error) {
      if (error === race.lost) throw error
      // The failure was told or reported where that renewal was sent; this caller sends one of its own.
      return false
    }
  }

  renew(ttlMs: number | null, sent: Moment): Promise<RenewAnswer> {
    const doubtInMs = this.#known.untilDoubtMs(sent)
    const withinMs = this.#known.leftMs(sent)
    return this.#renewer.renewNow({ ttlMs, sent, doubtInMs, withinMs })
  }

  /** True if a renewal was sent. */
  renewIfDue(now: Moment): boolean {
    if (!this.#isAutomatic || !this.#renewer.plan.isDue(now.monotonicMs)) return false
    if (this.#hasReachedMaxHold(now)) return this.#endAtMaxHold(now)
    const isCounted = this.#known.info.maxRenewals >= 0
    const doubtInMs = this.#known.untilDoubtMs(now)
    this.#renewer.renewAsPlanned(now, { isCounted, doubtInMs })
    return true
  }

  /** What was granted is not cut short: it is only not renewed any more, unless its holder asks. */
  #endAtMaxHold(now: Moment): false {
    const limit = `the max_hold_seconds of ${this.#maxHold.ms / 1000}`
    this.limitTo(refusalError({ kind: 'renewal_limit', leaseId: this.#leaseId, limit }))
    if (!this.#isAtMaxHold) report('client/max-hold', this.#limit)
    this.#isAtMaxHold = true
    this.#handle.look(now)
    return false
  }

  /**
   * A limit that was read before it was reached may have been raised since: then it is read once more, and the next
   * renewal obeys. One that cannot be read ends nothing.
   */
  #hasReachedMaxHold(now: Moment): boolean {
    const { ms, askedAtMs } = this.#maxHold
    const overMs = this.#clock.elapsedMs(this.#began, now) - ms
    const isConfirmed = overMs >= 0 && askedAtMs >= now.monotonicMs - overMs
    const sinceAskedMs = now.monotonicMs - this.#askedMaxHoldAtMs
    if (!isConfirmed && (overMs >= 0 || sinceAskedMs >= MAX_HOLD_FRESH_MS)) this.#askMaxHold(now)
    return isConfirmed
  }

  #askMaxHold({ monotonicMs: askedAtMs }: Moment): void {
    this.#askedMaxHoldAtMs = askedAtMs
    this.#readMaxHoldMs?.().then((ms) => {
      this.#maxHold = { ms, askedAtMs }
    }, reportTo('client/max-hold'))
  }

  /** Nothing is renewed by itself any more. */
  end(): void {
    this.#isAutomatic = false
    this.#isUncertain = false
    this.#renewer.plan.end()
  }

  /** No renewal moves the end any more, for this reason. */
  limitTo(limit: LeaseError): void {
    this.#limit = limit
    this.#renewer.plan.end()
  }

  /** When to come by: at the end of the term, the beginning of doubt, or the next renewal. */
  attention(now: Moment): Attention {
    const { monotonicMs } = now
    const endMs = monotonicMs + this.#known.leftMs(now)
    if (!this.#isAutomatic) return { dueMs: endMs, earliestMs: endMs }
    const doubtMs = this.#isUncertain ? endMs : monotonicMs + this.#known.untilDoubtMs(now)
    const next = this.#renewer.plan.next ?? { dueMs: endMs, earliestMs: endMs }
    return {
      dueMs: Math.min(doubtMs, next.dueMs, endMs),
      earliestMs: Math.min(doubtMs, next.earliestMs, endMs),
    }
  }

  get isOver(): boolean {
    return this.#handle.isOver()
  }

  onRenewed(lease: LeaseInfo, from: Moment): void {
    const { isOver, look, onChanged, onRenewed, onTooLate, reschedule } = this.#handle
    const now = this.#clock.now()
    look(now)
    if (isOver()) return onTooLate()
    onChanged(lease, from)
    if (isOver() || this.#known.isRevoking) return
    this.#known.extend(lease, from, now)
    this.#failure = null
    this.#renewer.plan.confirmed(now.monotonicMs, this.#known.untilThirdMs(now))
    look(now)
    onRenewed(lease, now)
    reschedule(now)
  }

  onRefused(refusal: Refusal): void {
    const { isOver, look, onRefused } = this.#handle
    const now = this.#clock.now()
    look(now)
    onRefused(refusal)
    if (!isOver()) this.#refusedAlive(refusal, now)
  }

  /**
   * The lease lives on as it is: at its limit, or too soon after another renewal to be extended, or too soon for its
   * parent, which was not renewed yet.
   */
  #refusedAlive(refusal: Refusal, now: Moment): void {
    this.#failure = null
    if (refusal.kind === 'renewal_limit' && refusal.parentId === undefined) {
      this.limitTo(this.#limit ?? refusalError(refusal))
      // The limit may be that somebody asked for the lease, and then its end is nearer than this handle knows.
      if (!this.#known.isRevoking) this.#handle.onPuzzled()
    } else {
      const pauseMs = Math.max(this.#known.untilThirdMs(now), this.#known.spanMs / 12)
      this.#renewer.plan.confirmed(now.monotonicMs, pauseMs)
    }
    this.#handle.look(now)
    this.#handle.reschedule(now)
  }

  /** After a mistake of the program, too, the next renewal may succeed; only a store that refuses is not asked again. */
  onFailed(error: unknown): void {
    const { isOver, look, reschedule } = this.#handle
    const now = this.#clock.now()
    look(now)
    if (isOver()) return
    this.#failure = error
    if (isLeaseError(error) && !isRetryable(error)) this.#renewer.plan.end()
    else this.#renewer.plan.failed(now.monotonicMs, this.#known.spanMs, effectOf(error))
    look(now)
    reschedule(now)
  }
}
