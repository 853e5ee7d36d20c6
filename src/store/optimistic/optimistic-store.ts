/**
 * A store that decides before it asks: on its cached views, at the time that it estimates. The server commits the decision
 * if all of that holds, else says what is there, and the store decides again. So an uncontended command is one round trip,
 * and the rules stay in the core.
 *
 * All that is in flight in a process shares calls; a lone caller waits for no other. Decisions that depend on each other
 * go one after the other, and no request overtakes an earlier one for the same. But a call may hang while the server itself is
 * well: for one that is overdue no other waits. What is sent beside it misses at worst, and is decided again.
 */
import { afterTurn, queueMicrotask } from '../../runtime/system-runtime.ts'
import { closedError, isLeaseError, LeaseError } from '../../core/errors.ts'
import type { Entry, LeaseId } from '../../core/lease.ts'
import type { ReadSet, Wake } from '../../core/realm.ts'
import type { SettingRow } from '../../core/settings.ts'
import type { Now } from '../../core/time.ts'
import { endsWithin } from '../../runtime/ends-within.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import type {
  Requester,
  Decide,
  Store,
  StoreDescription,
  Unsubscribe,
} from '../../store-port/store.ts'
import { Subscribers } from '../subscribers.ts'
import {
  CROWD_MIN,
  joinedAttempt,
  lookingAttempt,
  planAttempt,
  shownView,
  ticketRow,
  ViewCache,
  withOwn,
  type AttemptPlan,
  type CachedView,
} from './attempt-plan.ts'
import type { Attempt, Backend, EntryWrite, GroupReply, PlaceView, Reply } from './backend.ts'
import { RequestQueue, type PendingTransaction, type TakenRow } from './request-queue.ts'
import { ServerClock, type Sample, type ServerTime } from './server-clock.ts'

/** Two, so that the server works on one while the next is made. */
const GROUPS_IN_FLIGHT_MAX = 2
const TRIES_MAX = 200
const TRYING_MS_MAX = 10_000
const TRIES_AT_ONCE = 4
/** Going behind the last ticket lets every process in soon, and hands the lease from process to process, which is slower. */
const TRIES_BEFORE_GOING_BEHIND = 12
/** Holding takes more calls than a try does, and all others wait for them: it is for a request that would never get through. */
const TRIES_BEFORE_HOLDING = 100
const TRYING_BEFORE_HOLDING_MS = 2_000
/** Each takes a connection, and keeps locks, for several round trips: more of them at a time make every other call late. */
const HOLDING_MAX = 1
/** For so long after that, processes are taken to file in turns. */
const FILING_IN_TURNS_MS = 250
/** With what it is about held, the second try is the last one that can miss, unless the clock or the settings changed. */
const HELD_TRIES_MAX = 4
/** A call is overdue after so many times what a decision is allowed for its way, and never before so long. */
const WAYS_UNTIL_OVERDUE = 10
const OVERDUE_MS_MIN = 250
/**
 * A server with too much to do is late with every call. It must not be sent more and more of them for that, until no
 * connection is left for any.
 */
const OVERDUE_MAX = 2
/** How long closing waits for what is in flight; a client gives its leases back before. */
const CLOSE_WITHIN_MS = 1_000
const PAUSE_MS_MAX = 50
const BEHIND_PAUSE_MS_MAX = 2
const LOCAL_TICKETS_MAX = 10_000
const NO_TRIES: readonly Try[] = []

/** A request with the decision that is sent for it. */
interface Try {
  readonly request: PendingTransaction
  readonly views: readonly CachedView[]
  readonly now: Now
  readonly settings: readonly SettingRow[]
  readonly plan: AttemptPlan<unknown>
  /** Those whose tickets are filed behind that of this one, in the same attempt. */
  readonly joined: readonly Try[]
}

