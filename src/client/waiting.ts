/**
 * One wait, for an acquire or an upgrade, from its first send to a grant, a refusal, or the end of its time. `wait-step.ts`
 * decides what comes next; this file sends, sleeps, and stops.
 *
 *  - It sleeps until it is woken, until the store said to ask again, or until the wait is over; it never polls. A
 *    signal that may mean anything makes it look first, because a look is a read and a claim is a commit.
 *  - The wait ends exactly on time and at once when cancelled, whatever call is under way. What may be left behind in
 *    the store is withdrawn in the background (`after-wait.ts`); what the process still keeps back is not sent.
 *  - The term of a grant runs from before the request that brought it about is first sent: the acquire, or for one that
 *    waited, the claim. A definite answer in between, or a decision in vain, starts the count anew; a lost answer does not.
 *  - A grant that is already over when its answer arrives is never handed out.
 */
import type { Blocker } from '../core/conflict.ts'
import { isLeaseError, LeaseError, type Effect } from '../core/errors.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import { WAIT_MS_MAX } from '../core/limits.ts'
import { refusalError, type Held } from '../core/outcome.ts'
import type { Resource } from '../core/resource.ts'
import { US_PER_MS } from '../core/time.ts'
import { DEFAULT_SETTINGS } from '../core/settings.ts'
import { onAbort } from '../runtime/abort-listeners.ts'
import type { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { Requester, Unsubscribe } from '../service/lease-api.ts'
import type { QueuedWaiter, WaiterQueues } from '../service/waiter-queues.ts'
import { passOnGrant, withdrawLater } from './after-wait.ts'
import type { TakeOver } from './background-work.ts'
import type { HolderClock, Moment, Term } from './holder-clock.ts'
import { grantedTerm } from './holding.ts'
import {
  leasesIn,
  type GrantedAnswer,
  type HandOff,
  type OwnPlace,
  type PendingRequest,
  type QueuedAnswer,
  type WaitAnswer,
  type Why,
} from './pending-request.ts'
import { ScheduledTask, type DueWindow, type RenewalScheduler } from './renewal-scheduler.ts'
import { withDoubt } from './retry.ts'
import { ImpliedUnder, type Standstill } from './request-under.ts'
import {
  abortedError,
  nextStep,
  overError,
  timeoutError,
  type EndedWait,
  type Progress,
  type Question,
  type Report,
  type Step,
} from './wait-step.ts'

/** What the waits of a client share. */
export interface WaitContext {
  readonly runtime: Runtime
  readonly clock: HolderClock
  readonly scheduler: RenewalScheduler
  readonly background: TakeOver
  readonly standstill: Standstill
  /** Looks that fail while the store is away. */
  readonly looks: RepeatedFault
  /** The waits of a client that is alone in its session; null where others may be in it, of which it does not know. */
  readonly own: OwnWaits | null
  /** A ticket was filed: from now on wake-ups are wanted. */
  readonly onQueued: () => void
}

export interface OwnWaits {
  readonly queues: WaiterQueues<OwnWaiter>
  /** How often those must be heard of that are not behind others of their client. */
  readonly keepAliveMs: number
}

/** A wait among those of its client. A class, because every lease begins with one. */
class OwnWaiter implements QueuedWaiter {
  readonly id: LeaseId
  readonly resource: Resource
  readonly orderUs: number
  readonly #wait: Wait

  constructor({ id, resource, orderUs }: OwnPlace, wait: Wait) {
    this.id = id
    this.resource = resource
    this.orderUs = orderUs
    this.#wait = wait
  }

  onFirst(): void {
    this.#wait.speakSoon()
  }

  /** One of the first has lost its ticket, and so may this one have. */
  askWithin(ms: number): void {
    this.#wait.askWithin(ms)
  }
}

/** A lease as it was granted. */
export interface Grant {
  readonly lease: LeaseInfo
  /** It may be older than the request: heard before, or transferred to the holder by another. */
  readonly isOlder: boolean
  readonly term: Term
  /** When the grant arrived. */
  readonly now: Moment
}

export interface Obtained {
  readonly kind: 'granted'
  readonly grants: readonly Grant[]
}

/**
 * However short the wait for the resource, the store itself has this long to answer the first question. A caller that does
 * not wait sends nothing again after that: the last try may take as long as the store lets a call take.
 */
const FIRST_ANSWER_MS_MIN = 1_000
/** A question that had no answer for so long says that the store is silent. */
const SILENT_AFTER_MS = 1_000
/** A question may go this much of its delay sooner, along with those of other tickets. */
const EARLY_SHARE = 0.1
/**
 * Node's timers know whole milliseconds and may be almost one early: a wait goes on until its own clock says that it is
 * over. Less than this is what fractions of a millisecond lose when they are added up.
 */
const EARLY_MS_MAX = 0.001

/** All clocks are read once more only where it gives the holder something. */
const KEPT_BACK_MS_MIN = 1

const NO_BLOCKERS: readonly Blocker[] = []
/** Behind all tickets that are filed, in the order in which they were asked for. */
const UNFILED_US = 2 ** 52
const BEHIND_OWN = { behindOwn: true } as const
/** So many waits of one queue ask again in a keep-alive when all may have lost their tickets: no storm. */
const ASKED_AGAIN = 64
/** Each of these tells as many again when it has lost its own. */
const TOLD_OF_LOSS = 32

/** What was heard since the last question: nothing, that the client moved, something unspecific, or the ticket's own name. */
type Signal = 'none' | 'moved' | 'hint' | 'wake'

export class Wait implements Requester {
  readonly #context: WaitContext
  readonly #request: PendingRequest
  /** When the wait began, before anything was sent. */
  readonly #start: Moment
  /** How long to wait, once it is known; the configuration may have to be asked. */
  #waitMs: number | null
  #timer: Timer | null = null
  #firstSent: Moment | null = null
  #underWay: Promise<WaitAnswer> | null = null
  #askedAtMs: number
  #hasQueued = false
  /** In a row. */
  #failures = 0
  #blockers: readonly Blocker[] = NO_BLOCKERS
  #lastFailure: LeaseError | null = null
  /** A question whose answer was lost, and that no answer since has settled. */
  #doubt: LeaseError | null = null
  #signal: Signal = 'none'
  #wakeSleeper: (() => void) | null = null
  #orderUs: number | null = null
  #leaveHandOff: Unsubscribe | null = null
  /** Among the waits of its client for the same resource. */
  #ownPlace: OwnWaiter | null = null
  #isInOwnQueue = false
  /** While a question of one of the first, that it would keep its ticket by, is under way. */
  #hanging: Timer | null = null
  /** A claim that goes along with a release. */
  #carriedClaim: { readonly call: Promise<WaitAnswer>; readonly sent: Moment } | null = null
  /** When to ask if nothing is heard before. */
  #dueMs = 0
  /** When to claim in full, and not only to keep the ticket alive. */
  #lookAtMs = 0
  #isLook = true
  /** What the store knows of what the ticket is under; null for a request that said it itself. */
  #implied: ImpliedUnder | null = null
  #concluded = false
  #interruption: LeaseError | null = null
  /** What was asked last is still in this process. */
  #isKeptBack = false
  /** What was asked before may have been carried out, so that the term of a grant runs from there. */
  #hasEarlier = false
  /** Its caller is not served any more, and what is kept back need not be sent. */
  #isStopped = false
  #interrupt: ((error: LeaseError) => void) | null = null

  constructor(context: WaitContext, request: PendingRequest) {
    this.#context = context
    this.#request = request
    this.#start = context.clock.now()
    this.#askedAtMs = this.#start.monotonicMs
    this.#waitMs = request.waitMs === 'configured' ? null : request.waitMs
    this.#armFirstAnswer()
    this.#joinOwnQueue(UNFILED_US + this.#start.monotonicMs * US_PER_MS)
  }

  /**
   * Runs once. Throws for every refusal but `held`. The whole conversation is in here: each asynchronous function more
   * costs every lease, and most of them ask one question.
   */
  async run(signal?: AbortSignal): Promise<Obtained | Held> {
    const stopListening = signal === undefined ? null : this.#listenTo(signal)
    try {
      let question: Question = 'acquire'
      let sent = this.#start
      for (;;) {
        let report: Report
        try {
          report = this.#heard(await this.#unlessInterrupted(this.#ask(question, sent)))
        } catch (thrown) {
          report = this.#failed(thrown)
        } finally {
          this.#rest()
        }
        const step = nextStep(this.#progress(question), report)
        let afterMs: number
        if (step.kind === 'ask') {
          if (report.kind === 'answered') this.#tellDropped()
          question = step.question
          afterMs = step.afterMs
          this.#isLook = true
        } else if (step.kind === 'queued' || step.kind === 'waiting') {
          question = 'claim'
          afterMs = step.kind === 'queued' ? this.#queue(step.queued) : this.#next(step.keepAliveMs)
        } else return this.#conclude(step, sent)
        if (afterMs > 0) await this.#untilDue(afterMs)
        sent = this.#carriedClaim?.sent ?? this.#context.clock.now()
      }
    } finally {
      stopListening?.()
      this.#timer?.cancel()
      this.#leaveHandOff?.()
      this.#leaveOwnQueue()
      this.#implied?.end()
      this.#wakeSleeper?.()
    }
  }

  #listenTo(signal: AbortSignal): () => void {
    const cancel = (): void => this.cancel(abortedError(this.#ended, signal.reason))
    if (!signal.aborted) return onAbort(signal, cancel)
    cancel()
    return () => undefined
  }

  /** Ends the wait at once with this error; without effect once it has come to something. */
  cancel(error: LeaseError): void {
    this.#stop(error, 'aborted')
  }

  /**
   * Ends the wait at once and leaves its ticket in the store: a request under the same id within one claim window keeps its
   * place. `onGrant` hears of what a call that was under way was granted all the same. Without effect once the wait has
   * come to something.
   */
  leave(error: LeaseError, onGrant: (granted: GrantedAnswer) => void): void {
    if (this.#interruption !== null || this.#concluded) return
    this.#interruption = error
    const { background } = this.#context
    if (this.#underWay !== null) background('client/wait', passOnGrant(this.#underWay, onGrant))
    this.#interrupt?.(error)
  }

  /** As `leave`, but a call that is under way is waited for: what it is granted, the caller still gets. */
  leaveAtRest(error: LeaseError): void {
    const call = this.#underWay
    if (call === null) return this.leave(error, () => undefined)
    const again = (): void => this.leaveAtRest(error)
    // No fault: the caller of the wait hears how the call ended.
    call.then(again, again)
  }

  onKeptBack(): void {
    this.#isKeptBack = true
  }

  /** The term of a grant runs from here: in a process with a backlog most of it would be over otherwise. */
  begins(): boolean {
    if (this.#isStopped) return false
    this.#isKeptBack = false
    const { clock, runtime } = this.#context
    const keptBackMs = runtime.monotonicMs() - this.#askedAtMs
    if (!this.#hasEarlier && keptBackMs > KEPT_BACK_MS_MIN) this.#firstSent = clock.now()
    return true
  }

  /** The ticket has an offer, or another client has ended it. */
  wake(): void {
    this.#signal = 'wake'
    this.#wakeSleeper?.()
  }

  /** Something changed that may or may not concern the ticket. */
  hint(): void {
    if (this.#signal !== 'wake') this.#signal = 'hint'
    this.#wakeSleeper?.()
  }

  /** What the scheduler calls. */
  runDue(): DueWindow | null {
    this.#wakeSleeper?.()
    return null
  }

  /** Its client has moved, or come to stand still, and with it what the ticket is taken to be under. */
  #speakNow(): void {
    if (this.#signal === 'none') this.#signal = 'moved'
    this.#wakeSleeper?.()
  }

  #progress(question: Question): Progress {
    const againWithinMs =
      this.#waitMs === 0 ? FIRST_ANSWER_MS_MIN - this.#passedMs : Number.POSITIVE_INFINITY
    const { waitMs } = this.#request
    return {
      question,
      hasQueued: this.#hasQueued,
      coversAbsence: waitMs !== 'configured' && waitMs > 0,
      failures: this.#failures,
      againWithinMs,
    }
  }

  #ask(question: Question, sent: Moment): Promise<WaitAnswer> {
    if (this.#interruption !== null) throw this.#interruption
    this.#askedAtMs = sent.monotonicMs
    this.#hasEarlier = this.#firstSent !== null
    this.#firstSent ??= sent
    this.#isKeptBack = false
    const call = this.#carriedClaim?.call ?? this.#send(question)
    this.#carriedClaim = null
    this.#underWay = call
    if (this.#hasQueued) this.#hanging = this.#leaveFirstIfHanging()
    return call
  }

  #heard(answer: WaitAnswer): Report {
    if (this.#interruption !== null) throw this.#interruption
    this.#failures = 0
    this.#doubt = null
    if (answer.kind !== 'granted' && answer.kind !== 'granted_all') this.#firstSent = null
    return { kind: 'answered', answer }
  }

  #failed(thrown: unknown): Report {
    if (thrown === this.#interruption) throw thrown
    if (!isLeaseError(thrown)) return { kind: 'failed', error: thrown }
    const error = withDoubt(this.#doubt, thrown)
    this.#failures += 1
    this.#lastFailure = error
    // The store has answered after all, and the time allowed for that is not the caller's.
    if (this.#failures === 1 && this.#timer !== null && this.#waitMs !== null)
      this.#arm(this.#leftMs)
    this.#implied?.forget()
    if (error.effect === 'none') this.#firstSent = null
    else this.#doubt = error
    return { kind: 'failed', error }
  }

  /** Nothing is under way any more. */
  #rest(): void {
    this.#underWay = null
    this.#hanging?.cancel()
    this.#hanging = null
    if (!this.#isInOwnQueue && this.#orderUs !== null) this.#joinOwnQueue(this.#orderUs)
  }

  /** A wait among the first that has no answer cannot speak for the others: the next of its client does, in time for all. */
  #leaveFirstIfHanging(): Timer | null {
    const { own, runtime } = this.#context
    if (own === null || this.#ownPlace === null || this.#isBehindOwn) return null
    return runtime.setTimer(own.keepAliveMs / 2, () => this.#leaveOwnQueue(), { keepAlive: false })
  }

  #send(question: Question): Promise<WaitAnswer> {
    const signal = this.#signal
    this.#signal = 'none'
    if (question === 'claim') return this.#claim(signal)
    this.#implied?.forget()
    const waitMs = this.#hasQueued ? Math.max(1, Math.ceil(this.#leftMs)) : this.#request.waitMs
    const hints = this.#isBehindOwn ? BEHIND_OWN : null
    // Only this client ends the wait. To the store it matters whether there is one, and a request must survive JSON.
    const mostMs = waitMs === 'configured' ? waitMs : Math.min(waitMs, WAIT_MS_MAX)
    return this.#request.file(mostMs, hints, this)
  }

  async #claim(signal: Signal): Promise<WaitAnswer> {
    const place = this.#isBehindOwn ? BEHIND_OWN : {}
    if (signal === 'wake') return this.#request.claim({ expects: 'offer', ...place }, this)
    const news = { ...place, ...(await this.#implied?.news()) }
    const isLook = this.#isLook || signal === 'hint'
    return this.#request.claim(isLook ? news : { expects: 'nothing', ...news }, this)
  }

  /** Notes a place in the queue; returns after how long to ask if no wake-up comes. */
  #queue(queued: Extract<Step, { kind: 'queued' }>['queued']): number {
    this.#blockers = queued.blockers
    this.#awaitHandOff(queued)
    this.#lookAtMs = this.#context.runtime.monotonicMs() + queued.checkAfterMs
    if (!this.#hasQueued) {
      this.#hasQueued = true
      if (this.#request.isPlain) {
        this.#implied = new ImpliedUnder(this.#context.standstill, {
          onOver: () => this.#speakNow(),
          // The first waits say it with their next keep-alive, within a third of a claim window.
          onStill: () => this.#isBehindOwn && this.#speakNow(),
        })
      }
      this.#waitMs ??= queued.waitMs
      this.#arm(this.#leftMs)
      this.#context.onQueued()
    }
    return this.#next(queued.keepAliveMs)
  }

  /** The next thing to do is to keep the ticket alive, or to claim in full if that is due before. */
  #next(toldMs: number): number {
    // The ticket may have become one of the first while the answer was on its way.
    const mostMs = this.#isBehindOwn ? Infinity : (this.#context.own?.keepAliveMs ?? Infinity)
    const keepAliveMs = Math.min(toldMs, mostMs)
    const lookAfterMs = Math.max(0, this.#lookAtMs - this.#context.runtime.monotonicMs())
    this.#isLook = lookAfterMs <= keepAliveMs
    return Math.min(keepAliveMs, lookAfterMs)
  }

  /** In the place of its ticket, which is another one if it was filed anew. */
  #awaitHandOff({ orderUs }: QueuedAnswer): void {
    if (orderUs === undefined || orderUs === this.#orderUs) return
    this.#orderUs = orderUs
    this.#leaveHandOff?.()
    this.#leaveHandOff = this.#request.awaitHandOff(this.#handOff, orderUs)
    this.#joinOwnQueue(orderUs)
  }

  #joinOwnQueue(orderUs: number): void {
    const { own } = this.#context
    const place = own === null || this.#request.waitMs === 0 ? null : this.#request.placeAt(orderUs)
    if (own === null || place === null) return
    this.#leaveOwnQueue()
    this.#ownPlace = new OwnWaiter(place, this)
    own.queues.add(this.#ownPlace)
    this.#isInOwnQueue = true
  }

  #leaveOwnQueue(): void {
    if (this.#isInOwnQueue && this.#ownPlace !== null)
      this.#context.own?.queues.remove(this.#ownPlace)
    this.#isInOwnQueue = false
  }

  get #isBehindOwn(): boolean {
    return this.#ownPlace !== null && this.#context.own?.queues.isBehind(this.#ownPlace) === true
  }

  /** Tickets of its client that were before it are gone: it is kept alive as often as these were, and may be next. */
  speakSoon(): void {
    const { runtime, own } = this.#context
    const withinMs = own?.keepAliveMs ?? Infinity
    this.#lookAtMs = Math.min(this.#lookAtMs, runtime.monotonicMs() + withinMs)
    if (this.askWithin(withinMs)) this.#isLook = true
  }

  /** The store was away, say, for longer than a claim window: those behind would hear of it much later, and lose their turn. */
  #tellDropped(): void {
    const { own } = this.#context
    if (own === null || this.#ownPlace === null || this.#isBehindOwn) return
    const next = own.queues.firstOf(this.#ownPlace.resource, TOLD_OF_LOSS)
    for (const [index, waiter] of next.entries()) {
      waiter.askWithin(((index + 1) / ASKED_AGAIN) * own.keepAliveMs)
    }
  }

  /** Returns whether it would have asked later. */
  askWithin(ms: number): boolean {
    const dueMs = this.#context.runtime.monotonicMs() + ms
    if (dueMs >= this.#dueMs) return false
    this.#dueMs = dueMs
    if (this.#signal === 'none') this.#wakeSleeper?.()
    return true
  }

  #conclude(
    step: Exclude<Step, { kind: 'queued' | 'waiting' | 'ask' }>,
    sent: Moment,
  ): Obtained | Held {
    this.#concluded = true
    switch (step.kind) {
      case 'granted':
        return this.#accept(step.granted, sent)
      case 'held':
        return step.held
      case 'refused':
        if (this.#request.hasParts && this.#hasQueued) this.#withdrawLater('aborted')
        throw refusalError(step.refusal)
      case 'failed':
        if (step.leftBehind) this.#withdrawLater('aborted')
        throw step.error
    }
  }

  #accept(granted: GrantedAnswer, sent: Moment): Obtained {
    const { clock } = this.#context
    const now = clock.now()
    const times = { first: this.#firstSent ?? sent, last: sent, clock, now }
    const grants: Grant[] = []
    for (const lease of leasesIn(granted)) {
      const isOlder = granted.repeated || this.#request.isForeign(lease)
      const term = grantedTerm(lease, { isOlder }, times)
      if (clock.remainingMs(term, now) <= 0) {
        this.#withdrawLater('aborted')
        throw overError(lease)
      }
      grants.push({ lease, isOlder, term, now })
    }
    return { kind: 'granted', grants }
  }

  get #leftMs(): number {
    return (this.#waitMs ?? 0) - this.#passedMs
  }

  #armFirstAnswer(): void {
    if (this.#waitMs === 0) return
    const waitMs = this.#waitMs ?? DEFAULT_SETTINGS.acquisition_timeout_ms
    this.#arm(Math.max(waitMs, FIRST_ANSWER_MS_MIN))
  }

  #arm(leftMs: number): void {
    this.#timer?.cancel()
    const { runtime } = this.#context
    const endMs = runtime.monotonicMs() + leftMs
    const end = (): void => {
      const earlyMs = endMs - runtime.monotonicMs()
      if (earlyMs > EARLY_MS_MAX) this.#arm(earlyMs)
      else this.#stop(timeoutError(this.#ended), 'timed_out')
    }
    this.#timer = runtime.setTimer(Math.max(0, leftMs), end, { keepAlive: true })
  }

  /** Returns when it is time to ask: after `afterMs`, or sooner when a signal gives reason to. */
  async #untilDue(afterMs: number): Promise<void> {
    const { runtime } = this.#context
    this.#dueMs = runtime.monotonicMs() + afterMs
    for (;;) {
      const dueMs = this.#dueMs
      const leftMs = dueMs - runtime.monotonicMs()
      if (leftMs <= 0) return
      await this.#unlessInterrupted(this.#sleep(leftMs))
      const isNothingNew = this.#signal === 'none' && this.#carriedClaim === null
      if (isNothingNew && this.#dueMs < dueMs) continue
      if (this.#signal !== 'hint' || this.#carriedClaim !== null) return
      this.#signal = 'none'
      // A look that is slow, or never answered, must not cost the ticket its keep-alive.
      const due = this.#sleep(dueMs - runtime.monotonicMs()).then(() => this.#signal !== 'hint')
      if (await this.#unlessInterrupted(Promise.race([this.#mayBeMyTurn(), due]))) return
    }
  }

  get #handOff(): HandOff {
    const isReady = (): boolean => {
      const isAsleep = this.#wakeSleeper !== null && this.#underWay === null
      return isAsleep && this.#signal === 'none' && this.#interruption === null
    }
    return {
      isReady,
      carryClaim: () => this.#carryClaim(),
      onFirst: () => this.#lookWhenDue(),
    }
  }

  /**
   * How far back it was says no more when it may look: the queue has moved since. If the lease before it is left to its
   * end, those before it who would have looked sooner are gone.
   */
  #lookWhenDue(): void {
    this.#lookAtMs = Math.min(this.#lookAtMs, this.#dueMs)
    this.#isLook = true
  }

  /**
   * Goes on as if it had sent a claim by itself: the term of a grant runs from here, before the release leaves. If it was
   * not this one's turn, its ticket is as old as it was.
   */
  #carryClaim(): (claim: Promise<WaitAnswer | null>) => void {
    let settle: (claim: Promise<WaitAnswer | null>) => void = () => undefined
    const claim = new Promise<WaitAnswer | null>((resolve) => (settle = resolve))
    const call = claim.then((answer) => answer ?? this.#stillQueued())
    this.#carriedClaim = { call, sent: this.#context.clock.now() }
    this.#underWay = call
    this.#wakeSleeper?.()
    return settle
  }

  #stillQueued(): QueuedAnswer {
    const nowMs = this.#context.runtime.monotonicMs()
    return {
      kind: 'queued',
      blockers: this.#blockers,
      waitMs: this.#waitMs ?? 0,
      keepAliveMs: Math.max(0, this.#dueMs - nowMs),
      checkAfterMs: Math.max(0, this.#lookAtMs - nowMs),
    }
  }

  /** In doubt, yes: then the claim decides. */
  async #mayBeMyTurn(): Promise<boolean> {
    try {
      const isTurn = await this.#request.mayBeTurn()
      this.#context.looks.succeeded()
      return isTurn
    } catch (error) {
      this.#context.looks.failed(error)
      return true
    }
  }

  #sleep(afterMs: number): Promise<void> {
    const { runtime, scheduler } = this.#context
    if (this.#signal !== 'none') return Promise.resolve()
    return new Promise((resolve) => {
      const task = new ScheduledTask(this)
      this.#wakeSleeper?.()
      this.#wakeSleeper = () => {
        this.#wakeSleeper = null
        scheduler.forget(task)
        resolve()
      }
      const dueMs = runtime.monotonicMs() + afterMs
      scheduler.schedule(task, { dueMs, earliestMs: dueMs - afterMs * EARLY_SHARE })
    })
  }

  #unlessInterrupted<Result>(work: Promise<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#interrupt = reject
      if (this.#interruption !== null) reject(this.#interruption)
      work.then(resolve, reject)
    })
  }

  #stop(error: LeaseError, why: Why): void {
    if (this.#interruption !== null || this.#concluded) return
    this.#interruption = error
    this.#isStopped = true
    if (this.#hasQueued || this.#doubt !== null || this.#isAtStore) this.#withdrawLater(why)
    this.#interrupt?.(error)
  }

  #withdrawLater(why: Why): void {
    withdrawLater(this.#context, this.#request, { why, underWay: this.#underWay })
  }

  /** Whether a question may be carried out still, or was and has no answer yet. */
  get #isAtStore(): boolean {
    return this.#underWay !== null && !this.#isKeptBack
  }

  get #passedMs(): number {
    return this.#context.runtime.monotonicMs() - this.#start.monotonicMs
  }

  get #ended(): EndedWait {
    return {
      subject: this.#request.subject,
      waitedMs: Math.round(this.#passedMs),
      blockers: this.#blockers,
      effect: this.#effect,
      lastFailure: this.#lastFailure,
      silence: this.#silence,
      isAway: this.#isAway,
    }
  }

  /** Nothing that was asked has ever come to anything: the store does not know of this wait. */
  get #isAway(): boolean {
    const isIdle = this.#underWay === null && this.#doubt === null
    return isIdle && this.#failures > 0 && !this.#hasQueued
  }

  /**
   * A question that is still under way, or whose answer was lost, may have been granted before it is withdrawn. And a
   * store that failed last may not hear of the withdrawal either.
   */
  get #effect(): Effect {
    const isSettled = !this.#isAtStore && this.#doubt === null && this.#failures === 0
    return isSettled || this.#isAway ? 'none' : 'unknown'
  }

  get #silence(): LeaseError | null {
    if (this.#failures > 0) return this.#lastFailure
    if (this.#underWay === null) return null
    const silentMs = Math.round(this.#context.runtime.monotonicMs() - this.#askedAtMs)
    if (this.#hasQueued && silentMs < SILENT_AFTER_MS) return null
    return new LeaseError('STORE_OUTCOME_UNKNOWN', `no answer for ${silentMs} ms`)
  }
}
