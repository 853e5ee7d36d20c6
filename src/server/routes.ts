/**
 * What a server answers, one line for each route: method, path, and the request of `src/protocol` that it is. Role, fields,
 * bounds and schema follow from that.
 */
import { invalid, LeaseError } from '../core/errors.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { LIST_LIMIT_DEFAULT } from '../core/limits.ts'
import { authorizeGrant } from '../delegation/authorize-grant.ts'
import { LEASE_TTL_MS_DEFAULT } from '../fleet/fleet-options.ts'
import { overviewOf } from '../fleet/fleet-overview.ts'
import { fleetOf } from '../fleet/lease-layout.ts'
import { verifyGrant } from '../registrar/grant.ts'
import { BATCH_BYTES_MAX, BATCH_PATH, EVENTS_PATH } from '../protocol/http.ts'
import type { RequestName, RequestOf } from '../protocol/requests.ts'
import type {
  AcquireAllRequest,
  AcquireRequest,
  Inspection,
  LeaseList,
  LedgerEntry,
} from '../service/lease-api.ts'
import { listWhole } from '../service/list-all.ts'
import { askedCall, callApi, doneAnswer, withNow } from './api-calls.ts'
import { shownAnswer } from './authorise.ts'
import type { Call, Fields, Route } from './call.ts'
import { maySee, requireResource } from './caller.ts'
import { forbidden, goneIfForeign, httpError, isForeignPosition, problemOf } from './problem.ts'

const LEASE = '/v1/leases/{id}'

export const ROUTES: readonly Route[] = [
  { method: 'POST', path: '/v1/leases', name: 'acquire', status: 201, answer: acquire },
  { method: 'POST', path: '/v1/leases/all', name: 'acquireAll', status: 201, answer: acquireAll },
  { method: 'GET', path: '/v1/leases', name: 'list', answer: list },
  { method: 'GET', path: LEASE, name: 'get', answer: get },
  {
    ...{ method: 'POST', path: `${LEASE}/withdraw`, name: 'withdraw' },
    ...{ defaults: { why: 'aborted' }, answer: change('withdraw') },
  },
  changing('renew'),
  changing('release'),
  changing('transfer'),
  changing('adopt'),
  changing('upgrade'),
  changing('downgrade'),
  { ...changing('derive'), path: '/v1/leases/{parent}/derive', status: 201 },
  changing('spend'),
  changing('advance'),
  changing('revoke'),
  {
    ...{ method: 'POST', path: '/v1/holders/{holder}/release-all', name: 'revokeAll' },
    answer: async (call, request) => {
      return { revoked: await callApi(call.store.api, 'revokeAll', request) }
    },
  },
  { method: 'GET', path: '/v1/resources', name: 'inspect', answer: inspect },
  { method: 'GET', path: EVENTS_PATH, name: 'history', answer: history },
  { method: 'GET', path: '/v1/config', name: 'settings', answer: settings },
  {
    ...{ method: 'PATCH', path: '/v1/config', name: 'configure' },
    ...{ defaults: { scope: 'global', resourceId: null }, answer: configure },
  },
  { method: 'GET', path: '/v1/fleets/{prefix}', name: 'fleet', answer: fleet },
  { method: 'POST', path: '/v1/grants/authorize', name: 'authorize', answer: authorizeAct },
  {
    ...{ method: 'POST', path: BATCH_PATH, name: 'batch' },
    ...{ bodyBytesMax: BATCH_BYTES_MAX, answer: batch },
  },
]

function changing(name: RequestName): Route {
  return { method: 'POST', path: `${LEASE}/${name}`, name, answer: change(name) }
}

function change(name: RequestName): Route['answer'] {
  return async ({ store }, request) => doneAnswer(await callApi(store.api, name, request))
}

async function acquire({ store, connection }: Call, request: Fields): Promise<object> {
  const { waitMs = 0, ...asked } = request as unknown as AcquireRequest
  const wanted = { ...asked, waitMs }
  const { leases, waitedMs } = await store.waits.acquire(wanted, connection)
  return withNow({ lease: waited(leases, waitMs, waitedMs)[0] }, leases)
}

async function acquireAll({ store, connection }: Call, request: Fields): Promise<object> {
  const { waitMs = 0, ...asked } = request as unknown as AcquireAllRequest
  const wanted = { ...asked, waitMs }
  const { leases, waitedMs } = await store.waits.acquireAll(wanted, connection)
  return withNow({ leases: waited(leases, waitMs, waitedMs) }, leases)
}

/** After a wait, from when its holder must count. */
function waited(
  leases: readonly LeaseInfo[],
  waitMs: number | 'configured',
  waitedMs: number,
): readonly object[] {
  return waitMs === 0 ? leases : leases.map((lease) => ({ ...lease, waitedMs }))
}

async function get({ caller, store }: Call, request: Fields): Promise<object> {
  const lease = (await callApi(store.api, 'get', request)) as LeaseInfo | null
  if (lease === null) {
    const { id } = request
    const message = `no lease has the id ${String(id)}`
    throw new LeaseError('LEASE_NOT_FOUND', message, { details: { leaseId: id } })
  }
  requireResource(caller, lease.resource)
  return withNow({ lease }, [lease])
}

async function list({ caller, store }: Call, filter: Fields): Promise<object> {
  const position = await store.feed.position()
  const page = shownAnswer(caller, await callApi(store.api, 'list', filter)) as LeaseList
  return withNow({ ...page, position }, page.leases)
}

async function inspect({ caller, store }: Call, request: Fields): Promise<object> {
  const position = await store.feed.position()
  const found = shownAnswer(caller, await callApi(store.api, 'inspect', request)) as Inspection
  return withNow({ ...found, position }, found.leases)
}