export class OptimisticStore implements Store {
  readonly description: StoreDescription
  // What the server answers by itself.
  readonly history: Store['history'] = async (query) => this.#server.history(query)
  readonly end: Store['end'] = async () => this.#server.end()
  readonly countRefusals: Store['countRefusals'] = async (some) => this.#server.countRefusals(some)
  readonly refusals: Store['refusals'] = async (query) => this.#server.refusals(query)
  readonly settings: Store['settings'] = async () => this.#server.settings()
  readonly configure: Store['configure'] = async (change) => this.#server.configure(change)
  readonly prune: Store['prune'] = async (policy) => this.#server.prune(policy)
  readonly #backend: Backend
  readonly #runtime: Runtime
  readonly #clock: ServerTime
  readonly #cache = new ViewCache()
  readonly #queue = new RequestQueue()
  readonly #subscribers = new Subscribers()
  /**
   * Tickets that were filed in this process. A session may have several processes, but a ticket is waited for where it was filed:
   * its wake-ups need not go through the server, where every process that listens would wake up for nothing.
   */
  readonly #localTickets = new Set<LeaseId>()
  readonly #remote = new Set<Unsubscribe>()
  #unfollow: Unsubscribe | null = null
  #settings: readonly SettingRow[]
  #settingsRevision: number
  /** When a request was last filed while the server held its queue. */
  #filedHoldingMs = -Infinity
  #decidedUs = 0
  /** The highest fence that this process has asked for: requests in flight together ask for different ones. */
  #lastFence = 0
  #unfinished = 0
  /** How many are in flight, and not overdue. */
  #calls = 0
  /** How many are in flight still, and nothing waits for them any more. */
  #overdue = 0
  /** What passes over calls that are overdue, but for which there is no room among those. */
  readonly #late = new Set<() => void>()
  /** How many requests are decided while the server holds what they are about. */
  #holding = 0
  #isScheduled = false
  #closing: Promise<void> | null = null
  #drained: (() => void) | null = null

  /** Reads the clock and the configuration, so that the first command need not. `clock`: of a test that knows the server's. */
  static async open(
    backend: Backend,
    runtime: Runtime,
    clock: ServerTime | null = null,
  ): Promise<OptimisticStore> {
    try {
      const sentMs = runtime.monotonicMs()
      const reply = await backend.attempt({ settingsRevision: -1, attempts: [] })
      const time = clock ?? new ServerClock(runtime, sampleOf(runtime, sentMs, reply))
      return new OptimisticStore(backend, runtime, time, reply)
    } catch (error) {
      await backend.close()
      throw error
    }
  }

  private constructor(
    backend: Backend,
    runtime: Runtime,
    clock: ServerTime,
    { settings, settingsRevision }: GroupReply,
  ) {
    this.#backend = backend
    this.#runtime = runtime
    this.#clock = clock
    this.description = backend.description
    this.#settings = settings ?? []
    this.#settingsRevision = settingsRevision
  }

  transact<Outcome>(
    readSets: readonly ReadSet[],
    decide: Decide<Outcome>,
    requester: Requester | null = null,
  ): Promise<Outcome> {
    return new Promise<Outcome>((resolve, reject) => {
      this.#server.refuseApart?.(readSets)
      this.#unfinished += 1
      const hear = resolve as (outcome: unknown) => void
      this.#queue.add({ readSets, decide, requester, resolve: hear, reject })
      requester?.onKeptBack()
      this.#schedule()
    })
  }

