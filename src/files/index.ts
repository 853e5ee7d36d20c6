/**
 * `tenure/files`: file leases as coding agents know them, who edits which file, by agent and path. Thin over `LeaseApi`: every rule is
 * in the core, and this only translates.
 *
 * Each request names its agent, so one `FileLeases` serves any number of them. Leases that are acquired here do not
 * renew themselves; an agent renews by `renewLease` or lets them run out. The same agent asking again for a file that
 * it has is refused with its own lease, in whatever process it asks.
 */
import type { Blocker } from '../core/conflict.ts'
import { invalid, isLeaseError, LeaseError, type ErrorCode } from '../core/errors.ts'
import {
  parseHolder,
  parseLeaseId,
  refuseUnknown,
  parseExtent,
  parseFlag,
  parseMaxRenewals,
  parseMode,
  parsePriority,
  parseSpanMs,
  requireShortText,
  requireText,
} from '../core/input.ts'
import { parseState, type LeaseId, type LeaseInfo, type EntryState } from '../core/lease.ts'
import {
  LIST_LIMIT_MAX,
  HOLDER_BYTES_MAX,
  TTL_MS_MAX,
  TTL_MS_MIN,
  WAIT_MS_MAX,
} from '../core/limits.ts'
import { refusalError, type Held, type Refusal } from '../core/outcome.ts'
import {
  kindOf,
  parseResource,
  nameOf,
  type Extent,
  type Resource,
  type Mode,
} from '../core/resource.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import type { LeaseApi, ListFilter, AcquireRequest } from '../service/lease-api.ts'
import { listAll } from '../service/list-all.ts'
import { readResource } from '../client/read-options.ts'
import { rootOf } from '../core/delegation.ts'
import type { FencedLease } from '../core/fenced-lease.ts'
import { AgentWaits, type ObtainedLease } from './agent-waits.ts'
import { leadsOutOf, refuseLeadingOut, type LinkedPath } from './linked-path.ts'

export interface FileLeasesOptions {
  /** For tests: time, timers and ids to go by instead of the real ones, such as `FakeRuntime`. Default: the real ones. */
  readonly runtime?: Runtime
}

export class FileLeases implements AsyncDisposable {
  readonly #api: LeaseApi
  readonly #runtime: Runtime
  readonly #waits: AgentWaits

  /** The caller keeps the api and closes it after this. */
  constructor(api: LeaseApi, options: FileLeasesOptions = {}) {
    refuseUnknown(options, ['runtime'])
    if (typeof api?.acquire !== 'function') throw invalid('api', 'must be a LeaseApi', api)
    this.#api = api
    this.#runtime = options.runtime ?? systemRuntime
    this.#waits = new AgentWaits(api, this.#runtime)
  }

  async acquireLease(request: LeaseAcquisitionRequest): Promise<LeaseAcquisitionResponse> {
    const startMs = this.#runtime.monotonicMs()
    const waitedMs = (): number => Math.round(this.#runtime.monotonicMs() - startMs)
    try {
      const wanted = readAcquisition(request, this.#runtime)
      const { holder, mode = 'exclusive' } = wanted
      const path = this.#pathOf(request.filePath, wanted.extent)
      await refuseLeadingOut(this.#api, path, { holder, mode })
      const answer = obtained(await this.#waits.acquire(wanted, request.signal))
      return { ...answer, waitedMs: waitedMs() }
    } catch (error) {
      if (!isRefusal(error)) throw error
      return { ...refused(error), waitedMs: waitedMs() }
    }
  }

  async renewLease(request: LeaseRenewalRequest): Promise<LeaseRenewalResponse> {
    requireFields(request, ['leaseId', 'agentId', 'newTtlSeconds'])
    const { leaseId, newTtlSeconds } = request
    this.#waits.called(request.agentId)
    const answer = await this.#api.renew({
      id: parseLeaseId(leaseId),
      holder: parseAgentId(request.agentId),
      requestId: this.#runtime.uuid(),
      ...(newTtlSeconds === undefined
        ? {}
        : { ttlMs: parseSeconds('newTtlSeconds', newTtlSeconds) }),
    })
    if (answer.kind === 'renewed') return { success: true, lease: fileLeaseOf(answer.lease) }
    return this.#refusedFor(answer)
  }

  async releaseLease(request: LeaseReleaseRequest): Promise<LeaseReleaseResponse> {
    requireFields(request, ['leaseId', 'agentId'])
    const { leaseId, agentId } = request
    this.#waits.called(agentId)
    const answer = await this.#api.release({
      id: parseLeaseId(leaseId),
      holder: parseAgentId(agentId),
    })
    if (answer.kind === 'released') return { success: true, lease: fileLeaseOf(answer.lease) }
    return this.#refusedFor(answer)
  }

