/**
 * A store that decides before it asks: on what it believes to be there, at what it believes the time to be. The server
 * commits the decision if all that was right, else says what is there, and the store decides again. So an uncontended
 * command is one round trip, and the rules stay in the core.
 *
 * All that is in flight in a process shares calls; a lone caller waits for nobody. Decisions that depend on each other
 * go one after the other, and nobody overtakes whoever asked before for the same.
 */
import { queueMicrotask } from '../../runtime/system-runtime.ts'
import { closedError, isLeaseError, LeaseError } from '../../core/errors.ts'
import type { Entry, LeaseId } from '../../core/lease.ts'
import type { ReadSet, Wake } from '../../core/realm.ts'
import type { SettingRow } from '../../core/settings.ts'
import type { Now } from '../../core/time.ts'
import { afterTurn } from '../../runtime/after-turn.ts'
import { endsWithin } from '../../runtime/ends-within.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import type {
  Decide,
  EntryQuery,
  Found,
  HistoryQuery,
  LedgerEntry,
  Position,
  Pruned,
  PrunePolicy,
  SettingChange,
  Store,
  StoreDescription,
  Unsubscribe,
  WakeSignal,
} from '../../store-port/store.ts'
import { ResolvedSettings } from '../resolved-settings.ts'
import type { Attempt, Backend, GroupReply, PlaceView, Reply } from './backend.ts'
import { beliefOf, type Belief } from './belief.ts'
import type { Asked, Beginning, Errand, NowFacts, Trial } from './errand.ts'
import { LocalListeners } from './local-listeners.ts'
import { MemoryOfRealms } from './memory-of-realms.ts'
import { ServerClock, type Sample, type ServerTime } from './server-clock.ts'
import { speculate, type Speculation } from './speculate.ts'
import { UnderWay } from './under-way.ts'

/** Two, so that the server works on one while the next is made. */
const GROUPS_IN_FLIGHT_MAX = 2
const GROUP_MAX = 500
/** More than this are sent as two halves when nothing is in flight. */
const SPLIT_MIN = 16
const TRIES_MAX = 200
const TRYING_MS_MAX = 10_000
const TRIES_AT_ONCE = 4
/** Joining lets everybody in soon, and takes turns from one process to the next, which is slower than within one. */
const TRIES_BEFORE_JOINING = 12
/** Holding takes more calls than a try does, and everybody else waits for them: it is for whoever would never get through. */
const TRIES_BEFORE_HOLDING = 100
const TRYING_BEFORE_HOLDING_MS = 2_000
/** With what it is about held, the second try is the last one that can miss, unless the clock or the settings changed. */
const HELD_TRIES_MAX = 4
/** How long closing waits for what is under way; whoever has leases to give back does so before. */
const CLOSE_WITHIN_MS = 1_000
const PAUSE_MS_MAX = 50
const JOINING_PAUSE_MS_MAX = 2
const NOBODY: readonly Errand[] = []

export class OptimisticStore implements Store {
  readonly description: StoreDescription
  readonly #backend: Backend
  readonly #runtime: Runtime
  readonly #clock: ServerTime
  readonly #memory = new MemoryOfRealms()
  readonly #underWay = new UnderWay()
  readonly #listeners = new LocalListeners()
  #settings: ResolvedSettings
  #settingsRevision: number
  /** The highest fence that this process has asked for: what it asks for at once is to be told apart. */
  #lastFence = 0
  #queue: Errand[] = []
  #again: Errand[] = []
  #unfinished = 0
  #groupsInFlight = 0
  #isScheduled = false
  #closing: Promise<void> | null = null
  #drained: (() => void) | null = null

  /** Reads the clock and the configuration, so that the first command need not. */
  static async open(
    backend: Backend,
    runtime: Runtime,
    clock: ServerTime | null = null,
  ): Promise<OptimisticStore> {
    try {
      const sentMs = runtime.monotonicMs()
      const reply = await backend.attempt({ settingsRevision: -1, attempts: [] })
      return new OptimisticStore(backend, runtime, { sentMs, reply, clock })
    } catch (error) {
      await backend.close()
      throw error
    }
  }

