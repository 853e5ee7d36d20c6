/**
 * The loop that everybody writes by hand: acquires what this instance should own, runs one poller for each session that
 * it owns, hands over what another should own, and shuts down in order.
 *
 * A pass looks at everything and does what is due. Passes follow each other and never overlap; handovers run beside
 * them, each by itself: the poller stops, then the session goes to the other, and only then is it forgotten.
 */
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { Listeners } from '../client/listeners.ts'
import type { Fleet, FleetEvents, RunnerEvents } from './contract.ts'
import type { FleetManager } from './fleet-manager.ts'
import { FleetPlanner, type FleetPlan, type Gift } from './fleet-plan.ts'
import { Gate } from './gate.ts'
import { HoldOff } from './hold-off.ts'
import type { ReadFleetOptions } from './runner-options.ts'
import { SessionPoller } from './session-poller.ts'

/** Right after another's lease should have ended. */
const EXPIRY_SLACK_MS = 3

export class FleetRunner implements Fleet {
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
  /** Polls that did not return although they were told to: until they do, no other begins here. */
  readonly #hanging = new Set<string>()
  /** Sessions whose poll kept failing here, until when. */
  readonly #unfitUntilMs = new Map<string, number>()
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

  constructor(manager: FleetManager, options: ReadFleetOptions) {
    this.#manager = manager
    this.#runtime = manager.runtime
    this.#options = options
    this.#holdOff = new HoldOff(manager.runtime, manager.settings.discoverMs)
    this.#gate = new Gate(manager.runtime)
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
    return this.#listeners.add(name, listener)
  }

  /** The whole list, from now on. */
  setSessions(sessionIds: readonly string[]): void {
    this.#sessionIds = new Set(sessionIds)
    this.#wantPass()
  }

  fail(error: unknown): void {
    this.#listeners.emit('failed', { error })
  }

  /** Resolves when a pass that began after this call is over. */
  async pass(): Promise<void> {
    this.#wantPass()
    await this.#passing
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
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
    await this.#manager.stop()
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
    const plan = this.#plan()
    this.#carryOut(plan)
    const wanted = [...plan.acquire, ...this.#due(plan.standIn), ...this.#retry]
    const free = wanted.filter((id) => !this.#moves.has(id) && !this.#hanging.has(id))
    this.#retry.clear()
    if (free.length > 0) await this.#manager.acquireMany(free)
    this.#arm(plan)
  }

  #plan(): FleetPlan {
    const { instanceId: self, candidates, isDraining } = this.#manager
    return this.#planner.plan({
      ...{ self, candidates, sessionIds: this.#sessionIds },
      owned: this.#manager.isStarted ? this.#manager.ownedSessions() : [],
      isLeaving: isDraining || this.#stopping !== null,
      isUnfit: (sessionId) => this.#isUnfit(sessionId),
    })
  }

  #carryOut(plan: FleetPlan): void {
    for (const sessionId of plan.keep) this.#poll(sessionId)
    for (const sessionId of plan.release) this.#move(sessionId, null)
    const isLeaving = this.#manager.isDraining || this.#stopping !== null
    for (const gift of plan.give) {
      const mayGive = isLeaving || this.#isUnfit(gift.sessionId)
      const leftMs = this.#holdOff.leftMs(gift.sessionId, gift.to)
      if (mayGive || leftMs <= 0) this.#move(gift.sessionId, gift)
      else this.#poll(gift.sessionId)
    }
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
    const holds = plan.give.map(({ sessionId, to }) => this.#holdOff.leftMs(sessionId, to))
    const dueMs = [...waits, ...holds].filter((inMs) => inMs > 0)
    if (dueMs.length === 0) return
    const inMs = Math.ceil(dueMs.reduce((least, each) => Math.min(least, each))) + EXPIRY_SLACK_MS
    this.#timer = this.#runtime.setTimer(inMs, () => this.#wantPass(), { keepAlive: true })
  }

