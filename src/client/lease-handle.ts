/**
 * The handle of a lease: the one object that sends for a holder and listens for it. What the holder may believe, and when
 * the next renewal goes, `holding.ts` decides from every answer and from the clock at every read; this file carries it out.
 *
 *  - The lease is lost at the end of its term whether or not any call returns: the scheduler runs this handle then, and
 *    every read looks at the clock as well. Callers wait for an answer of the store, never beyond the loss.
 *  - What the store still keeps after a loss is given back in the background.
 *  - Nothing in the background rejects into the void, and nothing but its release is sent once the lease is over.
 */
import { parseBudget, shortageOf, type Budget } from '../core/budget.ts'
import { delegationOf, rootOf, type RootLease } from '../core/delegation.ts'
import type { LeaseError } from '../core/errors.ts'
import {
  delegatedFacts,
  type DelegatedFacts,
  type LeaseId,
  type LeaseInfo,
  type ReleaseReason,
} from '../core/lease.ts'
import { refusalError, type Refusal } from '../core/outcome.ts'
import type { Extent, Mode, Resource } from '../core/resource.ts'
import { outsideScope, parseAct, type ScopedAct } from '../core/scope.ts'
import { report, reportTo, type RepeatedFault } from '../runtime/diagnostics.ts'
import type { RenewAnswer } from '../service/lease-api.ts'
import type { EpochRange, HandleState, LeaseEvents, ModeChange, Receiver } from './contract.ts'
import type {
  AcquireOptions,
  AdvanceOptions,
  DeriveOptions,
  ReleaseOptions,
  RenewOptions,
  SpendOptions,
  UpdateOptions,
  UpgradeOptions,
} from './options.ts'
import type { Moment } from './holder-clock.ts'
import {
  beginHolding,
  dueWindow,
  isOverForHolder,
  leftMs,
  stepHolding,
  type GrantedLease,
  type Holding,
  type HoldingAction,
  type HoldingEvent,
  type HoldingStep,
  type Instant,
  type SentRenewal,
} from './holding.ts'
import { isGone, LossRace, releasedError } from './lease-loss.ts'
import { LeaseMode, type UpgradeContext } from './lease-mode.ts'
import { Interest, LeaseReference, type Orphans } from './lease-reference.ts'
import { LeaseRequests, noteAfter, releaseGoesOn, type JointRelease } from './lease-requests.ts'
import { Listeners } from './listeners.ts'
import {
  checkListener,
  readAcquireUnder,
  readDerive,
  readOptions,
  readReceiver,
  readUpgrade,
  type ReadAcquire,
} from './read-options.ts'
import { runOutside } from './request-under.ts'
import { ScheduledTask, type DueWindow, type RenewalScheduler } from './renewal-scheduler.ts'
import { isRetryable } from './retry.ts'
import type { Grant } from './waiting.ts'

/** The client as its handles know it: what they share, and what it must hear of them. */
export interface HandleClient extends UpgradeContext {
  readonly scheduler: RenewalScheduler
  /** Of automatic renewals, which have no caller: one for all leases. */
  readonly renewalFault: RepeatedFault
  /** Watches a lease that is kept beyond its first term by its automatic renewal. */
  readonly orphans: Orphans<LeaseHandle>
  /** Whether leases renew themselves for no longer than the store's `max_hold_seconds`. */
  readonly limitsHold: boolean
  /** As the store says now; `Infinity`: no limit. */
  readMaxHoldMs(resource: Resource): Promise<number>
  /** Takes over the release of a lease that is over for its holder; until it has ended, no answer brings the lease back. */
  giveBack(
    handle: LeaseHandle,
    release: { readonly source: string; readonly work: Promise<unknown> },
  ): void
  /** Finds out, in the background, how the store sees the lease. */
  lookLater(handle: LeaseHandle): void
  /** The holder has made a call. */
  called(): void
  acquireUnder(wanted: ReadAcquire): Promise<LeaseHandle>
  /** Turns what was derived from a lease into a handle of its own. */
  handOutChild(
    parent: LeaseHandle,
    derivation: Promise<Grant>,
    granted: Pick<GrantedLease, 'autoRenew'>,
  ): Promise<LeaseHandle>
  /** The signed token of the lease. */
  signedGrant(handle: LeaseHandle): string
  /** The lease has a new fence. */
  onFence(lease: LeaseInfo): void
  /** The holder has begun to release the lease: what was derived from it ends with it. */
  onReleasing(handle: LeaseHandle): void
  /** The handle holds nothing any more. */
  onEnd(handle: LeaseHandle): void
}