  private constructor(backend: Backend, runtime: Runtime, first: Beginning) {
    this.#backend = backend
    this.#runtime = runtime
    this.description = backend.description
    const { sentMs, reply } = first
    this.#clock = first.clock ?? new ServerClock(runtime, this.#sample(sentMs, reply))
    this.#settings = new ResolvedSettings(reply.settings ?? [])
    this.#settingsRevision = reply.settingsRevision
  }

  transact<Outcome>(readSets: readonly ReadSet[], decide: Decide<Outcome>): Promise<Outcome> {
    return new Promise<Outcome>((resolve, reject) => {
      this.#refuseIfClosed()
      this.#backend.refuseApart?.(readSets)
      this.#unfinished += 1
      this.#queue.push({
        readSets,
        decide,
        resolve: resolve as (outcome: unknown) => void,
        reject,
        sentSinceMs: null,
        beliefs: null,
        mayJoin: false,
        missedBehind: null,
        tries: 0,
        lates: 0,
        latestUs: 0,
        refusedAtUs: null,
        mayBeDone: false,
        isUnderWay: false,
        isFinished: false,
      })
      this.#schedule()
    })
  }

  async find(query: EntryQuery): Promise<Found> {
    this.#refuseIfClosed()
    const { nowUs, entries, more, next } = await this.#backend.find(query)
    const now = this.#now({ us: nowUs, toleranceUs: 0 })
    return {
      now,
      entries: query.ids === undefined ? entries : inOrder(entries, query.ids),
      more,
      next,
    }
  }

  async history(query: HistoryQuery): Promise<readonly LedgerEntry[]> {
    this.#refuseIfClosed()
    return this.#backend.history(query)
  }

  async end(): Promise<Position> {
    this.#refuseIfClosed()
    return this.#backend.end()
  }

  async settings(): Promise<readonly SettingRow[]> {
    this.#refuseIfClosed()
    return this.#backend.settings()
  }

  async configure(change: SettingChange): Promise<void> {
    this.#refuseIfClosed()
    return this.#backend.configure(change)
  }

  async prune(policy: PrunePolicy): Promise<Pruned> {
    this.#refuseIfClosed()
    return this.#backend.prune(policy)
  }

  async subscribe(session: string, listener: (signal: WakeSignal) => void): Promise<Unsubscribe> {
    this.#refuseIfClosed()
    const leave = this.#listeners.subscribe(session, listener)
    try {
      const unsubscribe = await this.#backend.subscribe(session, listener)
      return () => {
        leave()
        unsubscribe()
      }
    } catch (error) {
      leave()
      throw error
    }
  }

  follow(listener: () => void): Unsubscribe {
    const leave = this.#listeners.follow(listener)
    const unfollow = this.#backend.follow(listener)
    return () => {
      leave()
      unfollow()
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  /** What is under way when the time is over ends with its connection; what was not sent yet never is. */
  async #close(): Promise<void> {
    if (this.#unfinished > 0) {
      const drained = new Promise<void>((resolve) => (this.#drained = resolve))
      await endsWithin(this.#runtime, CLOSE_WITHIN_MS, drained)
    }
    const unsent = [...this.#again.splice(0), ...this.#queue.splice(0)]
    for (const errand of unsent) this.#fail(errand, closedError())
    this.#listeners.clear()
    await this.#backend.close()
  }

  #refuseIfClosed(): void {
    if (this.#closing !== null) throw closedError()
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
    while (this.#groupsInFlight < GROUPS_IN_FLIGHT_MAX) {
      const errands = this.#take()
      if (errands.length === 0) return
      this.#groupsInFlight += 1
      void this.#send(errands)
    }
  }

  /** Those that must be tried again, and of the others all that depend on nobody who came before them. */
  #take(): readonly Errand[] {
    const waiting = this.#again.length + this.#queue.length
    if (waiting === 0) return NOBODY
    const isLull = this.#groupsInFlight === 0 && waiting > SPLIT_MIN
    const most = isLull ? Math.ceil(waiting / 2) : GROUP_MAX
    const taken = this.#again.splice(0, most)
    const left: Errand[] = []
    let passedOver: UnderWay | null = null
    for (const errand of this.#queue) {
      const { readSets } = errand
      const mustWait =
        taken.length >= most ||
        this.#underWay.concerns(readSets) ||
        passedOver?.concerns(readSets) === true
      if (mustWait) {
        left.push(errand)
        if (taken.length >= most) continue
        passedOver ??= new UnderWay()
        passedOver.begin(readSets)
        continue
      }
      errand.isUnderWay = true
      this.#underWay.begin(readSets)
      taken.push(errand)
    }
    this.#queue = left
    return taken
  }

  async #send(errands: readonly Errand[]): Promise<void> {
    const settingsRevision = this.#settingsRevision
    const trials = this.#tryAll(errands)
    try {
      if (trials.length === 0) return
      const sentMs = this.#runtime.monotonicMs()
      const attempts = trials.map(({ speculation }) => {
        return this.#listeners.withoutOwn(speculation.attempt)
      })
      const reply = await this.#backend.attempt({ settingsRevision, attempts })
      for (const { errand } of trials) errand.sentSinceMs ??= sentMs
      this.#hear(sentMs, reply, trials)
    } catch (error) {
      for (const { errand, speculation } of trials) {
        this.#fail(errand, error)
        // It may have been committed, and the server was not asked to tell those who wait here.
        this.#listeners.wake(speculation.attempt.wakes)
      }
    } finally {
      this.#groupsInFlight -= 1
      this.#sendGroups()
    }
  }

  /** All of a group are decided at one time, which is then told to the server once. */
  #tryAll(errands: readonly Errand[]): readonly Trial[] {
    const us = this.#clock.lowerUs()
    const now = this.#now({ us, toleranceUs: this.#clock.toleranceUs() })
    const trials: Trial[] = []
    for (const errand of errands) {
      const trial = this.#try(errand, now)
      if (trial !== null) trials.push(trial)
    }
    return trials
  }

  /** No trial for an errand whose decision itself throws. */
  #try(errand: Errand, groupNow: Now): Trial | null {
    try {
      const beliefs = errand.beliefs ?? errand.readSets.map((one) => this.#memory.believe(one))
      const now = this.#nowFor(beliefs, errand, groupNow)
      const settings = this.#settings
      const fenceTaken = this.#lastFence
      const { mayJoin, missedBehind } = errand
      const premises = { beliefs, now, settings, fenceTaken, mayJoin, missedBehind }
      const speculation = speculate(errand.decide, premises)
      this.#lastFence = Math.max(fenceTaken, speculation.attempt.fences?.last ?? 0)
      return { errand, beliefs, now, settings, speculation }
    } catch (error) {
      this.#fail(errand, error)
      return null
    }
  }

  /**
   * A decision that came too late once was unlucky, as one call in a hundred may be. One that came too late twice allows
   * for the way that it really took; nobody else's does.
   */
  #nowFor(beliefs: readonly Belief[], errand: Errand, now: Now): Now {
    const { lates, latestUs, refusedAtUs } = errand
    let wallMs = now.wallMs
    for (const { lastWallMs } of beliefs) wallMs = Math.max(wallMs, lastWallMs)
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
  #now({ us, toleranceUs }: NowFacts): Now {
    const tick = { domain: this.#backend.clockDomain, us }
    // What another clock has counted came with an import, and nobody remembers when that was: it may have been just now.
    return { tick, wallMs: Math.floor(us / 1000), toleranceUs, domainSinceUs: us }
  }

  #hear(sentMs: number, reply: GroupReply, trials: readonly Trial[]): void {
    const sample = this.#sample(sentMs, reply)
    const isFromTheFuture = trials.some((trial) => {
      return trial.speculation.attempt.fromUs > reply.nowUs
    })
    if (isFromTheFuture) this.#clock.reset(sample)
    else this.#clock.note(sample)
    if (reply.settings !== null) {
      this.#settings = new ResolvedSettings(reply.settings)
      this.#settingsRevision = reply.settingsRevision
    }
    let index = 0
    for (const trial of trials) {
      const { tick, toleranceUs } = trial.now
      const tookUs = reply.nowUs - tick.us
      if (tookUs > toleranceUs) {
        trial.errand.lates += 1
        trial.errand.latestUs = Math.max(trial.errand.latestUs, tookUs)
      }
      trial.errand.refusedAtUs = tick.us > reply.nowUs ? reply.nowUs : null
      this.#settleOne(trial, reply.replies[index])
      index += 1
    }
  }

  #sample(sentMs: number, { nowUs }: GroupReply): Sample {
    const receivedMs = this.#runtime.monotonicMs()
    return { receivedMs, serverUs: nowUs, roundTripMs: receivedMs - sentMs }
  }

  /** What goes wrong with an answer concerns its own attempt alone. */
  #settleOne(trial: Trial, reply: Reply | undefined): void {
    try {
      this.#settle(trial, reply)
    } catch (error) {
      this.#fail(trial.errand, error)
    }
  }

  /** An answer that makes no sense leaves open whether its attempt was committed. */
  #nonsense(what: string): LeaseError {
    const message = `${this.description.url} gave an answer that makes no sense: ${what}`
    return new LeaseError('STORE_OUTCOME_UNKNOWN', message)
  }

  #settle(trial: Trial, reply: Reply | undefined): void {
    if (reply === undefined) throw this.#nonsense('an attempt has none')
    if (reply.kind === 'missed') return this.#miss(trial, reply.views)
    if (reply.kind === 'committed') return this.#commit(trial, reply.fencesMovedBy)
    if (reply.kind === 'failed') return this.#fail(trial.errand, reply.error)
    const { url } = this.description
    const message = `the clock of ${url} is ${reply.behindMs} ms behind its last commit`
    this.#fail(trial.errand, new LeaseError('STORE_UNAVAILABLE', message))
  }

  #commit(trial: Trial, fencesMovedBy: number): void {
    const { errand } = trial
    const { outcome, attempt } =
      fencesMovedBy === 0 ? trial.speculation : this.#moved(trial, fencesMovedBy)
    const { epochs, wallMs, places } = attempt
    const isWhole = places.every(({ claims, isSignOfLife }) => claims !== null && !isSignOfLife)
    const confirmedUs = isWhole ? trial.now.tick.us : 0
    const facts = { lastFence: attempt.fences?.last ?? 0, epochs, wallMs, confirmedUs }
    this.#lastFence = Math.max(this.#lastFence, facts.lastFence)
    this.#memory.note(errand.readSets, attempt.writes, facts)
    this.#listeners.note(attempt.writes)
    this.#finish(errand)
    errand.resolve(outcome)
    this.#announce(attempt.wakes, attempt.events.length > 0)
  }

  /** The same decision, with the fences that the server gave instead of those that others had taken meanwhile. */
  #moved(trial: Trial, by: number): Speculation<unknown> {
    const { errand, speculation } = trial
    const fenceTaken = (speculation.attempt.fences?.first ?? 0) + by - 1
    return speculate(errand.decide, { ...trial, fenceTaken, mayJoin: false, missedBehind: null })
  }

  #announce(wakes: readonly Wake[], hasEvents: boolean): void {
    this.#listeners.wake(wakes)
    if (hasEvents) this.#listeners.tellFollowers()
  }

  #miss(trial: Trial, views: readonly PlaceView[]): void {
    const { errand, speculation } = trial
    const { fences } = speculation.attempt
    // Fences that were not given need not be passed over.
    if (fences !== null && fences.last === this.#lastFence) this.#lastFence = fences.first - 1
    errand.tries += 1
    if (errand.tries >= TRIES_MAX || this.#triedMs(errand) > TRYING_MS_MAX) {
      const message = `others kept changing the same resource, ${errand.tries} times in a row`
      return this.#fail(errand, new LeaseError('STORE_CONFLICT', message))
    }
    errand.mayJoin = errand.tries >= TRIES_BEFORE_JOINING
    errand.mayBeDone ||= isThere(speculation.attempt, views)
    this.#learn(trial, views)
    this.#tryAgain(errand)
  }

  #triedMs({ sentSinceMs }: Errand): number {
    return sentSinceMs === null ? 0 : this.#runtime.monotonicMs() - sentSinceMs
  }

  #learn({ errand, beliefs, now, speculation }: Trial, views: readonly PlaceView[]): void {
    errand.missedBehind = speculation.attempt.places[0]?.behind?.id ?? null
    errand.beliefs = errand.readSets.map((readSet, index) => {
      const view = views[index]
      if (view === undefined) throw this.#nonsense('a place has no view')
      const confirmedUs = view.isPart === true ? beliefs[index]?.confirmedUs : now.tick.us
      const belief = beliefOf(readSet, view, confirmedUs ?? 0)
      this.#memory.learn(belief)
      return belief
    })
  }

  /**
   * At once, but not for ever at once: processes that keep missing each other must get out of step. Whoever misses all
   * the same decides while nobody else can change anything there, if the server has such a thing.
   */
  #tryAgain(errand: Errand): void {
    if (errand.tries < TRIES_AT_ONCE) return void this.#again.push(errand)
    const isStuck =
      errand.tries >= TRIES_BEFORE_HOLDING || this.#triedMs(errand) > TRYING_BEFORE_HOLDING_MS
    if (isStuck && this.#backend.holding !== undefined) return void this.#tryHolding(errand)
    const mayPauseMs = errand.mayJoin ? JOINING_PAUSE_MS_MAX : PAUSE_MS_MAX
    const mostMs = Math.min(mayPauseMs, 2 ** (errand.tries - TRIES_AT_ONCE))
    const resume = (): void => {
      this.#again.push(errand)
      this.#schedule()
    }
    this.#runtime.setTimer(this.#runtime.random() * mostMs, resume, { keepAlive: true })
  }

  async #tryHolding(errand: Errand): Promise<void> {
    try {
      const held = await this.#backend.holding?.((attempt) => this.#askHolding(errand, attempt))
      if (held != null) this.#hear(held.sentMs, held.reply, [held.trial])
    } catch (error) {
      this.#fail(errand, error)
    } finally {
      this.#sendGroups()
    }
  }

  /**
   * The first call locks, and misses once more; what it tells is still so when the next one comes. Null if there is
   * nothing to hear.
   */
  async #askHolding(errand: Errand, attempt: Backend['attempt']): Promise<Asked | null> {
    const settingsRevision = this.#settingsRevision
    for (let tries = 1; ; tries += 1) {
      const [trial] = this.#tryAll([errand])
      if (trial === undefined) return null
      const sentMs = this.#runtime.monotonicMs()
      const reply = await attempt({ settingsRevision, attempts: [trial.speculation.attempt] })
      const [answer] = reply.replies
      if (answer?.kind !== 'missed' || tries === HELD_TRIES_MAX) return { trial, reply, sentMs }
      this.#learn(trial, answer.views)
      if (reply.settingsRevision === settingsRevision) continue
      // What the settings are now, an ordinary call tells.
      this.#again.push(errand)
      return null
    }
  }

  /** Whether or not something was written, nothing that was believed is certain any more. */
  #fail(errand: Errand, error: unknown): void {
    for (const readSet of errand.readSets) this.#memory.forget(readSet)
    this.#finish(errand)
    errand.reject(errand.mayBeDone ? inDoubt(error) : error)
  }

  #finish(errand: Errand): void {
    if (errand.isFinished) return
    errand.isFinished = true
    if (errand.isUnderWay) this.#underWay.end(errand.readSets)
    this.#unfinished -= 1
    if (this.#unfinished === 0) this.#drained?.()
  }
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
