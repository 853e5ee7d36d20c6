/**
 * The rule of every guard, over plain data: which marks an act is measured by, whether it may happen, and which marks
 * it raises. No holder, store or clock is asked, so it works while the lease store is away.
 *
 * A mark is the highest fence that was seen. Each resource has up to three places for one:
 *
 *  - `own`: acts on the resource itself.
 *  - `subtree`: acts under leases that cover everything below the resource. An act below looks here, too: a lease
 *    of the whole directory that came later has ended every lease below.
 *  - `below`: acts anywhere below the resource. Only an act on the whole subtree looks here.
 *
 * Each place has two marks. An exclusive act needs a fence at least as high as both, and raises the exclusive one. A
 * shared act, or one of several slots, needs one at least as high as the exclusive mark, and raises the shared one:
 * holders that share do not order each other's writes.
 */
import { LeaseError } from '../core/errors.ts'
import { ancestorsOf, isTree, type Resource } from '../core/resource.ts'
import type { Act } from './act.ts'

export type Place = 'own' | 'subtree' | 'below'

export interface MarkRef {
  readonly resource: Resource
  readonly place: Place
}

/** The highest fence of its kind, and whose it was; fence 0 means that there was none. */
export interface Stamp {
  readonly fence: number
  readonly leaseId: string | null
}

export interface Mark {
  readonly exclusive: Stamp
  readonly shared: Stamp
}

/** A mark that an act looks at, raises, or both. */
export interface Measure extends MarkRef {
  readonly checked: boolean
  readonly raised: boolean
}

const NO_STAMP: Stamp = { fence: 0, leaseId: null }
export const NO_MARK: Mark = { exclusive: NO_STAMP, shared: NO_STAMP }

/**
 * By place and from the top down: one order for all acts, so that guards which lock rows never wait for each other in a
 * cycle.
 */
export function measuresOf(act: Act): readonly Measure[] {
  const { resource, extent } = act.target
  const own: Measure = { resource, place: 'own', checked: true, raised: true }
  if (!isTree(resource)) return [own]
  const ancestors = ancestorsOf(resource).toReversed()
  const below = ancestors.map((above): Measure => {
    return { resource: above, place: 'below', checked: false, raised: true }
  })
  const all: Measure = { resource, place: 'below', checked: true, raised: false }
  const subtrees = [...ancestors, resource].map((above): Measure => {
    const raised = act.reach.extent === 'subtree' && above === act.reach.resource
    return { resource: above, place: 'subtree', checked: true, raised }
  })
  return [...below, ...(extent === 'subtree' ? [all] : []), own, ...subtrees]
}

/** A place has no space in its name, and so no two marks have one key. */
export function markKey({ resource, place }: MarkRef): string {
  return `${place} ${resource}`
}

export type Judgement =
  | { readonly kind: 'current'; readonly raises: ReadonlyMap<string, Mark> }
  | { readonly kind: 'stale'; readonly error: LeaseError }

/** `marks` has what was read, by key; what is not in it was never raised. */
export function judge(act: Act, marks: ReadonlyMap<string, Mark>): Judgement {
  const raises = new Map<string, Mark>()
  for (const measure of measuresOf(act)) {
    const mark = marks.get(markKey(measure)) ?? NO_MARK
    const hindrance = measure.checked ? hindranceOf(act, mark) : null
    if (hindrance !== null) return { kind: 'stale', error: staleError(act, measure, hindrance) }
    const raised = measure.raised ? raise(act, mark) : mark
    if (raised !== mark) raises.set(markKey(measure), raised)
  }
  return { kind: 'current', raises }
}

/** The stamp that forbids an act. An equal fence of another lease means that one was given twice: the store lost data. */
function hindranceOf(act: Act, { exclusive, shared }: Mark): Stamp | null {
  if (isAhead(exclusive, act)) return exclusive
  if (act.shared) return isOther(shared, act) ? shared : null
  return isAhead(shared, act) ? shared : null
}

function isAhead(stamp: Stamp, act: Act): boolean {
  return stamp.fence > act.fence || isOther(stamp, act)
}

function isOther(stamp: Stamp, act: Act): boolean {
  if (stamp.fence !== act.fence || stamp.leaseId === null || act.leaseId === null) return false
  return stamp.leaseId !== act.leaseId
}

function raise(act: Act, mark: Mark): Mark {
  const stamp = act.shared ? mark.shared : mark.exclusive
  const learns = stamp.fence === act.fence && stamp.leaseId === null && act.leaseId !== null
  if (stamp.fence >= act.fence && !learns) return mark
  const raised: Stamp = { fence: act.fence, leaseId: act.leaseId }
  return act.shared ? { ...mark, shared: raised } : { ...mark, exclusive: raised }
}

function staleError(act: Act, { resource, place }: MarkRef, stamp: Stamp): LeaseError {
  const { fence, leaseId } = act
  const target = act.target.resource
  const twice = stamp.fence === fence
  const message = twice
    ? `${target}: fence ${fence} belongs to lease ${stamp.leaseId}, got lease ${leaseId}`
    : `${target}: fence must be at least ${stamp.fence}, got ${fence}`
  const mark = { resource, place, fence: stamp.fence, leaseId: stamp.leaseId }
  return new LeaseError('STALE_FENCE', message, {
    details: { resource: target, fence, leaseId, mark },
  })
}
