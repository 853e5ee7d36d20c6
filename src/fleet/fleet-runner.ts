/**
 * The loop that everybody writes by hand: acquires what this instance should own, runs one poller for each session that
 * it owns, hands over what another should own, and shuts down in order.
 *
 * A pass looks at everything and does what is due. Passes follow each other and never overlap; handovers run beside
 * them, each by itself: the poller stops, then the session goes to the other, and only then is it forgotten.
 */
import { report } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { Listeners } from '../client/listeners.ts'
import type { Fleet, FleetEvents, RunnerEvents } from './contract.ts'
import { requireListener, RUNNER_EVENTS } from './event-listener.ts'
import type { AcquireReply } from './fleet-layout.ts'
import type { FleetManager, SessionUser } from './fleet-manager.ts'
import { FleetPlanner, type FleetPlan, type Gift } from './fleet-plan.ts'
import { Gate } from './gate.ts'
import { HoldOff } from './hold-off.ts'
import type { ReadFleetOptions } from './runner-options.ts'
import { SessionPoller } from './session-poller.ts'
import { UnfitSessions } from './unfit-sessions.ts'

/** Right after another's lease should have ended. */
const EXPIRY_SLACK_MS = 3

export class FleetRunner implements Fleet, SessionUser {
  readonly #manager: FleetManager
  readonly #runtime: Runtime
  readonly #options: ReadFleetOptions
  readonly #listeners = new Listeners<RunnerEvents>()
  readonly #planner = new FleetPlanner()
  readonly #holdOff: HoldOff
  readonly #pollers = new Map<string, SessionPoller>()
  /** Sessions that are on their way out. */
  readonly #moves = new Map<string, Promise<void>>()
  readonly #gate: Gate
  readonly #unfit: UnfitSessions
  /** Since when a foreign instance should have taken a session. */
  readonly #leftSinceMs = new Map<string, number>()
  /** What could not be handed over and may still be ours. */
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
    this.#holdOff = new HoldOff(manager.runtime, manager.settings.discoverMs)
    this.#gate = new Gate(manager.runtime)
    this.#unfit = new UnfitSessions(manager.runtime, () => this.#wantPass())
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
    requireListener(RUNNER_EVENTS, name, listener)
    return this.#listeners.add(name, listener)
  }

  /** The whole list, from now on. */
  setSessions(sessionIds: readonly string[]): void {
    this.#sessionIds = new Set(sessionIds)
    this.#wantPass()
  }

  /** Listeners may not be there to hear it. */
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

  /** When this begins to stop. */
  onStop(listener: () => void): void {
    this.#stopListeners.push(listener)
  }

  async letGo<Result>(sessionId: string, work: () => Promise<Result>): Promise<Result> {
    while (this.#moves.has(sessionId)) await this.#moves.get(sessionId)
    const result = this.#quit(sessionId, 'is let go').then(work)
    // What a caller has let go is left alone until the next view.
    const isOpen = result.then(
      () => false,
      // No fault: the caller is told, and the session is still ours.
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
    // Before anything is given away: whoever gets it must not think that it belongs here.
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
    this.#holdOff.prune()
    this.#unfit.prune()
    const plan = this.#plan()
    this.#carryOut(plan)
    const wanted = [...plan.acquire, ...this.#due(plan.standIn), ...this.#retry]
    const free = wanted.filter((id) => !this.#moves.has(id) && !this.#unfit.hangs(id))
    if (free.length > 0) this.#settleRetries(free, await this.#manager.acquireMany(free))
    this.#arm(plan)
  }

  /** What nobody could be asked for is asked for again by the next pass. */
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
      isUnfit: (sessionId) => this.#unfit.has(sessionId),
    })
  }

  #carryOut(plan: FleetPlan): void {
    for (const sessionId of plan.keep) this.#poll(sessionId)
    this.#free(plan.release)
    for (const gift of plan.give) {
      if (this.#giveInMs(gift) <= 0) this.#give(gift)
      else this.#poll(gift.sessionId)
    }
  }

  /** 0 or less: now. */
  #giveInMs({ sessionId, to: { isForeign } }: Gift): number {
    if (this.#stopping !== null) return 0
    const isUrgent = this.#manager.isDraining || this.#unfit.has(sessionId)
    return this.#holdOff.leftMs(sessionId, { isForeign, isUrgent })
  }

  /** Foreign instances get two views' time to take what we think is theirs. */
  #due(standIn: readonly string[]): readonly string[] {
    const nowMs = this.#runtime.monotonicMs()
    const known = new Set(standIn)
    for (const id of this.#leftSinceMs.keys()) if (!known.has(id)) this.#leftSinceMs.delete(id)
    const patienceMs = 2 * this.#manager.settings.discoverMs
    return standIn.filter((sessionId) => {
      const sinceMs = this.#leftSinceMs.get(sessionId) ?? nowMs
      this.#leftSinceMs.set(sessionId, sinceMs)
      return nowMs - sinceMs >= patienceMs
    })
  }

  /** Comes back when another's lease ends; the views come by themselves. */
  #arm(plan: FleetPlan): void {
    this.#timer?.cancel()
    if (this.#stopping !== null) return
    const waits = plan.acquire.flatMap((id) => this.#manager.freeInMs(id) ?? [])
    const holds = plan.give.map((gift) => this.#giveInMs(gift))
    const dueMs = [...waits, ...holds].filter((inMs) => inMs > 0)
    if (dueMs.length === 0) return
    const inMs = Math.ceil(dueMs.reduce((least, each) => Math.min(least, each))) + EXPIRY_SLACK_MS
    this.#timer = this.#runtime.setTimer(inMs, () => this.#wantPass(), { keepAlive: true })
  }

  #onAcquired({ sessionId, isGiven }: FleetEvents['acquired']): void {
    if (isGiven) this.#holdOff.received(sessionId)
    else if (this.#leftSinceMs.has(sessionId)) this.#holdOff.neglected(sessionId)
    const isWanted = this.#sessionIds.has(sessionId) && !this.#manager.isDraining
    if (isWanted && !this.#unfit.has(sessionId) && this.#stopping === null) this.#poll(sessionId)
    else this.#wantPass()
  }

  #onLost(sessionId: string): void {
    const poller = this.#pollers.get(sessionId)
    poller?.abort(new Error(`session ${sessionId} was lost`))
    if (poller !== undefined) this.#drop(sessionId, poller)
    this.#wantPass()
  }

  #poll(sessionId: string): void {
    if (this.#moves.has(sessionId)) return
    const before = this.#pollers.get(sessionId)
    if (before !== undefined && !before.isStopped) return
    // One that was told to stop, and there is nobody else to give the session to.
    if (before !== undefined) this.#drop(sessionId, before)
    const lease = this.#manager.grantOf(sessionId)
    if (lease === null || this.#unfit.hangs(sessionId)) return
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
  }

  /** Somebody else may have more luck with it. */
  #onStuck(sessionId: string): void {
    this.#unfit.failed(sessionId, this.#options.pollTimeoutMs)
    this.#wantPass()
  }

  /** Forgets a poller; while its last poll goes on, no other begins here. */
  #drop(sessionId: string, poller: SessionPoller): void {
    this.#pollers.delete(sessionId)
    if (poller.running !== null) this.#unfit.hanging(sessionId, poller.running)
  }

  /** Gives a session away; what could not be given is looked at again by the next pass. */
  #give(gift: Gift): void {
    const { sessionId } = gift
    if (this.#moves.has(sessionId)) return
    const isOpen = this.#stopAndGive(gift).then(
      (isGiven) => !isGiven,
      (error: unknown) => this.#onMoveFailed(error, gift),
    )
    this.#track(sessionId, isOpen)
  }

  /** Nobody waits for these, so they are freed together when the last of their pollers has stopped. */
  #free(sessionIds: readonly string[]): void {
    const free = sessionIds.filter((sessionId) => !this.#moves.has(sessionId))
    if (free.length === 0) return
    const reason = 'is not wanted here any more'
    const move = Promise.all(free.map((sessionId) => this.#quit(sessionId, reason)))
      .then(() => this.#manager.releaseMany(free))
      .catch((error: unknown) => this.fail(error))
    for (const sessionId of free) {
      const isWantedAgain = move.then(() => this.#sessionIds.has(sessionId))
      this.#track(sessionId, isWantedAgain)
    }
  }

  #onMoveFailed(error: unknown, { sessionId }: Gift): true {
    this.#retry.add(sessionId)
    this.#holdOff.refused(sessionId)
    this.fail(error)
    return true
  }

  /**
   * Passes leave alone what is on its way out, so they look again when that has ended and the session is still to be
   * seen to: `move` says so, and never rejects.
   */
  #track(sessionId: string, move: Promise<boolean>): void {
    const ended = move.then((isOpen) => {
      this.#moves.delete(sessionId)
      if (isOpen) this.#wantPass()
    })
    this.#moves.set(sessionId, ended)
  }

  /** False if it is not the other's. */
  async #stopAndGive({ sessionId, to }: Gift): Promise<boolean> {
    await this.#gate.pass()
    await this.#quit(sessionId, 'goes to another instance')
    const { instanceId } = to
    const isReady = this.#manager.candidates.some((node) => node.instanceId === instanceId)
    if (!isReady) return false
    const isGiven = await this.#gate.transfer(() => this.#manager.give(sessionId, to))
    if (isGiven) this.#holdOff.gave(sessionId)
    return isGiven
  }

  /** Stops the work on a session, as far as it can be stopped. */
  async #quit(sessionId: string, why: string): Promise<void> {
    const poller = this.#pollers.get(sessionId)
    if (poller === undefined) return
    const reason = new Error(`session ${sessionId} ${why}`)
    const result = await poller.stop(reason, this.#options.stopTimeoutMs)
    this.#drop(sessionId, poller)
    if (result === 'stopped') return
    const error = new Error('the poll went on after it was told to stop')
    report('fleet/poll', error)
    this.#listeners.emit('poll_failed', { sessionId, error, failures: 1 })
  }
}
