/**
 * The manager of one instance. The registry has what it owns, the acquirer gets and hands over sessions, the renewal
 * loop keeps them, and the node watch sees the other instances. This file has the life cycle (start, readiness,
 * draining, stop) and what runs in the background during it.
 */
import { HolderClock, type Moment } from '../client/holder-clock.ts'
import { Listeners } from '../client/listeners.ts'
import { closedError, invalid, LeaseError } from '../core/errors.ts'
import type { FencedLease } from '../core/fenced-lease.ts'
import { parseFlag } from '../core/input.ts'
import { RepeatedFault, reportTo } from '../runtime/diagnostics.ts'
import { backOffMs } from '../runtime/pause.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { batchesOf } from '../core/batches.ts'
import { preferredNode } from './assignment.ts'
import {
  FLEET_EVENTS,
  requireEventListener,
  type FleetEvents,
  type LeaseInfo,
  type LeaseManager,
  type LeaseState,
  type PollContext,
} from './contract.ts'
import type { FleetInstance } from './fleet-instance.ts'
import type {
  AcquireReply,
  FleetLayout,
  FleetNode,
  LayoutListener,
  NodeView,
  Failed,
  Grant,
  GrantReply,
} from './fleet-layout.ts'
import type { FleetSettings } from './fleet-options.ts'
import { SessionAcquirer } from './session-acquirer.ts'
import { SessionRegistry, unknownInfo } from './session-registry.ts'

const STOPPED = 'the manager was stopped'

type Life = 'new' | 'starting' | 'started' | 'stopping' | 'stopped'

/** Works on the sessions that the manager owns, and must have stopped before a session is released or handed over. */
export interface SessionWorker {
  /** Stops work on a session and runs `change`; no work on the session begins meanwhile. */
  suspend<Result>(sessionId: string, change: () => Promise<Result>): Promise<Result>
  /** Stops all work in order, and the manager with it. */
  stop(): Promise<void>
}

export class FleetManager implements LeaseManager {
  readonly instanceId: string
  readonly settings: FleetSettings
  readonly runtime: Runtime
  readonly #layout: FleetLayout
  readonly #listeners = new Listeners<FleetEvents>()
  readonly #registry: SessionRegistry
  readonly #renewals: RenewalLoop
  readonly #watch: NodeWatch
  readonly #acquirer: SessionAcquirer
  readonly #viewListeners = new Set<() => void>()
  #life: Life = 'new'
  #starting: Promise<void> | null = null
  #stopping: Promise<void> | null = null
  #worker: SessionWorker | null = null
  #isReady: boolean
  /** A `setReady` is under way, or has failed half-way: the next one does all of it again. */
  #isReadyInDoubt = false
  /** An operator drains this instance. */
  #isDrainWanted = false
  /** This instance is about to stop. */
  #isWithdrawn = false