export class LeaseHandle {
  readonly id: LeaseId
  readonly resource: Resource
  readonly holder: string
  readonly extent: Extent
  readonly interest: Interest<LeaseReference> = new Interest()
  readonly #client: HandleClient
  readonly #requests: LeaseRequests
  /** Made for the first listener; most leases have none. */
  #listeners: Listeners<LeaseEvents> | null = null
  /** Made for the first caller that waits for an answer, or reads the signal; most leases have none. */
  #race: LossRace | null = null
  readonly #task = new ScheduledTask(this)
  /** Made for the first upgrade or downgrade; most leases never have one. */
  #modes: LeaseMode | null = null
  #holding: Holding
  /** A renewal under way that asks for no other TTL, so that it answers for a second one as well; null: it failed. */
  #renewing: Promise<RenewAnswer | null> | null = null
  /** The holder has asked for a renewal, and none was answered since. */
  #isAsked = false
  #releasing: Promise<void> | null = null

  /** `now`: when the grant arrived. */
  constructor(client: HandleClient, granted: Omit<GrantedLease, 'limitsHold'>, now: Moment) {
    const { id, resource, holder, extent } = granted.lease
    this.id = id
    this.resource = resource
    this.holder = holder
    this.extent = extent
    this.#client = client
    const { limitsHold } = client
    const at = this.#at(now)
    const begun = beginHolding({ ...granted, limitsHold }, at)
    this.#holding = begun.holding
    this.#requests = new LeaseRequests(client, { id, resource, extent, holder }, this)
    this.#carryOut(begun)
    this.#schedule(at)
  }

  get state(): HandleState {
    this.#step({ kind: 'time' })
    return this.#holding.state
  }

