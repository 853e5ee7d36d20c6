/**
 * Listens between client and service: what was asked, and what came back. It changes nothing.
 */
import { isLeaseError } from '../src/core/errors.ts'
import type { LeaseApi } from '../src/service/lease-api.ts'
import type { ApiMethod } from './log.ts'
import type { Incarnation } from './sim-process.ts'

/** The same service in an object of its own, whose methods can be replaced one by one. */
export function sameApi(api: LeaseApi): LeaseApi {
  return {
    store: api.store,
    acquire: (request) => api.acquire(request),
    claim: (ticket) => api.claim(ticket),
    acquireAll: (request) => api.acquireAll(request),
    claimAll: (tickets) => api.claimAll(tickets),
    withdraw: (ticket) => api.withdraw(ticket),
    renew: (request) => api.renew(request),
    release: (request) => api.release(request),
    releaseAll: (request) => api.releaseAll(request),
    revoke: (request) => api.revoke(request),
    upgrade: (request) => api.upgrade(request),
    withdrawUpgrade: (request) => api.withdrawUpgrade(request),
    downgrade: (request) => api.downgrade(request),
    transfer: (request) => api.transfer(request),
    adopt: (request) => api.adopt(request),
    derive: (request) => api.derive(request),
    spend: (request) => api.spend(request),
    revokeAll: (holder, by, reason) => api.revokeAll(holder, by, reason),
    get: (leaseId) => api.get(leaseId),
    list: (filter) => api.list(filter),
    inspect: (resource, extent) => api.inspect(resource, extent),
    history: (filter) => api.history(filter),
    watch: (filter) => api.watch(filter),
    cleanup: () => api.cleanup(),
    settingRows: () => api.settingRows(),
    settings: (resource) => api.settings(resource),
    configure: (key, value, target) => api.configure(key, value, target),
    onWake: (session, listener) => api.onWake(session, listener),
    close: () => api.close(),
  }
}

interface Request {
  readonly leaseId: string
  readonly requestId?: string
  readonly ttlMs?: number
}

interface Answer {
  readonly kind: string
  readonly repeated?: boolean
  readonly lease?: { readonly renewals: number }
}

export function tapped(api: LeaseApi, { process, who }: Incarnation): LeaseApi {
  const { log, world } = process
  const listen = async <Result extends Answer>(
    method: ApiMethod,
    request: Request,
    call: () => Promise<Result>,
  ): Promise<Result> => {
    const { leaseId, requestId = null, ttlMs = null } = request
    const sentUs = world.nowUs
    const heard = (answer: string, renewals: number | null): void => {
      log.count(`${method}: ${answer}`)
      log.write({ kind: 'answered', ...who, method, leaseId, requestId, answer, sentUs, renewals })
    }
    log.write({ kind: 'asked', ...who, method, leaseId, requestId, ttlMs })
    try {
      const answer = await call()
      if (answer.repeated === true) log.count(`${method}: repeated`)
      heard(answer.kind, answer.lease?.renewals ?? null)
      return answer
    } catch (error) {
      heard(isLeaseError(error) ? error.code : 'foreign_error', null)
      throw error
    }
  }
  return {
    ...sameApi(api),
    acquire: (request) => listen('acquire', request, () => api.acquire(request)),
    claim: (ticket) => listen('claim', ticket, () => api.claim(ticket)),
    withdraw: (ticket) => listen('withdraw', ticket, () => api.withdraw(ticket)),
    renew: (request) => listen('renew', request, () => api.renew(request)),
    release: (request) => listen('release', request, () => api.release(request)),
    revoke: (request) => listen('revoke', request, () => api.revoke(request)),
  }
}