  constructor({
    layout,
    runtime,
    settings,
  }: Pick<FleetInstance, 'layout' | 'runtime' | 'settings'>) {
    this.instanceId = settings.instanceId
    this.settings = settings
    this.runtime = runtime
    this.#layout = layout
    this.#isReady = settings.ready
    const clock = new HolderClock(runtime)
    const instance = { layout, runtime, clock, settings, listeners: this.#listeners }
    const isPublished = (): boolean => this.#isReady && !this.isDraining
    this.#registry = new SessionRegistry(instance)
    this.#renewals = new RenewalLoop(instance, this.#registry, isPublished)
    this.#acquirer = new SessionAcquirer(instance, this.#registry, () => {
      this.#renewals.scheduleCheck()
    })
    this.#watch = new NodeWatch(instance, () => this.#onRead())
  }

  async start(): Promise<void> {
    await this.connect()
    await this.publish()
    this.#requireStarted()
  }

  /** The first half of a start: this instance sees the fleet, and the fleet does not see it yet. */
  async connect(): Promise<void> {
    if (this.isStopped) throw closedError(STOPPED)
    if (this.#life !== 'new') throw stateError('start', 'called once', this.#life)
    this.#life = 'starting'
    this.#starting = this.#connect()
    await this.#starting
  }

  /** The second half: other instances see this one, and may hand it sessions at once. */
  async publish(): Promise<void> {
    await this.#renewals.run()
    await this.#watch.refresh()
  }

  async stop(): Promise<void> {
    if (this.#life === 'new') return
    if (this.#worker !== null) return this.#worker.stop()
    this.#stopping ??= this.#life === 'starting' ? this.#cancelStart() : this.#stop()
    return this.#stopping
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async tryAcquire(sessionId: string): Promise<boolean> {
    this.#requireStarted()
    const id = this.#layout.parseSessionId(sessionId)
    const [reply] = await this.acquireMany([id])
    if (reply?.kind === 'failed') throw reply.error
    return reply?.kind === 'acquired'
  }

  async release(sessionId: string): Promise<void> {
    this.#requireStarted()
    const id = this.#layout.parseSessionId(sessionId)
    const release = async (): Promise<void> => this.#acquirer.release([id])
    await (this.#worker === null ? release() : this.#worker.suspend(id, release))
  }

  isOwned(sessionId: string): boolean {
    return this.state(sessionId) === 'owned'
  }

  ownedSessions(): readonly string[] {
    return this.isStarted ? this.#registry.sessionIds : []
  }

  async getLiveNodes(): Promise<readonly string[]> {
    this.#requireStarted()
    const { nodes } = await this.#watch.read()
    return nodes.map(({ instanceId }) => instanceId).toSorted()
  }

  async preferredOwner(sessionId: string): Promise<string> {
    this.#requireStarted()
    const id = this.#layout.parseSessionId(sessionId)
    const preferred = preferredNode(id, this.#watch.candidates)
    if (preferred !== null) return preferred
    throw new LeaseError('INVALID_STATE', 'ready nodes must be at least 1, got 0', {
      details: { field: 'nodes' },
    })
  }

  state(sessionId: string): LeaseState {
    const id = this.#layout.parseSessionId(sessionId)
    return this.isStarted ? this.#registry.state(id) : 'unknown'
  }

  leaseOf(sessionId: string): FencedLease | null {
    const state = this.state(sessionId)
    if (state !== 'owned' && state !== 'uncertain') return null
    return this.#registry.leaseOf(this.#layout.parseSessionId(sessionId))
  }

  leaseInfo(sessionId: string): LeaseInfo {
    const id = this.#layout.parseSessionId(sessionId)
    return this.isStarted ? this.#registry.info(id) : unknownInfo(id)
  }

  async handOver(sessionId: string, instanceId: string): Promise<boolean> {
    this.#requireStarted()
    const id = this.#layout.parseSessionId(sessionId)
    const to = this.#watch.candidates.find((node) => node.instanceId === instanceId)
    if (to === undefined || instanceId === this.instanceId) {
      throw invalid('instanceId', 'must be another instance that is ready', instanceId)
    }
    const transfer = async (): Promise<boolean> => this.#acquirer.handOver(id, to)
    return this.#worker === null ? transfer() : this.#worker.suspend(id, transfer)
  }

  async setReady(isReady: boolean): Promise<void> {
    this.#requireStarted()
    parseFlag('isReady', isReady)
    if (this.#isReady === isReady && !this.#isReadyInDoubt) return
    this.#isReady = isReady
    this.#isReadyInDoubt = true
    if (isReady) await this.#renewals.runAnew()
    else await this.#unpublish()
    await this.#watch.read()
    this.#isReadyInDoubt = false
  }

  on<Name extends keyof FleetEvents>(
    name: Name,
    listener: (event: FleetEvents[Name]) => void,
  ): () => void {
    requireEventListener(FLEET_EVENTS, name, listener)
    return this.#listeners.add(name, listener)
  }

  // What follows is for the runner, which works on many sessions at a time.

  /** One at a time: two workers would poll the same sessions. Returns a function that detaches it. */
  attach(worker: SessionWorker): () => void {
    if (this.#worker !== null) {
      const message = 'runFleet must be called once for a manager, got one with a fleet'
      throw new LeaseError('INVALID_STATE', message)
    }
    this.#worker = worker
    return () => (this.#worker = null)
  }

  parseSessionId(value: unknown): string {
    return this.#layout.parseSessionId(value)
  }

  get isNew(): boolean {
    return this.#life === 'new'
  }

  get isStarted(): boolean {
    return this.#life === 'started'
  }

  get isStopped(): boolean {
    return this.#life === 'stopping' || this.#life === 'stopped'
  }

  /** Whether this instance should hand over all its sessions. */
  get isDraining(): boolean {
    return this.#isDrainWanted || this.#isWithdrawn
  }

  get candidates(): readonly FleetNode[] {
    return this.#watch.candidates
  }

  /** The lease as it was granted, whether or not it is still owned. */
  grantOf(sessionId: string): Omit<PollContext, 'signal'> | null {
    return this.#registry.leaseOf(sessionId)
  }

  freeInMs(sessionId: string): number | null {
    return this.#registry.freeInMs(sessionId)
  }

  onView(listener: () => void): () => void {
    this.#viewListeners.add(listener)
    return () => void this.#viewListeners.delete(listener)
  }

  /** In one round trip. Does not throw while the store is unavailable: each reply says what failed. */
  async acquireMany(sessionIds: readonly string[]): Promise<readonly AcquireReply[]> {
    return this.#acquirer.acquire(sessionIds)
  }

  async releaseMany(sessionIds: readonly string[]): Promise<void> {
    await this.#acquirer.release(sessionIds)
  }

  /** As `handOver`, for the worker, which has stopped its own work on the session. */
  async transfer(sessionId: string, to: FleetNode): Promise<boolean> {
    return this.#acquirer.handOver(sessionId, to)
  }

  /** Tells the fleet that this instance is about to stop, so that it receives no further sessions. */
  async withdraw(): Promise<void> {
    if (this.#life !== 'started') return
    this.#isWithdrawn = true
    await this.#layout.drain(this.instanceId, true).catch(reportTo('fleet/withdrawal'))
    await this.#unpublish().catch(reportTo('fleet/withdrawal'))
    await this.#watch.refresh()
  }

  readonly #layoutListener: LayoutListener = {
    transferred: (sessionId, from) => this.#onTransferred(sessionId, from),
    nodesChanged: () => this.#watch.notify(),
    disconnected: () => {
      this.#registry.markAllUncertain()
      if (this.#life === 'started') this.#renewals.hurry()
    },
    dataLost: () => {
      if (this.#life === 'started') this.#renewals.hurry()
    },
  }

  async #connect(): Promise<void> {
    try {
      await this.#layout.open(this.#layoutListener)
      await this.#watch.start()
    } catch (error) {
      await this.#disconnect()
      if (this.#life === 'starting') this.#life = 'new'
      throw this.#life === 'new' ? error : closedError(STOPPED)
    }
    if (this.#life !== 'starting') throw closedError(STOPPED)
    this.#life = 'started'
  }

  /** Stops a manager during its start; the caller of `start` gets an error. */
  async #cancelStart(): Promise<void> {
    this.#life = 'stopping'
    await this.#disconnect()
    // The caller of `start` gets its error.
    await Promise.allSettled([this.#starting])
    await this.#disconnect()
    this.#life = 'stopped'
  }

  async #disconnect(): Promise<void> {
    this.#watch.stop()
    await this.#layout.close()
  }

  #onTransferred(sessionId: string, from: string | null): void {
    if (this.#life === 'started') void this.#acquirer.adopt(sessionId, from)
    else if (this.#life === 'stopping') void this.#acquirer.decline(sessionId)
  }

  async #unpublish(): Promise<void> {
    // A round in progress may publish the heartbeat once more, and must not do so after this.
    await this.#renewals.run()
    await this.#layout.unpublish()
    // The instance is still running, and an overview shows it by its name.
    if (!this.#isWithdrawn) await this.#renewals.run()
  }

  #onRead(): void {
    const { isSelfDraining } = this.#watch.view
    const hasChanged = isSelfDraining !== this.#isDrainWanted && this.#life === 'started'
    if (hasChanged && !this.#isWithdrawn) {
      this.#isDrainWanted = isSelfDraining
      void (isSelfDraining
        ? this.#unpublish().catch(reportTo('fleet/drain'))
        : this.#renewals.runAnew())
    }
    for (const listener of this.#viewListeners) listener()
  }

  /** Reports errors instead of throwing: a stop must not end half-way. What cannot be released ends by its TTL. */
  async #stop(): Promise<void> {
    if (this.#life === 'stopped') return
    this.#life = 'stopping'
    // First: a session that is handed over meanwhile is either released below or never owned by this instance.
    await this.#layout.unsubscribe().catch(reportTo('fleet/leave'))
    await this.#acquirer.end()
    await this.#renewals.stop()
    await this.#layout.leave().catch(reportTo('fleet/leave'))
    await this.#disconnect()
    this.#life = 'stopped'
  }

  #requireStarted(): void {
    if (this.#life === 'started') return
    if (this.isStopped) throw closedError(STOPPED)
    throw stateError('the manager', 'started', this.#life)
  }
}

function stateError(what: string, expected: string, life: Life): LeaseError {
  const message = `${what} must be ${expected}, got a manager that is ${life}`
  return new LeaseError('INVALID_STATE', message, { details: { life } })
}

/** All instances are notified of a change at the same moment; a random delay spreads their reads. */
const NOTIFY_DELAY_MS_MAX = 50
/** The back-off after reads that failed. */
const READ_RETRY = { firstMs: 500, maxMs: 4_000 }
/** A read comes so long after a heartbeat should have expired. */
const EXPIRY_SLACK_MS = 5

/**
 * The view of the nodes: read at a fixed interval, and earlier after a notification or when a heartbeat is about to
 * expire. Concurrent callers share the next read; a read that fails leaves the view as it was.
 */
class NodeWatch {
  readonly #instance: FleetInstance
  readonly #onRead: () => void
  #view: NodeView = { nodes: [], isSelfDraining: false }
  #candidates: readonly FleetNode[] = []
  #reading: Promise<NodeView> | null = null
  #timer: Timer | null = null
  #isNotified = false
  #isStopped = false
  readonly #fault: RepeatedFault

  /** `onRead` is called after every read, whether or not anything changed. */
  constructor(instance: FleetInstance, onRead: () => void) {
    this.#instance = instance
    this.#onRead = onRead
    this.#fault = new RepeatedFault('fleet/nodes', instance.runtime)
  }

  /** As last read. */
  get view(): NodeView {
    return this.#view
  }

  /** The nodes that may receive sessions. */
  get candidates(): readonly FleetNode[] {
    return this.#candidates
  }

  async start(): Promise<void> {
    this.#isStopped = false
    await this.read()
  }

  /** Throws what the store throws. A read in progress may not see what was before this call, so another follows it. */
  async read(): Promise<NodeView> {
    // Its own callers get its error.
    if (this.#reading !== null) await Promise.allSettled([this.#reading])
    this.#reading ??= this.#read().finally(() => (this.#reading = null))
    return this.#reading
  }

  /** As `read`, but keeps the old view when the store cannot be read. */
  async refresh(): Promise<void> {
    try {
      await this.read()
    } catch (error) {
      this.#fault.failed(error)
    }
  }

  /** The layout was notified of a change; a read in progress may not see it, and another follows. */
  notify(): void {
    if (this.#isNotified || this.#isStopped) return
    this.#isNotified = true
    this.#scheduleSoon()
  }

  stop(): void {
    this.#isStopped = true
    this.#timer?.cancel()
  }

  async #read(): Promise<NodeView> {
    this.#isNotified = false
    // While the store cannot be read, the known heartbeats are outdated and do not say when to read again.
    let nextMs = Math.min(
      this.#instance.settings.discoverMs,
      backOffMs(this.#fault.count + 1, READ_RETRY),
    )
    try {
      const view = await this.#instance.layout.nodes()
      this.#fault.succeeded()
      this.#view = view
      this.#candidates = view.nodes.filter(({ isDraining }) => !isDraining)
      nextMs = this.#nextReadInMs()
      this.#onRead()
      return view
    } finally {
      if (this.#isNotified) this.#scheduleSoon()
      else this.#schedule(nextMs)
    }
  }

  #nextReadInMs(): number {
    const firstMs = this.#view.nodes.reduce(
      (least, node) => Math.min(least, node.expiresInMs),
      Infinity,
    )
    return Math.min(this.#instance.settings.discoverMs, firstMs + EXPIRY_SLACK_MS)
  }

  #scheduleSoon(): void {
    this.#schedule(this.#instance.runtime.random() * NOTIFY_DELAY_MS_MAX)
  }

  #schedule(inMs: number): void {
    this.#timer?.cancel()
    if (this.#isStopped) return
    const onTimer = (): void => void this.refresh()
    this.#timer = this.#instance.runtime.setTimer(inMs, onTimer, { keepAlive: false })
  }
}

/** Renewals in one call: with many more, the last answers would come too late. */
const RENEW_MAX = 10_000
const RENEW_RETRY = { firstMs: 50, maxMs: 1_000 }
/** After the host has slept, a timer is late by as long as it slept. */
const CHECK_MS_MAX = 1_000

/**
 * Renews everything that an instance owns, together with its heartbeat, at a fixed interval. One round is one round trip
 * for each ten thousand sessions. After a round that failed the next one follows soon, until one is confirmed; a
 * round waits for the one before no longer than the call timeout.
 *
 * Between rounds the loop checks the registry's deadlines: a session is lost at its local deadline whether or not any
 * call has returned.
 */
class RenewalLoop {
  readonly #instance: FleetInstance
  readonly #registry: SessionRegistry
  readonly #isPublished: () => boolean
  #round: Promise<boolean> | null = null
  #roundTimer: Timer | null = null
  #checkTimer: Timer | null = null
  #failures = 0
  #isStopped = false
  readonly #renewalFault: RepeatedFault
  readonly #heartbeatFault: RepeatedFault

  /** `isPublished`: whether other instances should see the heartbeat. */
  constructor(instance: FleetInstance, registry: SessionRegistry, isPublished: () => boolean) {
    this.#instance = instance
    this.#registry = registry
    this.#isPublished = isPublished
    this.#renewalFault = new RepeatedFault('fleet/renewal', instance.runtime)
    this.#heartbeatFault = new RepeatedFault('fleet/heartbeat', instance.runtime)
  }

  /** Runs a round now, or joins the one in progress. True if everything was answered. Never throws. */
  run(): Promise<boolean> {
    if (this.#isStopped) return Promise.resolve(false)
    this.#round ??= this.#runRound().finally(() => (this.#round = null))
    return this.#round
  }

  /** As `run`, but a round that began before this call does not count: it may have hidden the heartbeat. */
  async runAnew(): Promise<boolean> {
    await this.#round
    return this.run()
  }

  /**
   * Schedules a check of the deadlines after a grant. All terms have one length, so an earlier grant is due earlier, and
   * a check that is scheduled already comes early enough.
   */
  scheduleCheck(): void {
    if (this.#checkTimer !== null || this.#isStopped) return
    const inMs = this.#registry.nextCheckInMs()
    if (inMs === null) return
    const delayMs = Math.min(CHECK_MS_MAX, Math.max(1, Math.ceil(inMs)))
    const { runtime, clock } = this.#instance
    const from = clock.now()
    this.#checkTimer = runtime.setTimer(delayMs, () => this.#check(from), { keepAlive: false })
  }

  /** Runs the next round as soon as after a failure. */
  hurry(): void {
    this.#failures = Math.max(1, this.#failures)
    this.#scheduleRound()
  }

  /** Starts no further round; resolves when the last one has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#roundTimer?.cancel()
    await this.#round
    this.#checkTimer?.cancel()
  }

  async #runRound(): Promise<boolean> {
    const { layout } = this.#instance
    const [isRenewed, isSeen] = await Promise.all([
      isDone(this.#renewalFault, this.#renew(this.#registry.grants)),
      isDone(this.#heartbeatFault, layout.heartbeat(this.#isPublished())),
    ])
    const isWhole = isSeen && isRenewed
    this.#failures = isWhole ? 0 : this.#failures + 1
    this.#registry.prune()
    this.#scheduleRound()
    this.scheduleCheck()
    return isWhole
  }

  /** Tries all; then throws the error of the first that failed. */
  async #renew(grants: readonly Grant[]): Promise<void> {
    const { layout, clock } = this.#instance
    let first: Failed | null = null
    for (const batch of batchesOf(grants, RENEW_MAX)) {
      const sent = clock.now()
      const replies = await layout.renew(batch)
      this.#registry.recordRenewals(batch, replies, sent)
      first ??= replies.find(isFailed) ?? null
    }
    if (first !== null) throw first.error
  }

  #scheduleRound(): void {
    this.#roundTimer?.cancel()
    if (this.#isStopped) return
    const { runtime, settings } = this.#instance
    const { refreshMs } = settings
    const retryMs = Math.min(refreshMs, backOffMs(this.#failures, RENEW_RETRY))
    const inMs = this.#failures === 0 ? refreshMs : retryMs
    this.#roundTimer = runtime.setTimer(inMs, () => void this.run(), { keepAlive: false })
  }

  #check(from: Moment): void {
    this.#checkTimer = null
    const { clock } = this.#instance
    // The timer of the next round is late by as long as the host slept.
    if (clock.sleptBetween(from, clock.now())) this.hurry()
    this.#registry.checkDeadlines()
    this.scheduleCheck()
  }
}

function isFailed(reply: GrantReply): reply is Failed {
  return reply.kind === 'failed'
}

/** Reports a failure instead of throwing: the next round makes up for it. */
async function isDone(fault: RepeatedFault, work: Promise<void>): Promise<boolean> {
  try {
    await work
    fault.succeeded()
    return true
  } catch (error) {
    fault.failed(error)
    return false
  }
}