  #onAcquired({ sessionId, isGiven }: FleetEvents['acquired']): void {
    if (isGiven) this.#holdOff.received(sessionId)
    else if (this.#leftSinceMs.has(sessionId)) this.#holdOff.neglected(sessionId)
    const isWanted = this.#sessionIds.has(sessionId) && !this.#manager.isDraining
    if (isWanted && !this.#isUnfit(sessionId) && this.#stopping === null) this.#poll(sessionId)
    else this.#wantPass()
  }

  #onLost(sessionId: string): void {
    const poller = this.#pollers.get(sessionId)
    poller?.abort(new Error(`session ${sessionId} was lost`))
    this.#pollers.delete(sessionId)
    if (poller !== undefined) this.#noteHanging(sessionId, poller)
    this.#wantPass()
  }

  #poll(sessionId: string): void {
    if (this.#pollers.has(sessionId) || this.#moves.has(sessionId)) return
    const fence = this.#manager.fenceOf(sessionId)
    if (fence === null || this.#hanging.has(sessionId)) return
    const { poll, intervalMs, pollTimeoutMs } = this.#options
    const poller = new SessionPoller({
      ...{ sessionId, fence, poll, intervalMs, pollTimeoutMs, runtime: this.#runtime },
      isOwned: () => this.#manager.isStarted && this.#manager.isOwned(sessionId),
      onFailed: (error, failures) => {
        this.#listeners.emit('poll_failed', { sessionId, error, failures })
      },
      onStuck: () => this.#onStuck(sessionId),
    })
    this.#pollers.set(sessionId, poller)
  }

  /** Somebody else may have more luck with it. */
  #onStuck(sessionId: string): void {
    const untilMs = this.#runtime.monotonicMs() + this.#options.pollTimeoutMs
    this.#unfitUntilMs.set(sessionId, untilMs)
    this.#wantPass()
  }

  #isUnfit(sessionId: string): boolean {
    if (this.#hanging.has(sessionId)) return true
    const untilMs = this.#unfitUntilMs.get(sessionId)
    if (untilMs === undefined) return false
    if (untilMs > this.#runtime.monotonicMs()) return true
    this.#unfitUntilMs.delete(sessionId)
    return false
  }

  #noteHanging(sessionId: string, poller: SessionPoller): void {
    if (poller.running === null) return
    this.#hanging.add(sessionId)
    void poller.running.then(() => {
      this.#hanging.delete(sessionId)
      this.#wantPass()
    })
  }

  /** Stops the poller, then gives the session away, or frees it. */
  #move(sessionId: string, gift: Gift | null): void {
    if (this.#moves.has(sessionId)) return
    const move = this.#stopAndGive(sessionId, gift)
      .catch((error: unknown) => {
        this.#retry.add(sessionId)
        this.fail(error)
      })
      .finally(() => this.#moves.delete(sessionId))
    this.#moves.set(sessionId, move)
  }

  async #stopAndGive(sessionId: string, gift: Gift | null): Promise<void> {
    await this.#gate.pass()
    const poller = this.#pollers.get(sessionId)
    if (poller !== undefined) {
      const reason = new Error(`session ${sessionId} goes to another instance`)
      const result = await poller.stop(reason, this.#options.stopTimeoutMs)
      this.#pollers.delete(sessionId)
      if (result === 'still_running') {
        this.#noteHanging(sessionId, poller)
        const error = new Error('the poll went on after it was told to stop')
        this.#listeners.emit('poll_failed', { sessionId, error, failures: 1 })
      }
    }
    if (gift === null) return this.#manager.releaseMany([sessionId])
    const to = gift.to.instanceId
    if (!this.#manager.candidates.some((node) => node.instanceId === to)) return this.#wantPass()
    if (await this.#manager.handOver(sessionId, to)) this.#holdOff.gave(sessionId)
  }
}