  readonly find: Store['find'] = async (query) => {
    const { nowUs, entries: found, ...rest } = await this.#server.find(query)
    const entries = query.ids === undefined ? found : inOrder(found, query.ids)
    return { now: this.#now({ us: nowUs, toleranceUs: 0 }), entries, ...rest }
  }

  readonly subscribe: Store['subscribe'] = async (session, listener) => {
    const server = this.#server
    const leave = this.#subscribers.subscribe(session, listener)
    try {
      const leaveServer = await server.subscribe(session, listener)
      // One that the server confirmed after the store was closed ends at once.
      if (this.#closing === null) this.#remote.add(leaveServer)
      else leaveServer()
      return () => {
        leave()
        if (this.#remote.delete(leaveServer)) leaveServer()
      }
    } catch (error) {
      leave()
      throw error
    }
  }

  /** All followers of this process are one to the server. */
  readonly follow: Store['follow'] = (listener) => {
    const leave = this.#subscribers.follow(listener)
    if (this.#closing === null) {
      this.#unfollow ??= this.#backend.follow(() => this.#subscribers.notifyFollowers())
    }
    return () => {
      leave()
      if (this.#subscribers.hasFollowers) return
      this.#unfollow?.()
      this.#unfollow = null
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  /** What is in flight when the time is over ends with its connection; what was not sent yet never is. */
  async #close(): Promise<void> {
    if (this.#unfinished > 0) {
      const drained = new Promise<void>((resolve) => (this.#drained = resolve))
      await endsWithin(this.#runtime, CLOSE_WITHIN_MS, drained)
    }
    for (const request of this.#queue.drain()) this.#fail(request, closedError())
    this.#subscribers.clear()
    for (const leaveServer of this.#remote) leaveServer()
    this.#unfollow?.()
    await this.#backend.close()
  }

  get #server(): Backend {
    if (this.#closing !== null) throw closedError()
    return this.#backend
  }

  /** So that all of a turn shares a call. */
  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    const whenAsked = this.#backend.isQuick ? afterTurn : queueMicrotask
    whenAsked(() => {
      this.#isScheduled = false
      this.#sendGroups()
    })
  }

  #sendGroups(): void {
    while (this.#calls < GROUPS_IN_FLIGHT_MAX) {
      const taken = this.#queue.take(this.#calls === 0)
      const hasDropped = this.#drop()
      if (taken.length > 0) void this.#send(taken)
      else if (!hasDropped) return
    }
  }

  /**
   * Counts a call, until what it returns is called. One that is overdue is as if it had been answered, but that it has not
   * ended.
   */
  #beginCall(tries: readonly Try[]): () => void {
    const requests = tries.flatMap((one) => [one, ...one.joined].map(({ request }) => request))
    const wayMs = this.#clock.toleranceUs(requests.length) / 1000
    let isOverdue = false
    const passOver = (): void => {
      if (this.#closing !== null) return
      if (this.#overdue === OVERDUE_MAX) return void this.#late.add(passOver)
      isOverdue = true
      this.#calls -= 1
      this.#overdue += 1
      for (const request of requests) this.#queue.leaveFlight(request)
      this.#sendGroups()
    }
    const overdueMs = Math.max(OVERDUE_MS_MIN, WAYS_UNTIL_OVERDUE * wayMs)
    const timer = this.#runtime.setTimer(overdueMs, passOver, { keepAlive: false })
    this.#calls += 1
    return () => {
      timer.cancel()
      this.#late.delete(passOver)
      if (!isOverdue) return void (this.#calls -= 1)
      this.#overdue -= 1
      const [next] = this.#late
      if (next !== undefined) this.#late.delete(next)
      next?.()
    }
  }

  async #send(taken: readonly TakenRow[]): Promise<void> {
    const settingsRevision = this.#settingsRevision
    const tries = this.#tryAll(taken)
    const endCall = this.#beginCall(tries)
    try {
      if (tries.length === 0) return
      const sentMs = this.#runtime.monotonicMs()
      const attempts = tries.map((one) => this.#withoutLocalWakes(wholeAttempt(one)))
      const reply = await this.#backend.attempt({ settingsRevision, attempts })
      for (const { request } of tries) request.sentSinceMs ??= sentMs
      this.#hear(sentMs, reply, tries)
    } catch (error) {
      for (const one of tries) {
        this.#failAll(one, error)
        // It may have been committed, and the server was not asked to wake the sessions of this process.
        this.#wake(one.plan.attempt.wakes)
      }
    } finally {
      endCall()
      this.#sendGroups()
    }
  }

  #withoutLocalWakes(attempt: Attempt): Attempt {
    if (attempt.wakes.length === 0) return attempt
    const wakes = attempt.wakes.filter((wake) => {
      return !this.#subscribers.has(wake.session) || !this.#localTickets.has(wake.leaseId)
    })
    return { ...attempt, wakes }
  }

  #wake(wakes: readonly Wake[]): void {
    for (const { session, leaseId } of wakes) {
      this.#subscribers.wake(session, { leaseIds: [leaseId] })
    }
  }

  /** All of a group are decided at one time, which the server is then sent once. */
  #tryAll(taken: readonly TakenRow[]): readonly Try[] {
    const us = this.#clock.lowerUs()
    const count = taken.reduce((sum, { next }) => sum + 1 + next.length, 0)
    const now = this.#now({ us, toleranceUs: this.#clock.toleranceUs(count) })
    // Each of a row has a time of its own, after that of the last decision and no later than now.
    const most = Math.max(0, us - this.#decidedUs - 1)
    this.#decidedUs = us
    const tries: Try[] = []
    for (const { request, next } of taken) {
      const some = this.#mayJoin(request) ? next.slice(0, most) : []
      const spanUs = some.length
      const first = this.#now({ us: us - spanUs, toleranceUs: now.toleranceUs + spanUs })
      const one = this.#try(request, spanUs === 0 ? now : first)
      const joined = one === null ? NO_TRIES : this.#join(one, some)
      this.#queue.putBack(next.slice(joined.length).filter(({ isFinished }) => !isFinished))
      if (one !== null) tries.push(joined === NO_TRIES ? one : { ...one, joined })
    }
    return tries
  }

  /** Where processes file in turns, while the server holds the queue for them, the first try goes alone: mostly it misses. */
  #mayJoin({ tries, readSets }: PendingTransaction): boolean {
    if (tries > 0 || readSets.length > 1) return true
    return this.#runtime.monotonicMs() - this.#filedHoldingMs > FILING_IN_TURNS_MS
  }

  /** Decides the next requests as far as each goes behind the one before it. */
  #join(first: Try, next: readonly PendingTransaction[]): readonly Try[] {
    const planNext = next.length === 0 ? null : ticketRow(first.plan.attempt, first, this.#cache)
    if (planNext === null) return NO_TRIES
    const joined: Try[] = []
    for (const request of next) {
      const plan = this.#planned(request, () => planNext(request.decide, request.readSets))
      if (plan === null) break
      joined.push({ ...first, request, plan })
    }
    return joined
  }

  #try(request: PendingTransaction, groupNow: Now): Try | null {
    const fenceTaken = this.#lastFence
    const settings = this.#settings
    const mayGoBehind = request.tries >= TRIES_BEFORE_GOING_BEHIND
    return this.#planned(request, () => {
      const views = request.views ?? request.readSets.map((one) => this.#cache.viewOf(one))
      const now = this.#nowFor(views, request, groupNow)
      const { missedBehind } = request
      const basis = { views, now, settings, fenceTaken, mayGoBehind, missedBehind }
      const plan = planAttempt(request.decide, basis)
      this.#lastFence = Math.max(fenceTaken, plan.attempt.fences?.last ?? 0)
      return { request, views, now, settings, plan, joined: NO_TRIES }
    })
  }

  /** Null for a request whose decision itself throws. */
  #planned<Plan>(request: PendingTransaction, plan: () => Plan): Plan | null {
    try {
      return plan()
    } catch (error) {
      this.#fail(request, error)
      return null
    }
  }

  /**
   * A decision that came too late once was unlucky, as one call in a hundred may be. One that came too late twice allows
   * for the way that it really took; that of no other request does.
   */
  #nowFor(views: readonly CachedView[], request: PendingTransaction, now: Now): Now {
    const { lates, latestUs, refusedAtUs } = request
    let wallMs = now.wallMs
    for (const { lastWallMs } of views) wallMs = Math.max(wallMs, lastWallMs)
    if (lates === 0 && refusedAtUs === null && wallMs === now.wallMs) return now
    const us = refusedAtUs ?? now.tick.us
    const tookUs = lates > 1 ? latestUs : 0
    const toleranceUs = lates === 0 ? now.toleranceUs : 2 * Math.max(now.toleranceUs, tookUs)
    return { ...this.#now({ us, toleranceUs }), wallMs }
  }

  /**
   * The wall time is that of the tick, which the server refuses if it comes from its future: so nothing is ever dated
   * later than it was committed.
   */
  #now({ us, toleranceUs }: { readonly us: number; readonly toleranceUs: number }): Now {
    const tick = { domain: this.#backend.clockDomain, us }
    // What another clock has counted came with an import, and no record says when that was: it may have been just now.
    return { tick, wallMs: Math.floor(us / 1000), toleranceUs, domainSinceUs: us }
  }

  #hear(sentMs: number, reply: GroupReply, tries: readonly Try[]): void {
    const attempts = tries.reduce((sum, { joined }) => sum + 1 + joined.length, 0)
    const sample = { ...sampleOf(this.#runtime, sentMs, reply), attempts }
    const isFromTheFuture = tries.some(({ plan }) => plan.attempt.fromUs > reply.nowUs)
    if (isFromTheFuture) this.#clock.reset(sample)
    else this.#clock.note(sample)
    if (reply.settings !== null) {
      this.#settings = reply.settings
      this.#settingsRevision = reply.settingsRevision
    }
    for (const [index, one] of tries.entries()) {
      const { request, now } = one
      const tookUs = reply.nowUs - now.tick.us
      if (tookUs > now.toleranceUs) {
        request.lates += 1
        request.latestUs = Math.max(request.latestUs, tookUs)
      }
      request.refusedAtUs = tookUs < 0 ? reply.nowUs : null
      this.#settle(one, reply.replies[index])
    }
  }

  /** An answer that makes no sense leaves open whether its attempt was committed. */
  #nonsense(what: string): LeaseError {
    const message = `${this.description.url} gave an answer that makes no sense: ${what}`
    return new LeaseError('STORE_OUTCOME_UNKNOWN', message)
  }

  /** What goes wrong with an answer concerns its own attempt alone. */
  #settle(one: Try, reply: Reply | undefined): void {
    try {
      if (reply === undefined) throw this.#nonsense('an attempt has none')
      if (reply.kind === 'missed') return this.#missAll(one, reply.views)
      if (reply.kind === 'failed') throw reply.error
      if (reply.kind === 'clock_behind') {
        const { url } = this.description
        const message = `the clock of ${url} is ${reply.behindMs} ms behind its last commit`
        throw new LeaseError('STORE_UNAVAILABLE', message)
      }
      for (const each of [one, ...one.joined]) this.#commit(each, reply.fencesMovedBy)
    } catch (error) {
      this.#failAll(one, error)
      this.#wake(one.plan.attempt.wakes)
    }
  }

  #commit(one: Try, fencesMovedBy: number): void {
    const { request } = one
    const { outcome, attempt } = fencesMovedBy === 0 ? one.plan : this.#moved(one, fencesMovedBy)
    const isWhole = attempt.places.every(({ claims, isKeepAlive }) => {
      return claims !== null && !isKeepAlive
    })
    this.#lastFence = Math.max(this.#lastFence, attempt.fences?.last ?? 0)
    this.#cache.note(attempt, isWhole ? one.now.tick.us : 0)
    this.#noteTickets(attempt.writes)
    this.#finish(request)
    request.resolve(outcome)
    this.#wake(attempt.wakes)
    if (attempt.events.length > 0) this.#subscribers.notifyFollowers()
  }

  /** Of tickets that other processes have ended this one never hears; so the oldest are forgotten, and woken by the server. */
  #noteTickets(writes: readonly EntryWrite[]): void {
    for (const { id, before, after } of writes) {
      if (after?.entry.state !== 'pending') this.#localTickets.delete(id)
      else if (before === null) this.#localTickets.add(id)
    }
    for (const oldest of this.#localTickets) {
      if (this.#localTickets.size <= LOCAL_TICKETS_MAX) break
      this.#localTickets.delete(oldest)
    }
  }

  /** The same decision, with the fences that the server gave instead of those that others had taken meanwhile. */
  #moved(one: Try, by: number): AttemptPlan<unknown> {
    const fenceTaken = (one.plan.attempt.fences?.first ?? 0) + by - 1
    const basis = { ...one, fenceTaken, mayGoBehind: false, missedBehind: null }
    return planAttempt(one.request.decide, basis)
  }

  #missAll(one: Try, views: readonly PlaceView[]): void {
    const own = one.plan.attempt.places.length
    for (const [index, { request, plan }] of one.joined.entries()) {
      const view = views[own + index]
      const readSet = plan.attempt.places[0]?.readSet
      if (view === undefined || readSet === undefined) throw this.#nonsense('a place has no view')
      request.mayBeDone ||= isThere(plan.attempt, [view])
      const isNew =
        view.prior === null && view.entries.every(({ entry }) => entry.id !== readSet.leaseId)
      if (isNew) {
        // What is remembered of it may be what the server has forgotten.
        this.#cache.forget(readSet)
        continue
      }
      this.#cache.learn(shownView(readSet, view, 0))
      // Of a ticket that was dropped it is known now, and the next time it is filed on that.
      request.mayJoin = this.#cache.failedTicket(readSet.leaseId) !== undefined
    }
    this.#queue.putBack(one.joined.map(({ request }) => request))
    // The last, because they may go along with its next try.
    this.#miss(one, views.slice(0, own))
  }