  /**
   * From shared to exclusive. A lease that is exclusive already stays as it is. Of two agents that both request an upgrade the
   * second is refused (`DEADLOCK`): each would wait for the other.
   */
  async upgradeLease(request: LeaseUpgradeRequest): Promise<LeaseUpgradeResponse> {
    requireFields(request, ['leaseId', 'agentId', 'blocking', 'timeoutMs', 'signal'])
    const holder = parseAgentId(request.agentId)
    const waitMs = readPatience(request)
    const info = await this.#api.get({ id: parseLeaseId(request.leaseId) })
    if (info === null) return this.#refusedFor({ kind: 'not_found', leaseId: request.leaseId })
    const { id, resource, extent, mode } = info
    try {
      const upgrade = { target: { id, resource, extent, holder }, mode, session: holder, waitMs }
      return obtained(await this.#waits.upgrade(upgrade, request.signal))
    } catch (error) {
      if (!isRefusal(error)) throw error
      return error.code === 'NOT_HOLDER' ? ownedBy(error, info) : refused(error)
    }
  }

  /** From exclusive to shared; the id and the fence stay. */
  async downgradeLease(request: LeaseDowngradeRequest): Promise<LeaseDowngradeResponse> {
    requireFields(request, ['leaseId', 'agentId'])
    const { leaseId, agentId } = request
    this.#waits.called(agentId)
    const answer = await this.#api.downgrade({
      id: parseLeaseId(leaseId),
      holder: parseAgentId(agentId),
    })
    if (answer.kind === 'downgraded') return { success: true, lease: fileLeaseOf(answer.lease) }
    return this.#refusedFor(answer)
  }

  /**
   * Transfers a lease to another agent; the file is held all the time. The receiver takes it over by acquiring
   * the file, and its TTL runs anew from there; until then it runs out like any other.
   */
  async transferLease(request: LeaseTransferRequest): Promise<LeaseTransferResponse> {
    requireFields(request, ['leaseId', 'agentId', 'toAgentId'])
    const { leaseId, agentId, toAgentId } = request
    const to = toAgentId === null ? null : parseHolder(toAgentId, 'toAgentId')
    this.#waits.called(agentId)
    const answer = await this.#api.transfer({
      ...{ id: parseLeaseId(leaseId), holder: parseAgentId(agentId), to },
      newId: this.#runtime.uuid(),
    })
    if (answer.kind !== 'transferred') return this.#refusedFor(answer)
    return { success: true, lease: answer.lease === null ? null : fileLeaseOf(answer.lease) }
  }

  /** In whatever state, as long as it is kept; null if there is no such lease, or none of a file. */
  async getLease(leaseId: LeaseId): Promise<FileLease | null> {
    const info = await this.#api.get({ id: parseLeaseId(leaseId) })
    return info === null || !isFile(info) ? null : fileLeaseOf(info)
  }

  async getFileLeases(filePath: string, options: LookUpOptions = {}): Promise<FileLeasePage> {
    return this.#list({ resource: this.#resourceOf(filePath) }, options)
  }

  async getAgentLeases(agentId: string, options: LookUpOptions = {}): Promise<FileLeasePage> {
    return this.#list({ holder: parseAgentId(agentId) }, options)
  }

  async getAllLeases(options: LookUpOptions = {}): Promise<FileLeasePage> {
    return this.#list({}, options)
  }

  /**
   * Whether a new lease would be blocked: by another lease, by a waiter that comes first, or by an agent that holds a
   * directory out of which a link in the path leads.
   */
  async isFileLocked(filePath: string): Promise<boolean> {
    const path = this.#pathOf(filePath)
    const { blockers } = await this.#api.inspect({ resource: path.resource })
    return blockers.length > 0 || (await leadsOutOf(this.#api, path)).length > 0
  }

  async hasAgentLease(agentId: string, filePath: string): Promise<boolean> {
    const resource = this.#resourceOf(filePath)
    const filter = { resource, holder: parseAgentId(agentId), state: 'active', limit: 1 } as const
    return (await this.#api.list(filter)).leases.length > 0
  }

  /**
   * Writes down which leases have expired and prunes old history; tells how many expired. Files and whatever else the
   * store keeps. Nothing depends on it: an expired lease is free without it.
   */
  async cleanupExpiredLeases(): Promise<number> {
    return (await this.#api.cleanup()).expired
  }

  /**
   * Ends everything that an agent has or waits for, files or not, as `revoked`; tells how many leases. For agents that
   * no longer respond: one that still works keeps on until it hears of it, and only the fence stops it.
   */
  async forceReleaseAgentLeases(
    agentId: string,
    options: ForceReleaseOptions = {},
  ): Promise<number> {
    refuseUnknown(options, ['by', 'reason'])
    const { by = 'operator', reason } = options
    return this.#api.revokeAll({ holder: parseAgentId(agentId), by, reason: reason ?? null })
  }

  /** Ends the waits that are under way with `CLOSED`. Leases stay, and so does the api. */
  async close(): Promise<void> {
    await this.#waits.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #pathOf(filePath: string, extent: Extent = 'exact'): LinkedPath {
    const resource = this.#resourceOf(filePath)
    return { spelt: parseResource(`file:${filePath}`), resource, extent }
  }

  #resourceOf(filePath: string): Resource {
    return readFilePath(filePath, this.#runtime)
  }

  async #list(filter: ListFilter, options: LookUpOptions): Promise<FileLeasePage> {
    refuseUnknown(options, ['status', 'limit', 'after'])
    const { status, limit, after } = options
    const where = { ...filter, ...(status === undefined ? {} : { state: parseState(status) }) }
    if (limit !== undefined) return this.#page({ ...where, limit }, after)
    if (after !== undefined) throw invalid('limit', 'must be given with after', limit)
    const found: FileLease[] = []
    for await (const page of listAll(this.#api, where)) {
      found.push(...page.filter(isFile).map(fileLeaseOf))
      if (found.length > LIST_LIMIT_MAX) throw tooManyError()
    }
    return found
  }

  async #page(filter: ListFilter, after: string | undefined): Promise<FileLeasePage> {
    const place = after === undefined ? {} : { after }
    const { leases, next } = await this.#api.list({ ...filter, ...place })
    const found = leases.filter(isFile).map(fileLeaseOf)
    return next === undefined ? found : Object.assign(found, { next })
  }

  /** A refusal names the holder; its lease is looked up for the answer. */
  async #refusedFor(refusal: Refusal): Promise<Refused> {
    const response = refused(refusalError(refusal))
    if (refusal.kind !== 'not_holder') return response
    return ownedBy(response.error, await this.#api.get({ id: refusal.leaseId }))
  }
}

function isFile(info: LeaseInfo): boolean {
  return kindOf(info.resource) === 'file'
}

/** No answer to the request: the store failed, or this object was closed. */
const FAILURES: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'STORE_UNAVAILABLE',
  'STORE_CONFLICT',
  'STORE_OUTCOME_UNKNOWN',
  'STORE_SCHEMA',
  'CLOSED',
])

