/**
 * The manager of one instance, put together: what it owns (the book), how it comes by it and gives it away (the
 * ownership), how that stays so (the heart), and who else is there (the watch). What is here is the life of the whole:
 * it starts, is ready or not, is drained, and stops in order.
 */
import { invalid, LeaseError } from '../core/errors.ts'
import type { FencedLease } from '../core/fenced-lease.ts'
import { HolderClock } from '../client/holder-clock.ts'
import { Listeners } from '../client/listeners.ts'
import { reportTo } from '../runtime/diagnostics.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { preferredNode } from './assignment.ts'
import type { FleetEvents, LeaseInfo, LeaseManager, LeaseState, PollContext } from './contract.ts'
import type { AcquireReply, FleetLayout, FleetNode, LayoutListener } from './fleet-layout.ts'
import { FLEET_EVENTS, requireListener } from './event-listener.ts'
import { parseFlag, type FleetSettings } from './fleet-options.ts'
import { Heart } from './heart.ts'
import { NodeWatch } from './node-watch.ts'
import { Ownership } from './ownership.ts'
import { SessionBook, unknownInfo } from './session-book.ts'

export interface ManagerParts {
  readonly layout: FleetLayout
  readonly runtime: Runtime
  readonly settings: FleetSettings
}

type Life = 'new' | 'starting' | 'started' | 'stopping' | 'stopped'

/** Who works with what the manager owns, and must have stopped before anything is let go. */
export interface SessionUser {
  /** Stops work on a session, runs `work`, and lets nobody begin work on it meanwhile. */
  letGo<Result>(sessionId: string, work: () => Promise<Result>): Promise<Result>
  /** Stops all work in order, and the manager with it. */
  stop(): Promise<void>
}

export class FleetManager implements LeaseManager {
  readonly instanceId: string
  readonly settings: FleetSettings
  readonly runtime: Runtime
  readonly #layout: FleetLayout
  readonly #listeners = new Listeners<FleetEvents>()
  readonly #book: SessionBook
  readonly #heart: Heart
  readonly #watch: NodeWatch
  readonly #ownership: Ownership
  readonly #viewListeners = new Set<() => void>()
  #life: Life = 'new'
  #starting: Promise<void> | null = null
  #stopping: Promise<void> | null = null
  #user: SessionUser | null = null
  #isReady: boolean
  /** Somebody wants this instance to be empty. */
  #isDrainWanted = false
  /** This instance is about to stop. */
  #isWithdrawn = false

  constructor({ layout, runtime, settings }: ManagerParts) {
    this.instanceId = settings.instanceId
    this.settings = settings
    this.runtime = runtime
    this.#layout = layout
    this.#isReady = settings.ready
    const { refreshMs, leaseTtlMs: ttlMs, callMs, discoverMs, instanceId } = settings
    const clock = new HolderClock(runtime)
    const listeners = this.#listeners
    const overdueMs = refreshMs + callMs
    this.#book = new SessionBook({ clock, listeners, instanceId, ttlMs, overdueMs })
    const isShown = (): boolean => this.#isReady && !this.isDraining
    const book = this.#book
    this.#heart = new Heart({ layout, book, runtime, clock, refreshMs, isShown })
    const onGranted = (): void => this.#heart.watch()
    const parts = { layout, book, clock, listeners, instanceId, onGranted }
    this.#ownership = new Ownership(parts)
    const onRead = (): void => this.#onRead()
    this.#watch = new NodeWatch({ layout, runtime, discoverMs, onRead })
  }

  async start(): Promise<void> {
    await this.connect()
    await this.show()
    this.#requireStarted()
  }

