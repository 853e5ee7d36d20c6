/**
 * The handle of a lease: what its holder knows, computed from the clock at every read.
 *
 *  - Its term runs from before the first send of the request that granted or last renewed it, so that it ends no later
 *    than the store's. Of two terms that the store confirmed the one that ends later counts; both are safe.
 *  - It is lost at the end of its term whether or not any call returns: the scheduler comes by, and every read looks
 *    at the clock as well. There is no way back: a renewal that is confirmed after the loss is given back.
 *  - Nothing in the background rejects into the void, and nothing is sent once the lease is over.
 *
 * What it does not promise: after a revocation the store may have given the resource away before this handle hears of
 * it. Until then only the fence protects.
 */
import { LeaseError } from '../core/errors.ts'
import { parseReleaseReason, parseTtlMs, refuseUnknown } from '../core/input.ts'
import type { LeaseId, LeaseInfo, ReleaseReason } from '../core/lease.ts'
import { refusalError, type Refusal } from '../core/outcome.ts'
import type { Resource } from '../core/resource.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { LeaseApi, RenewAnswer } from '../service/lease-api.ts'
import type { HandleState, Lease, LeaseEvents, ReleaseOptions, RenewOptions } from './contract.ts'
import type { HolderClock, Moment, Term } from './holder-clock.ts'
import { asLeaseError, mayRepeat } from './insist.ts'
import { lossError, lossOf, lossSeen, type LossReason } from './lease-loss.ts'
import { LeaseRelease } from './lease-release.ts'
import { LeaseRenewer } from './lease-renewer.ts'
import { Listeners } from './listeners.ts'
import type { Attended, Attention, RenewalScheduler } from './renewal-scheduler.ts'

export interface HandleParts {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly clock: HolderClock
  readonly scheduler: RenewalScheduler
  /** Takes over work that no caller waits for; it must neither be lost at close nor reject into the void. */
  readonly background: (work: Promise<unknown>) => void
  /** The handle holds nothing any more. */
  readonly onEnd: (handle: LeaseHandle) => void
}

export interface HandleFacts {
  readonly lease: LeaseInfo & { readonly fence: number }
  readonly term: Term
  /** When the grant arrived. */
  readonly now: Moment
  readonly autoRenew: boolean
}

export class LeaseHandle implements Lease, Attended {
  readonly id: LeaseId
  readonly resource: Resource
  readonly holder: string
  readonly fence: number
  readonly #parts: HandleParts
  readonly #renewer: LeaseRenewer
  readonly #release: LeaseRelease
  readonly #listeners = new Listeners<LeaseEvents>()
  /** Made when somebody asks for the signal; most leases are released without anybody having done so. */
  #controller: AbortController | null = null
  readonly #lossWaiters = new Set<(error: LeaseError) => void>()
  #info: LeaseInfo
  #term: Term
  #autoRenew: boolean
  #abandoned = false
  #lost: LeaseError | null = null
  #givenUp = false
  #releasing: Promise<void> | null = null
  /** A renewal failed and none has been confirmed since. */
  #doubt: LeaseError | null = null
  /** The store will not renew any further. */
  #limit: LeaseError | null = null
  #announcedUncertain = false

