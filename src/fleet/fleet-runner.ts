/**
 * Acquires the sessions that this instance should own, runs one poller for each session that it owns, hands over the
 * sessions that another instance should own, and shuts down in order.
 *
 * A pass compares the plan with what is owned and does what is due. Passes never overlap; handovers run beside them, each
 * by itself: the poller stops, then the session is transferred, and only then is it forgotten.
 */
import { Listeners } from '../client/listeners.ts'
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import { report, reportTo, RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { newAbortController } from '../runtime/abort-listeners.ts'
import { endsWithin } from '../runtime/ends-within.ts'
import {
  requireEventListener,
  RUNNER_EVENTS,
  type Fleet,
  type FleetEvents,
  type FleetOptions,
  type LeaseManager,
  type RunnerEvents,
  type SessionSource,
  type PollContext,
} from './contract.ts'
import type { AcquireReply } from './fleet-layout.ts'
import { FleetManager, type SessionWorker } from './fleet-manager.ts'
import { readFleetOptions, type ReadFleetOptions } from './fleet-options.ts'
import {
  FleetPlanner,
  HandoverBackOff,
  HandoverLimiter,
  type FleetPlan,
  type Handover,
} from './fleet-plan.ts'

/** A pass comes so long after another instance's lease should have ended. */
const EXPIRY_SLACK_MS = 3

export class FleetRunner implements Fleet, SessionWorker {
  readonly #manager: FleetManager
  readonly #runtime: Runtime
  readonly #options: ReadFleetOptions
  readonly #listeners = new Listeners<RunnerEvents>()
  readonly #planner = new FleetPlanner()
  readonly #backOff: HandoverBackOff
  readonly #pollers = new Map<string, SessionPoller>()
  /** Sessions that are being released or handed over. */
  readonly #moves = new Map<string, Promise<void>>()
  readonly #limiter: HandoverLimiter
  readonly #unhealthy: UnhealthySessions
  /** Since when a foreign instance should have taken a session. */
  readonly #offeredSinceMs = new Map<string, number>()
  /** Sessions whose handover failed, and which this instance may still own. */
  readonly #retry = new Set<string>()
  readonly #unlisten: readonly (() => void)[]
  #sessionIds: ReadonlySet<string> = new Set()
  #passing: Promise<void> | null = null
  #isPassWanted = false
  #timer: Timer | null = null
  #stopping: Promise<void> | null = null
  readonly #detach: () => void
  readonly #stopListeners: (() => void)[] = []

  constructor(manager: FleetManager, options: ReadFleetOptions) {
    this.#manager = manager
    this.#runtime = manager.runtime
    this.#options = options
    this.#backOff = new HandoverBackOff(manager.runtime, manager.settings.discoverMs)
    this.#limiter = new HandoverLimiter(manager.runtime)
    this.#unhealthy = new UnhealthySessions(manager.runtime, () => this.#wantPass())
    this.#detach = manager.attach(this)
    this.#unlisten = [
      manager.onView(() => this.#wantPass()),
      manager.on('acquired', (event) => this.#onAcquired(event)),
      manager.on('lost', ({ sessionId }) => this.#onLost(sessionId)),
      manager.on('recovered', ({ sessionId }) => this.#pollers.get(sessionId)?.kick()),
    ]
  }

  get polling(): readonly string[] {
    return [...this.#pollers.keys()]
  }

  on<Name extends keyof RunnerEvents>(
    name: Name,
    listener: (event: RunnerEvents[Name]) => void,
  ): () => void {
    requireEventListener(RUNNER_EVENTS, name, listener)
    return this.#listeners.add(name, listener)
  }

  /** The whole list, from now on. */
  setSessions(sessionIds: readonly string[]): void {
    this.#sessionIds = new Set(sessionIds)
    this.#wantPass()
  }

  /** Reports the error as well: there may be no listener. */
  fail(error: unknown): void {
    report('fleet/runner', error)
    this.#listeners.emit('failed', { error })
  }

  /** Resolves when a pass that began after this call is over. */
  async pass(): Promise<void> {
    this.#wantPass()
    await this.#passing
  }

  stop(): Promise<void> {
    if (this.#stopping === null) {
      this.#stopping = this.#stop()
      for (const listener of this.#stopListeners) listener()
    }
    return this.#stopping
  }

  get isStopping(): boolean {
    return this.#stopping !== null
  }

  /** Calls `listener` when this begins to stop. */
  onStop(listener: () => void): void {
    this.#stopListeners.push(listener)
  }

  async suspend<Result>(sessionId: string, change: () => Promise<Result>): Promise<Result> {
    while (this.#moves.has(sessionId)) await this.#moves.get(sessionId)
    const result = this.#stopPoller(sessionId, 'is released or handed over').then(change)
    // After a release or handover by a caller, the session is not touched until the next view.
    const isOpen = result.then(
      () => false,
      // No fault: the caller gets the error, and this instance still owns the session.
      () => true,
    )
    this.#track(sessionId, isOpen)
    return result
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #stop(): Promise<void> {
    this.#timer?.cancel()
    // Before any handover: a receiver that still saw this instance as ready would hand the session back.
    await this.#manager.withdraw()
    await this.#passing
    await Promise.all(this.#moves.values())
    this.#carryOut(this.#plan())
    await Promise.all(this.#moves.values())
    for (const unlisten of this.#unlisten) unlisten()
    for (const poller of this.#pollers.values()) poller.abort(new Error('the fleet was stopped'))
    this.#detach()
    if (!this.#manager.isNew) await this.#manager.stop()
  }

  #wantPass(): void {
    this.#isPassWanted = true
    if (this.#stopping !== null) return
    this.#passing ??= this.#passes().finally(() => (this.#passing = null))
  }

  async #passes(): Promise<void> {
    while (this.#isPassWanted && this.#stopping === null) {
      this.#isPassWanted = false
      try {
        await this.#pass()
      } catch (error) {
        this.fail(error)
      }
    }
  }

  async #pass(): Promise<void> {
    if (!this.#manager.isStarted) return
    this.#backOff.prune()
    this.#unhealthy.prune()
    const plan = this.#plan()
    this.#carryOut(plan)
    // A session is in two of them when its handover failed and it should be here after all.
    const wanted = new Set([...plan.acquire, ...this.#due(plan.fallback), ...this.#retry])
    const free = [...wanted].filter((id) => !this.#moves.has(id) && !this.#unhealthy.isHanging(id))
    if (free.length > 0) this.#settleRetries(free, await this.#manager.acquireMany(free))
    this.#schedule(plan)
  }

  /** A session whose acquire failed stays in `#retry` for the next pass. */
  #settleRetries(sessionIds: readonly string[], replies: readonly AcquireReply[]): void {
    for (const [index, sessionId] of sessionIds.entries()) {
      if (replies[index]?.kind !== 'failed') this.#retry.delete(sessionId)
    }
  }

  #plan(): FleetPlan {
    const { instanceId: self, candidates, isDraining } = this.#manager
    return this.#planner.plan({
      ...{ self, candidates, sessionIds: this.#sessionIds },
      owned: this.#manager.ownedSessions(),
      isLeaving: isDraining || this.#stopping !== null,
      isUnhealthy: (sessionId) => this.#unhealthy.has(sessionId),
    })
  }

  #carryOut(plan: FleetPlan): void {
    for (const sessionId of plan.keep) this.#poll(sessionId)
    this.#release(plan.release)
    for (const handover of plan.handOver) {
      if (this.#handOverInMs(handover) <= 0) this.#handOver(handover)
      else this.#poll(handover.sessionId)
    }
  }

  /** 0 or less: now. */
  #handOverInMs({ sessionId, to: { isForeign } }: Handover): number {
    if (this.#stopping !== null) return 0
    const isUrgent = this.#manager.isDraining || this.#unhealthy.has(sessionId)
    return this.#backOff.leftMs(sessionId, { isForeign, isUrgent })
  }

  /** The sessions that a foreign instance has not taken for two intervals of discovery. */
  #due(fallback: readonly string[]): readonly string[] {
    const nowMs = this.#runtime.monotonicMs()
    const known = new Set(fallback)
    for (const id of this.#offeredSinceMs.keys())
      if (!known.has(id)) this.#offeredSinceMs.delete(id)
    const patienceMs = 2 * this.#manager.settings.discoverMs
    return fallback.filter((sessionId) => {
      const sinceMs = this.#offeredSinceMs.get(sessionId) ?? nowMs
      this.#offeredSinceMs.set(sessionId, sinceMs)
      return nowMs - sinceMs >= patienceMs
    })
  }

  /** Schedules a pass for when another instance's lease ends; every new view starts a pass anyway. */
  #schedule(plan: FleetPlan): void {
    this.#timer?.cancel()
    if (this.#stopping !== null) return
    const waits = plan.acquire.flatMap((id) => this.#manager.freeInMs(id) ?? [])
    const backOffs = plan.handOver.map((handover) => this.#handOverInMs(handover))
    const dueMs = [...waits, ...backOffs].filter((inMs) => inMs > 0)
    if (dueMs.length === 0) return
    const inMs = Math.ceil(dueMs.reduce((least, each) => Math.min(least, each))) + EXPIRY_SLACK_MS
    this.#timer = this.#runtime.setTimer(inMs, () => this.#wantPass(), { keepAlive: true })
  }

  #onAcquired({ sessionId, isGiven }: FleetEvents['acquired']): void {
    if (isGiven) this.#backOff.received(sessionId)
    else if (this.#offeredSinceMs.has(sessionId)) this.#backOff.neglected(sessionId)
    const isWanted = this.#sessionIds.has(sessionId) && !this.#manager.isDraining
    if (isWanted && !this.#unhealthy.has(sessionId) && this.#stopping === null)
      this.#poll(sessionId)
    else this.#wantPass()
  }

  #onLost(sessionId: string): void {
    const poller = this.#pollers.get(sessionId)
    poller?.abort(new Error(`session ${sessionId} was lost`))
    if (poller !== undefined) this.#removePoller(sessionId, poller)
    this.#wantPass()
  }

  #poll(sessionId: string): void {
    if (this.#moves.has(sessionId)) return
    const before = this.#pollers.get(sessionId)
    if (before !== undefined && !before.isStopped) return
    // It was stopped, and no other instance can take the session.
    if (before !== undefined) this.#removePoller(sessionId, before)
    const lease = this.#manager.grantOf(sessionId)
    if (lease === null || this.#unhealthy.isHanging(sessionId)) return
    const { poll, intervalMs, pollTimeoutMs } = this.#options
    const poller = new SessionPoller({
      ...{ sessionId, lease, poll, intervalMs, pollTimeoutMs, runtime: this.#runtime },
      isOwned: () => this.#manager.isOwned(sessionId),
      onFailed: (error, failures) => {
        this.#listeners.emit('poll_failed', { sessionId, error, failures })
      },
      onStuck: () => this.#onStuck(sessionId),
    })
    this.#pollers.set(sessionId, poller)
    // Only now: the first poll may itself ask that its session be released.
    poller.kick()
  }

  /** Another instance may be able to poll it. */
  #onStuck(sessionId: string): void {
    this.#unhealthy.addFailed(sessionId, this.#options.pollTimeoutMs)
    this.#wantPass()
  }

  /** Removes a poller; while its last poll runs, no other begins here. */
  #removePoller(sessionId: string, poller: SessionPoller): void {
    this.#pollers.delete(sessionId)
    if (poller.running !== null) this.#unhealthy.addHanging(sessionId, poller.running)
  }

  /** Hands a session over; after a failure the next pass decides again. */
  #handOver(handover: Handover): void {
    const { sessionId } = handover
    if (this.#moves.has(sessionId)) return
    const isOpen = this.#stopAndTransfer(handover).then(
      (isTransferred) => !isTransferred,
      (error: unknown) => this.#onHandoverFailed(error, handover),
    )
    this.#track(sessionId, isOpen)
  }

  /** Releases sessions that are not in the list any more, in one call when the last of their pollers has stopped. */
  #release(sessionIds: readonly string[]): void {
    const free = sessionIds.filter((sessionId) => !this.#moves.has(sessionId))
    if (free.length === 0) return
    const reason = 'is not wanted here any more'
    const move = Promise.all(free.map((sessionId) => this.#stopPoller(sessionId, reason)))
      .then(() => this.#manager.releaseMany(free))
      .catch((error: unknown) => this.fail(error))
    for (const sessionId of free) {
      const isWantedAgain = move.then(() => this.#sessionIds.has(sessionId))
      this.#track(sessionId, isWantedAgain)
    }
  }

  #onHandoverFailed(error: unknown, { sessionId }: Handover): true {
    this.#retry.add(sessionId)
    this.#backOff.failed(sessionId)
    this.fail(error)
    return true
  }

  /**
   * Passes skip a session while it is released or handed over. `move` resolves with true if a pass must decide about the
   * session again afterwards, and never rejects.
   */
  #track(sessionId: string, move: Promise<boolean>): void {
    const ended = move.then((isOpen) => {
      this.#moves.delete(sessionId)
      if (isOpen) this.#wantPass()
    })
    this.#moves.set(sessionId, ended)
  }

  /** False if the session was not transferred. */
  async #stopAndTransfer({ sessionId, to }: Handover): Promise<boolean> {
    await this.#limiter.admit()
    await this.#stopPoller(sessionId, 'goes to another instance')
    const { instanceId } = to
    const isReady = this.#manager.candidates.some((node) => node.instanceId === instanceId)
    if (!isReady) return false
    const isTransferred = await this.#limiter.transfer(() => this.#manager.transfer(sessionId, to))
    if (isTransferred) this.#backOff.transferred(sessionId)
    return isTransferred
  }

  /** Stops the poller of a session; a poll that does not return is reported and left running. */
  async #stopPoller(sessionId: string, why: string): Promise<void> {
    const poller = this.#pollers.get(sessionId)
    if (poller === undefined) return
    const reason = new Error(`session ${sessionId} ${why}`)
    const result = await poller.stop(reason, this.#options.stopTimeoutMs)
    this.#removePoller(sessionId, poller)
    if (result === 'stopped') return
    const error = new Error('the poll went on after it was told to stop')
    report('fleet/poll', error)
    this.#listeners.emit('poll_failed', { sessionId, error, failures: 1 })
  }
}

/**
 * Polls the sessions that this instance should own, for as long as it owns them. Starts a manager that is not started.
 * Resolves after the first pass, which for a source is the pass over its first list.
 */
export async function runFleet(
  manager: LeaseManager,
  sessions: SessionSource,
  options: FleetOptions,
): Promise<Fleet> {
  if (!(manager instanceof FleetManager)) {
    throw invalid('manager', 'must come from openLeaseManager', manager)
  }
  const read = readFleetOptions(options)
  const source = isAsyncSource(sessions) ? sessions : null
  if (source === null && !Array.isArray(sessions)) {
    throw invalid('sessions', 'must be an array or an async iterable of arrays', sessions)
  }
  const first = source === null ? readSessions(manager, sessions) : null
  if (manager.isStopped) throw new LeaseError('CLOSED', 'the manager was stopped')
  const isNew = manager.isNew
  const runner = new FleetRunner(manager, read)
  try {
    if (isNew) await manager.connect()
    if (first !== null) runner.setSessions(first)
    if (source !== null) await followSource(manager, runner, source)
    // Only now: a session that another instance hands over from here on is polled at once.
    if (isNew) await manager.publish()
    await runner.pass()
    if (runner.isStopping) throw new LeaseError('CLOSED', 'the manager was stopped')
    return runner
  } catch (error) {
    await runner.stop()
    throw error
  }
}

function readSessions(manager: FleetManager, list: unknown): readonly string[] {
  if (!Array.isArray(list)) throw invalid('sessions', 'must be an array', list)
  return list.map((sessionId) => manager.parseSessionId(sessionId))
}

/** Resolves with the first list of a source. After that, a list that is invalid is reported and skipped. */
async function followSource(
  manager: FleetManager,
  runner: FleetRunner,
  source: AsyncIterable<readonly string[]>,
): Promise<void> {
  const lists = source[Symbol.asyncIterator]()
  const stopped = new Promise<null>((resolve) => {
    runner.onStop(() => {
      resolve(null)
      end(lists)
    })
  })
  const first = await Promise.race([lists.next(), stopped])
  if (first === null) throw new LeaseError('CLOSED', 'the manager was stopped')
  if (first.done === true) return
  runner.setSessions(readSessions(manager, first.value))
  void follow(manager, runner, lists)
}

async function follow(
  manager: FleetManager,
  runner: FleetRunner,
  lists: AsyncIterator<readonly string[]>,
): Promise<void> {
  for (;;) {
    try {
      const { done, value } = await lists.next()
      if (done === true || runner.isStopping) return
      runner.setSessions(readSessions(manager, value))
    } catch (error) {
      runner.fail(error)
      if (!isInvalidInput(error)) return
    }
  }
}

/** Does not wait for the end of the source, which may be waiting for a list that never comes. */
function end(lists: AsyncIterator<readonly string[]>): void {
  const ended = async (): Promise<unknown> => lists.return?.()
  ended().catch(reportTo('fleet/session-source'))
}

/** From reading a list. Any other error was thrown by the source, and ends it. */
function isInvalidInput(error: unknown): boolean {
  return isLeaseError(error) && error.code === 'INVALID_INPUT'
}

function isAsyncSource(source: unknown): source is AsyncIterable<readonly string[]> {
  return typeof source === 'object' && source !== null && Symbol.asyncIterator in source
}

interface PollerOptions extends Omit<ReadFleetOptions, 'stopTimeoutMs'> {
  readonly sessionId: string
  readonly lease: Omit<PollContext, 'signal'>
  readonly runtime: Runtime
  readonly isOwned: () => boolean
  readonly onFailed: (error: unknown, failures: number) => void
  /** For the poll timeout, every poll has failed, or one has not returned. */
  readonly onStuck: () => void
}

type StopResult = 'stopped' | 'still_running'

/**
 * Polls one session for as long as it is owned. Ownership is checked before each poll, in the same turn of the event
 * loop in which the poll begins, never after it. At most one poll of a session is in progress.
 */
class SessionPoller {
  readonly #options: PollerOptions
  /** For the poll in progress. Each poll has its own, so that listeners of past polls do not accumulate on the signal. */
  #controller: AbortController | null = null
  #running: Promise<void> | null = null
  #timer: Timer | null = null
  #isStopped = false
  #failures = 0
  readonly #fault: RepeatedFault
  #failingSinceMs: number | null = null

  constructor(options: PollerOptions) {
    this.#options = options
    this.#fault = new RepeatedFault('fleet/poll', options.runtime)
  }

  /** The poll in progress, if there is one. */
  get running(): Promise<void> | null {
    return this.#running
  }

  /** No further poll begins, though one may still be in progress. */
  get isStopped(): boolean {
    return this.#isStopped
  }

  /** Polls now if the session is owned; otherwise checks again an interval later, or at the next call. */
  kick(): void {
    if (this.#isStopped || this.#running !== null) return
    this.#timer?.cancel()
    if (!this.#options.isOwned()) return this.#wait(this.#options.intervalMs)
    let end = (): void => undefined
    // Before the poll begins: it may itself ask for a stop, which waits for its end.
    this.#running = new Promise((resolve) => (end = resolve))
    void this.#run().then(end)
  }

  /** No poll begins after this. */
  abort(reason: unknown): void {
    this.#isStopped = true
    this.#timer?.cancel()
    this.#controller?.abort(reason)
  }

  /** Aborts the poll in progress, and waits for it to return. */
  async stop(reason: unknown, withinMs: number): Promise<StopResult> {
    this.abort(reason)
    if (this.#running === null) return 'stopped'
    const hasEnded = await endsWithin(this.#options.runtime, withinMs, this.#running)
    return hasEnded ? 'stopped' : 'still_running'
  }

  async #run(): Promise<void> {
    const { runtime, intervalMs, pollTimeoutMs } = this.#options
    const beganMs = runtime.monotonicMs()
    const controller = newAbortController()
    this.#controller = controller
    const timer = runtime.setTimer(pollTimeoutMs, () => this.#late(), { keepAlive: true })
    try {
      const { sessionId, lease, poll } = this.#options
      await poll(sessionId, { ...lease, signal: controller.signal })
      this.#failures = 0
      this.#failingSinceMs = null
      this.#fault.succeeded()
    } catch (error) {
      this.#failures += 1
      this.#failingSinceMs ??= beganMs
      // A poll that was aborted may throw, which is no failure.
      if (!controller.signal.aborted) this.#fail(error, this.#failures)
    } finally {
      timer.cancel()
      this.#running = null
      this.#controller = null
    }
    if (this.#isStopped) return
    const nowMs = runtime.monotonicMs()
    if (this.#failingSinceMs !== null && nowMs - this.#failingSinceMs >= pollTimeoutMs) {
      this.#failingSinceMs = nowMs
      this.#options.onStuck()
    }
    if (!this.#isStopped) this.#wait(beganMs + intervalMs - nowMs)
  }

  #late(): void {
    const { pollTimeoutMs } = this.#options
    const error = new Error(`the poll did not return within ${pollTimeoutMs} ms`)
    this.abort(error)
    this.#fail(error, this.#failures + 1)
    this.#options.onStuck()
  }

  #fail(error: unknown, failures: number): void {
    this.#fault.failed(error)
    this.#options.onFailed(error, failures)
  }

  #wait(delayMs: number): void {
    const { runtime } = this.#options
    this.#timer = runtime.setTimer(Math.max(0, delayMs), () => this.kick(), { keepAlive: true })
  }
}

/**
 * Sessions that another instance should poll, if there is one: their poll does not return here although it was aborted,
 * or every poll has failed for a while.
 */
class UnhealthySessions {
  readonly #runtime: Runtime
  readonly #onReturned: () => void
  /** Until their poll returns, no other begins here. */
  readonly #hanging = new Set<string>()
  readonly #failedUntilMs = new Map<string, number>()

  constructor(runtime: Runtime, onReturned: () => void) {
    this.#runtime = runtime
    this.#onReturned = onReturned
  }

  has(sessionId: string): boolean {
    const untilMs = this.#failedUntilMs.get(sessionId) ?? 0
    return this.isHanging(sessionId) || untilMs > this.#runtime.monotonicMs()
  }

  isHanging(sessionId: string): boolean {
    return this.#hanging.has(sessionId)
  }

  /** `running` is the poll that has not returned; it never rejects. */
  addHanging(sessionId: string, running: Promise<void>): void {
    this.#hanging.add(sessionId)
    void running.then(() => {
      this.#hanging.delete(sessionId)
      this.#onReturned()
    })
  }

  addFailed(sessionId: string, forMs: number): void {
    this.#failedUntilMs.set(sessionId, this.#runtime.monotonicMs() + forMs)
  }

  prune(): void {
    const nowMs = this.#runtime.monotonicMs()
    for (const [sessionId, untilMs] of this.#failedUntilMs) {
      if (untilMs <= nowMs) this.#failedUntilMs.delete(sessionId)
    }
  }
}