  #miss(one: Try, views: readonly PlaceView[]): void {
    const { request, plan } = one
    const { fences } = plan.attempt
    // Fences that were not given need not be passed over.
    if (fences !== null && fences.last === this.#lastFence) this.#lastFence = fences.first - 1
    request.tries += 1
    if (request.tries >= TRIES_MAX || this.#triedMs(request) > TRYING_MS_MAX) {
      const message = `others kept changing the same resource, ${request.tries} times in a row`
      return this.#fail(request, new LeaseError('STORE_CONFLICT', message))
    }
    request.mayBeDone ||= isThere(plan.attempt, views)
    this.#learn(one, views)
    this.#tryAgain(request)
  }

  #triedMs({ sentSinceMs }: PendingTransaction): number {
    return sentSinceMs === null ? 0 : this.#runtime.monotonicMs() - sentSinceMs
  }

  #learn({ request, views, now, plan }: Try, shown: readonly PlaceView[]): void {
    request.missedBehind = behindInVain(plan.attempt, shown)
    request.views = views.map((believed, index) => {
      const [place, asked] = [shown[index], plan.attempt.places[index]]
      if (place === undefined || asked === undefined) throw this.#nonsense('a place has no view')
      const isWhole = place.isPartial !== true && asked.readSet.depth === 'claims'
      const confirmedUs = isWhole ? now.tick.us : believed.confirmedUs
      const view = shownView(asked.readSet, place, confirmedUs)
      this.#cache.learn(view)
      return asked.readSet.depth === believed.readSet.depth ? view : withOwn(believed, view)
    })
  }

  /**
   * At once, but not for ever at once: processes that keep missing each other must get out of step. A request that misses
   * all the same is decided while no other process can change anything there, if the server can hold what it is about.
   */
  #tryAgain(request: PendingTransaction): void {
    // One that comes to wait in a long queue goes through all of it at each try, and would miss for as long as others come.
    const isFiled = request.missedBehind !== null && isInCrowd(request)
    const mayHold = this.#backend.holding !== undefined
    if (isFiled && mayHold) this.#filedHoldingMs = this.#runtime.monotonicMs()
    if (request.tries < TRIES_AT_ONCE && !(isFiled && mayHold)) return this.#queue.addAgain(request)
    const isStuck =
      request.tries >= TRIES_BEFORE_HOLDING ||
      this.#triedMs(request) > TRYING_BEFORE_HOLDING_MS ||
      isInCrowd(request)
    if (isStuck && mayHold && this.#holding < HOLDING_MAX) return void this.#tryHolding(request)
    const isBehind = request.tries >= TRIES_BEFORE_GOING_BEHIND
    const mayPauseMs = isBehind ? BEHIND_PAUSE_MS_MAX : PAUSE_MS_MAX
    const mostMs = Math.min(mayPauseMs, 2 ** (request.tries - TRIES_AT_ONCE))
    const resume = (): void => {
      this.#queue.addAgain(request)
      this.#schedule()
    }
    this.#runtime.setTimer(this.#runtime.random() * mostMs, resume, { keepAlive: true })
  }

  /** The first call locks, and misses once more; what it shows is still so when the next one comes. */
  async #tryHolding(request: PendingTransaction): Promise<void> {
    this.#holding += 1
    let last = null as Try | null
    const putBackJoined = (): void => {
      if (last !== null) this.#queue.putBack(last.joined.map((each) => each.request))
    }
    try {
      const held = await this.#backend.holding?.(async (attempt) => {
        const settingsRevision = this.#settingsRevision
        for (let tries = 1; ; tries += 1) {
          // Not only after a miss: the server may have asked for the whole to be done again.
          putBackJoined()
          // What is decided before the lock is mostly in vain; in a long queue that is much, so the first call only looks.
          const isLook = tries === 1 && isInCrowd(request)
          const row = isLook ? { request, next: [] } : this.#queue.takeRow(request)
          this.#drop()
          const [one = null] = this.#tryAll([row])
          last = one
          if (one === null) return null
          const sentMs = this.#runtime.monotonicMs()
          const asked = isLook ? lookingAttempt(one.plan.attempt) : wholeAttempt(one)
          const reply = await attempt({ settingsRevision, attempts: [asked] })
          const [answer] = reply.replies
          if (answer?.kind !== 'missed' || tries === HELD_TRIES_MAX) return { one, reply, sentMs }
          this.#learn(one, answer.views)
          if (isLook) request.missedBehind = null
          if (reply.settingsRevision === settingsRevision) continue
          // An ordinary call brings the settings as they are now.
          putBackJoined()
          last = null
          this.#queue.addAgain(request)
          return null
        }
      })
      if (held != null) this.#hear(held.sentMs, held.reply, [held.one])
    } catch (error) {
      if (last === null) this.#fail(request, error)
      else this.#failAll(last, error)
    } finally {
      this.#holding -= 1
      this.#sendGroups()
    }
  }

  /** A process with a backlog would after a while send nothing but what its callers do not want any more. */
  #drop(): boolean {
    const dropped = this.#queue.takeDropped()
    for (const request of dropped) {
      this.#finish(request)
      const error = new LeaseError('ABORTED', 'the caller does not want it any more')
      request.reject(request.mayBeDone ? inDoubt(error) : error)
    }
    return dropped.length > 0
  }

  #failAll(one: Try, error: unknown): void {
    for (const { request } of [one, ...one.joined]) this.#fail(request, error)
  }

  /** Whether or not something was written, nothing that is cached is certain any more. */
  #fail(request: PendingTransaction, error: unknown): void {
    for (const readSet of request.readSets) this.#cache.forget(readSet)
    this.#finish(request)
    request.reject(request.mayBeDone ? inDoubt(error) : error)
  }

  #finish(request: PendingTransaction): void {
    if (request.isFinished) return
    request.isFinished = true
    this.#queue.leaveFlight(request)
    this.#unfinished -= 1
    if (this.#unfinished === 0) this.#drained?.()
  }
}