  constructor(parts: HandleParts, { lease, term, now, autoRenew }: HandleFacts) {
    this.#parts = parts
    this.id = lease.id
    this.resource = lease.resource
    this.holder = lease.holder
    this.fence = lease.fence
    this.#info = lease
    this.#term = term
    this.#autoRenew = autoRenew
    const { api, runtime } = parts
    const target = { leaseId: this.id, resource: this.resource, holder: this.holder }
    this.#release = new LeaseRelease(api, runtime, target)
    this.#renewer = new LeaseRenewer({
      ...{ api, runtime, target },
      onRenewed: (renewed, from) => this.#renewed(renewed, from),
      onRefused: (refusal) => this.#renewalRefused(refusal),
      onFailed: (error) => this.#renewalFailed(error),
      isOver: () => this.isOver,
    })
    this.#renewer.plan.confirmed(now.monotonicMs, this.#untilThirdMs(now))
    parts.scheduler.schedule(this, this.#attention(now))
  }

  get state(): HandleState {
    this.#look(this.#parts.clock.now())
    if (this.#lost !== null) return 'lost'
    if (this.#givenUp) return 'released'
    return this.#announcedUncertain ? 'uncertain' : 'held'
  }

  get remainingMs(): number {
    const now = this.#parts.clock.now()
    this.#look(now)
    return this.isOver ? 0 : Math.floor(this.#leftMs(now))
  }

  get signal(): AbortSignal {
    this.#look(this.#parts.clock.now())
    this.#controller ??= new AbortController()
    if (this.#lost !== null) this.#controller.abort(this.#lost)
    return this.#controller.signal
  }

  get info(): LeaseInfo {
    return this.#info
  }

  get renewals(): number {
    return this.#info.renewals
  }

  /** Lost, or given up by its holder. */
  get isOver(): boolean {
    return this.#lost !== null || this.#givenUp
  }

  get isAbandoned(): boolean {
    return this.#abandoned
  }

  on<Name extends keyof LeaseEvents>(
    name: Name,
    listener: (event: LeaseEvents[Name]) => void,
  ): () => void {
    return this.#listeners.add(name, listener)
  }

  async renew(options?: RenewOptions): Promise<void> {
    refuseUnknown(options, ['ttlMs'])
    const ttlMs = options?.ttlMs === undefined ? null : parseTtlMs(options.ttlMs)
    this.#requireLive()
    if (ttlMs === null && (await this.#joinRenewal())) return
    const sent = this.#requireLive()
    const doubtInMs = this.#untilDoubtMs(sent)
    const withinMs = this.#leftMs(sent)
    const call = this.#renewer.renewNow({ ttlMs, sent, doubtInMs, withinMs })
    const answer = await this.#orLost(call)
    if (answer.kind !== 'renewed') throw refusalError(answer)
    this.#requireLive()
  }

  async release(options?: ReleaseOptions): Promise<void> {
    refuseUnknown(options, ['reason'])
    const reason = options?.reason === undefined ? 'voluntary' : parseReleaseReason(options.reason)
    this.#look(this.#parts.clock.now())
    if (this.#releasing !== null) return this.#releasing
    if (this.#lost !== null) {
      this.#giveBack()
      throw this.#lost
    }
    this.#releasing = this.#sendRelease(reason)
    return this.#releasing
  }

  abandon(): void {
    if (this.isOver || this.#abandoned) return
    this.#abandoned = true
    this.#autoRenew = false
    this.#announcedUncertain = false
    this.#renewer.plan.end()
    this.#reschedule(this.#parts.clock.now())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#abandoned) return
    try {
      await this.release()
    } catch (error) {
      if (!isGone(asLeaseError(error))) throw error
    }
  }

  /** What the scheduler calls: the end of the term, the beginning of doubt, or the next renewal. */
  attend(now: Moment): Attention | null {
    this.#look(now)
    if (this.isOver) return null
    if (this.#autoRenew && this.#renewer.plan.isDue(now.monotonicMs)) {
      const isCounted = this.#info.maxRenewals >= 0
      this.#renewer.renewAsPlanned(now, { isCounted, doubtInMs: this.#untilDoubtMs(now) })
    }
    return this.#attention(now)
  }

  /** What the store said about the lease when somebody looked. */
  tell(seen: LeaseInfo | null): void {
    this.#look(this.#parts.clock.now())
    const reason = lossSeen(seen)
    if (reason === null || this.isOver) return
    if (seen !== null) this.#info = seen
    this.#lose(reason)
  }

  /** Stops all background work without a word; used when the client is closed. */
  detach(): void {
    this.#autoRenew = false
    this.#renewer.plan.end()
    this.#parts.scheduler.forget(this)
  }

  #leftMs(now: Moment): number {
    return this.#parts.clock.remainingMs(this.#term, now)
  }

  #untilThirdMs(now: Moment): number {
    return this.#term.spanMs / 3 - this.#parts.clock.elapsedMs(this.#term.from, now)
  }

  #untilDoubtMs(now: Moment): number {
    return this.#leftMs(now) - this.#term.spanMs / 3
  }

  #attention(now: Moment): Attention {
    const { monotonicMs } = now
    const endMs = monotonicMs + this.#leftMs(now)
    if (!this.#autoRenew) return { dueMs: endMs, earliestMs: endMs }
    const doubtMs = this.#announcedUncertain ? endMs : monotonicMs + this.#untilDoubtMs(now)
    const next = this.#renewer.plan.next ?? { dueMs: endMs, earliestMs: endMs }
    return {
      dueMs: Math.min(doubtMs, next.dueMs, endMs),
      earliestMs: Math.min(doubtMs, next.earliestMs, endMs),
    }
  }

  #reschedule(now: Moment): void {
    if (!this.isOver) this.#parts.scheduler.schedule(this, this.#attention(now))
  }

  /** Draws the conclusions that the clock allows at this moment. */
  #look(now: Moment): void {
    if (this.isOver) return
    if (this.#leftMs(now) <= 0) return this.#lose('deadline_passed', this.#doubt ?? this.#limit)
    if (!this.#autoRenew) return
    const uncertain = this.#doubt !== null || this.#untilDoubtMs(now) <= 0
    if (uncertain === this.#announcedUncertain) return
    this.#announcedUncertain = uncertain
    const remainingMs = Math.floor(this.#leftMs(now))
    if (uncertain) {
      this.#listeners.emit('uncertain', { remainingMs, cause: this.#doubt ?? this.#limit })
    } else this.#listeners.emit('recovered', { remainingMs })
  }

  #requireLive(): Moment {
    const now = this.#parts.clock.now()
    this.#look(now)
    if (this.#lost !== null) throw this.#lost
    if (!this.#givenUp) return now
    const details = { leaseId: this.id, resource: this.resource, state: 'released' }
    throw new LeaseError('LEASE_TERMINAL', `lease ${this.id} is already released`, { details })
  }

  /** A renewal that is under way anyway answers for this one; true if it was confirmed. */
  async #joinRenewal(): Promise<boolean> {
    const { underWay } = this.#renewer
    if (underWay === null) return false
    try {
      const answer = await this.#orLost(underWay)
      return answer.kind === 'renewed'
    } catch (error) {
      if (error === this.#lost) throw error
      return false
    }
  }

  #renewed(lease: LeaseInfo, from: Moment): void {
    const { clock } = this.#parts
    const now = clock.now()
    this.#look(now)
    if (this.#lost !== null) return this.#giveBack()
    if (this.isOver) return
    if (lease.renewals >= this.#info.renewals) this.#info = lease
    // `maxHoldMs` may have cut the term short, and the store rounds up what is left: hence the millisecond.
    const { ttlMs, maxHoldMs } = lease
    const spanMs = maxHoldMs === null ? ttlMs : Math.min(ttlMs, lease.remainingMs - 1)
    const term = { from, spanMs }
    if (clock.remainingMs(term, now) > this.#leftMs(now)) this.#term = term
    this.#doubt = null
    this.#renewer.plan.confirmed(now.monotonicMs, this.#untilThirdMs(now))
    this.#look(now)
    const remainingMs = Math.floor(this.#leftMs(now))
    this.#listeners.emit('renewed', { remainingMs, renewals: lease.renewals })
    this.#reschedule(now)
  }

  #renewalRefused(refusal: Refusal): void {
    const now = this.#parts.clock.now()
    this.#look(now)
    if (this.isOver) return
    const reason = lossOf(refusal)
    if (reason === null) this.#refusedAlive(refusal, now)
    else this.#lose(reason, refusalError(refusal))
  }

  /** The lease lives on as it is: at its limit, or too soon after another renewal to be extended. */
  #refusedAlive(refusal: Refusal, now: Moment): void {
    this.#doubt = null
    if (refusal.kind === 'renewal_limit') {
      this.#limit = refusalError(refusal)
      this.#renewer.plan.end()
    } else {
      const pauseMs = Math.max(this.#untilThirdMs(now), this.#term.spanMs / 12)
      this.#renewer.plan.confirmed(now.monotonicMs, pauseMs)
    }
    this.#look(now)
    this.#reschedule(now)
  }

  #renewalFailed(error: LeaseError): void {
    const now = this.#parts.clock.now()
    this.#look(now)
    if (this.isOver) return
    this.#doubt = error
    if (mayRepeat(error))
      this.#renewer.plan.failed(now.monotonicMs, this.#term.spanMs, error.effect)
    else this.#renewer.plan.end()
    this.#look(now)
    this.#reschedule(now)
  }

  #lose(reason: LossReason, cause: LeaseError | null = null): void {
    if (this.#lost !== null) return
    const error = lossError(this.#info, reason, cause)
    this.#lost = error
    this.detach()
    this.#controller?.abort(error)
    for (const reject of this.#lossWaiters) reject(error)
    this.#lossWaiters.clear()
    this.#listeners.emit('lost', { error })
    this.#parts.onEnd(this)
  }

  /** Waits for a call, but not beyond the loss of the lease. */
  #orLost(call: Promise<RenewAnswer>): Promise<RenewAnswer> {
    return new Promise((resolve, reject) => {
      this.#lossWaiters.add(reject)
      const settled = (): void => void this.#lossWaiters.delete(reject)
      call.then(resolve, reject).finally(settled)
    })
  }

  /** The holder has stopped but the store may still keep the lease; nobody should have to wait for its deadline. */
  #giveBack(): void {
    const mayLiveOn = this.#lost?.details['reason'] === 'deadline_passed'
    if (mayLiveOn && !this.#release.wasTried) this.#parts.background(this.#release.send('aborted'))
  }

  async #sendRelease(reason: ReleaseReason): Promise<void> {
    this.#givenUp = true
    this.detach()
    try {
      const result = await this.#release.send(reason)
      if (result.kind === 'released') {
        this.#info = result.lease ?? this.#info
        return
      }
      this.#lose(lossOf(result) ?? 'released', refusalError(result))
      throw result.kind === 'expired' ? refusalError(result) : (this.#lost ?? refusalError(result))
    } catch (error) {
      this.#releasing = null
      throw error
    } finally {
      this.#parts.onEnd(this)
    }
  }
}

function isGone(error: LeaseError): boolean {
  return ['LEASE_LOST', 'LEASE_EXPIRED', 'LEASE_TERMINAL', 'LEASE_NOT_FOUND'].includes(error.code)
}