/**
 * `next` is the `after` of the next page; an empty page has shown all there is. A position is refused once events behind it
 * were pruned. With `~` it is one of a reader that began with the first event that is kept, and has come no further yet than
 * where some are missing: it gets what is kept.
 */
async function history({ caller, store }: Call, filter: Fields): Promise<object> {
  const { after = GO_ON_WITH_KEPT, limit, newestFirst = false } = filter as RequestOf<'history'>
  const unbroken = newestFirst !== true && !after.endsWith(GO_ON_WITH_KEPT)
  const position = after.replace(GO_ON_WITH_KEPT, '')
  const where = { ...filter, unbroken, after: position === '' ? undefined : position }
  const events = await eventsOf(store, where)
  const shown = shownAnswer(caller, events)
  const last = events.at(-1)?.position
  if (last === undefined) return { events: shown }
  if (unbroken || newestFirst === true) return { events: shown, next: last }
  const prunedUpTo = await prunedBehind(store, last)
  const isWhole = events.length < (limit ?? LIST_LIMIT_DEFAULT)
  const next = isWhole ? prunedUpTo : `${last}${GO_ON_WITH_KEPT}`
  return { events: shown, next: prunedUpTo === null ? last : next }
}

const GO_ON_WITH_KEPT = '~'

async function eventsOf({ api }: Call['store'], where: Fields): Promise<readonly LedgerEntry[]> {
  try {
    return (await callApi(api, 'history', where)) as readonly LedgerEntry[]
  } catch (error) {
    throw goneIfForeign(error)
  }
}

/** Up to where events behind a position were pruned; null: none were. */
async function prunedBehind({ api }: Call['store'], after: string): Promise<unknown> {
  try {
    await callApi(api, 'history', { after, unbroken: true, refusals: false, limit: 1 })
    return null
  } catch (error) {
    if (isForeignPosition(error)) return error.details['prunedUpTo'] ?? null
    throw error
  }
}

/** Of the whole namespace, as `tenure fleet` reads it: the layout of leases has one fleet in each. */
async function fleet(call: Call, request: Fields): Promise<object> {
  const { prefix, layout } = request as RequestOf<'fleet'>
  if (layout === 'poll') return pollFleet(call, prefix)
  const { caller, store, runtime } = call
  const active = await listWhole(store.api, { state: 'active' })
  const leases = active.filter(({ resource }) => maySee(caller, resource))
  const isShown = (name: string): boolean => prefix === '*' || name.startsWith(prefix)
  const { nodes, survey } = fleetOf(leases)
  const owned = survey.owned.filter(({ sessionId }) => isShown(sessionId))
  const facts = { nowMs: runtime.wallMs(), leaseTtlMs: LEASE_TTL_MS_DEFAULT }
  return overviewOf(nodes, { ...survey, owned }, facts)
}

/** The keys are no leases, and a token sees of them what it would see of leases with the same names. */
async function pollFleet({ caller, pollFleet: read }: Call, prefix: string): Promise<object> {
  if (read === null)
    throw httpError(404, 'the store must be Redis, which has keys of polling services')
  if (!['*', 'default'].includes(caller.namespace)) {
    throw forbidden('keys of polling services, which have no namespace, are shown in default only')
  }
  const { nodes, sessions } = await read(prefix)
  return {
    nodes: nodes.filter(({ instanceId }) => maySee(caller, `node:${instanceId}`)),
    sessions: sessions.filter(({ sessionId }) => maySee(caller, `session:${sessionId}`)),
  }
}

async function settings({ caller, store }: Call, request: Fields): Promise<object> {
  const inForce = (await callApi(store.api, 'settings', request)) as object
  const overrides = shownAnswer(caller, await callApi(store.api, 'settingRows', {}))
  return { settings: inForce, overrides }
}

async function configure(call: Call, request: Fields): Promise<object> {
  await callApi(call.store.api, 'configure', request)
  return settings(call, {})
}

async function authorizeAct(call: Call, request: Fields): Promise<object> {
  const { keys, runtime } = call
  const {
    grant: token,
    act,
    spending = {},
    audience,
  } = request as unknown as RequestOf<'authorize'>
  if (keys === null) throw invalid('grant', 'must be given to a server that has keys', 'none')
  const options = { now: runtime.wallMs(), ...(audience === undefined ? {} : { audience }) }
  const grant = verifyGrant(token, keys().keys, options)
  authorizeGrant(grant, act, spending)
  const { id: leaseId, holder, resource, expiresAtMs } = grant
  return { allowed: true, leaseId, holder, resource, expiresAtMs }
}

interface BatchedCall {
  readonly call: RequestName
  readonly request: Fields
}

/** Each call is answered, counted and authorised by itself; none waits. */
async function batch(call: Call, request: Fields): Promise<object> {
  const calls = request['calls'] as readonly BatchedCall[]
  return { answers: await Promise.all(calls.map((one) => batched(call, one))) }
}

async function batched(call: Call, { call: name, request }: BatchedCall): Promise<object> {
  try {
    return { answer: await askedCall(call, name, request) }
  } catch (error) {
    const { code, detail: message, retryable, effect, details } = problemOf(error).problem
    return { error: { code, message, retryable, effect, details } }
  }
}

/** The fields of a request that come from its path. */
export function fieldsOfPath({ path }: Route, params: Readonly<Record<string, string>>): Fields {
  const { parent, ...rest } = params
  return path.includes('{parent}') ? { ...rest, parent: { id: parent } } : rest
}
