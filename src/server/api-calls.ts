/**
 * Requests as `src/protocol` names them, made of a `LeaseApi` in the rights of a caller: what HTTP may leave out is filled in,
 * the request is authorised and made, and what became of it is an answer or an error.
 */
import { isLeaseError, LeaseError } from '../core/errors.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { refusalError, type Refusal } from '../core/outcome.ts'
import type { Resource } from '../core/resource.ts'
import { isApiCall, readRequest, REQUESTS, type RequestName } from '../protocol/requests.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import { authorise, shownAnswer, shownError } from './authorise.ts'
import type { Call, Fields } from './call.ts'

/** Whoever cannot keep, end or leave what it has loses more than time. */
const UNCOUNTED: ReadonlySet<RequestName> = new Set<RequestName>([
  ...(['renew', 'release', 'releaseAll', 'claim', 'claimAll'] as const),
  // The calls of a batch are counted one by one.
  ...(['withdraw', 'withdrawUpgrade', 'batch'] as const),
])

/** Whether a request may be refused for being one too many. */
export function isCounted(name: RequestName): boolean {
  return !UNCOUNTED.has(name)
}

/** For a question that a renewal or a release begins with. */
export function uncounted(call: Call): Call {
  return { ...call, count: () => undefined }
}

/** One call in the rights of a caller, shown as far as that one may see. Throws what the caller is to hear of an error. */
export async function askedCall(call: Call, name: RequestName, request: Fields): Promise<unknown> {
  try {
    if (isCounted(name)) call.count()
    const read = readRequest(name, request) as Fields
    const full = { ...read, ...tokenNameOf(call, name), ...(await ttlOf(call, name, read)) }
    await authorise(call, name, full)
    const answer = await callApi(call.store.api, name, full)
    const refusal = refusalIn(answer)
    if (refusal !== null) call.onRefused(refusal)
    return shownAnswer(call.caller, answer) ?? null
  } catch (error) {
    call.onRefused(error)
    throw isLeaseError(error) ? shownError(call.caller, error) : error
  }
}

/** Fills in what a request over HTTP may leave out: ids, sessions, names, and a TTL that the token allows. */
export async function complete(call: Call, name: RequestName, request: Fields): Promise<Fields> {
  const { fields } = REQUESTS[name]
  const holder = String(request['holder'] ?? request['by'])
  const newId = (made: string): string => call.requestIdOf(holder, made)
  const id = request['id'] ?? (MAKING.has(name) ? newId('id') : undefined)
  const several = 'group' in fields ? severalOf(request, newId) : {}
  const filled: Fields = {
    ...(id === undefined ? {} : { id }),
    ...several,
    ...(NEEDING_SESSION.has(name) ? { session: request['session'] ?? id ?? several.group } : {}),
    ...('newId' in fields ? { newId: request['newId'] ?? newId('newId') } : {}),
    ...('mayWait' in fields ? { mayWait: request['mayWait'] ?? false } : {}),
    ...tokenNameOf(call, name),
    ...('requestId' in fields ? { requestId: call.requestIdOf(holder) } : {}),
  }
  return { ...request, ...filled, ...(await ttlOf(call, name, request)) }
}

/** Their ids are those of new leases. */
const MAKING: ReadonlySet<RequestName> = new Set<RequestName>(['acquire', 'derive'])

/** Where nobody names a session, the lease's own id is one. */
const NEEDING_SESSION: ReadonlySet<RequestName> = new Set<RequestName>([
  ...(['acquire', 'acquireAll', 'withdraw', 'adopt', 'derive'] as const),
])

/** Whether repeating a request under one `Idempotency-Key` is one request; the others are questions, or may be sent twice. */
export function isNamedByKey(name: RequestName): boolean {
  const { fields } = REQUESTS[name]
  return MAKING.has(name) || 'group' in fields || 'requestId' in fields
}

interface Several {
  readonly group?: unknown
  readonly members?: readonly Fields[]
}

/** Where nobody names the group, its first member does: a request that is repeated under the same ids is of the same group. */
function severalOf({ group, members }: Several, newId: (made: string) => string): Several {
  const named = (members ?? []).map((member, index) => {
    return { ...member, id: member['id'] ?? newId(`member ${index}`) }
  })
  return { group: group ?? named[0]?.id, members: named }
}

/** What a caller says of its token is not believed; without tokens, or by a grant, an entry has no name of one. */
export function tokenNameOf({ caller }: Call, name: RequestName): Fields {
  if (!('tokenName' in REQUESTS[name].fields)) return {}
  return { tokenName: caller.token?.name }
}

const GRANTING: ReadonlySet<RequestName> = new Set<RequestName>(['acquire', 'acquireAll'])

/** The configured default may be more than the token allows. */
export async function ttlOf(
  { caller, store }: Call,
  name: RequestName,
  { ttlMs, resource }: Fields,
): Promise<Fields> {
  if (caller.maxTtlMs === null || ttlMs !== undefined || !GRANTING.has(name)) return {}
  const settings = await store.api.settings({ resource: (resource ?? null) as Resource | null })
  return { ttlMs: Math.min(settings.default_ttl_seconds * 1_000, caller.maxTtlMs) }
}

type OneCall = (request: unknown) => Promise<unknown>

/** Makes a request that is one answer; `LeaseApi` reads it. A refusal is a value here. */
export function callApi(api: LeaseApi, name: RequestName, request: Fields): Promise<unknown> {
  if (!isApiCall(name)) {
    throw new LeaseError('INVALID_INPUT', `call must be one with an answer, got ${name}`, {
      details: { field: 'call' },
    })
  }
  return (api[name] as OneCall)(request)
}

/** What a change that was not refused has come to. */
export const DONE: ReadonlySet<unknown> = new Set([
  ...['granted', 'granted_all', 'renewed', 'released', 'revoked', 'upgraded', 'upgrading'],
  ...['upgrade_withdrawn', 'downgraded', 'updated', 'transferred', 'advanced', 'withdrawn'],
  'spent',
])

interface Outcome {
  readonly kind: string
  readonly lease?: LeaseInfo | null
}

/** What came of a change, with the store's time; throws what it was refused for. */
export function doneAnswer(outcome: unknown): object {
  const { kind, ...rest } = outcome as Outcome
  if (!DONE.has(kind)) throw refusalError(outcome as Refusal)
  return withNow(rest, rest.lease === undefined || rest.lease === null ? [] : [rest.lease])
}

const UNDER_WAY: ReadonlySet<string> = new Set(['queued', 'queued_all', 'waiting', 'dropped'])

/** Why a call was refused; null for every other answer. */
export function refusalIn(answer: unknown): LeaseError | null {
  const kind =
    typeof answer === 'object' && answer !== null && 'kind' in answer ? answer.kind : null
  if (typeof kind !== 'string' || DONE.has(kind) || UNDER_WAY.has(kind)) return null
  return refusalError(answer as Refusal)
}

/** Adds the store's time, where a lease tells it: one that is active says when it ends and how long that is from now. */
export function withNow(answer: object, leases: readonly LeaseInfo[]): object {
  const active = leases.find(({ state }) => state === 'active')
  if (active === undefined || active.expiresAtMs === null) return answer
  return { ...answer, nowMs: Math.round(active.expiresAtMs - active.remainingMs) }
}
