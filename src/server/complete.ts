/** Fills in what a request over HTTP may leave out: ids, sessions, names, and a TTL that the token allows. */
import { REQUESTS, type RequestName } from '../protocol/requests.ts'
import type { Resource } from '../core/resource.ts'
import type { Call, Fields } from './call.ts'

export async function complete(call: Call, name: RequestName, request: Fields): Promise<Fields> {
  const { fields } = REQUESTS[name]
  const { runtime } = call
  const id = request['id'] ?? (MAKING.has(name) ? runtime.uuid() : undefined)
  const group = 'group' in fields ? (request['group'] ?? runtime.uuid()) : undefined
  const holder = request['holder'] ?? request['by']
  const filled: Fields = {
    ...(id === undefined ? {} : { id }),
    ...(group === undefined ? {} : { group, members: membersOf(call, request) }),
    ...(NEEDING_SESSION.has(name) ? { session: request['session'] ?? id ?? group } : {}),
    ...('newId' in fields ? { newId: request['newId'] ?? runtime.uuid() } : {}),
    ...('mayWait' in fields ? { mayWait: request['mayWait'] ?? false } : {}),
    ...tokenNameOf(call, name),
    ...('requestId' in fields ? { requestId: call.requestIdOf(String(holder)) } : {}),
  }
  return { ...request, ...filled, ...(await ttlOf(call, name, request)) }
}

/** Their ids are those of new leases. */
const MAKING: ReadonlySet<RequestName> = new Set<RequestName>(['acquire', 'derive'])

/** Where nobody names a session, the lease's own id is one. */
const NEEDING_SESSION: ReadonlySet<RequestName> = new Set<RequestName>([
  ...(['acquire', 'acquireAll', 'withdraw', 'adopt', 'derive'] as const),
])

function membersOf({ runtime }: Call, { members }: Fields): readonly Fields[] {
  const listed = members as readonly Fields[]
  return listed.map((member) => ({ ...member, id: member['id'] ?? runtime.uuid() }))
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