/** Input that cannot be read names its field; that is a mistake of the caller and thrown. */
function isRefusal(error: unknown): error is LeaseError {
  return isLeaseError(error) && !FAILURES.has(error.code) && !('field' in error.details)
}

function obtained(
  answer: ObtainedLease | Held,
): { readonly success: true; readonly lease: FileLease } | Refused {
  if (answer.kind === 'held') return refused(refusalError(answer))
  return { success: true, lease: fileLeaseOf(answer.lease) }
}

function refused(error: LeaseError): Refused {
  const blockers = error.details['blockers']
  const holder = Array.isArray(blockers) ? holderAmong(blockers as readonly Blocker[]) : null
  return { success: false, error, holder }
}

function ownedBy(error: LeaseError, info: LeaseInfo | null): Refused {
  return { ...refused(error), holder: info === null ? null : holderOf(info) }
}

function tooManyError(): LeaseError {
  const message = `a look-up gives at most ${LIST_LIMIT_MAX} leases at once; limit and after give pages`
  return new LeaseError('LIMIT_EXCEEDED', message, { details: { limit: LIST_LIMIT_MAX } })
}

// What agents ask and what they are told. Being refused is a response with `success: false`; only a store that fails and input that
// cannot be read throw.

/** Whether and how long a request waits. */
export interface Patience {
  /** How many milliseconds a blocking request waits. Default: the configured `acquisition_timeout_ms`. */
  readonly timeoutMs?: number
  /** Whether to wait while other agents are in the way. Default false. */
  readonly blocking?: boolean
  /** Cancels the wait (`ABORTED`); has no effect once the request is granted. */
  readonly signal?: AbortSignal
}