  /** The first half of a start: from here on everything can be seen, but nobody sees this instance. */
  async connect(): Promise<void> {
    if (this.#life === 'stopping' || this.#life === 'stopped') throw closedError()
    if (this.#life !== 'new') throw stateError('start', 'called once', this.#life)
    this.#life = 'starting'
    this.#starting = this.#connect()
    await this.#starting
  }

  /** The second half: whoever looks sees that this instance is there, and may hand it something at once. */
  async show(): Promise<void> {
    await this.#heart.beat()
    await this.#watch.look()
  }

  async stop(): Promise<void> {
    if (this.#life === 'new') return
    if (this.#user !== null) return this.#user.stop()
    this.#stopping ??= this.#life === 'starting' ? this.#breakOff() : this.#stop()
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
    const release = async (): Promise<void> => this.#ownership.release([id])
    await (this.#user === null ? release() : this.#user.letGo(id, release))
  }

  isOwned(sessionId: string): boolean {
    return this.state(sessionId) === 'owned'
  }

  ownedSessions(): readonly string[] {
    return this.isStarted ? this.#book.sessionIds : []
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
    return this.isStarted ? this.#book.state(id) : 'unknown'
  }

  leaseOf(sessionId: string): FencedLease | null {
    const state = this.state(sessionId)
    if (state !== 'owned' && state !== 'uncertain') return null
    return this.#book.leaseOf(this.#layout.parseSessionId(sessionId))
  }

  leaseInfo(sessionId: string): LeaseInfo {
    const id = this.#layout.parseSessionId(sessionId)
    return this.isStarted ? this.#book.info(id) : unknownInfo(id)
  }

  async handOver(sessionId: string, instanceId: string): Promise<boolean> {
    this.#requireStarted()
    const id = this.#layout.parseSessionId(sessionId)
    const to = this.#watch.candidates.find((node) => node.instanceId === instanceId)
    if (to === undefined || instanceId === this.instanceId) {
      throw invalid('instanceId', 'must be another instance that is ready', instanceId)
    }
    const give = async (): Promise<boolean> => this.#ownership.handOver(id, to)
    return this.#user === null ? give() : this.#user.letGo(id, give)
  }

  async setReady(isReady: boolean): Promise<void> {
    this.#requireStarted()
    parseFlag('isReady', isReady)
    if (this.#isReady === isReady) return
    this.#isReady = isReady
    if (isReady) await this.#heart.beat()
    else await this.#hush()
    await this.#watch.read()
  }

  on<Name extends keyof FleetEvents>(
    name: Name,
    listener: (event: FleetEvents[Name]) => void,
  ): () => void {
    requireListener(FLEET_EVENTS, name, listener)
    return this.#listeners.add(name, listener)
  }

  // What follows is for the runner, which works on many sessions at a time.

  /** One at a time: two would poll the same sessions side by side. Returns what ends it. */
  attach(user: SessionUser): () => void {
    if (this.#user !== null) {
      const message = 'runFleet must be called once for a manager, got one with a fleet'
      throw new LeaseError('INVALID_STATE', message)
    }
    this.#user = user
    return () => (this.#user = null)
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

  /** Whether this instance should be emptied. */
  get isDraining(): boolean {
    return this.#isDrainWanted || this.#isWithdrawn
  }

  get candidates(): readonly FleetNode[] {
    return this.#watch.candidates
  }

  /** As it was granted, whatever has become of it since. */
  grantOf(sessionId: string): Omit<PollContext, 'signal'> | null {
    return this.#book.leaseOf(sessionId)
  }

  freeInMs(sessionId: string): number | null {
    return this.#book.freeInMs(sessionId)
  }

  onView(listener: () => void): () => void {
    this.#viewListeners.add(listener)
    return () => void this.#viewListeners.delete(listener)
  }

  /** In one round trip. Never throws for a store that is away. */
  async acquireMany(sessionIds: readonly string[]): Promise<readonly AcquireReply[]> {
    return this.#ownership.acquire(sessionIds)
  }

  async releaseMany(sessionIds: readonly string[]): Promise<void> {
    await this.#ownership.release(sessionIds)
  }

  /** As `handOver`, by whoever has stopped the work itself. */
  async give(sessionId: string, to: FleetNode): Promise<boolean> {
    return this.#ownership.handOver(sessionId, to)
  }

  /** Tells everybody that this instance is about to leave, so that nothing is given to it any more. */
  async withdraw(): Promise<void> {
    if (this.#life !== 'started') return
    this.#isWithdrawn = true
    await this.#layout.drain(this.instanceId, true).catch(reportTo('fleet/withdrawal'))
    await this.#hush().catch(reportTo('fleet/withdrawal'))
    await this.#watch.look()
  }

  readonly #layoutListener: LayoutListener = {
    given: (sessionId, from) => this.#given(sessionId, from),
    nodesChanged: () => this.#watch.hint(),
    disconnected: () => {
      this.#book.doubtAll()
      if (this.#life === 'started') this.#heart.hurry()
    },
    dataLost: () => {
      if (this.#life === 'started') this.#heart.hurry()
    },
  }

  async #connect(): Promise<void> {
    try {
      await this.#layout.open(this.#layoutListener)
      await this.#watch.start()
    } catch (error) {
      await this.#disconnect()
      if (this.#life === 'starting') this.#life = 'new'
      throw this.#life === 'new' ? error : closedError()
    }
    if (this.#life !== 'starting') throw closedError()
    this.#life = 'started'
  }

  /** Stopped before it had started: whoever waits for the start hears of it. */
  async #breakOff(): Promise<void> {
    this.#life = 'stopping'
    await this.#disconnect()
    // Its error goes to whoever called `start`.
    await Promise.allSettled([this.#starting])
    await this.#disconnect()
    this.#life = 'stopped'
  }

  async #disconnect(): Promise<void> {
    this.#watch.stop()
    await this.#layout.close()
  }

  #given(sessionId: string, from: string | null): void {
    if (this.#life === 'started') void this.#ownership.adopt(sessionId, from)
    else if (this.#life === 'stopping') void this.#ownership.decline(sessionId)
  }

  async #hush(): Promise<void> {
    // A round that is under way may show the heartbeat once more; it must not come after this.
    await this.#heart.beat()
    await this.#layout.hush()
    // It is still there, and should be known by its name to whoever looks.
    if (!this.#isWithdrawn) await this.#heart.beat()
  }

  #onRead(): void {
    const { isSelfDraining } = this.#watch.view
    const isNews = isSelfDraining !== this.#isDrainWanted && this.#life === 'started'
    if (isNews && !this.#isWithdrawn) {
      this.#isDrainWanted = isSelfDraining
      void (isSelfDraining ? this.#hush().catch(reportTo('fleet/drain')) : this.#heart.beat())
    }
    for (const listener of this.#viewListeners) listener()
  }

  /** Work that no caller should be able to break off ends here: what fails now ends by its TTL. */
  async #stop(): Promise<void> {
    if (this.#life === 'stopped') return
    this.#life = 'stopping'
    // First, so that what is handed over meanwhile is either among what is ended next or never this instance's.
    await this.#layout.unlisten().catch(reportTo('fleet/leave'))
    await this.#ownership.end()
    await this.#heart.stop()
    await this.#layout.leave().catch(reportTo('fleet/leave'))
    await this.#disconnect()
    this.#life = 'stopped'
  }

  #requireStarted(): void {
    if (this.#life === 'started') return
    if (this.#life === 'stopping' || this.#life === 'stopped') throw closedError()
    throw stateError('the manager', 'started', this.#life)
  }
}

function closedError(): LeaseError {
  return new LeaseError('CLOSED', 'the manager was stopped')
}

function stateError(what: string, expected: string, life: Life): LeaseError {
  const message = `${what} must be ${expected}, got a manager that is ${life}`
  return new LeaseError('INVALID_STATE', message, { details: { life } })
}
