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
    acquire: (request, requester) => api.acquire(request, requester),
    claim: (ticket, requester) => api.claim(ticket, requester),
    acquireAll: (request, requester) => api.acquireAll(request, requester),
    claimAll: (request, requester) => api.claimAll(request, requester),
    withdraw: (ticket, requester) => api.withdraw(ticket, requester),
    renew: (request) => api.renew(request),
    release: (request) => api.release(request),
    releaseAll: (request) => api.releaseAll(request),
    revoke: (request) => api.revoke(request),
    upgrade: (request) => api.upgrade(request),
    withdrawUpgrade: (request) => api.withdrawUpgrade(request),
    downgrade: (request) => api.downgrade(request),
    update: (request) => api.update(request),
    transfer: (request) => api.transfer(request),
    adopt: (request) => api.adopt(request),
    derive: (request) => api.derive(request),
    spend: (request) => api.spend(request),
    trespass: (request) => api.trespass(request),
    advance: (request) => api.advance(request),
    revokeAll: (request) => api.revokeAll(request),
    get: (request) => api.get(request),
    list: (filter) => api.list(filter),
    inspect: (request) => api.inspect(request),
    history: (filter) => api.history(filter),
    watch: (filter, locals) => api.watch(filter, locals),
    cleanup: () => api.cleanup(),
    settingRows: () => api.settingRows(),
    settings: (request) => api.settings(request),
    configure: (change) => api.configure(change),
    ...(api.standBy === undefined ? {} : { standBy: api.standBy.bind(api) }),
    onWake: (request, listener) => api.onWake(request, listener),
    close: () => api.close(),
  }
}

interface Request {
  readonly id: string
  readonly requestId?: string
  readonly ttlMs?: number
  readonly priority?: number
  readonly group?: string
  readonly parent?: { readonly id: string }
}

interface Answer {
  readonly kind: string
  readonly repeated?: boolean
  readonly notWaiting?: string | null
  readonly lease?: { readonly id: string; readonly renewals: number } | null
}

/** A request for several things counts as one for each of them. */
export function tapped(api: LeaseApi, incarnation: Incarnation): LeaseApi {
  const listen = <Result extends Answer>(
    method: ApiMethod,
    requests: readonly Request[],
    call: () => Promise<Result>,
  ): Promise<Result> => listenTo(incarnation, { method, requests }, call)
  return {
    ...sameApi(api),
    acquire: (request, requester) => {
      return listen('acquire', [request], () => api.acquire(request, requester))
    },
    claim: (ticket, requester) => listen('claim', [ticket], () => api.claim(ticket, requester)),
    acquireAll: ({ members, ...common }, requester) => {
      const requests = members.map((member) => ({ ...common, ...member }))
      return listen('acquire_all', requests, () =>
        api.acquireAll({ members, ...common }, requester),
      )
    },
    claimAll: (request, requester) => {
      return listen('claim_all', request.tickets, () => api.claimAll(request, requester))
    },
    withdraw: (ticket, requester) => {
      return listen('withdraw', [ticket], () => api.withdraw(ticket, requester))
    },
    renew: (request) => listen('renew', [request], () => api.renew(request)),
    release: (request) => listen('release', [request], () => api.release(request)),
    releaseAll: (request) =>
      listenToEach(incarnation, request.members, () => api.releaseAll(request)),
    revoke: (request) => listen('revoke', [request], () => api.revoke(request)),
    upgrade: (request) => listen('upgrade', [request], () => api.upgrade(request)),
    downgrade: (request) => listen('downgrade', [request], () => api.downgrade(request)),
    update: (request) => listen('update', [request], () => api.update(request)),
    transfer: (request) => listen('transfer', [request], () => api.transfer(request)),
    adopt: (request) => listen('adopt', [request], () => api.adopt(request)),
    derive: (request) => listen('derive', [request], () => api.derive(request)),
    spend: (request) => listen('spend', [request], () => api.spend(request)),
  }
}

/** Releases of several leases at once, each with an answer of its own. */
async function listenToEach<Result extends Answer>(
  incarnation: Incarnation,
  requests: readonly Request[],
  call: () => Promise<readonly Result[]>,
): Promise<readonly Result[]> {
  const answers = call()
  const each = requests.map((request, index) => {
    return listenTo(incarnation, { method: 'release', requests: [request] }, async () => {
      const answer = (await answers)[index]
      if (answer === undefined) throw new Error('a release was left without an answer')
      return answer
    })
  })
  return Promise.all(each)
}

async function listenTo<Result extends Answer>(
  { process: { log, world }, who }: Incarnation,
  { method, requests }: { readonly method: ApiMethod; readonly requests: readonly Request[] },
  call: () => Promise<Result>,
): Promise<Result> {
  const sentUs = world.nowUs
  const heard = (answer: string, lease: Answer['lease']): void => {
    log.count(`${method}: ${answer}`)
    const renewals = lease?.renewals ?? null
    for (const { id: leaseId, requestId = null } of requests) {
      const facts = { method, leaseId, requestId, answer, sentUs, renewals }
      log.write({ kind: 'answered', ...who, ...facts, givenId: lease?.id ?? null })
    }
  }
  for (const { id: leaseId, requestId = null, ttlMs = null, priority = 0, ...rest } of requests) {
    const { group = null, parent } = rest
    const relations = { group, parentId: parent?.id ?? null }
    log.write({ kind: 'asked', ...who, method, leaseId, requestId, ttlMs, priority, ...relations })
  }
  try {
    const answer = await call()
    if (answer.repeated === true) log.count(`${method}: repeated`)
    if (answer.notWaiting === 'own') log.count(`${method}: held by its own`)
    heard(answer.kind, answer.lease)
    return answer
  } catch (error) {
    heard(isLeaseError(error) ? error.code : 'foreign_error', null)
    throw error
  }
}