export interface LeaseAcquisitionRequest extends Patience {
  /**
   * Absolute. Links are resolved as far as they exist, so that two names of one file are one file. A path that a link leads
   * out of what another agent holds is refused (`RESOURCE_HELD`), even if `blocking`; ask for the file by its own name.
   */
  readonly filePath: string
  /** Which agent asks: 1..128 bytes. */
  readonly agentId: string
  /** How long the lease lasts without renewal, in seconds. Default: the configured `default_ttl_seconds`. */
  readonly ttlSeconds?: number
  /** How often the lease may be renewed; -1: no limit. Default: the configured `max_renewals`. */
  readonly maxRenewals?: number
  /** `shared`: with others who share it, as for reading. Default `exclusive`. */
  readonly mode?: Mode
  /** `subtree`: the directory and everything below it. Default `exact`. */
  readonly extent?: Extent
  /** -100..100, default 0: each step is worth ten seconds of waiting. */
  readonly priority?: number
  /** Why, shown to blocked requests. Default: none. */
  readonly reason?: string
}

export interface LeaseRenewalRequest {
  /** The id that the acquisition gave. */
  readonly leaseId: LeaseId
  /** Which agent asks: 1..128 bytes. */
  readonly agentId: string
  /** How long the lease lasts from now on without renewal, in seconds. Default: the TTL that it has. */
  readonly newTtlSeconds?: number
}

export interface LeaseReleaseRequest {
  /** The id that the acquisition gave. */
  readonly leaseId: LeaseId
  /** Which agent asks: 1..128 bytes. */
  readonly agentId: string
}

/** From shared to exclusive, without letting the file go in between. The lease keeps its id and gets a higher fence. */
export interface LeaseUpgradeRequest extends Patience {
  /** The id that the acquisition gave. */
  readonly leaseId: LeaseId
  /** Which agent asks: 1..128 bytes. */
  readonly agentId: string
}

export interface LeaseDowngradeRequest {
  /** The id that the acquisition gave. */
  readonly leaseId: LeaseId
  /** Which agent asks: 1..128 bytes. */
  readonly agentId: string
}

/** The receiver gets a lease of its own, with a new id and a higher fence, ahead of all waiters. */
export interface LeaseTransferRequest {
  /** The id that the acquisition gave. */
  readonly leaseId: LeaseId
  /** Which agent asks: 1..128 bytes. */
  readonly agentId: string
  /** Which agent gets it: 1..128 bytes. Null: the next in the queue. */
  readonly toAgentId: string | null
}

export interface Refused {
  readonly success: false
  /** `RESOURCE_HELD`, `WAIT_TIMEOUT`, `LEASE_NOT_FOUND`, `NOT_HOLDER`, `RENEWAL_LIMIT`, … (docs/errors.md). */
  readonly error: LeaseError
  /** Who has the file or the lease, if that is why. */
  readonly holder: LeaseHolder | null
}

