/**
 * What a holder asks of the store about one lease. Every request that changes something is sent as often as it takes under
 * one id, so that a lost answer does no harm: whatever the first try did, the next one finds.
 *
 *  - A release is tried for 10 s while its caller waits, and for a minute in the background. After that the lease ends by
 *    itself at its deadline.
 *  - A transfer whose outcome is unknown is taken up again, under its old ids, by the next call for the same receiver.
 *  - Advances of an epoch, and updates, go one after the other. When the outcome of an advance is unknown its epochs are
 *    never used: the next advance learns from the store how far it has come. A gap is harmless; an epoch used twice is not.
 *  - A derivation whose outcome is unknown is withdrawn, so that no child stays whose parent does not know of it.
 *
 * What a refusal says about the lease itself is the handle's to conclude (`AnswerListener`).
 */
import { remainingBudget, type Budget } from '../core/budget.ts'
import { delegationOf } from '../core/delegation.ts'
import { LeaseError } from '../core/errors.ts'
import { parseNote, type Note } from '../core/input.ts'
import type { LeaseId, LeaseInfo, ReleaseReason } from '../core/lease.ts'
import { refusalError, type Refusal } from '../core/outcome.ts'
import type { Extent, Resource } from '../core/resource.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type {
  AdvanceAnswer,
  AcquireAnswer,
  DeriveRequest,
  LeaseApi,
  ReleaseAllRequest,
  ReleaseAnswer,
  RenewAnswer,
  RenewRequest,
} from '../service/lease-api.ts'
import type { EpochRange } from './contract.ts'
import type { AdvanceOptions, UpdateOptions } from './options.ts'
import type { HolderClock, Moment } from './holder-clock.ts'
import { grantedTerm, type SentRenewal } from './holding.ts'
import { readOptions, type AskedDerivation } from './read-options.ts'
import { BACKGROUND_WITHIN_MS, effectOf, retry, type RetryLimits, type UnderWay } from './retry.ts'
import type { Grant } from './waiting.ts'

/** How a handle names its lease to the store. */
export interface LeaseTarget {
  readonly id: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
}

/** What is the same for all leases of a client. */
export interface RequestContext {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly clock: HolderClock
  readonly session: string
  /** The client was closed and waits for nothing any more. */
  readonly hasEnded: boolean
  /** Gives back, in the background, a lease that no caller is to have. */
  discard(lease: UnheldLease): void
}

/** With the session itself, not what a store shows of it. */
export type UnheldLease = LeaseTarget & { readonly session: string }

/** Hears what the store says of the lease, whatever it was asked. */
export interface AnswerListener {
  readonly info: LeaseInfo
  /** The holder has the lease no more. */
  readonly isOver: boolean
  /** `sent`: before the store was asked. */
  onDescribed(lease: LeaseInfo, sent: Moment): void
  onRefused(refusal: Refusal): void
}

/** `leaseId`: of the receiver's lease; null when it went to the queue. */
export type TransferResult =
  { readonly kind: 'transferred'; readonly leaseId: LeaseId | null } | Refusal

interface TransferTry {
  readonly to: string | null
  readonly requestId: string
  readonly newId: LeaseId
}

const WITHIN_MS = 10_000
/** How many endings of a resource are searched for the previous lease; more than one only where many share it. */
const ENDINGS_READ = 50

export class LeaseRequests {
  readonly target: LeaseTarget
  readonly #context: RequestContext
  readonly #listener: AnswerListener
  /** The holder's last words, which go with its release. */
  note: Note | null = null
  #releaseId: string | null = null
  #releaseTries = 0
  #openTransfer: TransferTry | null = null
  #nextEpoch: number | null
  /** The outcome of the last advance is unknown. */
  #isEpochInDoubt = false
  #lastAdvance: Promise<unknown> = DONE
  #lastUpdate: Promise<unknown> = DONE
  #underWay: UnderWay | null = null

  constructor(context: RequestContext, target: LeaseTarget, listener: AnswerListener) {
    this.#context = context
    this.target = target
    this.#listener = listener
    this.#nextEpoch = listener.info.epoch
  }

  get wasReleaseTried(): boolean {
    return this.#releaseTries > 0
  }

