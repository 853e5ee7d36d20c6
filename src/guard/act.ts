/**
 * A guarded act: who acts, under which fence, on what. Read once from whatever the caller passes as its lease, so that
 * all guards accept and refuse the same things.
 */
import { invalid, LeaseError } from '../core/errors.ts'
import { parseExtent, parseLeaseId, parseMode, parseSlots, refuseUnknown } from '../core/input.ts'
import {
  covers,
  isTree,
  parseResource,
  type Extent,
  type Mode,
  type Reach,
  type Resource,
} from '../core/resource.ts'

/** Anything that says what a lease is: a handle, an answer of the API, or what a caller was handed by its own caller. */
export interface GuardedLease {
  readonly id: string
  readonly resource: string
  readonly fence: number
  /** Default `exclusive`, or `shared` for a lease with slots. */
  readonly mode?: Mode
  /** Default `exact`. */
  readonly extent?: Extent
  readonly slots?: number | null
  /** Of a derived lease: the lease at the root of its line, which it acts for. As in a verified grant, or with `id`. */
  readonly root?: GuardedRoot
  /** Not null for a derived lease, which must name its root. */
  readonly parentId?: string | null
  readonly delegation?: { readonly line: readonly string[] }
}

export type GuardedRoot =
  | { readonly id: string; readonly fence: number }
  | { readonly leaseId: string; readonly fence: number }

export interface WriteOptions {
  /** What is written, when it is less than the lease covers. */
  readonly resource?: string
}

export interface Act {
  /** Null when the caller did not say: then an equal fence is taken for its own. */
  readonly leaseId: string | null
  readonly fence: number
  readonly shared: boolean
  /** What is written. A subtree: everything below it, too. */
  readonly target: Reach
  /** What the lease covers. */
  readonly reach: Reach
}

export interface ActReading {
  /** The options that the guard has. */
  readonly known: readonly string[]
  /** The one name of something that has several. */
  readonly canonical: (resource: Resource) => Resource
}

const PLAIN_READING: ActReading = { known: ['resource'], canonical: (resource) => resource }

export function readAct(
  lease: GuardedLease,
  options: WriteOptions = {},
  { known, canonical }: ActReading = PLAIN_READING,
): Act {
  refuseUnknown(options, known)
  if (typeof lease !== 'object' || lease === null) {
    throw invalid('lease', 'must be an object with id, resource and fence', lease)
  }
  const { id, fence } = actorOf(lease)
  const reach = reachOf(lease, canonical)
  return {
    leaseId: parseLeaseId(id, 'lease.id'),
    fence: parseFence(fence, 'lease.fence'),
    shared: isShared(lease),
    target: targetOf(reach, options.resource, canonical),
    reach,
  }
}

/** A derived lease has a fence of its own, which would shut out the root that it acts for. */
function actorOf(lease: GuardedLease): { readonly id: unknown; readonly fence: unknown } {
  const { root, parentId, delegation } = lease
  if (root !== undefined && root !== null) {
    return { id: 'leaseId' in root ? root.leaseId : root.id, fence: root.fence }
  }
  const above = parentId ?? delegation?.line.at(-1) ?? null
  if (above === null) return lease
  throw invalid('lease.root', 'must be given for a derived lease: the id and fence', root)
}

/** For a caller that knows a fence and nothing else. */
export function plainAct(
  resource: unknown,
  fence: unknown,
  { canonical }: ActReading = PLAIN_READING,
): Act {
  const target: Reach = { resource: canonical(parseResource(resource)), extent: 'exact' }
  return {
    leaseId: null,
    fence: parseFence(fence, 'fence'),
    shared: false,
    target,
    reach: target,
  }
}

export function parseFence(value: unknown, field: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 1) return value
  throw invalid(field, `must be an integer 1..${Number.MAX_SAFE_INTEGER}`, value)
}

function reachOf({ resource, extent }: GuardedLease, canonical: ActReading['canonical']): Reach {
  return {
    resource: canonical(parseResource(resource)),
    extent: extent === undefined ? 'exact' : parseExtent(extent),
  }
}

/** A slot is one of several leases at once, whatever its mode is called. */
function isShared({ mode, slots }: GuardedLease): boolean {
  if (slots !== undefined && slots !== null) return parseSlots(slots) > 0
  return mode !== undefined && parseMode(mode) === 'shared'
}

/** A flat resource has nothing below it, so that its extent does not matter. */
function targetOf(
  reach: Reach,
  narrower: string | undefined,
  canonical: ActReading['canonical'],
): Reach {
  if (narrower === undefined) {
    return isTree(reach.resource) ? reach : { resource: reach.resource, extent: 'exact' }
  }
  const target: Reach = { resource: canonical(parseResource(narrower)), extent: 'exact' }
  if (covers(reach, target)) return target
  throw outsideError(reach, target.resource)
}

function outsideError(reach: Reach, resource: Resource): LeaseError {
  const message = `resource must be covered by the lease of ${reach.resource}, got ${resource}`
  const details = { field: 'resource', resource, lease: reach.resource, extent: reach.extent }
  return new LeaseError('SCOPE_VIOLATION', message, { details })
}
