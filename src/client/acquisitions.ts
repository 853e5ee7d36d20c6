/**
 * Everything a client waits for and holds: it runs the waits, turns grants into handles, knows which descend from which, and
 * gives all of it back at the end.
 *
 * Work that no caller waits for is kept account of here, so that nothing rejects into the void and `close` leaves
 * nothing behind: no timer, no subscription, no ticket, and no lease but those that were abandoned on purpose.
 */
import { closedError, invalid, LeaseError } from '../core/errors.ts'
import { keepAliveMsOf } from '../core/keep-alive.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import { refusalError, type Held } from '../core/outcome.ts'
import { CLAIM_WINDOW_MS_DEFAULT, UNDER_MAX } from '../core/limits.ts'
import { realmOf, type Resource } from '../core/resource.ts'
import { RepeatedFault, report, reportTo } from '../runtime/diagnostics.ts'
import { endsWithin } from '../runtime/ends-within.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { AcquireRequest, AdoptRequest, LeaseApi } from '../service/lease-api.ts'
import { TransientMap } from '../runtime/transient-map.ts'
import { delegationOf } from '../core/delegation.ts'
import { BackgroundWork, type TakeOver } from './background-work.ts'
import type { GrantSigner } from './grant-signer.ts'
import { HolderClock } from './holder-clock.ts'
import { grantedTerm, type GrantedLease } from './holding.ts'
import { LeaseHandle, type HandleClient } from './lease-handle.ts'
import type { UnheldLease } from './lease-requests.ts'
import { Orphans } from './lease-reference.ts'
import { PendingAcquire, pendingGroup, type PendingRequest } from './pending-request.ts'
import type { ReadAcquire, ReadAcquireAll } from './read-options.ts'
import { RenewalScheduler } from './renewal-scheduler.ts'
import { enclosingLeases, leasesOf, runInside, Standstill } from './request-under.ts'
import { BACKGROUND_WITHIN_MS, retry } from './retry.ts'
import { FenceMemory, isStaleGrant, Tombstones, type SeenFence } from './stale-answers.ts'
import { WaiterQueues } from '../service/waiter-queues.ts'
import { Wait, type Grant, type OwnWaits, type WaitContext } from './waiting.ts'
import { overError } from './wait-step.ts'
import { WakeRouter } from './wake-router.ts'

export interface AcquisitionOptions {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly holder: string
  readonly session: string
  /** Whether no other process takes part in the session. */
  readonly isAloneInSession: boolean
  /** Whether the session does one thing after another, in however many processes. */
  readonly sequential: boolean
  readonly claimWindowMs: number | null
  /** Signs the grants of what is held; null: they are not signed. */
  readonly signer: GrantSigner | null
  /** What becomes of a lease that nothing references any more. */
  readonly orphans: 'renew' | 'release'
  /** Whether leases are renewed no longer than the store's `max_hold_seconds`. */
  readonly maxHold: 'none' | 'configured'
}

/** Of the waits of a client for one resource, so many are heard of each third of a claim window: more than one may fail to be. */
const FIRST_COUNT = 2

function ownWaits(claimWindowMs: number | null): OwnWaits {
  const keepAliveMs = keepAliveMsOf({ claimWindowMs: claimWindowMs ?? CLAIM_WINDOW_MS_DEFAULT })
  return { queues: new WaiterQueues(FIRST_COUNT), keepAliveMs }
}

/** As many leases as were asked for, in that order. */
export type Obtaining = { readonly kind: 'granted'; readonly leases: readonly LeaseHandle[] } | Held

type GrantFacts = Pick<GrantedLease, 'autoRenew'>

interface Asked {
  readonly request: PendingRequest
  /** Of everything that is asked for. */
  readonly leaseIds: readonly LeaseId[]
  readonly resources: readonly Resource[]
  readonly autoRenew: boolean
  readonly signal: AbortSignal | undefined
  readonly under: readonly LeaseId[] | undefined
}