  get remainingMs(): number {
    const now = this.#client.clock.now()
    this.#step({ kind: 'time' }, now)
    return this.isOver ? 0 : Math.floor(leftMs(this.#holding, this.#at(now)))
  }

  get signal(): AbortSignal {
    this.#step({ kind: 'time' })
    return this.#ownRace().signal
  }

  #ownRace(): LossRace {
    this.#race ??= new LossRace(this.#holding.loss)
    return this.#race
  }

  get info(): LeaseInfo {
    return this.#holding.info
  }

  get mode(): Mode {
    return this.#modes?.isTakenBack === true ? 'shared' : this.#holding.mode
  }

  get fence(): number {
    return this.#holding.fence
  }

  get slots(): number | null {
    return this.info.slots
  }

  get root(): RootLease | null {
    return rootOf(this.info)
  }

  /** What the lease may be used for, and how much of it. */
  get delegated(): DelegatedFacts {
    return delegatedFacts(delegationOf(this.info))
  }

  get epoch(): number | null {
    return this.#requests.nextEpoch
  }

  get grant(): string {
    this.#requireLive()
    return this.#client.signedGrant(this)
  }

  get renewals(): number {
    return this.info.renewals
  }

  /** Lost, or given up by its holder. */
  get isOver(): boolean {
    return isOverForHolder(this.#holding)
  }

  /** What the application holds of it. `parent`: what that was derived from. */
  reference(parent: LeaseReference | null = null): LeaseReference {
    const known = this.interest.reference
    if (known !== null) return known
    const reference = new LeaseReference(this, parent)
    this.interest.begin(reference)
    return reference
  }

  get isAbandoned(): boolean {
    return this.#holding.isAbandoned
  }

  /** Ended by its own holder, whether or not the store has heard of it. */
  get isEndedByHolder(): boolean {
    return this.#holding.state === 'released' || this.isTransferred
  }

  /** Transferred to another by its own holder. */
  get isTransferred(): boolean {
    return this.#holding.loss?.details['reason'] === 'transferred'
  }

  on<Name extends keyof LeaseEvents>(
    name: Name,
    listener: (event: LeaseEvents[Name]) => void,
  ): () => void {
    checkListener(name, listener)
    this.#listeners ??= new Listeners()
    return this.#listeners.add(name, listener)
  }

  async renew(options?: RenewOptions): Promise<void> {
    const { ttlMs = null } = readOptions('RenewOptions', options)
    let now = this.#requireLive()
    if (ttlMs === null && this.#renewing !== null) {
      const joined = await this.#ownRace().run(this.#renewing)
      if (joined?.kind === 'renewed') return
      now = this.#requireLive()
    }
    const answer = await this.#ownRace().run(this.#renewNow(ttlMs, now))
    if (answer.kind !== 'renewed') throw refusalError(answer)
    this.#requireLive()
  }

  #renewNow(ttlMs: number | null, sent: Moment): Promise<RenewAnswer> {
    const withinMs = leftMs(this.#holding, this.#at(sent))
    const limits = { withinMs, stopIf: () => this.isOver }
    this.#isAsked = true
    const answered = this.#heard(this.#requests.renewNow(ttlMs, limits), sent)
    if (ttlMs === null) this.#keepRenewing(answered, null)
    return answered
  }

  #renewAsPlanned(renewal: SentRenewal): void {
    this.#client.orphans.watch(this)
    const answered = this.#heard(this.#requests.renew(renewal), renewal.firstSent)
    this.#keepRenewing(answered, this.#client.renewalFault)
  }

  /** Until it is answered others may join it. Of a failure its caller hears, or `fault`; those that joined send their own. */
  #keepRenewing(answered: Promise<RenewAnswer>, fault: RepeatedFault | null): void {
    const ended = (answer: RenewAnswer | null): RenewAnswer | null => {
      if (this.#renewing === renewing) this.#renewing = null
      return answer
    }
    const renewing = answered.then(
      (answer) => {
        fault?.succeeded()
        return ended(answer)
      },
      (error: unknown) => {
        fault?.failed(error)
        return ended(null)
      },
    )
    this.#renewing = renewing
  }

  /** The state of the lease follows the answer before any caller of the renewal hears of it. */
  #heard(call: Promise<RenewAnswer>, from: Moment): Promise<RenewAnswer> {
    return call.then(
      (answer) => {
        this.#isAsked = false
        if (answer.kind === 'renewed') this.#step({ kind: 'renewed', lease: answer.lease, from })
        else this.#step({ kind: 'renewal_refused', refusal: answer })
        return answer
      },
      (error: unknown) => {
        this.#isAsked = false
        this.#step({ kind: 'renewal_failed', error })
        throw error
      },
    )
  }

