/**
 * The handle of a lease: what its holder knows, computed from the clock at every read.
 *
 *  - Its term runs from before the first send of the request that granted or last renewed it, so that it ends no later
 *    than the store's. Of two terms that the store confirmed the one that ends later counts; both are safe.
 *  - It is lost at the end of its term whether or not any call returns: the scheduler comes by, and every read looks
 *    at the clock as well. There is no way back: what the store still keeps then is given back in the background, and so is
 *    a renewal that is confirmed after the loss. Not with a lock delay: then it ends at its deadline.
 *  - Whoever is asked to finish counts on the shorter of its own term and the grace, from before it looked, and no
 *    renewal that was confirmed before moves that end again.
 *  - Nothing in the background rejects into the void, and nothing but its release is sent once the lease is over.
 *
 * What it does not promise: after a revocation the store may have given the resource away before this handle hears of
 * it. Until then only the fence protects.
 */
import { parseBudget, shortageOf, type Budget } from '../core/budget.ts'
import { delegationOf, rootOf, type RootLease } from '../core/delegation.ts'
import { isLeaseError, type LeaseError } from '../core/errors.ts'
import {
  delegatedFacts,
  type DelegatedFacts,
  type LeaseId,
  type LeaseInfo,
  type ReleaseReason,
} from '../core/lease.ts'
import { refusalError, type Refusal } from '../core/outcome.ts'
import type { Extent, Mode, Resource } from '../core/resource.ts'
import { readOptions } from '../protocol/library.ts'
import { outsideScope, parseAct, type ScopedAct } from '../core/scope.ts'
import type {
  AcquireOptions,
  AdvanceOptions,
  DeriveOptions,
  EpochRange,
  HandleState,
  LeaseEvents,
  ModeChange,
  Receiver,
  ReleaseOptions,
  RenewOptions,
  SpendOptions,
  UpdateOptions,
  UpgradeOptions,
} from './contract.ts'
import type { HandleParts } from './handle-parts.ts'
import type { Moment } from './holder-clock.ts'
import { LeaseDelegation } from './lease-delegation.ts'
import { LeaseEpochs } from './lease-epochs.ts'
import { LeaseKnowledge, type HandleFacts } from './lease-knowledge.ts'
import {
  isGone,
  lossError,
  lossOf,
  lossSeen,
  releasedError,
  type LossReason,
} from './lease-loss.ts'
import { LeaseMode } from './lease-mode.ts'
import { LeaseReference } from './lease-reference.ts'
import {
  LeaseRelease,
  releaseGoesOn,
  type JointRelease,
  type LeaseTarget,
} from './lease-release.ts'
import { LeaseTransfer } from './lease-transfer.ts'
import { LeaseUpkeep, type Upheld } from './lease-upkeep.ts'
import { LeaseWords, noteAfter } from './lease-words.ts'
import { LossRace } from './loss-race.ts'
import { Listeners } from './listeners.ts'
import { Interest } from './orphans.ts'
import {
  checkListener,
  readAcquire,
  readDerive,
  readReceiver,
  readUpgrade,
} from './read-options.ts'
import { Turn, type Attended, type Attention } from './renewal-scheduler.ts'
import { isRetryable } from './retry.ts'

export class LeaseHandle implements Attended {
  readonly id: LeaseId
  readonly resource: Resource
  readonly holder: string
  readonly extent: Extent
  readonly interest: Interest<LeaseReference> = new Interest()
  readonly #parts: HandleParts<LeaseHandle>
  readonly #known: LeaseKnowledge
  readonly #upkeep: LeaseUpkeep
  readonly #target: LeaseTarget
  readonly #release: LeaseRelease
  readonly #listeners = new Listeners<LeaseEvents>()
  readonly #race = new LossRace()
  readonly #onChanged = (lease: LeaseInfo, sent: Moment): void => this.#changed(lease, sent)
  readonly #onRefused = (refusal: Refusal): void => this.#refused(refusal)
  // Most leases are taken and released, and never need any of these.
  #modes: LeaseMode | null = null
  #transfer: LeaseTransfer | null = null
  #epochs: LeaseEpochs | null = null
  #words: LeaseWords | null = null
  #delegation: LeaseDelegation | null = null
  readonly #turn = new Turn(this)
  /** The epoch of the workflow when the lease was granted; null for what has none. */
  readonly #firstEpoch: number | null
  #abandoned = false
  #lost: LeaseError | null = null
  #givenUp = false
  #releasing: Promise<void> | null = null