export type LeaseAcquisitionResponse =
  | { readonly success: true; readonly lease: FileLease; readonly waitedMs: number }
  | (Refused & { readonly waitedMs: number })
export type LeaseRenewalResponse = { readonly success: true; readonly lease: FileLease } | Refused
export type LeaseReleaseResponse = { readonly success: true; readonly lease: FileLease } | Refused

export type LeaseUpgradeResponse = { readonly success: true; readonly lease: FileLease } | Refused
export type LeaseDowngradeResponse = { readonly success: true; readonly lease: FileLease } | Refused
/** `lease`: the receiver's; null when it went to the queue, whose first gets a lease of its own. */
export type LeaseTransferResponse =
  { readonly success: true; readonly lease: FileLease | null } | Refused

export interface LookUpOptions {
  /** In which state the leases are. Default: what is live, `active` and `pending`. */
  readonly status?: FileLeaseStatus
  /**
   * 1..10000: at most so many of the store's leases are looked at, and of these the files are given. Default: all, and
   * `LIMIT_EXCEEDED` for more than 10,000 files.
   */
  readonly limit?: number
  /** Goes on where another look-up was cut short by its `limit`: its `next`. */
  readonly after?: string
}

/** Leases in the order of their creation. */
export interface FileLeasePage extends ReadonlyArray<FileLease> {
  /** To be passed as `after`, in the same look-up; absent on the last page. A page may be empty and have one. */
  readonly next?: string
}

export interface ForceReleaseOptions {
  /** Who ends the leases, for the history. Default `operator`. */
  readonly by?: string
  /** Why, kept in the history. Default: it says who did it. */
  readonly reason?: string
}

const ACQUISITION_FIELDS = [
  'filePath',
  'agentId',
  'ttlSeconds',
  'maxRenewals',
  'timeoutMs',
  'blocking',
  'mode',
  'extent',
  'priority',
  'reason',
  'signal',
]

/**
 * Reads what an agent passes in and turns it into what the service takes. Fields are named as the caller wrote them, so
 * that an error is about something the caller can find.
 */
function readAcquisition(request: LeaseAcquisitionRequest, runtime: Runtime): AcquireRequest {
  requireFields(request, ACQUISITION_FIELDS)
  const { ttlSeconds, maxRenewals, mode, extent, priority, reason } = request
  const agentId = parseAgentId(request.agentId)
  return {
    id: runtime.uuid(),
    resource: readFilePath(request.filePath, runtime),
    holder: agentId,
    session: agentId,
    sequential: true,
    waitMs: readPatience(request),
    ...(ttlSeconds === undefined ? {} : { ttlMs: parseSeconds('ttlSeconds', ttlSeconds) }),
    ...(maxRenewals === undefined ? {} : { maxRenewals: parseMaxRenewals(maxRenewals) }),
    ...(mode === undefined ? {} : { mode: parseMode(mode) }),
    ...(extent === undefined ? {} : { extent: parseExtent(extent) }),
    ...(priority === undefined ? {} : { priority: parsePriority(priority) }),
    ...(reason === undefined ? {} : { reason }),
  }
}

function requireFields(request: object, known: readonly string[]): void {
  if (request === undefined) throw invalid('request', 'must be an object', request)
  refuseUnknown(request, known)
}

/** How long a request that may block waits. */
function readPatience(request: Patience): number | 'configured' {
  const { timeoutMs, blocking = false } = request
  const patienceMs = timeoutMs === undefined ? 'configured' : parseTimeoutMs(timeoutMs)
  return parseFlag('blocking', blocking) ? patienceMs : 0
}

/** An absolute path: the agents that one process serves need not share a working directory. */
function readFilePath(filePath: unknown, runtime: Runtime): Resource {
  const path = requireText('filePath', filePath)
  if (!path.startsWith('/')) throw invalid('filePath', 'must be an absolute path', path)
  return readResource(runtime, `file:${path}`)
}

function parseAgentId(value: unknown): string {
  return requireShortText({ field: 'agentId', bytesMax: HOLDER_BYTES_MAX }, value)
}

