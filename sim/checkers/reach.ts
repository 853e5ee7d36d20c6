/**
 * Which claims touch, and which of those exclude each other. Judged anew here, with none of the core's rules, so that a
 * mistake in them is found.
 */
import type { Claim } from '../../src/core/lease.ts'

export type Reach = Pick<Claim, 'resource' | 'extent'>
export type RequestedLease = Pick<Claim, 'resource' | 'extent' | 'mode' | 'slots'>

export function touch(a: Reach, b: Reach): boolean {
  return a.resource === b.resource || isBelow(a, b) || isBelow(b, a)
}

/** Whether one place is the other, or a part of it. */
export function isWithin(inner: Reach, outer: Reach): boolean {
  if (isBelow(outer, inner)) return true
  const isWider = inner.extent === 'subtree' && outer.extent === 'exact'
  return inner.resource === outer.resource && !isWider
}

function isBelow(outer: Reach, inner: Reach): boolean {
  const isTree = outer.extent === 'subtree' && outer.resource.startsWith('file:')
  return isTree && inner.resource.startsWith(`${outer.resource}/`)
}

/** Whether two claims that touch can not be held at the same time: both share, and both are counted or neither is. */
export function clash(a: RequestedLease, b: RequestedLease): boolean {
  const isMixed = (a.slots === null) !== (b.slots === null)
  return touch(a, b) && (a.mode === 'exclusive' || b.mode === 'exclusive' || isMixed)
}