/** Each of its tries reads and decides on all that wait there. */
function isInCrowd({ views }: PendingTransaction): boolean {
  return views?.some(({ records }) => records.size >= CROWD_MIN) === true
}

/** What is sent for a try and those that are filed with it. */
function wholeAttempt({ plan, joined }: Try): Attempt {
  return joinedAttempt(
    plan.attempt,
    joined.map((each) => each.plan.attempt),
  )
}

function sampleOf(runtime: Runtime, sentMs: number, { nowUs }: GroupReply): Sample {
  const receivedMs = runtime.monotonicMs()
  return { receivedMs, serverUs: nowUs, roundTripMs: receivedMs - sentMs, attempts: 0 }
}

/** The claim behind which a ticket went in vain. If its own id was not as expected, that may be all that there was against it. */
function behindInVain({ places }: Attempt, shown: readonly PlaceView[]): LeaseId | null {
  const [place] = places
  const { leaseId } = place?.readSet ?? {}
  const own = shown[0]?.entries.find(({ entry }) => entry.id === leaseId)
  return place?.own === (own?.version ?? 0) ? (place.behind?.id ?? null) : null
}

/** Whether something is there as an attempt would have written it. */
function isThere({ writes }: Attempt, views: readonly PlaceView[]): boolean {
  const versions = new Map<LeaseId, number>()
  for (const { entries } of views) {
    for (const { entry, version } of entries) versions.set(entry.id, version)
  }
  return writes.some(({ id, after }) => after !== null && versions.get(id) === after.version)
}

/** That nothing was written holds for the last try only. */
function inDoubt(error: unknown): unknown {
  if (!isLeaseError(error) || error.effect !== 'none') return error
  return new LeaseError('STORE_OUTCOME_UNKNOWN', error.message, { cause: error })
}

/** Found by id: in the order in which they were asked for. */
function inOrder(entries: readonly Entry[], ids: readonly LeaseId[]): readonly Entry[] {
  const places = new Map(ids.map((id, index) => [id, index]))
  return entries.toSorted((a, b) => (places.get(a.id) ?? 0) - (places.get(b.id) ?? 0))
}
