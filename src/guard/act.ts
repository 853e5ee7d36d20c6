/**
 * A guarded act: who acts, under which fence, on what. Read once from whatever the caller passes as its lease, so that
 * all guards accept and refuse the same things. At the end is what its work must not do.
 */
import { rootOf, type Delegation } from '../core/delegation.ts'
import { invalid, LeaseError } from '../core/errors.ts'
import type { FencedLease } from '../core/fenced-lease.ts'
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
import { reportTo } from '../runtime/diagnostics.ts'

/**
 * Anything that says what a lease is: a handle of any kind, an answer of the API, a verified grant, or what a caller was
 * handed by its own caller.
 */
export interface GuardedLease
  extends
    Pick<FencedLease, 'id' | 'resource' | 'fence'>,
    Partial<Pick<FencedLease, 'mode' | 'extent' | 'slots'>> {
  /** Of a derived lease: the lease that it acts for. */
  readonly root?: GuardedRoot | null
  /** Not null for a derived lease, which must name its root. */
  readonly parentId?: string | null
  /** Of a derived lease, as the API describes it. */
  readonly delegation?: Pick<Delegation, 'line' | 'rootFence' | 'rootMode'>
}

/** `leaseId` as in a verified grant. Default mode: `exclusive`. */
export type GuardedRoot = { readonly fence: number; readonly mode?: Mode } & (
  { readonly id: string } | { readonly leaseId: string }
)

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
  readonly reach: Reach
}

export interface ActReading {
  /** The options that the guard has. */
  readonly known: readonly string[]
  /** The one name of what a text names. */
  readonly resourceOf: (text: unknown) => Resource
}

const PLAIN_READING: ActReading = { known: ['resource'], resourceOf: parseResource }

export function readAct(
  lease: GuardedLease,
  options: WriteOptions = {},
  { known, resourceOf }: ActReading = PLAIN_READING,
): Act {
  refuseUnknown(options, known)
  if (typeof lease !== 'object' || lease === null) {
    throw invalid('lease', 'must be an object with id, resource and fence', lease)
  }
  const reach = reachOf(lease, resourceOf)
  return {
    ...actorOf(lease),
    target: targetOf(reach, options.resource, resourceOf),
    reach,
  }
}

/**
 * Who acts. A derived lease acts for its root and as its root holds the resource, alone or shared: its own fence would
 * shut the root out, and its own mode would let an earlier sharer in beside a root that is alone.
 */
function actorOf(lease: GuardedLease): Pick<Act, 'leaseId' | 'fence' | 'shared'> {
  const root = lease.root ?? rootOf(lease)
  if (root !== null) {
    return {
      leaseId: parseLeaseId('leaseId' in root ? root.leaseId : root.id, 'lease.root.id'),
      fence: parseFence(root.fence, 'lease.root.fence'),
      shared: root.mode !== undefined && parseMode(root.mode) === 'shared',
    }
  }
  if (typeof lease.parentId === 'string') {
    throw invalid('lease.root', 'must be given for a derived lease: the id and fence', lease.root)
  }
  return {
    leaseId: parseLeaseId(lease.id, 'lease.id'),
    fence: parseFence(lease.fence, 'lease.fence'),
    shared: isShared(lease),
  }
}

/** How a fence is held by a caller that does not know the lease. */
export interface HeldAs {
  /** Default `exclusive`; `shared` for a slot as well. */
  readonly mode?: Mode
  /** Default `exact`. */
  readonly extent?: Extent
}

/**
 * What `check` takes: a lease, or a fence and what it is of. It is true if no later holder was seen, and from now on older ones
 * are refused; otherwise it throws `STALE_FENCE`. A lease of a subtree refuses them below it, too; a shared one, or a slot, does
 * not refuse those with whom it shares.
 */
export type CheckArguments =
  [lease: GuardedLease, options?: WriteOptions] | [resource: string, fence: number, held?: HeldAs]

export function readCheck(asked: CheckArguments, reading: ActReading = PLAIN_READING): Act {
  const [lease] = asked
  if (typeof lease !== 'string') {
    const [, options] = asked as [GuardedLease, WriteOptions?]
    return readAct(lease, options, reading)
  }
  const [resource, fence, held = {}] = asked as [string, number, HeldAs?]
  refuseUnknown(held, ['mode', 'extent'])
  const reach = reachOf({ ...held, resource }, reading.resourceOf)
  return {
    leaseId: null,
    fence: parseFence(fence, 'fence'),
    shared: isShared(held),
    target: targetOf(reach, undefined, reading.resourceOf),
    reach,
  }
}

export function parseFence(value: unknown, field: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 1) return value
  throw invalid(field, `must be an integer 1..${Number.MAX_SAFE_INTEGER}`, value)
}

function reachOf(
  { resource, extent }: Pick<GuardedLease, 'resource' | 'extent'>,
  resourceOf: ActReading['resourceOf'],
): Reach {
  return {
    resource: resourceOf(resource),
    extent: extent === undefined ? 'exact' : parseExtent(extent),
  }
}

/** A slot is one of several leases at once, whatever its mode is called. */
function isShared({ mode, slots }: Pick<GuardedLease, 'mode' | 'slots'>): boolean {
  if (slots !== undefined && slots !== null) {
    parseSlots(slots)
    return true
  }
  return mode !== undefined && parseMode(mode) === 'shared'
}

/** A flat resource has nothing below it, so that its extent does not matter. */
function targetOf(
  reach: Reach,
  narrower: string | undefined,
  resourceOf: ActReading['resourceOf'],
): Reach {
  if (narrower === undefined) {
    return isTree(reach.resource) ? reach : { resource: reach.resource, extent: 'exact' }
  }
  const target: Reach = { resource: resourceOf(narrower), extent: 'exact' }
  if (covers(reach, target)) return target
  throw outsideError(reach, target.resource)
}

function outsideError(reach: Reach, resource: Resource): LeaseError {
  const message = `resource must be covered by the lease of ${reach.resource}, got ${resource}`
  const details = { field: 'resource', resource, lease: reach.resource, extent: reach.extent }
  return new LeaseError('SCOPE_VIOLATION', message, { details })
}

const AsyncFunction = (async () => undefined).constructor

/**
 * Where what protects the work ends when it returns, it must be done then: an async function is refused before it runs,
 * because its second half would write what no guard checks any more.
 */
export function requireSynchronous(work: unknown): void {
  if (typeof work !== 'function') throw invalid('work', 'must be a function', work)
  if (work instanceof AsyncFunction) {
    throw invalid('work', 'must not be asynchronous', 'an async function')
  }
}

/** A promise that came all the same is refused, and when it fails later it is reported: no caller hears of it. */
export function requireResult<Result>(result: Result): Result {
  if (!isThenable(result)) return result
  Promise.resolve(result).catch(reportTo('guard/refused-work'))
  throw invalid('work', 'must not be asynchronous', 'a promise')
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  if (typeof value !== 'object' || value === null) return false
  return 'then' in value && typeof value.then === 'function'
}

/** Of work that has ended the transaction in which its mark was raised, whether or not it has begun another. */
export function endedError(): LeaseError {
  const message = 'work must not end the transaction, got one that did: what it wrote may stand'
  return new LeaseError('INVALID_INPUT', message, { details: { field: 'work' }, effect: 'unknown' })
}
