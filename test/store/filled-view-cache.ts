/** A cache of views that is filled to its limit and beyond, and what that costs. */
import type { Lease } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import { shownView, type ViewCache } from '../../src/store/optimistic/attempt-plan.ts'
import { leaseOf, placeOf } from './postgres/hand-made.ts'

const NOW = { nowUs: 1_760_000_000_000_000 }
const ONE = leaseOf('work:one', NOW)

/** How many entries it remembers. */
export const LIMIT = 200_000

export function leaseNumbered(number: number): Lease {
  return { ...ONE, id: `lease-${number}`, resource: parseResource(`work:${number}`) }
}

function learn(cache: ViewCache, lease: Lease): void {
  const { readSet } = placeOf(lease)
  const entries = [{ entry: lease, version: 1, claim: 1 }]
  const facts = { lastFence: 7, lastWallMs: 1, ticketCount: 0, prior: null, epoch: 0 }
  cache.learn(shownView(readSet, { entries, ...facts }, NOW.nowUs))
}

/** Microseconds of the processor for each, so that a busy machine counts for nothing. */
export function learnRange(cache: ViewCache, from: number, until: number): number {
  const before = process.cpuUsage()
  for (let number = from; number < until; number += 1) learn(cache, leaseNumbered(number))
  const { user, system } = process.cpuUsage(before)
  return (user + system) / (until - from)
}