  /** Whether the lease may have gone to another without this holder having heard of it. */
  get isTransferOpen(): boolean {
    return this.#openTransfer !== null
  }

  /** Null for what has no epochs. */
  get nextEpoch(): number | null {
    return this.#nextEpoch
  }

  renew({ requestId }: SentRenewal): Promise<RenewAnswer> {
    return this.#context.api.renew(this.#renewal(null, requestId))
  }

  /** As the holder asks: it hears of a failure soon, with most of the term still left. */
  renewNow(ttlMs: number | null, limits: Omit<RetryLimits, 'runtime'>): Promise<RenewAnswer> {
    const { api, runtime } = this.#context
    const request = this.#renewal(ttlMs, runtime.uuid())
    return retry({ runtime, triesMax: 3, ...limits }, () => api.renew(request))
  }

  #renewal(ttlMs: number | null, requestId: string | null): RenewRequest {
    const { id, resource, extent, holder } = this.target
    // A spread of what may be left out would take V8 ten times as long.
    const request: { -readonly [Name in keyof RenewRequest]: RenewRequest[Name] } = {
      ...{ id, resource, extent, holder },
    }
    if (ttlMs !== null) request.ttlMs = ttlMs
    if (requestId !== null) request.requestId = requestId
    return request
  }

  /** `joint`: with the other releases that are gathered there, in one request. */
  release(releaseReason: ReleaseReason, joint?: JointRelease): Promise<ReleaseAnswer> {
    const request = this.#releaseRequest(releaseReason)
    const onTry = (): void => void (this.#releaseTries += 1)
    return joint?.gather(request, onTry) ?? this.#sendRelease(request, RELEASE_LIMITS)
  }

  /** Whether an earlier try had released the lease, of which the store keeps no history. */
  isReleasedBefore(answer: ReleaseAnswer): boolean {
    return this.#releaseTries > 1 && isReleased(answer)
  }

  /** For a holder that does not wait. A lease that has ended already is as good as one that was released. */
  async releaseInBackground(releaseReason: ReleaseReason, stopIf: () => boolean): Promise<void> {
    const limits = { withinMs: BACKGROUND_WITHIN_MS, keepAliveMs: 0, stopIf }
    await this.#sendRelease(this.#releaseRequest(releaseReason), limits)
  }

  #releaseRequest(releaseReason: ReleaseReason): SentRelease {
    this.#releaseId ??= this.#context.runtime.uuid()
    const { id, resource, extent, holder } = this.target
    const { session } = this.#context
    const requestId = this.#releaseId
    const request = { id, resource, extent, holder, session, releaseReason, requestId }
    return this.note === null ? request : { ...request, note: this.note }
  }

  #sendRelease(request: SentRelease, limits: Omit<RetryLimits, 'runtime'>): Promise<ReleaseAnswer> {
    const { api, runtime } = this.#context
    return retry({ runtime, ...limits }, () => {
      this.#releaseTries += 1
      return api.release(request)
    })
  }

  async transfer(to: string | null): Promise<TransferResult> {
    const { api, runtime } = this.#context
    const known = this.#openTransfer?.to === to ? this.#openTransfer : null
    const attempt = known ?? { to, requestId: runtime.uuid(), newId: runtime.uuid() }
    this.#openTransfer = attempt
    try {
      const limits = { runtime, withinMs: WITHIN_MS, stopIf: () => this.#context.hasEnded }
      // Whether or not the holder has the lease any more, its caller waits for what became of it.
      const answer = await retry(limits, () => api.transfer({ ...this.target, ...attempt }))
      this.#openTransfer = null
      if (answer.kind !== 'transferred') return answer
      return { kind: 'transferred', leaseId: to === null ? null : attempt.newId }
    } catch (error) {
      if (effectOf(error) === 'none') this.#openTransfer = null
      throw error
    }
  }

  async advance(options?: AdvanceOptions): Promise<EpochRange> {
    const read = readOptions('AdvanceOptions', options)
    const advance = this.#lastAdvance.then(() => this.#advance(read))
    // Only the order matters here: an advance has a caller of its own that hears what became of it.
    this.#lastAdvance = Promise.allSettled([advance])
    return advance
  }

  async #advance(options: AdvanceOptions): Promise<EpochRange> {
    let answer = await this.#sendAdvance(options)
    if (answer.kind === 'stale_epoch' && this.#isEpochInDoubt) {
      this.#nextEpoch = answer.epoch
      answer = await this.#sendAdvance(options)
    }
    if (answer.kind !== 'advanced') throw this.#refusal(answer)
    this.#isEpochInDoubt = false
    this.#nextEpoch = answer.to
    return { from: answer.from, to: answer.to }
  }

  async #sendAdvance(options: AdvanceOptions): Promise<AdvanceAnswer> {
    const { api, runtime } = this.#context
    const from = this.#nextEpoch ?? 0
    const request = { ...this.target, ...options, from, requestId: runtime.uuid() }
    try {
      return await this.#retry(() => api.advance(request))
    } catch (error) {
      if (effectOf(error) === 'unknown') this.#isEpochInDoubt = true
      throw error
    }
  }

  update(options: UpdateOptions): Promise<void> {
    const read = readOptions('UpdateOptions', options ?? null)
    noteAfter(this.#listener.info, read)
    const update = this.#lastUpdate.then(() => this.#update(read))
    // Only the order matters here: an update has a caller of its own that hears what became of it.
    this.#lastUpdate = Promise.allSettled([update])
    return update
  }

  async #update(options: UpdateOptions): Promise<void> {
    const { api, runtime, clock } = this.#context
    const { reason, metadata } = noteAfter(this.#listener.info, options)
    const request = {
      ...this.target,
      ...(reason === null ? {} : { reason }),
      ...(metadata === null ? {} : { metadata }),
      requestId: runtime.uuid(),
    }
    let sent = clock.now()
    const answer = await this.#retry(() => {
      sent = clock.now()
      return api.update(request)
    })
    if (answer.kind !== 'updated') throw this.#refusal(answer)
    this.#listener.onDescribed(answer.lease, sent)
  }

  /** The lease that ended last before the one with this fence. */
  async previous(fence: number): Promise<LeaseInfo | null> {
    const { api } = this.#context
    const endings = await api.history({
      resource: this.target.resource,
      types: ['lease.released', 'lease.transferred', 'lease.expired', 'lease.revoked'],
      newestFirst: true,
      limit: ENDINGS_READ,
    })
    for (const id of new Set(endings.map(({ event }) => event.leaseId))) {
      const lease = await api.get({ id })
      if (lease !== null && lease.fence !== null && lease.fence < fence) return lease
    }
    return null
  }

  async derive(asked: AskedDerivation): Promise<Grant> {
    const { api, runtime, clock, session } = this.#context
    const { id, resource, extent, holder: by } = this.target
    const parent = { id, resource, extent }
    const request: DeriveRequest = { session, ...asked, id: runtime.uuid(), parent, by }
    const first = clock.now()
    let last = first
    const send = (): Promise<AcquireAnswer> => {
      last = clock.now()
      return api.derive(request)
    }
    const answer = await this.#retry(send).catch((error: unknown) => {
      if (effectOf(error) === 'unknown') this.#discardChild(request)
      throw error
    })
    if (answer.kind === 'queued') throw new Error('a derivation never waits')
    if (answer.kind !== 'granted') {
      // Only what is said of the parent concerns this lease; a sibling may be in the way.
      if ('leaseId' in answer && answer.leaseId === id) this.#listener.onRefused(answer)
      throw refusalError(answer)
    }
    const { lease } = answer
    const now = clock.now()
    const term = grantedTerm(lease, { isOlder: false }, { first, last, clock, now })
    return { lease, isOlder: false, term, now }
  }

  #discardChild(request: DeriveRequest): void {
    const { target } = this
    const { id, holder, session, resource = target.resource } = request
    const own = request.resource === undefined ? target.extent : 'exact'
    this.#context.discard({ id, holder, session, resource, extent: request.extent ?? own })
  }

  /** Answers with what is left. */
  async spend(amounts: Budget, requestId: string): Promise<Budget> {
    const { api, clock } = this.#context
    const request = { ...this.target, amounts, requestId }
    let sent = clock.now()
    const answer = await this.#retry(() => {
      sent = clock.now()
      return api.spend(request)
    })
    if (answer.kind !== 'spent') throw this.#refusal(answer)
    // A repeat is answered also when the lease has ended since, of which its handle hears as always.
    if (answer.lease.state === 'active') this.#listener.onDescribed(answer.lease, sent)
    const { limits, used } = delegationOf(answer.lease)
    return remainingBudget(limits, used)
  }

  /** Once the lease is over its callers have heard so, and wait for no answer any more. */
  giveUp(): void {
    for (const giveUp of [...(this.#underWay ?? [])]) giveUp()
  }

  #retry<Answer>(send: () => Promise<Answer>): Promise<Answer> {
    const { runtime } = this.#context
    const stopIf = (): boolean => this.#context.hasEnded || this.#listener.isOver
    const underWay = (this.#underWay ??= new Set())
    return retry({ runtime, withinMs: WITHIN_MS, stopIf, underWay }, async () => send())
  }

  #refusal(refusal: Refusal): LeaseError {
    this.#listener.onRefused(refusal)
    return refusalError(refusal)
  }
}

const DONE: Promise<unknown> = Promise.resolve()
const RELEASE_LIMITS = { withinMs: WITHIN_MS }

/** With the session of the handle: when another session releases a lease, its holder is woken. */
interface SentRelease extends UnheldLease {
  readonly releaseReason: ReleaseReason
  readonly requestId: string
  readonly note?: Note
}

interface GatheredRelease {
  readonly request: SentRelease
  readonly onTry: () => void
  readonly resolve: (answer: ReleaseAnswer) => void
  readonly reject: (error: unknown) => void
}

/** Gathers releases of one holder's leases, and sends them as one request. */
export class JointRelease {
  readonly #api: LeaseApi
  readonly #runtime: Runtime
  readonly #gathered: GatheredRelease[] = []

  constructor(api: LeaseApi, runtime: Runtime) {
    this.#api = api
    this.#runtime = runtime
  }

  gather(request: SentRelease, onTry: () => void): Promise<ReleaseAnswer> {
    return new Promise((resolve, reject) => {
      this.#gathered.push({ request, onTry, resolve, reject })
    })
  }

  /** Never throws: each caller of a gathered release hears what became of it. */
  async send(): Promise<void> {
    const [first] = this.#gathered
    if (first === undefined) return
    const { holder, session, releaseReason } = first.request
    const members = this.#gathered.map(({ request }) => memberOf(request))
    const limits = { runtime: this.#runtime, ...RELEASE_LIMITS }
    try {
      const answers = await retry(limits, async () => {
        for (const { onTry } of this.#gathered) onTry()
        return this.#api.releaseAll({ holder, session, releaseReason, members })
      })
      for (const [index, { request, resolve }] of this.#gathered.entries()) {
        resolve(answers[index] ?? { kind: 'not_found', leaseId: request.id })
      }
    } catch (error) {
      for (const { reject } of this.#gathered) reject(error)
    }
  }
}

/** What of a release is its own, and not common to all that are released together. */
function memberOf(request: SentRelease): ReleaseAllRequest['members'][number] {
  const { holder: _holder, session: _session, releaseReason: _reason, ...member } = request
  return member
}

/** For the caller of a release that has not come to an end: it goes on, and its outcome is unknown. */
export function releaseGoesOn(target: LeaseTarget, cause: LeaseError): LeaseError {
  const { id: leaseId, resource } = target
  const message = `lease ${leaseId} of ${resource} is being released in the background: ${cause.message}`
  return new LeaseError('STORE_OUTCOME_UNKNOWN', message, { cause, details: { leaseId, resource } })
}

function isReleased(answer: ReleaseAnswer): boolean {
  return answer.kind === 'not_found' || (answer.kind === 'terminal' && answer.state === 'released')
}

/** What was left out stays as it is; together they are bounded as at the acquire. */
export function noteAfter(info: LeaseInfo, { reason, metadata }: UpdateOptions): Note {
  return parseNote(reason ?? info.reason, metadata ?? info.metadata)
}