/** How a lease came to be asked for, where it was not by a plain call. */
interface Nesting {
  /** What it was asked for under; what is asked for under it is under these, too. */
  readonly under: readonly LeaseId[]
  /** It is that of a `withLease`, or was asked for inside of one: its work goes on, whatever else stands still. */
  readonly isInside: boolean
}

/** The highest fence of a realm before something was asked for there. */
interface SeenBefore {
  readonly realm: string
  readonly seen: SeenFence | null
}

const NOTHING_SEEN: readonly SeenBefore[] = []

const ADOPT_WITHIN_MS = 10_000

export const CLIENT_CLOSED = 'the client was closed'

export class Acquisitions implements HandleClient {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly clock: HolderClock
  readonly session: string
  readonly sequential: boolean
  readonly limitsHold: boolean
  /** Of leases that are held. */
  readonly scheduler: RenewalScheduler
  readonly renewalFault: RepeatedFault
  readonly waitContext: WaitContext
  readonly orphans: Orphans<LeaseHandle> = new Orphans((handle) => this.#onOrphan(handle))
  readonly #holder: string
  readonly #orphanPolicy: AcquisitionOptions['orphans']
  readonly #asker: Pick<AcquireRequest, 'holder' | 'session' | 'claimWindowMs' | 'sequential'>
  readonly #router: WakeRouter
  readonly #grants: GrantRegistry
  readonly #families = new LeaseFamilies()
  readonly #fences = new FenceMemory()
  readonly #background = new BackgroundWork()
  readonly #tombstones = new Tombstones()
  readonly #standstill: Standstill
  readonly #nestings = new TransientMap<LeaseId, Nesting>()
  #closed = false
  #ended = false

  constructor(options: AcquisitionOptions) {
    const { api, runtime, holder, session, claimWindowMs, sequential } = options
    const background = this.#background.add
    this.api = api
    this.runtime = runtime
    this.session = session
    this.sequential = sequential
    this.limitsHold = options.maxHold === 'configured'
    this.#holder = holder
    this.#orphanPolicy = options.orphans
    this.#asker = {
      holder,
      session,
      ...(claimWindowMs === null ? {} : { claimWindowMs }),
      ...(sequential ? { sequential } : {}),
    }
    const standstill = new Standstill({ runtime, claimWindowMs, leases: () => this.#plainLeases() })
    this.#standstill = standstill
    const clock = new HolderClock(runtime)
    this.clock = clock
    this.scheduler = new RenewalScheduler({ runtime, clock, keepAlive: false })
    this.renewalFault = new RepeatedFault('client/renewal', runtime)
    const looks = new RepeatedFault('client/look', runtime)
    this.#router = new WakeRouter({ api, runtime, clock, holder, session, background, looks })
    const { handles } = this.#router
    this.#grants = new GrantRegistry({ api, handles, background, signer: options.signer })
    const scheduler = new RenewalScheduler({ runtime, clock, keepAlive: true })
    const onQueued = (): void => this.#router.listen()
    const own = options.isAloneInSession ? ownWaits(claimWindowMs) : null
    const shared = { runtime, clock, scheduler, standstill, looks, background, own }
    this.waitContext = { ...shared, onQueued }
  }

  /** The client was closed and waits for nothing any more. */
  get hasEnded(): boolean {
    return this.#ended
  }

  /** The client has made a call, whatever it was about. */
  called(): void {
    this.#standstill.called()
  }

  /**
   * What is released only after what the client waits for, if it stands still. The leases of a session that does one
   * thing after another may have been acquired by another process.
   */
  #plainLeases(): Promise<Iterable<LeaseId>> | Iterable<LeaseId> {
    const { api, session } = this
    if (this.sequential) return leasesOf(api, { holder: this.#holder, session })
    return [...this.#router.handles.keys()].filter(
      (leaseId) => this.#nestings.get(leaseId)?.isInside !== true,
    )
  }

  obtain({ asked, autoRenew, signal }: ReadAcquire): Promise<Obtaining> {
    const known = this.#router.handles.get(asked.id)
    // The store is not asked about what this client holds: a wait that is given up withdraws that, too.
    if (known !== undefined && isHeld(known)) return repeatOf(known, asked)
    const strangers = this.#strangersAmong(asked.under)
    if (strangers.length === 0) return this.#obtainOne({ asked, autoRenew, signal })
    return this.#requireOwn(strangers).then(() => this.#obtainOne({ asked, autoRenew, signal }))
  }

  #obtainOne({ asked, autoRenew, signal }: ReadAcquire): Promise<Obtaining> {
    const { id, resource } = asked
    const under = this.#underOf(asked.under)
    // Not a copy: what is asked was made for this one request.
    const request = Object.assign(asked, this.#asker)
    return this.#obtain({
      request: new PendingAcquire(this.api, under === undefined ? request : { ...request, under }),
      leaseIds: [id],
      resources: [resource],
      autoRenew,
      signal,
      under,
    })
  }

  /** What a request is said to be under although this client does not hold it. */
  #strangersAmong(said: readonly LeaseId[] = []): readonly LeaseId[] {
    return said.filter((leaseId) => !this.#router.handles.has(leaseId))
  }

  /** They may be held by another process of the same holder. Of another holder, or ended, they would be without effect. */
  async #requireOwn(leaseIds: readonly LeaseId[]): Promise<void> {
    const holder = this.#holder
    for (const leaseId of leaseIds) {
      const lease = await this.api.get({ id: leaseId })
      if (lease?.holder !== holder) throw invalid('under', `must be leases of ${holder}`, leaseId)
      if (lease.state !== 'active') throw invalid('under', 'must be live leases', leaseId)
    }
  }