/** Seconds into milliseconds, to the nearest one. */
function parseSeconds(field: string, value: unknown): number {
  const ttlMs = typeof value === 'number' ? Math.round(value * 1000) : Number.NaN
  if (ttlMs >= TTL_MS_MIN && ttlMs <= TTL_MS_MAX) return ttlMs
  throw invalid(field, `must be ${TTL_MS_MIN / 1000}..${TTL_MS_MAX / 1000}`, value)
}

function parseTimeoutMs(value: unknown): number {
  return parseSpanMs({ field: 'timeoutMs', min: 0, max: WAIT_MS_MAX }, value)
}

// A file lease in the words of the file-leasing system, made from the lease that every other interface sees. Only names and units
// change here; what a lease may do is decided in the core.

/**
 * `active`, `expired`, `released`, `pending` (waiting) and `failed` (a wait or a request that came to nothing), and
 * `revoked`, which is what a forced release ends in.
 */
export type FileLeaseStatus = EntryState

export interface FileLease extends FencedLease {
  readonly filePath: string
  readonly agentId: string
  /** Milliseconds since 1970 on the store's wall clock, as all times here; for people, not for judging. */
  readonly createdAt: number
  /** Null while pending. */
  readonly expiresAt: number | null
  readonly updatedAt: number
  /** A fraction when the lease was made with a TTL that is no multiple of a second. */
  readonly ttlSeconds: number
  readonly status: FileLeaseStatus
  readonly renewalCount: number
  /** -1 means no limit. */
  readonly maxRenewals: number
  /** Greater for every later grant. A guard of the file refuses smaller ones. Null while pending. */
  readonly fence: number | null
  /** What was left on the store's clock at the moment of reading. */
  readonly remainingMs: number
  readonly reason: string | null
}

/** Who stands in the way, as far as it is known. */
export interface LeaseHolder {
  readonly agentId: string
  /** `lease`: has the file. `offer`, `ticket`: is before you in the queue. `lock_delay`: had it on another clock. */
  readonly kind: Blocker['kind']
  readonly leaseId: LeaseId
  readonly since: number
  readonly expiresAt: number | null
  readonly remainingMs: number
  readonly reason: string | null
}

function fileLeaseOf(info: LeaseInfo): FileLease {
  const { id, resource, fence, mode, extent, slots } = info
  return {
    ...{ id, resource, fence, mode, extent, slots, root: rootOf(info) },
    filePath: nameOf(resource),
    agentId: info.holder,
    createdAt: info.createdAtMs,
    expiresAt: info.expiresAtMs,
    updatedAt: lastChangeMs(info),
    ttlSeconds: info.ttlMs / 1000,
    status: info.state,
    renewalCount: info.renewals,
    maxRenewals: info.maxRenewals,
    remainingMs: info.remainingMs,
    reason: info.reason,
  }
}

function lastChangeMs(info: LeaseInfo): number {
  const { terminatedAtMs, changedAtMs, renewedAtMs, grantedAtMs, createdAtMs } = info
  return terminatedAtMs ?? changedAtMs ?? renewedAtMs ?? grantedAtMs ?? createdAtMs
}

/** The blocking lease if there is one, else the first waiter. */
function holderAmong(blockers: readonly Blocker[]): LeaseHolder | null {
  const blocker = blockers.find(({ kind }) => kind === 'lease') ?? blockers[0]
  if (blocker === undefined) return null
  const { kind, leaseId, holder, sinceMs, expiresAtMs, remainingMs, reason } = blocker
  const times = { since: sinceMs, expiresAt: expiresAtMs, remainingMs }
  return { agentId: holder, kind, leaseId, ...times, reason }
}

function holderOf(info: LeaseInfo): LeaseHolder {
  const { id, holder, grantedAtMs, createdAtMs, expiresAtMs, remainingMs, reason } = info
  const kind = grantedAtMs === null ? 'ticket' : 'lease'
  const times = { since: grantedAtMs ?? createdAtMs, expiresAt: expiresAtMs, remainingMs }
  return { agentId: holder, kind, leaseId: id, ...times, reason }
}
