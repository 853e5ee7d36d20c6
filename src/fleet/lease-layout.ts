/**
 * The fleet on any store, through the ordinary lease API: the lease of `session:ID` is held by the instance that polls
 * the session, that of `node:ID` is the heartbeat of an instance, and that of `drain:ID` says that the instance is drained.
 * Handovers are transfers. Instances read the ledger for handovers to them and for nodes that join, leave or drain. The
 * requests of one call are sent together, and a store commits them together.
 */
import { HolderClock, type Term } from '../client/holder-clock.ts'
import { answerWithin } from '../client/retry.ts'
import { closedError, LeaseError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { NAME_BYTES_MAX } from '../core/limits.ts'
import { refusalError } from '../core/outcome.ts'
import { kindOf, nameOf, parseResource, type Resource } from '../core/resource.ts'
import { requireShortText } from '../core/input.ts'
import { RepeatedFault, report, reportTo } from '../runtime/diagnostics.ts'
import { backOffMs, pause } from '../runtime/pause.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { sessionDigest } from '../service/session-digest.ts'
import type {
  AcquireAnswer,
  LeaseApi,
  ListFilter,
  Unsubscribe,
  WakeSignal,
  WatchFilter,
} from '../service/lease-api.ts'
import { listWhole } from '../service/list-all.ts'
import {
  asLeaseError,
  type AcquireReply,
  type Failed,
  type FleetLayout,
  type FleetNode,
  type Grant,
  type GrantReply,
  type LayoutListener,
  type NodeView,
  type OwnedRow,
  type Survey,
} from './fleet-layout.ts'
import type { FleetSettings } from './fleet-options.ts'

/** All leases of nodes, of hidden nodes and of drains share a session, by which they can be listed. */
const NODES_SESSION = 'fleet:nodes'
const HIDDEN_SESSION = 'fleet:hidden'
const DRAINS_SESSION = 'fleet:drains'
const DRAIN_TTL_MS = 86_400_000
/** The back-off while the ledger cannot be read. */
const WATCH_AGAIN = { firstMs: 500, maxMs: 5_000 }

/** So many transfers are remembered, so that one that is notified twice is acquired once. */
const NOTIFIED_MAX = 10_000

export interface LeaseLayoutOptions {
  /** Connects to the store. */
  readonly openApi: () => Promise<LeaseApi>
  readonly runtime: Runtime
  readonly settings: FleetSettings
}

export class LeaseLayout implements FleetLayout {
  readonly name = 'lease'
  readonly #openApi: () => Promise<LeaseApi>
  readonly #runtime: Runtime
  readonly #settings: FleetSettings
  readonly #notified = new Set<string>()
  /** Sessions that another instance has handed to this one, and that it has not acquired yet. */
  readonly #transferred = new Set<string>()
  #opened: Opened | null = null
  /** The lease by which other instances see this one. */
  #heartbeat: Heartbeat | null = null
  readonly #clock: HolderClock
  readonly #grace: GracePeriod
  /** The longest TTL of leases that this instance has seen in the fleet. */
  #longestTtlMs: number

  constructor({ openApi, runtime, settings }: LeaseLayoutOptions) {
    this.#openApi = openApi
    this.#runtime = runtime
    this.#settings = settings
    this.#clock = new HolderClock(runtime)
    this.#grace = new GracePeriod(this.#clock)
    this.#longestTtlMs = settings.leaseTtlMs
  }

  parseSessionId(value: unknown): string {
    const text = requireShortText({ field: 'sessionId', bytesMax: NAME_BYTES_MAX }, value)
    return nameOf(parseResource(`session:${text}`))
  }

  async open(listener: LayoutListener | null): Promise<void> {
    const api = await this.#openApi()
    const closing = new AbortController()
    const { signal } = closing
    const watching = listener === null ? Promise.resolve() : this.#watch(api, listener, signal)
    this.#opened = { api, listener, closing, watching, unsubscribe: null }
    if (listener === null) return
    const onWake = (wake: WakeSignal): void => this.#onWake({ api, listener, signal }, wake)
    try {
      const unsubscribe = await this.#bounded(
        api.onWake({ session: this.#settings.instanceId }, onWake),
      )
      if (this.#opened?.api !== api) return unsubscribe()
      this.#opened = { ...this.#opened, unsubscribe }
    } catch (error) {
      await this.close()
      throw error
    }
  }

  /**
   * A store that has lost data has lost this instance's heartbeat as well. So the heartbeat is read before the acquire, in
   * order not to take a session that another instance still polls, and again afterwards: a grant between the loss and the
   * moment it is seen does not count.
   */
  async acquire(
    sessionIds: readonly string[],
    reclaimed: ReadonlySet<string> = new Set(),
  ): Promise<readonly AcquireReply[]> {
    const isOwn = (id: string): boolean => reclaimed.has(id) || this.#transferred.has(id)
    const isInGrace = (id: string): boolean => this.#grace.leftMs > 0 && !isOwn(id)
    const isNew = (reply: AcquireReply): reply is Acquired =>
      isAcquired(reply) && !isOwn(reply.sessionId)
    const before = sessionIds.every(isOwn) ? null : await this.#detectLoss()
    if (before !== null) return sessionIds.map(() => before)
    const replies = await Promise.all(
      sessionIds.map(async (id): Promise<AcquireReply> => {
        return isInGrace(id) ? this.#inGrace() : this.#bounded(this.#acquire(id)).catch(failed)
      }),
    )
    const after = replies.some(isNew) ? await this.#detectLoss() : null
    const isVoid = (reply: AcquireReply): reply is Acquired =>
      isNew(reply) && (after !== null || this.#grace.leftMs > 0)
    const voided = replies.filter(isVoid)
    if (voided.length > 0) this.#releaseVoid(voided)
    const answers = replies.map((reply) => (isVoid(reply) ? (after ?? this.#inGrace()) : reply))
    for (const sessionId of sessionIds) this.#transferred.delete(sessionId)
    return answers
  }

  /** A lease that cannot be released ends by its TTL. */
  #releaseVoid(grants: readonly Grant[]): void {
    const released = this.release(grants).then((replies) => {
      const problem = replies.find((reply) => reply.kind === 'failed')
      if (problem?.kind === 'failed') throw problem.error
    })
    released.catch(reportTo('fleet/release'))
  }

  #inGrace(): AcquireReply {
    return { kind: 'grace_period', freeInMs: Math.ceil(this.#grace.leftMs) }
  }

  /** Returns a failure if the heartbeat could not be read; then no grant counts either. */
  async #detectLoss(): Promise<Failed | null> {
    const heartbeat = this.#heartbeat
    if (heartbeat === null || !this.#isRunning(heartbeat)) return null
    try {
      const known = await this.#bounded(this.#api.get({ id: heartbeat.leaseId }))
      if (known === null && this.#heartbeat === heartbeat) this.#onLoss()
      return null
    } catch (error) {
      return failed(error)
    }
  }

  /** A lease that has not ended cannot have been pruned. */
  #isRunning({ term }: Heartbeat): boolean {
    return this.#clock.remainingMs(term, this.#clock.now()) > 0
  }

  #onLoss(): void {
    this.#heartbeat = null
    this.#grace.begin(this.#longestTtlMs)
    report('fleet/data-loss', dataLostError(this.#longestTtlMs))
    this.#opened?.listener?.dataLost()
  }

  async renew(grants: readonly Grant[]): Promise<readonly GrantReply[]> {
    const { instanceId: holder, leaseTtlMs: ttlMs } = this.#settings
    return this.#forEach(grants, async (grant) => {
      const answer = await this.#api.renew({ ...leaseOf(grant), holder, ttlMs })
      // Too soon after the last renewal to extend the lease: neither lost nor confirmed.
      if (answer.kind === 'does_not_extend') throw refusalError(answer)
      return answer.kind === 'renewed' ? DONE : GONE
    })
  }

  async release(grants: readonly Grant[]): Promise<readonly GrantReply[]> {
    const { instanceId: holder } = this.#settings
    return this.#forEach(grants, async (grant) => {
      const answer = await this.#api.release({ ...leaseOf(grant), holder })
      return answer.kind === 'released' ? DONE : GONE
    })
  }

  async transfer(grant: Grant, to: FleetNode): Promise<GrantReply> {
    const { instanceId: holder } = this.#settings
    const newId = this.#runtime.uuid()
    const requestId = this.#runtime.uuid()
    const request = { ...leaseOf(grant), holder, to: to.instanceId, newId, requestId }
    const [reply = GONE] = await this.#forEach([grant], async () => {
      const answer = await this.#api.transfer(request)
      return answer.kind === 'transferred' ? DONE : GONE
    })
    return reply
  }

  async nodes(): Promise<NodeView> {
    const [nodes, drains] = await Promise.all([
      this.#list({ session: NODES_SESSION }),
      this.#list({ session: DRAINS_SESSION }),
    ])
    const draining = new Set(drains.map(({ resource }) => nameOf(resource)))
    const isSelfDraining = draining.has(this.#settings.instanceId)
    const view = nodes.map((lease) => nodeOf(lease, draining))
    const ttls = view.map(({ leaseTtlMs }) => leaseTtlMs ?? 0)
    this.#longestTtlMs = ttls.reduce((most, ttlMs) => Math.max(most, ttlMs), this.#longestTtlMs)
    return { nodes: view, isSelfDraining }
  }

  async heartbeat(isPublished: boolean): Promise<void> {
    const { heartbeatTtlMs: ttlMs, instanceId: holder, weight, name, leaseTtlMs } = this.#settings
    const resource = parseResource(`node:${holder}`)
    const session = isPublished ? NODES_SESSION : HIDDEN_SESSION
    if (this.#heartbeat !== null && this.#heartbeat.session !== session) await this.unpublish()
    const heartbeat = this.#heartbeat
    const term: Term = { from: this.#clock.now(), spanMs: ttlMs }
    if (heartbeat !== null) {
      const renewal = { id: heartbeat.leaseId, resource, holder, ttlMs }
      const { kind } = await this.#bounded(this.#api.renew(renewal))
      if (kind === 'does_not_extend') return
      const isCurrent = this.#heartbeat === heartbeat
      if (kind === 'renewed') {
        if (isCurrent) this.#heartbeat = { ...heartbeat, term }
        return
      }
      if (kind === 'not_found' && this.#isRunning(heartbeat) && isCurrent) this.#onLoss()
    }
    const leaseId = this.#runtime.uuid()
    const metadata = { weight, leaseTtlMs, ...(name === null ? {} : { name }) }
    const request = { id: leaseId, resource, holder, session, ttlMs, metadata, ...NO_LIMITS }
    const ask = (): Promise<AcquireAnswer> => this.#bounded(this.#api.acquire(request))
    let answer = await ask()
    const [own] = answer.kind === 'held' ? answer.blockers : []
    if (own !== undefined) {
      // Its answer was lost, and whether other instances see it may have been decided anew since.
      await this.#bounded(this.#api.release({ id: own.leaseId, holder }))
      answer = await ask()
    }
    if (answer.kind !== 'granted') throw unexpected('heartbeat', answer.kind)
    this.#heartbeat = { leaseId, session, term }
  }

  async unpublish(): Promise<void> {
    const heartbeat = this.#heartbeat
    this.#heartbeat = null
    if (heartbeat === null) return
    const { instanceId: holder } = this.#settings
    try {
      const { kind } = await this.#bounded(this.#api.release({ id: heartbeat.leaseId, holder }))
      if (kind === 'not_found' && this.#isRunning(heartbeat)) this.#onLoss()
    } catch (error) {
      // The lease may still be there, and the next heartbeat must end it first.
      this.#heartbeat ??= heartbeat
      throw error
    }
  }

  async unsubscribe(): Promise<void> {
    const opened = this.#opened
    if (opened === null) return
    opened.unsubscribe?.()
    opened.closing.abort()
    await opened.watching
  }

  /** Releases every lease of this instance, also of a session that was handed to it without a notification. */
  async leave(): Promise<void> {
    await this.unpublish()
    const { instanceId: holder } = this.#settings
    const own = await this.#list({ holder })
    await this.#end(own.filter(({ resource }) => WATCHED.kinds.includes(kindOf(resource))))
  }

  /** The drained instance is the holder of the lease, so that it can release it when it leaves. */
  async drain(holder: string, isWanted: boolean): Promise<void> {
    const resource = parseResource(`drain:${holder}`)
    if (isWanted) {
      const request = { id: this.#runtime.uuid(), resource, holder, session: DRAINS_SESSION }
      const ttlMs = DRAIN_TTL_MS
      await this.#bounded(this.#api.acquire({ ...request, ...NO_LIMITS, ttlMs }))
      return
    }
    await this.#end(await this.#list({ resource }))
  }

  async #end(leases: readonly LeaseInfo[]): Promise<void> {
    const release = async ({ id, holder }: LeaseInfo): Promise<unknown> =>
      this.#bounded(this.#api.release({ id, holder }))
    await Promise.all(leases.map(release))
  }

  async survey(): Promise<Survey> {
    return fleetOf(await this.#list({})).survey
  }

  async close(): Promise<void> {
    const opened = this.#opened
    const unsubscribed = this.unsubscribe()
    this.#opened = null
    await unsubscribed
    await opened?.api.close()
  }

  get #api(): LeaseApi {
    if (this.#opened !== null) return this.#opened.api
    throw closedError()
  }

  async #acquire(sessionId: string): Promise<AcquireReply> {
    const { instanceId: holder, leaseTtlMs: ttlMs } = this.#settings
    const resource = parseResource(`session:${sessionId}`)
    const ask = async (id: string): Promise<AcquireReply | string> => {
      const request = { id, resource, holder, session: holder, ttlMs }
      const answer = await this.#api.acquire({ ...request, ...NO_LIMITS })
      if (answer.kind === 'granted') {
        // It was handed over. Notified of that later, this instance would still take it for handed over when it has given it away.
        if (answer.lease.id !== id) this.#noteHandover(answer.lease.id)
        return acquired(sessionId, answer.lease)
      }
      if (answer.kind !== 'held') throw unexpected('acquire', answer.kind)
      const [blocker] = answer.blockers
      if (blocker?.holder === holder) return blocker.leaseId
      return { kind: 'held', owner: blocker?.holder ?? '', freeInMs: answer.retryAfterMs }
    }
    const first = await ask(this.#runtime.uuid())
    if (typeof first !== 'string') return first
    // This instance's own lease, after a lost answer or a handover: it ends here, and a new one begins.
    await this.#api.release({ id: first, resource, holder })
    const second = await ask(this.#runtime.uuid())
    return typeof second === 'string' ? { kind: 'held', owner: holder, freeInMs: null } : second
  }

  async #forEach(
    grants: readonly Grant[],
    ask: (grant: Grant) => Promise<GrantReply>,
  ): Promise<readonly GrantReply[]> {
    return Promise.all(
      grants.map(async (grant): Promise<GrantReply> => {
        return this.#bounded(ask(grant)).catch(failed)
      }),
    )
  }

  #list(
    filter: Pick<ListFilter, 'session' | 'resource' | 'holder'>,
  ): Promise<readonly LeaseInfo[]> {
    return listWhole(this.#bound, { ...filter, state: 'active' })
  }

  /**
   * A wake-up names the lease that was handed over, where the store can do that. The ledger has it a little later, also
   * for an instance that was disconnected or whose store sends wake-ups without ids.
   */
  #onWake({ api, listener, signal }: WakeContext, { leaseIds }: WakeSignal): void {
    const look = async (leaseId: string): Promise<void> => {
      const lease = await api.get({ id: leaseId })
      if (signal.aborted) return
      if (lease !== null && lease.state === 'active') this.#notify(lease, listener)
    }
    const onError = (error: unknown): void => {
      // No error after the layout was closed.
      if (!signal.aborted) report('fleet/handover', error)
    }
    for (const leaseId of leaseIds ?? []) look(leaseId).catch(onError)
  }

  /**
   * Follows the grants and ends in the ledger; the store leaves out renewals, which are most of it, and other resources.
   * While the ledger cannot be read, handovers are not notified; the next pass finds them.
   */
  async #watch(api: LeaseApi, listener: LayoutListener, signal: AbortSignal): Promise<void> {
    const fault = new RepeatedFault('fleet/watch', this.#runtime)
    while (!signal.aborted) {
      try {
        for await (const { event } of api.watch(WATCHED, { signal })) {
          fault.succeeded()
          if (this.#isOfNodes(event)) listener.nodesChanged()
          else if (event.type === 'lease.issued') this.#notify(event.lease, listener)
        }
      } catch (error) {
        if (!signal.aborted) fault.failed(error)
      }
      const pauseMs = backOffMs(fault.count, WATCH_AGAIN)
      await pause(this.#runtime, pauseMs, { keepAlive: true, signal })
    }
  }

  /** Another instance has joined or left, or an instance is drained, maybe this one. */
  #isOfNodes({ resource, holder }: LeaseEvent): boolean {
    const kind = kindOf(resource)
    return kind === 'drain' || (kind === 'node' && holder !== this.#settings.instanceId)
  }

  /** Notifies the listener of a session that another instance has handed to this one. */
  #notify(lease: TransferredLease, listener: LayoutListener): void {
    const { id, resource, holder, adopted } = lease
    const isOurs = holder === this.#settings.instanceId && !adopted
    if (!isOurs || kindOf(resource) !== 'session' || this.#notified.has(id)) return
    this.#noteHandover(id)
    const sessionId = nameOf(resource)
    this.#transferred.add(sessionId)
    listener.transferred(sessionId, null)
  }

  #noteHandover(leaseId: string): void {
    this.#notified.add(leaseId)
    if (this.#notified.size <= NOTIFIED_MAX) return
    const [oldest] = this.#notified
    if (oldest !== undefined) this.#notified.delete(oldest)
  }

  /** Each page within the call timeout. */
  readonly #bound: Pick<LeaseApi, 'list'> = {
    list: (filter) => this.#bounded(this.#api.list(filter)),
  }

  #bounded<Answer>(call: Promise<Answer>): Promise<Answer> {
    const { callMs: withinMs } = this.#settings
    return answerWithin({ runtime: this.#runtime, withinMs }, () => call)
  }
}

/** The fleet that the live leases of a namespace are. */
export function fleetOf(leases: readonly LeaseInfo[]): {
  readonly nodes: readonly FleetNode[]
  readonly survey: Survey
} {
  const of = (kind: string): readonly LeaseInfo[] =>
    leases.filter(({ resource }) => kindOf(resource) === kind)
  const owned = of('session').map(({ resource, holder, remainingMs, ttlMs }): OwnedRow => {
    return { sessionId: nameOf(resource), owner: holder, remainingMs, ttlMs }
  })
  const draining = of('drain').map(({ resource }) => nameOf(resource))
  const isDraining = new Set(draining)
  const nodesOf = (name: string): readonly FleetNode[] => {
    const listed = of('node').filter(({ session }) => session === sessionDigest(name))
    return listed.map((lease) => nodeOf(lease, isDraining))
  }
  const survey = { owned, draining, hidden: nodesOf(HIDDEN_SESSION) }
  return { nodes: nodesOf(NODES_SESSION), survey }
}

interface Opened {
  readonly api: LeaseApi
  readonly listener: LayoutListener | null
  readonly closing: AbortController
  readonly watching: Promise<void>
  /** Ends the subscription to wake-ups; null before there is one. */
  readonly unsubscribe: Unsubscribe | null
}

interface WakeContext {
  readonly api: LeaseApi
  readonly listener: LayoutListener
  /** Of the end of the layout. */
  readonly signal: AbortSignal
}

interface Heartbeat {
  readonly leaseId: string
  readonly session: string
  /** How long the store must have the lease, unless it loses data. */
  readonly term: Term
}

type TransferredLease = Pick<LeaseInfo, 'id' | 'resource' | 'holder' | 'adopted'>

/** Without expiries: each instance reads the nodes again when a heartbeat is about to expire. */
const WATCHED: Pick<WatchFilter, 'types'> & { readonly kinds: readonly string[] } = {
  kinds: ['session', 'node', 'drain'],
  types: ['lease.issued', 'lease.released', 'lease.revoked'],
}

const DONE: GrantReply = { kind: 'done' }
const GONE: GrantReply = { kind: 'gone' }
const NO_LIMITS = { maxRenewals: -1, waitMs: 0 } as const

function leaseOf({ sessionId, token }: Grant): {
  readonly id: string
  readonly resource: Resource
} {
  return { id: token, resource: parseResource(`session:${sessionId}`) }
}

function failed(error: unknown): Failed {
  return { kind: 'failed', error: asLeaseError(error) }
}

type Acquired = Extract<AcquireReply, Grant>

function isAcquired(reply: AcquireReply): reply is Acquired {
  return reply.kind === 'acquired'
}

function dataLostError(graceMs: number): LeaseError {
  const grace = `for ${graceMs} ms this instance takes nothing that was not its own`
  return new LeaseError('STORE_UNAVAILABLE', `the store has lost its data: ${grace}`)
}

function acquired(sessionId: string, { id, fence }: LeaseInfo): AcquireReply {
  return { kind: 'acquired', sessionId, fence: fence ?? 0, id, token: id, wasOurs: false }
}

function nodeOf(
  { resource, metadata, remainingMs }: LeaseInfo,
  draining: ReadonlySet<string>,
): FleetNode {
  const instanceId = nameOf(resource)
  const weight = Number(metadata?.['weight'])
  const name = metadata?.['name']
  const leaseTtlMs = Number(metadata?.['leaseTtlMs'])
  return {
    instanceId,
    weight: weight > 0 ? weight : 1,
    name: typeof name === 'string' ? name : null,
    isForeign: false,
    isDraining: draining.has(instanceId),
    expiresInMs: remainingMs,
    leaseTtlMs: leaseTtlMs > 0 ? leaseTtlMs : null,
  }
}

function unexpected(what: string, kind: string): LeaseError {
  return new LeaseError('INVALID_STATE', `the store answered ${what} with ${kind}`)
}

/** A holder shortens its term by this share, for clocks that run at different rates; here the share is added. */
const RATE_ALLOWED = 0.99

/**
 * The grace period after a store has lost data. While it lasts, an instance takes only what was its own before the loss:
 * other instances may not have heard of the loss yet, and work on until their local deadlines. It runs from the moment at
 * which the loss is seen, which is after everything that the store granted before it.
 */
export class GracePeriod {
  readonly #clock: HolderClock
  /** On the monotonic clock alone: a holder counts the clock that is ahead, and this must not be over before a holder. */
  #untilMs = -Infinity

  constructor(clock: HolderClock) {
    this.#clock = clock
  }

  /** 0 outside a grace period. */
  get leftMs(): number {
    return Math.max(0, this.#untilMs - this.#clock.now().monotonicMs)
  }

  /** `ttlMs` is the longest TTL of leases in the fleet. */
  begin(ttlMs: number): void {
    this.#untilMs = this.#clock.now().monotonicMs + ttlMs / RATE_ALLOWED
  }
}