  /** As the caller said, and what follows from that; else inside of what it runs. Nothing: it is a plain call. */
  #underOf(said: readonly LeaseId[] | undefined): readonly LeaseId[] | undefined {
    const inside = this.underNow()
    if (said === undefined) return inside ?? undefined
    const chain = said.flatMap((leaseId) => [
      leaseId,
      ...(this.#nestings.get(leaseId)?.under ?? []),
    ])
    const all = said.length === 0 ? chain : [...chain, ...(inside ?? [])]
    return [...new Set(all)].slice(0, UNDER_MAX)
  }

  async obtainAll({ asked, autoRenew, signal }: ReadAcquireAll): Promise<Obtaining> {
    await this.#requireOwn(this.#strangersAmong(asked.under))
    const under = this.#underOf(asked.under)
    const said = under === undefined ? {} : { under }
    const request = pendingGroup(this.api, { ...asked, ...said, ...this.#asker })
    const leaseIds = asked.members.map((member) => member.id)
    const resources = asked.members.map((member) => member.resource)
    return this.#obtain({ request, leaseIds, resources, autoRenew, signal, under })
  }

  /** Runs work inside leases: what it asks for is under all of them. */
  runInside<Result>([lease, ...others]: readonly LeaseHandle[], work: () => Result): Result {
    if (lease === undefined) return work()
    const { id: leaseId } = lease
    const under = this.#nestings.get(leaseId)?.under ?? []
    this.#nestings.set(leaseId, { under, isInside: true })
    return runInside({ client: this, leaseId }, () => this.runInside(others, work))
  }

  /** Takes over, by its id, a lease that was transferred to this holder. */
  async adopt(leaseId: LeaseId, { autoRenew }: { autoRenew: boolean }): Promise<LeaseHandle> {
    const request = { id: leaseId, holder: this.#holder, session: this.session }
    return this.#accounted([leaseId], this.#adopt(request, autoRenew))
  }

  async #adopt(request: AdoptRequest, autoRenew: boolean): Promise<LeaseHandle> {
    const grant = await this.#sendAdopt(request)
    await this.#grants.learnLine(grant.lease)
    this.#verify([grant], NOTHING_SEEN)
    return this.#handOut(grant, { autoRenew })
  }

  async #handOutChild(
    parent: LeaseHandle,
    derivation: Promise<Grant>,
    facts: GrantFacts,
  ): Promise<LeaseHandle> {
    const grant = await derivation
    this.#verify([grant], NOTHING_SEEN)
    const child = this.#handOut(grant, facts)
    // The parent may have ended while the answer was on its way, before the child had a handle.
    if (parent.isOver) child.endWithParent()
    return child
  }

  /** All of it in one asynchronous function: each one more costs every lease, and most have nothing to wait for. */
  async #obtain(asked: Asked): Promise<Obtaining> {
    // It may have been closed while the leases that the request is under were looked up, and then cancels no wait any more.
    if (this.#closed) throw closedError(CLIENT_CLOSED)
    const isInside = this.underNow() !== null
    const realms = asked.resources.map(realmOf)
    const before = realms.map((realm) => ({ realm, seen: this.#fences.highest(realm) }))
    this.#requireNew(asked)
    this.#background.begin()
    this.#tombstones.begin(realms)
    const wait = this.#beginWait(asked)
    try {
      const outcome = await wait.run(asked.signal)
      this.#endWait(wait, asked)
      if (outcome.kind === 'held') return outcome
      if (this.#grants.isSigning) {
        for (const { lease } of outcome.grants) await this.#grants.learnLine(lease)
      }
      this.#verify(outcome.grants, before)
      const leases = outcome.grants.map((grant) => this.#handOut(grant, asked))
      const { under } = asked
      if (under !== undefined)
        for (const { id } of leases) this.#nestings.set(id, { under, isInside })
      return { kind: 'granted', leases }
    } finally {
      this.#endWait(wait, asked)
      this.#tombstones.end(realms)
      this.#background.end()
    }
  }

  async #sendAdopt(request: AdoptRequest): Promise<Grant> {
    const { api, runtime, clock } = this
    const first = clock.now()
    let last = first
    const answer = await retry({ runtime, withinMs: ADOPT_WITHIN_MS }, async () => {
      last = clock.now()
      return api.adopt(request)
    })
    if (answer.kind === 'queued') throw new Error('an adoption cannot be queued')
    if (answer.kind !== 'granted') throw refusalError(answer)
    const { lease } = answer
    const now = clock.now()
    const term = grantedTerm(lease, { isOlder: true }, { first, last, clock, now })
    return { lease, isOlder: true, term, now }
  }

  /** Work that a caller waits for, and `close` as well; `subjects` is what it asks for. */
  async #accounted<Result>(subjects: readonly string[], work: Promise<Result>): Promise<Result> {
    this.#background.begin()
    this.#tombstones.begin(subjects)
    try {
      return await work
    } finally {
      this.#tombstones.end(subjects)
      this.#background.end()
    }
  }

  /** What this client itself has done to a lease, its own handle of it need not wait to hear. */
  async lookAt(leaseId: LeaseId): Promise<void> {
    const handle = this.#router.handles.get(leaseId)
    // The lease was ended all the same, and the handle will hear of it when the store can be read again.
    if (handle !== undefined) await this.#router.lookAt(handle).catch(reportTo('client/look'))
  }

  async lookAtAllOf(holder: string): Promise<void> {
    const handles = [...this.#router.handles.values()].filter((handle) => handle.holder === holder)
    await Promise.all(handles.map(({ id }) => this.lookAt(id)))
  }

  /** Work whose caller does not wait for it any more; `close` does. */
  takeOver(source: string, work: Promise<unknown>): void {
    this.#background.add(source, work)
  }

  /** Gives back what can be given back within this time. */
  async close(withinMs: number): Promise<void> {
    this.#closed = true
    this.#router.close()
    for (const wait of this.#router.waits.values()) wait.cancel(closedError(CLIENT_CLOSED))
    for (const handle of [...this.#router.handles.values()]) {
      if (handle.isAbandoned) handle.leave(() => closedError(CLIENT_CLOSED))
      else this.#background.add('client/close', handle[Symbol.asyncDispose]())
    }
    await endsWithin(this.runtime, withinMs, this.#background.ends())
    this.#ended = true
    this.scheduler.close()
    this.waitContext.scheduler.close()
  }

  #requireNew({ leaseIds }: Asked): void {
    const leaseId = leaseIds.find((id) => this.#router.waits.has(id))
    if (leaseId === undefined) return
    const message = `lease id ${leaseId} is already being asked for`
    throw new LeaseError('LEASE_EXISTS', message, { details: { leaseId } })
  }

  #beginWait({ request, leaseIds }: Asked): Wait {
    const wait = new Wait(this.waitContext, request)
    for (const id of leaseIds) this.#router.waits.set(id, wait)
    return wait
  }

  /** Once it has ended; a second time it is without effect. */
  #endWait(wait: Wait, { leaseIds }: Asked): void {
    const { waits } = this.#router
    if (leaseIds.every((id) => waits.get(id) !== wait)) return
    for (const id of leaseIds) waits.delete(id)
  }

  /** Refuses what must not be handed out, and gives back all of it that this client neither holds nor has ended. */
  #verify(grants: readonly Grant[], before: readonly SeenBefore[]): void {
    let problem = this.#closed ? closedError(CLIENT_CLOSED) : staleError(grants, before)
    for (const grant of grants) problem ??= this.#endOf(grant)
    if (problem === null) return
    const { session } = this
    for (const { lease } of grants) {
      if (this.#liveHandle(lease) === null && !this.#hasEnded(lease)) {
        this.discard({ ...lease, session })
      }
    }
    throw problem
  }

  /** The answer may be older than the end of the lease: by its time, or by what this client itself has done. */
  #endOf({ lease, term, now }: Grant): LeaseError | null {
    if (this.#liveHandle(lease) !== null) return null
    if (this.#hasEnded(lease)) {
      return refusalError({ kind: 'terminal', leaseId: lease.id, state: 'released' })
    }
    return this.clock.remainingMs(term, now) > 0 ? null : overError(lease)
  }

  #liveHandle({ id }: LeaseInfo): LeaseHandle | null {
    const known = this.#router.handles.get(id)
    return known === undefined || known.isOver ? null : known
  }

  #hasEnded({ id, resource }: LeaseInfo): boolean {
    const isEnded = this.#router.handles.get(id)?.isEndedByHolder === true
    return isEnded || this.#tombstones.has(id, realmOf(resource))
  }

  /** A repeated grant of a lease that this client still holds is the handle that it already has. */
  #handOut({ lease, term, now }: Grant, granted: GrantFacts): LeaseHandle {
    const fence = fenceOf(lease)
    this.onFence(lease)
    const known = this.#liveHandle(lease)
    if (known !== null) return known
    const { autoRenew } = granted
    const handle = new LeaseHandle(this, { lease, fence, term, autoRenew }, now)
    if (handle.isOver) return handle
    this.#router.handles.set(lease.id, handle)
    this.#families.add(handle)
    this.#router.listenSoon()
    return handle
  }

  onFence(lease: LeaseInfo): void {
    this.#fences.remember(realmOf(lease.resource), { fence: fenceOf(lease), leaseId: lease.id })
  }

  /** Gives back, in the background, a lease that no caller is to have. */
  discard({ id, resource, extent, holder, session }: UnheldLease): void {
    const { api, runtime } = this
    const ticket = { id, resource, extent, holder, session, why: 'aborted' } as const
    const limits = { runtime, withinMs: BACKGROUND_WITHIN_MS }
    this.#background.add(
      'client/discard',
      retry(limits, () => api.withdraw(ticket)),
    )
  }

