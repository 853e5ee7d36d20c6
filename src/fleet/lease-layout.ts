/**
 * The fleet on any store, through the ordinary lease API: `session:ID` is who polls, `node:ID` is who is there, and
 * `drain:ID` is who should be empty. Handovers are transfers; the receiver hears of them from the ledger, and all hear
 * there of nodes that join, leave or are drained. The leases of one call are sent together, and a store commits together
 * what it gets together.
 */
import { closedError, LeaseError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { NAME_BYTES_MAX } from '../core/limits.ts'
import { refusalError } from '../core/outcome.ts'
import { kindOf, nameOf, parseResource, type Resource } from '../core/resource.ts'
import { requireShortText } from '../core/text.ts'
import { HolderClock, type Term } from '../client/holder-clock.ts'
import { RepeatedFault, report, reportTo } from '../runtime/diagnostics.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { sessionDigest } from '../runtime/session-digest.ts'
import type {
  LeaseApi,
  ListFilter,
  Unsubscribe,
  WakeSignal,
  WatchFilter,
} from '../service/lease-api.ts'
import { listAll } from '../service/list-all.ts'
import { answerWithin, asLeaseError, backOffMs, pause } from './answer-within.ts'
import type {
  AcquireReply,
  Failed,
  FleetLayout,
  FleetNode,
  Grant,
  GrantReply,
  LayoutListener,
  NodeView,
  OwnedRow,
  Survey,
} from './fleet-layout.ts'
import type { FleetSettings } from './fleet-options.ts'
import { LossRest } from './loss-rest.ts'

/** Leases of nodes, of hidden nodes and of drains have a session in common, by which all of them can be listed. */
const NODES_SESSION = 'fleet:nodes'
const HIDDEN_SESSION = 'fleet:hidden'
const DRAINS_SESSION = 'fleet:drains'
const DRAIN_TTL_MS = 86_400_000
/** Between two attempts to read a ledger that cannot be read. */
const WATCH_AGAIN = { firstMs: 500, mostMs: 5_000 }

/** So many gifts are remembered, so that one that is told of twice is taken once. */
const TOLD_MAX = 10_000

export interface LeaseLayoutParts {
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
  readonly #told = new Set<string>()
  /** Sessions that another has handed to this instance and that it has not taken yet. */
  readonly #gifts = new Set<string>()
  #opened: Opened | null = null
  /** The lease by which others know that this instance is there. */
  #sign: Sign | null = null
  readonly #clock: HolderClock
  readonly #rest: LossRest
  /** The longest TTL of leases that this instance has seen in the fleet. */
  #longestTtlMs: number

  constructor({ openApi, runtime, settings }: LeaseLayoutParts) {
    this.#openApi = openApi
    this.#runtime = runtime
    this.#settings = settings
    this.#clock = new HolderClock(runtime)
    this.#rest = new LossRest(this.#clock)
    this.#longestTtlMs = settings.leaseTtlMs
  }

  parseSessionId(value: unknown): string {
    const text = requireShortText({ field: 'sessionId', bytesMax: NAME_BYTES_MAX }, value)
    return nameOf(parseResource(`session:${text}`))
  }

  async open(listener: LayoutListener | null): Promise<void> {
    const api = await this.#openApi()
    const closing = new AbortController()
    if (listener === null) {
      const watching = Promise.resolve()
      this.#opened = { api, listener, closing, watching, unlisten: null }
      return
    }
    const watching = this.#watch(api, listener, closing.signal)
    this.#opened = { api, listener, closing, watching, unlisten: null }
    const onWake = (signal: WakeSignal): void => {
      this.#onWake({ api, listener, closing: closing.signal }, signal)
    }
    try {
      const unlisten = await this.#bounded(
        api.onWake({ session: this.#settings.instanceId }, onWake),
      )
      if (this.#opened?.api !== api) return unlisten()
      this.#opened = { ...this.#opened, unlisten }
    } catch (error) {
      await this.close()
      throw error
    }
  }

  /**
   * A store that has lost data has forgotten our heartbeat as well. So that is looked for before anything is taken, so as
   * not to disturb anybody, and again after: what was granted between a loss and the moment it is seen does not count.
   */
  async acquire(
    sessionIds: readonly string[],
    reclaimed: ReadonlySet<string> = new Set(),
  ): Promise<readonly AcquireReply[]> {
    const isOwn = (id: string): boolean => reclaimed.has(id) || this.#gifts.has(id)
    const isResting = (id: string): boolean => this.#rest.leftMs > 0 && !isOwn(id)
    const isTaken = (reply: AcquireReply): reply is Acquired =>
      isAcquired(reply) && !isOwn(reply.sessionId)
    const before = sessionIds.every(isOwn) ? null : await this.#lookForLoss()
    if (before !== null) return sessionIds.map(() => before)
    const replies = await Promise.all(
      sessionIds.map(async (id): Promise<AcquireReply> => {
        return isResting(id) ? this.#resting() : this.#bounded(this.#acquire(id)).catch(failed)
      }),
    )
    const after = replies.some(isTaken) ? await this.#lookForLoss() : null
    const isVoid = (reply: AcquireReply): reply is Acquired =>
      isTaken(reply) && (after !== null || this.#rest.leftMs > 0)
    const voided = replies.filter(isVoid)
    if (voided.length > 0) this.#giveBack(voided)
    const answers = replies.map((reply) => (isVoid(reply) ? (after ?? this.#resting()) : reply))
    for (const sessionId of sessionIds) this.#gifts.delete(sessionId)
    return answers
  }

  /** What is not given back ends by its TTL. */
  #giveBack(grants: readonly Grant[]): void {
    const released = this.release(grants).then((replies) => {
      const problem = replies.find((reply) => reply.kind === 'failed')
      if (problem?.kind === 'failed') throw problem.error
    })
    released.catch(reportTo('fleet/release'))
  }

  #resting(): AcquireReply {
    return { kind: 'resting', freeInMs: Math.ceil(this.#rest.leftMs) }
  }

  /** Not null if nobody could be asked; then nothing that is granted counts either. */
  async #lookForLoss(): Promise<Failed | null> {
    const sign = this.#sign
    if (sign === null || !this.#isRunning(sign)) return null
    try {
      const known = await this.#bounded(this.#api.get({ id: sign.leaseId }))
      if (known === null && this.#sign === sign) this.#onLoss()
      return null
    } catch (error) {
      return failed(error)
    }
  }

  /** What has not ended cannot have been pruned. */
  #isRunning({ term }: Sign): boolean {
    return this.#clock.remainingMs(term, this.#clock.now()) > 0
  }

  #onLoss(): void {
    this.#sign = null
    this.#rest.begin(this.#longestTtlMs)
    report('fleet/data-loss', dataLostError(this.#longestTtlMs))
    this.#opened?.listener?.dataLost()
  }

  async renew(grants: readonly Grant[]): Promise<readonly GrantReply[]> {
    const { instanceId: holder, leaseTtlMs: ttlMs } = this.#settings
    return this.#forEach(grants, async (grant) => {
      const answer = await this.#api.renew({ ...leaseOf(grant), holder, ttlMs })
      // Too soon after another renewal to be extended: nothing is wrong, and nothing is confirmed.
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

  async beat(isShown: boolean): Promise<void> {
    const { heartbeatTtlMs: ttlMs, instanceId: holder, weight, name, leaseTtlMs } = this.#settings
    const resource = parseResource(`node:${holder}`)
    const session = isShown ? NODES_SESSION : HIDDEN_SESSION
    if (this.#sign !== null && this.#sign.session !== session) await this.hush()
    const sign = this.#sign
    const term: Term = { from: this.#clock.now(), spanMs: ttlMs }
    if (sign !== null) {
      const renewal = { id: sign.leaseId, resource, holder, ttlMs }
      const { kind } = await this.#bounded(this.#api.renew(renewal))
      if (kind === 'does_not_extend') return
      if (kind === 'renewed') return this.#signed(sign, { ...sign, term })
      if (kind === 'not_found' && this.#isRunning(sign) && this.#sign === sign) this.#onLoss()
    }
    const leaseId = this.#runtime.uuid()
    const metadata = { weight, leaseTtlMs, ...(name === null ? {} : { name }) }
    const request = { id: leaseId, resource, holder, session, ttlMs, metadata }
    const answer = await this.#bounded(this.#api.acquire({ ...request, ...NO_LIMITS }))
    if (answer.kind !== 'granted' && answer.kind !== 'held') throw unexpected('beat', answer.kind)
    const id = answer.kind === 'granted' ? leaseId : (answer.blockers[0]?.leaseId ?? leaseId)
    this.#sign = { leaseId: id, session, term }
  }

  #signed(before: Sign, after: Sign): void {
    if (this.#sign === before) this.#sign = after
  }

  async hush(): Promise<void> {
    const sign = this.#sign
    this.#sign = null
    if (sign === null) return
    const { instanceId: holder } = this.#settings
    try {
      const { kind } = await this.#bounded(this.#api.release({ id: sign.leaseId, holder }))
      if (kind === 'not_found' && this.#isRunning(sign)) this.#onLoss()
    } catch (error) {
      // It may still be there, and must not be taken for a heartbeat of another kind.
      this.#sign ??= sign
      throw error
    }
  }

  async unlisten(): Promise<void> {
    const opened = this.#opened
    if (opened === null) return
    opened.unlisten?.()
    opened.closing.abort()
    await opened.watching
  }

  /** With everything that is in its name: a handover that nobody told it of is among it. */
  async leave(): Promise<void> {
    await this.hush()
    const { instanceId: holder } = this.#settings
    const own = await this.#list({ holder })
    await this.#end(own.filter(({ resource }) => WATCHED.kinds.includes(kindOf(resource))))
  }

  /** In the name of the instance that is to be empty, so that it can take the mark away itself when it leaves. */
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
    const leases = await this.#list({})
    const of = (kind: string): readonly LeaseInfo[] =>
      leases.filter(({ resource }) => kindOf(resource) === kind)
    const owned = of('session').map(({ resource, holder, remainingMs, ttlMs }): OwnedRow => {
      return { sessionId: nameOf(resource), owner: holder, remainingMs, ttlMs }
    })
    const draining = of('drain').map(({ resource }) => nameOf(resource))
    const hidden = of('node').filter(({ session }) => session === sessionDigest(HIDDEN_SESSION))
    const isDraining = new Set(draining)
    return { owned, draining, hidden: hidden.map((lease) => nodeOf(lease, isDraining)) }
  }

  async close(): Promise<void> {
    const opened = this.#opened
    const unlistened = this.unlisten()
    this.#opened = null
    await unlistened
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
      if (answer.kind === 'granted') return acquired(sessionId, answer.lease)
      if (answer.kind !== 'held') throw unexpected('acquire', answer.kind)
      const [blocker] = answer.blockers
      if (blocker?.holder === holder) return blocker.leaseId
      return { kind: 'held', owner: blocker?.holder ?? '', freeInMs: answer.retryAfterMs }
    }
    const first = await ask(this.#runtime.uuid())
    if (typeof first !== 'string') return first
    // Our own, left behind by an answer that was lost: it ends here, and a new one begins.
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

  async #list(
    filter: Pick<ListFilter, 'session' | 'resource' | 'holder'>,
  ): Promise<readonly LeaseInfo[]> {
    const pages = listAll(this.#bound, { ...filter, state: 'active' })
    const leases: LeaseInfo[] = []
    for await (const page of pages) leases.push(...page)
    return leases
  }

  /**
   * A store that can tell whom it wakes says at once which lease was handed over; the ledger says so a little later, to
   * those as well that were away for a while or whose store only says that something has changed.
   */
  #onWake({ api, listener, closing }: Woken, { leaseIds }: WakeSignal): void {
    const look = async (leaseId: string): Promise<void> => {
      const lease = await api.get({ id: leaseId })
      if (closing.aborted) return
      if (lease !== null && lease.state === 'active') this.#tellOf(lease, listener)
    }
    const onError = (error: unknown): void => {
      // A wake-up that comes as the layout is closed is for nobody.
      if (!closing.aborted) report('fleet/handover', error)
    }
    for (const leaseId of leaseIds ?? []) look(leaseId).catch(onError)
  }

  /**
   * Follows the grants and ends in the ledger; renewals, which are most of it, and what is not the fleet's are left out by the store. A ledger that
   * cannot be read for a while is read on later: what was missed is found by the next pass.
   */
  async #watch(api: LeaseApi, listener: LayoutListener, signal: AbortSignal): Promise<void> {
    const fault = new RepeatedFault('fleet/watch', {
      monotonicMs: () => this.#runtime.monotonicMs(),
    })
    while (!signal.aborted) {
      try {
        for await (const { event } of api.watch(WATCHED, { signal })) {
          fault.succeeded()
          if (this.#isOfNodes(event)) listener.nodesChanged()
          else if (event.type === 'lease.issued') this.#tellOf(event.lease, listener)
        }
      } catch (error) {
        if (!signal.aborted) fault.failed(error)
      }
      await pause(this.#runtime, backOffMs(fault.count, WATCH_AGAIN), signal)
    }
  }

  /** Another instance has joined or left, or somebody wants one to be empty, maybe this one. */
  #isOfNodes({ resource, holder }: LeaseEvent): boolean {
    const kind = kindOf(resource)
    return kind === 'drain' || (kind === 'node' && holder !== this.#settings.instanceId)
  }

  /** Of a session that is ours because another handed it over. */
  #tellOf(lease: Given, listener: LayoutListener): void {
    const { id, resource, holder, adopted } = lease
    const isOurs = holder === this.#settings.instanceId && !adopted
    if (!isOurs || kindOf(resource) !== 'session' || this.#told.has(id)) return
    this.#told.add(id)
    if (this.#told.size > TOLD_MAX) this.#forgetOldest()
    const sessionId = nameOf(resource)
    this.#gifts.add(sessionId)
    listener.given(sessionId, null)
  }

  #forgetOldest(): void {
    for (const oldest of this.#told) {
      this.#told.delete(oldest)
      return
    }
  }

  /** Each page within the time of a call. */
  readonly #bound: Pick<LeaseApi, 'list'> = {
    list: (filter) => this.#bounded(this.#api.list(filter)),
  }

  #bounded<Answer>(call: Promise<Answer>): Promise<Answer> {
    const { callMs: withinMs } = this.#settings
    return answerWithin({ runtime: this.#runtime, withinMs }, call)
  }
}

interface Opened {
  readonly api: LeaseApi
  readonly listener: LayoutListener | null
  readonly closing: AbortController
  readonly watching: Promise<void>
  /** Null until wake-ups are listened to. */
  readonly unlisten: Unsubscribe | null
}

interface Woken {
  readonly api: LeaseApi
  readonly listener: LayoutListener
  readonly closing: AbortSignal
}

interface Sign {
  readonly leaseId: string
  readonly session: string
  /** For how long the store must know it, unless it loses data. */
  readonly term: Term
}

type Given = Pick<LeaseInfo, 'id' | 'resource' | 'holder' | 'adopted'>

/** An expiry is not among them: each instance looks again when a heartbeat is about to end. */
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

function dataLostError(restMs: number): LeaseError {
  const rest = `for ${restMs} ms this instance takes nothing that was not its own`
  return new LeaseError('STORE_UNAVAILABLE', `the store has lost its data: ${rest}`)
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