  async acquire(resource: string, options?: Omit<AcquireOptions, 'under'>): Promise<LeaseHandle> {
    this.#requireLive()
    const wanted = readAcquireUnder(this.#client.runtime, this.id, resource, options)
    return this.#client.acquireUnder(wanted)
  }

  async advance(options?: AdvanceOptions): Promise<EpochRange> {
    this.#requireLive()
    const range = await this.#ownRace().run(this.#requests.advance(options))
    this.#requireLive()
    return range
  }

  async derive(options: DeriveOptions): Promise<LeaseHandle> {
    const { asked, facts } = readDerive(this.#client.runtime, options)
    this.#requireLive()
    const derivation = this.#ownRace().run(this.#requests.derive(asked))
    const child = await this.#client.handOutChild(this, derivation, facts)
    this.#step({ kind: 'derived', child: child.info })
    return child
  }

  async spend(amounts: Budget, options?: SpendOptions): Promise<Budget> {
    const parsed = parseBudget('amounts', amounts)
    const { requestId = this.#client.runtime.uuid() } = readOptions('SpendOptions', options)
    this.#requireLive()
    return this.#ownRace().run(this.#requests.spend(parsed, requestId))
  }

  allows(act: ScopedAct, spending?: Budget): boolean {
    const { scope, limits, used } = delegationOf(this.info)
    const isWithin = outsideScope(scope, parseAct(act)) === null
    const isThere = shortageOf(limits, used, parseBudget('spending', spending)) === null
    return isWithin && isThere && this.remainingMs > 0
  }

  async upgrade(options?: UpgradeOptions): Promise<ModeChange> {
    const asked = readUpgrade(options)
    this.#requireLive()
    if (this.mode === 'exclusive') return { changed: false }
    const change = await this.#ownModes().upgrade(asked)
    this.#requireLive()
    this.#step({ kind: 'mode', mode: 'exclusive' })
    return change
  }

  async downgrade(): Promise<ModeChange> {
    this.#requireLive()
    this.#step({ kind: 'mode', mode: 'shared' })
    const change = await this.#ownRace().run(this.#ownModes().downgrade())
    this.#requireLive()
    return change
  }

  #ownModes(): LeaseMode {
    this.#modes ??= new LeaseMode(this.#client, this.#requests.target, this)
    return this.#modes
  }

  async update(options: UpdateOptions): Promise<void> {
    this.#requireLive()
    await this.#ownRace().run(this.#requests.update(options))
  }

  previous(): Promise<LeaseInfo | null> {
    return this.#requests.previous(this.fence)
  }

  async transfer(to: Receiver): Promise<LeaseId | null> {
    const receiver = readReceiver(to, this.holder)
    if (!this.#requests.isTransferOpen) this.#requireLive()
    // Not given up when the lease is lost meanwhile: it may be lost because it was transferred, and only this call knows.
    const call = this.#requests.transfer(receiver)
    const noteTransfer = (): void => {
      this.#step({ kind: 'transferring', isOpen: this.#requests.isTransferOpen })
    }
    noteTransfer()
    const result = await call.finally(noteTransfer)
    if (result.kind === 'transferred') {
      this.#step({ kind: 'transferred' })
      return result.leaseId
    }
    this.onRefused(result)
    throw this.#holding.loss ?? refusalError(result)
  }

  release(options?: ReleaseOptions): Promise<void> {
    return this.releaseWith(options)
  }

  /** `joint`: the request goes along with others. Everything up to there happens before this returns. */
  releaseWith(options?: ReleaseOptions, joint?: JointRelease): Promise<void> {
    try {
      const { reason = 'voluntary', metadata } = readOptions('ReleaseOptions', options)
      if (metadata !== undefined) this.#requests.note = noteAfter(this.info, { metadata })
      this.#client.called()
      const now = this.#client.clock.now()
      this.#step({ kind: 'time' }, now)
      if (this.#releasing !== null) return this.#releasing
      this.#step({ kind: 'released' }, now)
      if (this.#holding.loss !== null) throw this.#holding.loss
      this.#releasing = this.#sendRelease(reason, joint)
      return this.#releasing
    } catch (error) {
      return Promise.reject(error)
    }
  }

  async #sendRelease(reason: ReleaseReason, joint?: JointRelease): Promise<void> {
    this.#modes?.cancel(() => releasedError(this))
    this.#client.onReleasing(this)
    try {
      const result = await this.#requests.release(reason, joint)
      if (this.#requests.isReleasedBefore(result)) return
      if (result.kind === 'released') {
        return this.#step({ kind: 'release_confirmed', lease: result.lease })
      }
      this.#step({ kind: 'release_refused', refusal: result })
      const { loss } = this.#holding
      throw result.kind === 'expired' ? refusalError(result) : (loss ?? refusalError(result))
    } catch (error) {
      this.#releasing = null
      if (!isRetryable(error) || this.#client.hasEnded) throw error
      this.#releaseInBackground('client/release', reason)
      throw releaseGoesOn(this.#requests.target, error)
    } finally {
      this.#client.onEnd(this)
    }
  }

  #releaseInBackground(source: string, reason: ReleaseReason): void {
    const work = this.#requests.releaseInBackground(reason, () => this.#client.hasEnded)
    this.#client.giveBack(this, { source, work })
  }

  abandon(): void {
    if (!this.isAbandoned) this.#step({ kind: 'abandoned' })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.isAbandoned) return
    try {
      await this.release()
    } catch (error) {
      if (!isGone(error)) throw error
    }
  }

  /** What the scheduler calls when the due window has come. */
  runDue(now: Moment): DueWindow | null {
    const at = this.#at(now)
    const newId = (): string => this.#client.runtime.uuid()
    this.#apply({ kind: 'due', newId, isAsked: this.#isAsked }, at)
    return this.isOver ? null : dueWindow(this.#holding, at)
  }

  /** What the store said about the lease when it was asked at `sent` or later. */
  onLooked(lease: LeaseInfo | null, sent: Moment): void {
    this.#step({ kind: 'looked', lease, sent })
  }

  onDescribed(lease: LeaseInfo, sent: Moment): void {
    this.#step({ kind: 'described', lease, sent })
  }

  onRefused(refusal: Refusal): void {
    this.#step({ kind: 'refused', refusal })
  }

  /** The lease that this one was derived from has ended, and this one with it. */
  endWithParent(): void {
    this.#step({ kind: 'parent_ended' })
  }

  /** A wake-up names the lease. */
  wake(): void {
    this.#modes?.wake()
  }

  /** Something changed that may or may not concern the lease. */
  hint(): void {
    this.#modes?.hint()
  }

  /** The client is closed and leaves the lease to its deadline: only the caller of an upgrade is told why it ends. */
  leave(why: () => LeaseError): void {
    this.#modes?.cancel(why)
    this.#client.scheduler.forget(this.#task)
  }

  #requireLive(): Moment {
    this.#client.called()
    const now = this.#client.clock.now()
    this.#step({ kind: 'time' }, now)
    const { loss, state } = this.#holding
    if (loss !== null) throw loss
    if (state === 'released') throw releasedError(this)
    return now
  }

  #at(now: Moment): Instant {
    return { clock: this.#client.clock, now }
  }

  #step(event: HoldingEvent, now: Moment = this.#client.clock.now()): void {
    const at = this.#at(now)
    if (this.#apply(event, at) && !this.isOver) this.#schedule(at)
  }

  /** True if anything has changed. */
  #apply(event: HoldingEvent, at: Instant): boolean {
    const before = this.#holding
    const step = stepHolding(before, event, at)
    this.#holding = step.holding
    this.#carryOut(step)
    return step.holding !== before
  }

  #schedule(at: Instant): void {
    this.#client.scheduler.schedule(this.#task, dueWindow(this.#holding, at))
  }

  /** A listener may end the lease between two actions. */
  #carryOut({ holding, actions }: HoldingStep): void {
    if (isOverForHolder(holding)) this.#client.scheduler.forget(this.#task)
    for (const action of actions) this.#do(action)
  }

  #do(action: HoldingAction): void {
    switch (action.kind) {
      case 'notify':
        return runOutside(() => {
          if (action.name === 'lost') this.#end(action.event.error)
          else this.#listeners?.emit(action.name, action.event)
        })
      case 'send_renewal':
        return this.isOver ? undefined : this.#renewAsPlanned(action.renewal)
      case 'give_back':
        if (this.#requests.wasReleaseTried) return
        return this.#releaseInBackground('client/give-back', 'aborted')
      case 'look':
        return this.isOver ? undefined : this.#client.lookLater(this)
      case 'read_max_hold':
        return this.#readMaxHold()
      case 'max_hold_reached':
        return report('client/max-hold', action.error)
      case 'new_fence':
        return this.#client.onFence(action.lease)
    }
  }

  #end(error: LeaseError): void {
    this.#modes?.cancel(() => error)
    this.#race?.lose(error)
    this.#requests.giveUp()
    this.#listeners?.emit('lost', { error })
    this.#client.onEnd(this)
  }

  #readMaxHold(): void {
    const { monotonicMs: askedAtMs } = this.#client.clock.now()
    this.#client.readMaxHoldMs(this.resource).then((ms) => {
      this.#step({ kind: 'max_hold', ms, askedAtMs })
    }, reportTo('client/max-hold'))
  }
}