  #onOrphan(handle: LeaseHandle): void {
    if (handle.isOver || handle.isAbandoned || this.#closed) return
    report('client/orphan', orphanError(handle, this.#orphanPolicy))
    if (this.#orphanPolicy !== 'release') return
    this.#background.add('client/orphan', handle.release({ reason: 'aborted' }))
  }

  async acquireUnder(wanted: ReadAcquire): Promise<LeaseHandle> {
    return onlyLease(await this.obtain(wanted))
  }

  underNow(): readonly LeaseId[] | null {
    return enclosingLeases(this, (leaseId) => this.#router.handles.has(leaseId))
  }

  handOutChild(
    parent: LeaseHandle,
    derivation: Promise<Grant>,
    facts: GrantFacts,
  ): Promise<LeaseHandle> {
    return this.#accounted([], this.#handOutChild(parent, derivation, facts))
  }

  signedGrant(handle: LeaseHandle): string {
    return this.#grants.tokenOf(handle)
  }

  lookLater(handle: LeaseHandle): void {
    this.#router.lookLater(handle)
  }

  /** 0 stands for no limit. */
  async readMaxHoldMs(resource: Resource): Promise<number> {
    const { max_hold_seconds: seconds } = await this.api.settings({ resource })
    return seconds === 0 ? Infinity : seconds * 1000
  }

  giveBack(
    { id, resource }: LeaseHandle,
    { source, work }: { readonly source: string; readonly work: Promise<unknown> },
  ): void {
    this.#tombstones.begin([id])
    this.#tombstones.note(id, realmOf(resource))
    this.#background.add(
      source,
      work.finally(() => this.#tombstones.end([id])),
    )
  }

  onReleasing(handle: LeaseHandle): void {
    this.#families.endBelow(handle)
  }

  onEnd(handle: LeaseHandle): void {
    const { handles } = this.#router
    this.#families.endBelow(handle)
    this.#families.remove(handle)
    if (handles.get(handle.id) === handle) handles.delete(handle.id)
    this.#nestings.delete(handle.id)
    if (handle.isEndedByHolder) this.#tombstones.note(handle.id, realmOf(handle.resource))
    this.orphans.forget(handle)
  }
}

function orphanError(handle: LeaseHandle, orphans: 'renew' | 'release'): LeaseError {
  const { id: leaseId, resource } = handle
  const fate = orphans === 'renew' ? 'is renewed on' : 'is released'
  const message = `lease ${leaseId} of ${resource} ${fate}: nothing references its handle any more, so the program cannot release it`
  return new LeaseError('INVALID_STATE', message, { details: { leaseId, resource } })
}

function isHeld({ state }: LeaseHandle): boolean {
  return state === 'held' || state === 'uncertain'
}

async function repeatOf(
  held: LeaseHandle,
  { resource }: { resource: Resource },
): Promise<Obtaining> {
  if (held.resource === resource) return { kind: 'granted', leases: [held] }
  throw refusalError({ kind: 'id_taken', leaseId: held.id, resource: held.resource })
}

/** Of one resource that was asked for; throws where another has it. */
export function onlyLease(outcome: Obtaining): LeaseHandle {
  if (outcome.kind === 'held') throw refusalError(outcome)
  const lease = outcome.leases[0]
  if (lease === undefined) throw new Error('a resource was granted without a lease')
  return lease
}

function fenceOf(lease: LeaseInfo): number {
  if (lease.fence !== null) return lease.fence
  throw new Error(`lease ${lease.id} was granted without a fence`)
}

/** A store that grants a fence below one that was seen has lost data. */
function staleError(grants: readonly Grant[], before: readonly SeenBefore[]): LeaseError | null {
  for (const { lease, isOlder: repeated } of grants) {
    const { id: leaseId, resource } = lease
    const fence = fenceOf(lease)
    const realm = realmOf(resource)
    const seen = before.find((one) => one.realm === realm)?.seen ?? null
    if (!isStaleGrant({ fence, leaseId, repeated }, seen)) continue
    const message = `the store granted ${resource} with fence ${fence} after ${seen?.fence}: it has lost data`
    const details = { resource, fence, seenFence: seen?.fence }
    return new LeaseError('STORE_UNAVAILABLE', message, { details })
  }
  return null
}

/** Which handles end with which. Most leases are derived from nothing, and cost nothing here. */
class LeaseFamilies {
  /** By the id of each ancestor. */
  readonly #derived = new Map<LeaseId, Set<LeaseHandle>>()

  add(handle: LeaseHandle): void {
    for (const ancestor of ancestorsOf(handle)) {
      const family = this.#derived.get(ancestor) ?? new Set()
      this.#derived.set(ancestor, family.add(handle))
    }
  }

  remove(handle: LeaseHandle): void {
    for (const ancestor of ancestorsOf(handle)) {
      const family = this.#derived.get(ancestor)
      family?.delete(handle)
      if (family?.size === 0) this.#derived.delete(ancestor)
    }
  }

  /** What was derived from a lease ends when its holder ends it, or no longer knows that it lives. */
  endBelow({ id }: LeaseHandle): void {
    const derived = this.#derived.get(id)
    if (derived !== undefined) for (const handle of [...derived]) handle.endWithParent()
  }
}

interface GrantRegistryOptions {
  readonly api: Pick<LeaseApi, 'get'>
  readonly handles: TransientMap<LeaseId, LeaseHandle>
  readonly background: TakeOver
  readonly signer: GrantSigner | null
}

interface Signed {
  readonly line: readonly LeaseInfo[]
  readonly token: string
}

/**
 * The signed grants of what a client holds. A grant is the chain from the root to a lease, and changes with any of them: so
 * it is made when it is read, and again when one of the chain was renewed since.
 *
 * A client that adopted a derived lease does not hold the ancestors. What the store said of those is kept, and asked for
 * again when the lease has outlived it; until the answer comes, a grant ends where that said it does.
 */
class GrantRegistry {
  readonly #options: GrantRegistryOptions
  readonly #signed = new WeakMap<LeaseHandle, Signed>()
  /** What the store said of leases that others hold and that a lease of this client was derived from. */
  readonly #others = new Map<LeaseId, LeaseInfo>()

  constructor(options: GrantRegistryOptions) {
    this.#options = options
  }

  /** Whether grants are signed. */
  get isSigning(): boolean {
    return this.#options.signer !== null
  }

  tokenOf(handle: LeaseHandle): string {
    const { signer } = this.#options
    if (signer === null) {
      const message = 'signingKey or keyFile must be given to openTenure for a grant to be signed'
      throw new LeaseError('MISSING_SIGNATURE', message, { details: { leaseId: handle.id } })
    }
    const line = this.#lineTo(handle)
    const known = this.#signed.get(handle)
    if (known !== undefined && isSame(known.line, line)) return known.token
    const token = signer.sign(line)
    this.#signed.set(handle, { line, token })
    return token
  }

  /** Asks for what a lease was derived from, as far as this client does not hold it. */
  async learnLine(lease: LeaseInfo): Promise<void> {
    const { api, handles, signer } = this.#options
    if (signer === null) return
    const { line } = delegationOf(lease)
    if (line.length > 0) this.#forgetStrangers()
    for (const id of line) {
      const found = handles.has(id) ? null : await api.get({ id })
      if (found !== null) this.#others.set(id, found)
    }
  }

  /** Nothing is kept of those from whom nothing is held any more. */
  #forgetStrangers(): void {
    const lines = [...this.#options.handles.values()].flatMap(({ info }) => delegationOf(info).line)
    const known = new Set(lines)
    for (const id of this.#others.keys()) if (!known.has(id)) this.#others.delete(id)
  }

  #lineTo(handle: LeaseHandle): readonly LeaseInfo[] {
    const { info } = handle
    const above = delegationOf(info).line.map((id) => this.#ancestor(id))
    const isOutlived = above.some((lease) => {
      return !this.#options.handles.has(lease.id) && endOf(lease) < endOf(info)
    })
    if (isOutlived) this.#options.background('client/look', this.learnLine(info))
    return [...above, info]
  }

  #ancestor(leaseId: LeaseId): LeaseInfo {
    const handle = this.#options.handles.get(leaseId)
    if (handle !== undefined) return handle.info
    const lease = this.#others.get(leaseId)
    if (lease !== undefined) return lease
    throw refusalError({ kind: 'not_found', leaseId })
  }
}

/** Nothing for most leases, which are derived from none. */
function ancestorsOf({ info }: LeaseHandle): readonly LeaseId[] {
  return info.delegation?.line ?? NONE
}

const NONE: readonly LeaseId[] = []

function endOf({ expiresAtMs }: LeaseInfo): number {
  return expiresAtMs ?? 0
}

function isSame(a: readonly LeaseInfo[], b: readonly LeaseInfo[]): boolean {
  return a.length === b.length && a.every((lease, index) => lease === b[index])
}