  constructor(parts: HandleParts<LeaseHandle>, facts: HandleFacts) {
    const { lease, term, now, autoRenew } = facts
    this.#parts = parts
    this.id = lease.id
    this.resource = lease.resource
    this.holder = lease.holder
    this.extent = lease.extent
    this.#firstEpoch = lease.epoch
    this.#known = new LeaseKnowledge(parts.clock, facts)
    const { api, runtime, clock } = parts
    const { id, resource, extent, holder } = this
    const target = { id, resource, extent, holder }
    this.#target = target
    this.#release = new LeaseRelease(api, runtime, { ...target, session: parts.session })
    this.#upkeep = new LeaseUpkeep(
      {
        ...{ api, runtime, clock, target, known: this.#known },
        ...{ fault: parts.renewalFault, handle: this.#upheld() },
        readMaxHoldMs: parts.readMaxHoldMs?.(resource) ?? null,
      },
      { now, autoRenew },
    )
    this.#noteRevoking(lease, term.from)
    this.#parts.scheduler.schedule(this.#turn, this.#upkeep.attention(now))
  }

  #upheld(): Upheld {
    return {
      onChanged: this.#onChanged,
      onRefused: this.#onRefused,
      isOver: () => this.isOver,
      look: (now) => this.#look(now),
      reschedule: (now) => this.#reschedule(now),
      onRenewed: ({ renewals }, now) => {
        const remainingMs = Math.floor(this.#known.leftMs(now))
        this.#listeners.emit('renewed', { remainingMs, renewals })
      },
      onTooLate: () => this.#giveBackUnasked(),
      onPuzzled: () => this.#parts.askAbout(this),
    }
  }

  get state(): HandleState {
    this.#look(this.#parts.clock.now())
    if (this.#lost !== null) return 'lost'
    if (this.#givenUp) return 'released'
    return this.#upkeep.isUncertain ? 'uncertain' : 'held'
  }

  get remainingMs(): number {
    const now = this.#parts.clock.now()
    this.#look(now)
    return this.isOver ? 0 : Math.floor(this.#known.leftMs(now))
  }

  get signal(): AbortSignal {
    this.#look(this.#parts.clock.now())
    return this.#race.signal
  }

  get info(): LeaseInfo {
    return this.#known.info
  }

  get mode(): Mode {
    return this.#modes?.isTakenBack === true ? 'shared' : this.#known.mode
  }

  get fence(): number {
    return this.#known.fence
  }

  get slots(): number | null {
    return this.#known.info.slots
  }

  get root(): RootLease | null {
    return rootOf(this.#known.info)
  }

  /** What the lease may be used for, and how much of it. */
  get delegated(): DelegatedFacts {
    return delegatedFacts(delegationOf(this.#known.info))
  }

  get epoch(): number | null {
    return this.#epochs === null ? this.#firstEpoch : this.#epochs.next
  }

  get grant(): string {
    this.#requireLive()
    return this.#parts.signedGrant(this)
  }

  get renewals(): number {
    return this.#known.info.renewals
  }

  /** Lost, or given up by its holder. */
  get isOver(): boolean {
    return this.#lost !== null || this.#givenUp
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
    return this.#abandoned
  }

  /** Ended by its own holder, whether or not the store has heard of it. */
  get isLetGo(): boolean {
    return this.#givenUp || this.isTransferred
  }

  /** Given to another by its own holder. */
  get isTransferred(): boolean {
    return this.#lost?.details['reason'] === 'transferred'
  }

  on<Name extends keyof LeaseEvents>(
    name: Name,
    listener: (event: LeaseEvents[Name]) => void,
  ): () => void {
    checkListener(name, listener)
    return this.#listeners.add(name, listener)
  }

  async renew(options?: RenewOptions): Promise<void> {
    const { ttlMs = null } = readOptions('RenewOptions', options)
    this.#requireLive()
    if (ttlMs === null && (await this.#upkeep.join(this.#race))) return
    const sent = this.#requireLive()
    const answer = await this.#race.run(this.#upkeep.renew(ttlMs, sent))
    if (answer.kind !== 'renewed') throw refusalError(answer)
    this.#requireLive()
  }

  async acquire(resource: string, options?: Omit<AcquireOptions, 'under'>): Promise<LeaseHandle> {
    this.#requireLive()
    const wanted = readAcquire(this.#parts.runtime, resource, { ...options, under: [this.id] })
    return this.#parts.acquireUnder(wanted)
  }

  async advance(options?: AdvanceOptions): Promise<EpochRange> {
    this.#requireLive()
    const range = await this.#race.run(this.#ownEpochs().advance(options))
    this.#requireLive()
    return range
  }

  async derive(options: DeriveOptions): Promise<LeaseHandle> {
    const { wish, facts } = readDerive(this.#parts.runtime, options)
    this.#requireLive()
    const derivation = this.#race.run(this.#ownDelegation().derive(wish))
    const child = await this.#parts.handOutChild(this, derivation, facts)
    this.#known.takeDerived(child.info)
    return child
  }

  async spend(amounts: Budget, options?: SpendOptions): Promise<Budget> {
    const parsed = parseBudget('amounts', amounts)
    const { requestId = this.#parts.runtime.uuid() } = readOptions('SpendOptions', options)
    this.#requireLive()
    return this.#race.run(this.#ownDelegation().spend(parsed, requestId))
  }

  allows(act: ScopedAct, spending?: Budget): boolean {
    const { scope, limits, used } = delegationOf(this.#known.info)
    const isWithin = outsideScope(scope, parseAct(act)) === null
    const isThere = shortageOf(limits, used, parseBudget('spending', spending)) === null
    return isWithin && isThere && this.remainingMs > 0
  }

  async upgrade(options?: UpgradeOptions): Promise<ModeChange> {
    const wish = readUpgrade(options)
    this.#requireLive()
    if (this.mode === 'exclusive') return { changed: false }
    const change = await this.#ownModes().upgrade(wish)
    this.#requireLive()
    this.#known.setMode('exclusive')
    return change
  }

  async downgrade(): Promise<ModeChange> {
    this.#requireLive()
    this.#known.setMode('shared')
    const change = await this.#race.run(this.#ownModes().downgrade())
    this.#requireLive()
    return change
  }

  async update(options: UpdateOptions): Promise<void> {
    this.#requireLive()
    await this.#race.run(this.#ownWords().update(options))
  }

  previous(): Promise<LeaseInfo | null> {
    return this.#ownWords().previous(this.fence)
  }

  #ownWords(): LeaseWords {
    const { api, runtime } = this.#parts
    this.#words ??= new LeaseWords({
      ...{ api, runtime, target: this.#target, info: () => this.info },
      onUpdated: (lease) => void this.#known.take(lease),
      onRefused: this.#onRefused,
    })
    return this.#words
  }

  async transfer(to: Receiver): Promise<LeaseId | null> {
    const receiver = readReceiver(to, this.holder)
    if (!this.#isTransferOpen) this.#requireLive()
    // Not given up when the lease is lost meanwhile: it may be lost because it was transferred, and only this call knows.
    const { api, runtime } = this.#parts
    this.#transfer ??= new LeaseTransfer({ api, runtime, target: this.#target })
    const result = await this.#transfer.send(receiver)
    if (result.kind === 'transferred') {
      this.#lose('transferred')
      return result.leaseId
    }
    this.#refused(result)
    throw this.#lost ?? refusalError(result)
  }

  release(options?: ReleaseOptions): Promise<void> {
    return this.releaseWith(options)
  }

  /** `together`: the request goes along with others. Everything up to there happens before this returns. */
  releaseWith(options?: ReleaseOptions, together?: JointRelease): Promise<void> {
    try {
      const reason = readReason(options)
      if (options?.metadata !== undefined) {
        this.#release.note = noteAfter(this.info, { metadata: options.metadata })
      }
      this.#parts.onCall()
      this.#look(this.#parts.clock.now())
      if (this.#releasing !== null) return this.#releasing
      if (this.#lost !== null) {
        this.#giveBack()
        throw this.#lost
      }
      this.#releasing = this.#sendRelease(reason, together)
      return this.#releasing
    } catch (error) {
      return Promise.reject(error)
    }
  }

  abandon(): void {
    if (this.isOver || this.#abandoned) return
    this.#abandoned = true
    this.#upkeep.end()
    this.#reschedule(this.#parts.clock.now())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#abandoned) return
    try {
      await this.release()
    } catch (error) {
      if (!isGone(error)) throw error
    }
  }

  /** What the scheduler calls: the end of the term, the beginning of doubt, or the next renewal. */
  attend(now: Moment): Attention | null {
    this.#look(now)
    if (this.isOver) return null
    if (this.#upkeep.renewIfDue(now)) this.#parts.onKept(this)
    return this.#upkeep.attention(now)
  }

  /** What the store said about the lease when somebody looked, at `sent` or later. */
  tell(seen: LeaseInfo | null, sent: Moment): void {
    this.#look(this.#parts.clock.now())
    if (this.isOver) return
    const reason = lossSeen(seen)
    if (reason === null && seen !== null) return this.#changed(seen, sent)
    if (seen !== null) this.#known.takeEnd(seen)
    this.#lose(reason ?? 'not_found')
  }

  /** The lease that this one was derived from has ended, and this one with it. */
  endWithParent(): void {
    if (!this.isOver) this.#lose('parent_ended')
  }

  /** The store called the lease by its name. */
  wake(): void {
    this.#modes?.wake()
  }

  /** Something changed that may or may not concern the lease. */
  hint(): void {
    this.#modes?.hint()
  }

  /** Stops all background work without a word; used when the client is closed. */
  detach(): void {
    this.#upkeep.end()
    this.#parts.scheduler.forget(this.#turn)
  }

  get #isTransferOpen(): boolean {
    return this.#transfer?.isOpen === true
  }

  #ownModes(): LeaseMode {
    const { api, runtime, clock, waitParts, sequential, underOf } = this.#parts
    const told = { onChanged: this.#onChanged, onRefused: this.#onRefused }
    this.#modes ??= new LeaseMode({
      ...{ api, runtime, clock, waitParts, sequential, underOf, target: this.#target },
      ...told,
    })
    return this.#modes
  }

  #ownEpochs(): LeaseEpochs {
    const { api, runtime } = this.#parts
    const parts = { api, runtime, target: this.#target, onRefused: this.#onRefused }
    this.#epochs ??= new LeaseEpochs(parts, this.#firstEpoch)
    return this.#epochs
  }

  #ownDelegation(): LeaseDelegation {
    const { api, runtime, clock, session, discard } = this.#parts
    const told = { onChanged: this.#onChanged, onRefused: this.#onRefused }
    this.#delegation ??= new LeaseDelegation({
      ...{ api, runtime, clock, session, discard, target: this.#target },
      ...told,
    })
    return this.#delegation
  }

  #reschedule(now: Moment): void {
    if (!this.isOver) this.#parts.scheduler.schedule(this.#turn, this.#upkeep.attention(now))
  }

  /** Draws the conclusions that the clock allows at this moment. */
  #look(now: Moment): void {
    if (this.isOver) return
    if (this.#known.leftMs(now) <= 0) return this.#loseByTime()
    const change = this.#upkeep.judge(now)
    if (change === null) return
    const remainingMs = Math.floor(this.#known.leftMs(now))
    if (change === 'recovered') this.#listeners.emit('recovered', { remainingMs })
    else {
      const { trouble } = this.#upkeep
      this.#listeners.emit('uncertain', {
        remainingMs,
        cause: isLeaseError(trouble) ? trouble : null,
      })
    }
  }

  /** Whoever was asked to finish, and has used up the grace, was revoked. */
  #loseByTime(): void {
    const reason = this.#known.isRevoking ? 'revoked' : 'deadline_passed'
    this.#lose(reason, this.#upkeep.trouble)
    this.#giveBackUnasked()
  }

  #requireLive(): Moment {
    this.#parts.onCall()
    const now = this.#parts.clock.now()
    this.#look(now)
    if (this.#lost !== null) throw this.#lost
    if (!this.#givenUp) return now
    throw releasedError(this)
  }

  /** The store described the lease, asked at `sent` or later. */
  #changed(lease: LeaseInfo, sent: Moment): void {
    if (this.isOver) return
    if (this.#known.take(lease)) this.#parts.onFence(lease)
    this.#noteRevoking(lease, sent)
  }

  /** Somebody asked for the lease: it is not renewed any more. */
  #noteRevoking(lease: LeaseInfo, sent: Moment): void {
    const { revoking } = lease
    if (!this.#known.noteRevoking(lease, sent) || revoking === null) return
    const limit = `the end that ${revoking.by} asked for`
    this.#upkeep.limitTo(refusalError({ kind: 'renewal_limit', leaseId: this.id, limit }))
    const now = this.#parts.clock.now()
    const remainingMs = Math.max(0, Math.floor(this.#known.leftMs(now)))
    this.#listeners.emit('revoking', { ...revoking, remainingMs })
    this.#look(now)
    this.#reschedule(now)
  }

  /** Draws the conclusions about the lease itself; it may well live on. */
  #refused(refusal: Refusal): void {
    const reason = lossOf(refusal)
    if (reason !== null && !this.isOver) this.#lose(reason, refusalError(refusal))
  }

  #lose(found: LossReason, cause: unknown = null): void {
    if (this.#lost !== null) return
    // A lease that is gone while its own transfer is under way has gone that way.
    const isGone = found === 'released' || found === 'not_found'
    const reason = isGone && this.#isTransferOpen ? 'transferred' : found
    const error = lossError(this.info, reason, cause)
    this.#lost = error
    this.detach()
    this.#modes?.cancel(() => error)
    this.#race.lose(error)
    this.#listeners.emit('lost', { error })
    this.#parts.onEnd(this)
  }

  /**
   * With a lock delay the holder wants others kept out for a while after a loss, and a release would let them in at once.
   * What was abandoned is no longer this client's to end.
   */
  #giveBackUnasked(): void {
    if (!this.#abandoned && this.info.lockDelayMs === 0) this.#giveBack()
  }

  /**
   * The holder has stopped but the store may still keep the lease; nobody should have to wait for its deadline. One whose
   * grace is used up is left to the revocation, which is what the ledger should say has ended it.
   */
  #giveBack(): void {
    const mayLiveOn = this.#lost?.details['reason'] === 'deadline_passed'
    if (mayLiveOn && !this.#release.wasTried) {
      this.#releaseInBackground('client/give-back', 'aborted')
    }
  }

  async #sendRelease(reason: ReleaseReason, together?: JointRelease): Promise<void> {
    this.#givenUp = true
    this.detach()
    this.#modes?.cancel(() => releasedError(this))
    this.#parts.onLettingGo(this)
    try {
      const result = await this.#release.send(reason, together)
      if (result.kind === 'released') {
        if (result.lease !== null) this.#known.takeEnd(result.lease)
        return
      }
      this.#lose(lossOf(result) ?? 'released', refusalError(result))
      throw result.kind === 'expired' ? refusalError(result) : (this.#lost ?? refusalError(result))
    } catch (error) {
      this.#releasing = null
      if (!isRetryable(error) || this.#parts.hasEnded()) throw error
      this.#releaseInBackground('client/release', reason)
      throw releaseGoesOn(this.#target, error)
    } finally {
      this.#parts.onEnd(this)
    }
  }

  #releaseInBackground(source: string, reason: ReleaseReason): void {
    const { hasEnded, giveBack } = this.#parts
    giveBack(this, { source, work: this.#release.sendInBackground(reason, hasEnded) })
  }
}

function readReason(options: ReleaseOptions | undefined): ReleaseReason {
  return readOptions('ReleaseOptions', options).reason ?? 'voluntary'
}
