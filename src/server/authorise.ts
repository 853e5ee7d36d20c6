/**
 * Whether a caller may make a request. The rules follow from the fields of the request, so that a new route has them
 * without a word: its role, its holders, its resources, and the limits of the token.
 */
import { LeaseError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import type { CycleStep } from '../core/lease.ts'
import type { Resource } from '../core/resource.ts'
import { REQUESTS, type RequestName } from '../protocol/requests.ts'
import type { Call, Fields } from './call.ts'
import {
  maySee,
  refuseGrant,
  requireHolder,
  requireResource,
  requireRole,
  requireWithinLimits,
  type Caller,
} from './caller.ts'
import { forbidden } from './problem.ts'
import { tooMany } from './request-limiter.ts'

/** Throws what the request is refused for. */
export async function authorise(call: Call, name: RequestName, request: Fields): Promise<void> {
  const { caller } = call
  if (caller.grant !== null) return requireGranted(call, name, request)
  const { role } = REQUESTS[name]
  requireRole(caller, role)
  if (role === 'holder') requireHolders(caller, request)
  for (const resource of resourcesOf(request)) requireResource(caller, resource)
  requireWithinLimits(caller, request)
  if (caller.resources.length > 0) await requireVisibleLeases(call, request)
  if (NEW_ENTRIES.has(name)) await requireQuota(call, request)
}

/** Every resource that a request names. */
function resourcesOf(request: Fields): readonly Resource[] {
  const { resource, members, tickets } = request
  const parts = [members, tickets].flatMap((list) => (Array.isArray(list) ? list : []))
  const named = [resource, ...parts.map((part: Fields) => part['resource'])]
  return named.filter((one): one is Resource => typeof one === 'string')
}

const GRANTED: ReadonlySet<RequestName> = new Set<RequestName>(['spend', 'release'])

/** The lease of the grant, as it was when the grant was signed: one that was upgraded since has another fence. */
async function requireGranted(call: Call, name: RequestName, request: Fields): Promise<void> {
  const { caller, store } = call
  const { grant } = caller
  const { id, holder } = request
  if (grant === null || !GRANTED.has(name)) return refuseGrant(caller)
  if (id !== grant.id || holder !== grant.holder) {
    throw forbidden(`${caller.name} must use its own lease, as ${grant.holder}`, { field: 'id' })
  }
  const lease = await store.api.get({ id: grant.id })
  if (lease === null || lease.fence === grant.fence) return
  const message = `lease ${grant.id} has the fence ${lease.fence}, the grant ${grant.fence}`
  throw new LeaseError('STALE_FENCE', message, { details: { leaseId: grant.id } })
}

const NEW_ENTRIES: ReadonlySet<RequestName> = new Set<RequestName>([
  'acquire',
  'acquireAll',
  'derive',
])

/** Whoever acts, whoever is given something, and whoever derives from what it has. */
function requireHolders(caller: Caller, request: Fields): void {
  const { holder, to, by, tickets } = request
  const inTickets = Array.isArray(tickets) ? tickets.map((ticket: Fields) => ticket['holder']) : []
  for (const [field, one] of [
    ['holder', holder],
    ['to', to],
    ['by', by],
  ] as const) {
    if (typeof one === 'string') requireHolder(caller, one, field)
  }
  for (const one of inTickets) if (typeof one === 'string') requireHolder(caller, one)
}

/**
 * The resource of an id never changes, so a look-up before the commit decides nothing that could change meanwhile. What a
 * request says of the resource is not believed.
 */
async function requireVisibleLeases({ caller, store }: Call, request: Fields): Promise<void> {
  const { parent, members, tickets } = request
  const parts = [request, parent, members, tickets].flat() as readonly (Fields | undefined)[]
  for (const id of parts.map((part) => part?.['id'])) {
    if (typeof id !== 'string') continue
    const lease = await store.api.get({ id })
    if (lease !== null && !maySee(caller, lease.resource)) {
      throw forbidden(`${caller.name} must not use lease ${id}`, { field: 'id' })
    }
  }
}

/**
 * What is asked for anew counts, one by one; what is live under its id already is asked for again. What other requests have
 * under way at this moment is not counted, so a few more may come in together.
 */
async function requireQuota({ caller, store }: Call, request: Fields): Promise<void> {
  const { maxLeases, name, as } = caller
  if (maxLeases === null) return
  await store.loaded()
  const { members = [request] } = request as { readonly members?: readonly Fields[] }
  const added = members.filter(({ id }) => !store.live.has(String(id))).length
  if (added === 0 || store.live.countOf(as) + added <= maxLeases) return
  const message = `${name} must have at most ${maxLeases} leases and waiting requests`
  throw tooMany(message, { limit: maxLeases })
}

type Named = Readonly<Record<string, unknown>>

/**
 * What a refusal may tell this caller. Of a resource that it may not see it hears who is in the way, and nothing else: not
 * even the message, which would name it.
 */
export function shownError(caller: Caller, error: LeaseError): LeaseError {
  const { blockers, cycle, resource } = error.details
  const parts = [blockers, cycle].flatMap((list) => (Array.isArray(list) ? (list as Named[]) : []))
  const isHidden = (one: Named): boolean => !maySee(caller, String(one['resource']))
  const hidesResource =
    typeof resource === 'string' && !resource.split(', ').every((one) => maySee(caller, one))
  if (!hidesResource && !parts.some(isHidden)) return error
  const shown = (list: unknown): unknown => {
    return Array.isArray(list) ? list.map((one: Named) => shownPart(caller, one)) : list
  }
  const who = [...new Set(parts.map((one) => String(one['holder'])))].slice(0, HOLDERS_NAMED_MAX)
  const { resource: _resource, ...rest } = error.details
  const details = {
    ...(hidesResource ? rest : error.details),
    ...(blockers === undefined ? {} : { blockers: shown(blockers) }),
    ...(cycle === undefined ? {} : { cycle: shown(cycle) }),
  }
  const { code, effect } = error
  const message = who.length === 0 ? 'it is not yours to see' : `in the way: ${who.join(', ')}`
  return new LeaseError(code, message, { details, effect })
}

const HOLDERS_NAMED_MAX = 3

/** A blocker or a step of a cycle, as this caller may see it. */
function shownPart(caller: Caller, part: Named): Named {
  return maySee(caller, String(part['resource'])) ? part : { holder: part['holder'] }
}

/** A cycle that was broken names everything that its waiters waited for, and the event says it once more in its reason. */
export function shownEvent(caller: Caller, event: LeaseEvent): LeaseEvent {
  if (event.type !== 'lease.failed' || event.cycle === null) return event
  const { cycle, failure: reason } = event
  if (cycle.every(({ resource }) => maySee(caller, resource))) return event
  const steps = cycle.map((step) => shownPart(caller, { ...step }) as unknown as CycleStep)
  return { ...event, reason, cycle: steps }
}

/** An answer of the library without what this caller may not see. */
export function shownAnswer(caller: Caller, answer: unknown): unknown {
  if (caller.role === 'operator' || caller.resources.length === 0) return answer
  if (Array.isArray(answer)) return shownRows(caller, answer as readonly Named[])
  if (typeof answer !== 'object' || answer === null) return answer
  const entries = Object.entries(answer).map(([name, part]: [string, unknown]) => {
    return [name, Array.isArray(part) ? shownList(caller, name, part) : part]
  })
  return Object.fromEntries(entries) as unknown
}

function shownList(caller: Caller, name: string, list: readonly Named[]): unknown {
  if (name === 'leases' || name === 'queue') return list.filter((one) => isShown(caller, one))
  if (name === 'blockers' || name === 'cycle') return list.map((one) => shownPart(caller, one))
  if (name !== 'cycles') return list
  return list.map((cycle) => (cycle as unknown as Named[]).map((step) => shownPart(caller, step)))
}

function shownRows(caller: Caller, rows: readonly Named[]): readonly Named[] {
  const shown = rows.filter((row) => isShown(caller, row))
  return shown.map((row) => {
    const { event } = row
    return event === undefined ? row : { ...row, event: shownEvent(caller, event as LeaseEvent) }
  })
}

/** A lease, an event of the ledger, or a row of the configuration. */
function isShown(caller: Caller, { resource, event, scope, resourceId }: Named): boolean {
  const configured = scope === 'resource' ? resourceId : undefined
  const named = resource ?? (event as Named | undefined)?.['resource'] ?? configured
  return typeof named !== 'string' || maySee(caller, named)
}
