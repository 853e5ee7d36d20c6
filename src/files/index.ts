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
import { parseHolder, parseLeaseId, refuseUnknown } from '../core/input.ts'
import { parseState, type LeaseId, type LeaseInfo } from '../core/lease.ts'
import { LIST_LIMIT_MAX } from '../core/limits.ts'
import { refusalError, type Held, type Refusal } from '../core/outcome.ts'
import { kindOf, parseResource, type Extent, type Resource } from '../core/resource.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import type { LeaseApi, ListFilter } from '../service/lease-api.ts'
import { listAll } from '../service/list-all.ts'
import { AgentWaits, type ObtainedLease } from './agent-waits.ts'
import { fileLeaseOf, holderAmong, holderOf, type FileLease } from './file-lease.ts'
import { leadsOutOf, refuseLeadingOut, type LinkedPath } from './linked-path.ts'
import {
  parseAgentId,
  parseSeconds,
  readAcquisition,
  readFilePath,
  readPatience,
  type FileLeasePage,
  type ForceReleaseOptions,
  type LeaseAcquisitionRequest,
  type LeaseAcquisitionResponse,
  type LeaseDowngradeRequest,
  type LeaseDowngradeResponse,
  type LeaseReleaseRequest,
  type LeaseReleaseResponse,
  type LeaseRenewalRequest,
  type LeaseRenewalResponse,
  type LeaseTransferRequest,
  type LeaseTransferResponse,
  type LeaseUpgradeRequest,
  type LeaseUpgradeResponse,
  type LookUpOptions,
  type Refused,
} from './requests.ts'

export type { FileLease, FileLeaseStatus, LeaseHolder } from './file-lease.ts'
export type {
  FileLeasePage,
  ForceReleaseOptions,
  LeaseAcquisitionRequest,
  LeaseAcquisitionResponse,
  LeaseDowngradeRequest,
  LeaseDowngradeResponse,
  LeaseReleaseRequest,
  LeaseReleaseResponse,
  LeaseRenewalRequest,
  LeaseRenewalResponse,
  LeaseTransferRequest,
  LeaseTransferResponse,
  LeaseUpgradeRequest,
  LeaseUpgradeResponse,
  LookUpOptions,
  Patience,
  Refused,
} from './requests.ts'

export interface FileLeasesOptions {
  readonly runtime?: Runtime
}

export class FileLeases implements AsyncDisposable {
  readonly #api: LeaseApi
  readonly #runtime: Runtime
  readonly #waits: AgentWaits

  /** The caller keeps the api and closes it after this. */
  constructor(api: LeaseApi, options: FileLeasesOptions = {}) {
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
    refuseUnknown(request, ['leaseId', 'agentId', 'newTtlSeconds'])
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
    refuseUnknown(request, ['leaseId', 'agentId'])
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
    refuseUnknown(request, ['leaseId', 'agentId', 'blocking', 'timeoutMs', 'signal'])
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
    refuseUnknown(request, ['leaseId', 'agentId'])
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
    refuseUnknown(request, ['leaseId', 'agentId', 'toAgentId'])
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
