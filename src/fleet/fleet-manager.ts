/**
 * The manager of one instance: what it owns (the book), how that stays so (the heart), who else is there (the watch),
 * and the calls that change it. Calls about one session run one after the other, so that a handover that arrives while
 * an acquire is under way finds a settled book.
 */
import { LeaseError } from '../core/errors.ts'
import { FenceMemory, isStale } from '../client/fence-memory.ts'
import { HolderClock } from '../client/holder-clock.ts'
import { Listeners } from '../client/listeners.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { preferredNode } from './assignment.ts'
import type { FleetEvents, LeaseInfo, LeaseManager, LeaseState } from './contract.ts'
import type { AcquireReply, FleetLayout, FleetNode, LayoutListener } from './fleet-layout.ts'
import type { FleetSettings } from './fleet-options.ts'
import { Heart } from './heart.ts'
import { NodeWatch } from './node-watch.ts'
import { RestartGrace } from './restart-grace.ts'
import { SessionBook, type Origin } from './session-book.ts'
import { Turns } from './turns.ts'

export interface ManagerParts {
  readonly layout: FleetLayout
  readonly runtime: Runtime
  readonly settings: FleetSettings
}

type Life = 'new' | 'starting' | 'started' | 'stopping' | 'stopped'

export class FleetManager implements LeaseManager {
  readonly instanceId: string
  readonly settings: FleetSettings
  readonly runtime: Runtime
  readonly #layout: FleetLayout
  readonly #clock: HolderClock
  readonly #listeners = new Listeners<FleetEvents>()
  readonly #book: SessionBook
  readonly #heart: Heart
  readonly #watch: NodeWatch
  readonly #turns = new Turns()
  readonly #grace: RestartGrace
  readonly #viewListeners = new Set<() => void>()
  readonly #fences = new FenceMemory()
  #life: Life = 'new'
  #stopping: Promise<void> | null = null
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
    const { refreshMs, leaseTtlMs: ttlMs, callTimeoutMs, discoverMs, instanceId } = settings
    const clock = new HolderClock(runtime)
    const listeners = this.#listeners
    const overdueMs = refreshMs + callTimeoutMs
    this.#clock = clock
    this.#grace = new RestartGrace(clock, ttlMs)
    this.#book = new SessionBook({ clock, listeners, instanceId, ttlMs, overdueMs })
    const isShown = (): boolean => this.#isReady && !this.isDraining
    const book = this.#book
    this.#heart = new Heart({ layout, book, runtime, clock, refreshMs, isShown })
    const onRead = (): void => this.#onRead()
    this.#watch = new NodeWatch({ layout, runtime, discoverMs, onRead })
  }

  async start(): Promise<void> {
    await this.connect()
    await this.show()
  }

  /** The first half of a start: from here on everything can be seen, but nobody sees this instance. */
  async connect(): Promise<void> {
    if (this.#life === 'stopping' || this.#life === 'stopped') throw closedError()
    if (this.#life !== 'new') throw stateError('start', 'called once', this.#life)
    this.#life = 'starting'
    try {
      await this.#layout.open(this.#layoutListener)
      await this.#watch.start()
    } catch (error) {
      this.#watch.stop()
      await this.#layout.close()
      this.#life = 'new'
      throw error
    }
    this.#life = 'started'
  }

  /** The second half: whoever looks sees that this instance is there, and may hand it something at once. */
  async show(): Promise<void> {
    await this.#heart.beat()
    await this.#watch.read().catch(() => undefined)
  }

  async stop(): Promise<void> {
    if (this.#life === 'new' || this.#life === 'starting') {
      throw stateError('stop', 'called after start', this.#life)
    }
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#life === 'new' ? Promise.resolve() : this.stop()
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
    await this.#turns.take([id], async () => this.#release([id]))
  }

  isOwned(sessionId: string): boolean {
    return this.state(sessionId) === 'owned'
  }

  ownedSessions(): readonly string[] {
    this.#requireStarted()
    return this.#book.sessionIds
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
    this.#requireStarted()
    return this.#book.state(this.#layout.parseSessionId(sessionId))
  }

  leaseInfo(sessionId: string): LeaseInfo {
    this.#requireStarted()
    return this.#book.info(this.#layout.parseSessionId(sessionId))
  }

  async handOver(sessionId: string, instanceId: string): Promise<boolean> {
    this.#requireStarted()
    const id = this.#layout.parseSessionId(sessionId)
    const to = this.#watch.candidates.find((node) => node.instanceId === instanceId)
    if (to !== undefined && instanceId !== this.instanceId) {
      return this.#turns.take([id], async () => this.#handOver(id, to))
    }
    const expected = 'instanceId must be another instance that is ready'
    const details = { field: 'instanceId', instanceId }
    throw new LeaseError('INVALID_INPUT', `${expected}, got ${instanceId}`, { details })
  }

  async setReady(isReady: boolean): Promise<void> {
    this.#requireStarted()
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
    return this.#listeners.add(name, listener)
  }

  // What follows is for the runner, which works on many sessions at a time.

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

  fenceOf(sessionId: string): number | null {
    return this.#book.fenceOf(sessionId)
  }

  freeInMs(sessionId: string): number | null {
    return this.#book.freeInMs(sessionId)
  }

  onView(listener: () => void): () => void {
    this.#viewListeners.add(listener)
    return () => void this.#viewListeners.delete(listener)
  }

  /** In one round trip; null for those that had to be left alone. Never throws for a store that is away. */
  async acquireMany(sessionIds: readonly string[]): Promise<readonly (AcquireReply | null)[]> {
    return this.#turns.take(sessionIds, async () => this.#acquire(sessionIds, TAKEN))
  }

  async releaseMany(sessionIds: readonly string[]): Promise<void> {
    await this.#turns.take(sessionIds, async () => this.#release(sessionIds))
  }

  /** Tells everybody that this instance is about to leave, so that nothing is given to it any more. */
  async withdraw(): Promise<void> {
    if (this.#life !== 'started') return
    this.#isWithdrawn = true
    await this.#layout.drain(this.instanceId, true).catch(() => undefined)
    await this.#hush().catch(() => undefined)
    await this.#watch.read().catch(() => undefined)
  }

  async #acquire(
    sessionIds: readonly string[],
    origin: Origin,
  ): Promise<readonly (AcquireReply | null)[]> {
    const wanted = sessionIds.filter((id) => !this.#isHeld(id) && this.#mayTake(id))
    const sent = this.#clock.now()
    const replies = wanted.length === 0 ? [] : await this.#layout.acquire(wanted)
    const answers = new Map<string, AcquireReply>()
    for (const [index, sessionId] of wanted.entries()) {
      const reply = this.#checkFence(sessionId, replies[index])
      answers.set(sessionId, reply)
      this.#book.answered(sessionId, reply, { ...origin, sent })
    }
    if (wanted.length > 0) this.#heart.watch()
    return sessionIds.map((sessionId) => answers.get(sessionId) ?? this.#ownReply(sessionId))
  }

  /** A store that grants a lower fence than before has lost data, and whoever checks fences would refuse us anyway. */
  #checkFence(sessionId: string, reply: AcquireReply | undefined): AcquireReply {
    if (reply === undefined) return { kind: 'failed', error: unansweredError() }
    if (reply.kind !== 'acquired') return reply
    const { fence, token: leaseId } = reply
    const seen = this.#fences.highest(sessionId)
    this.#fences.remember(sessionId, { fence, leaseId })
    if (!isStale({ fence, leaseId, repeated: false }, seen)) return reply
    void this.#layout.release([reply])
    const message = `the store granted ${sessionId} with fence ${fence} after ${seen?.fence}: it has lost data`
    return { kind: 'failed', error: new LeaseError('STORE_UNAVAILABLE', message) }
  }

  /** A grant that came too late to be of use is not ours, whatever the store says. */
  #ownReply(sessionId: string): AcquireReply | null {
    const fence = this.#book.fenceOf(sessionId)
    if (fence === null || !this.#isHeld(sessionId)) return null
    return { kind: 'acquired', sessionId, fence, token: '', wasOurs: true }
  }

  #isHeld(sessionId: string): boolean {
    const state = this.#book.state(sessionId)
    return state === 'owned' || state === 'uncertain'
  }

  #mayTake(sessionId: string): boolean {
    return !this.#grace.isRunning || this.#book.isReclaimable(sessionId)
  }

  async #release(sessionIds: readonly string[]): Promise<void> {
    const grants = sessionIds.flatMap((sessionId) => this.#book.take(sessionId) ?? [])
    if (grants.length === 0) return
    const replies = await this.#layout.release(grants)
    for (const [index, { sessionId }] of grants.entries()) {
      if (replies[index]?.kind === 'done') this.#listeners.emit('released', { sessionId })
    }
    const failed = replies.find((reply) => reply.kind === 'failed')
    if (failed?.kind === 'failed') throw failed.error
  }

  async #handOver(sessionId: string, to: FleetNode): Promise<boolean> {
    const grant = this.#book.take(sessionId)
    if (grant === null) return false
    const reply = await this.#layout.transfer(grant, to)
    if (reply.kind === 'failed') throw reply.error
    if (reply.kind === 'gone') {
      this.#listeners.emit('lost', { sessionId, reason: 'not_owner' })
      return false
    }
    if (!to.isForeign) this.#book.noteOwner(sessionId, to.instanceId)
    const from = this.instanceId
    this.#listeners.emit('rebalanced', { sessionId, from, to: to.instanceId })
    return true
  }

  readonly #layoutListener: LayoutListener = {
    given: (sessionId, from) => void this.#adopt(sessionId, from),
    nodesChanged: () => this.#watch.hint(),
    disconnected: () => {
      this.#grace.disconnected()
      this.#book.doubtAll()
      this.#heart.hurry()
    },
    restarted: () => {
      this.#grace.restarted()
      this.#heart.hurry()
    },
  }

  /** A store that fails here is asked again by the next pass, which finds a session that is ours by name. */
  async #adopt(text: string, from: string | null): Promise<void> {
    const isStopping = this.#life === 'stopping'
    if (this.#life !== 'started' && !isStopping) return
    const sessionId = this.#layout.parseSessionId(text)
    const handover: Origin = { isGiven: true, from }
    const adopt = async (): Promise<unknown> =>
      isStopping ? this.#decline(sessionId) : this.#acquire([sessionId], handover)
    await this.#turns.take([sessionId], adopt).catch(() => undefined)
  }

  /** Frees what was handed to an instance that is leaving, so that nobody has to wait for it to expire. */
  async #decline(sessionId: string): Promise<void> {
    const [reply] = await this.#layout.acquire([sessionId])
    if (reply?.kind === 'acquired') await this.#layout.release([reply])
  }

  async #hush(): Promise<void> {
    // A round that is under way may show the heartbeat once more; it must not come after this.
    await this.#heart.beat()
    await this.#layout.hush()
  }

  #onRead(): void {
    const { isSelfDraining } = this.#watch.view
    const isNews = isSelfDraining !== this.#isDrainWanted && this.#life === 'started'
    if (isNews && !this.#isWithdrawn) {
      this.#isDrainWanted = isSelfDraining
      void (isSelfDraining ? this.#hush().catch(() => undefined) : this.#heart.beat())
    }
    for (const listener of this.#viewListeners) listener()
  }

  /** Work that no caller should be able to break off ends here: what fails now ends by its TTL. */
  async #stop(): Promise<void> {
    if (this.#life === 'stopped') return
    this.#life = 'stopping'
    await this.#turns.rest()
    await this.#release(this.#book.sessionIds).catch(() => undefined)
    await this.#heart.stop()
    await this.#layout.leave().catch(() => undefined)
    this.#watch.stop()
    await this.#layout.close()
    this.#life = 'stopped'
  }

  #requireStarted(): void {
    if (this.#life === 'started') return
    if (this.#life === 'stopping' || this.#life === 'stopped') throw closedError()
    throw stateError('the manager', 'started', this.#life)
  }
}

const TAKEN: Origin = { isGiven: false, from: null }

function closedError(): LeaseError {
  return new LeaseError('CLOSED', 'the manager was stopped')
}

function unansweredError(): LeaseError {
  return new LeaseError('STORE_OUTCOME_UNKNOWN', 'no answer came')
}

function stateError(what: string, expected: string, life: Life): LeaseError {
  const message = `${what} must be ${expected}, got a manager that is ${life}`
  return new LeaseError('INVALID_STATE', message, { details: { life } })
}
