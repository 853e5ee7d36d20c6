import { expect, it } from 'vitest'
import type { Lease } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import { MemoryOfRealms } from '../../src/store/speculation/memory-of-realms.ts'
import { leaseOf, placeOf } from './postgres/hand-made.ts'

const NOW = { nowUs: 1_760_000_000_000_000 }
const LIMIT = 200_000
const MEASURED = 50_000
const ONE = leaseOf('work:one', NOW)

function leaseNumbered(number: number): Lease {
  return { ...ONE, id: `lease-${number}`, resource: parseResource(`work:${number}`) }
}

function learn(memory: MemoryOfRealms, lease: Lease): void {
  const { footprint } = placeOf(lease)
  const entries = [{ entry: lease, version: 1, claim: 1 }]
  const facts = { lastFence: 7, lastWallMs: 1, ticketCount: 0, prior: null, epoch: 0 }
  memory.learn(footprint, { entries, ...facts }, NOW.nowUs)
}

/** Microseconds of the processor for each, so that a busy machine counts for nothing. */
function learnRange(memory: MemoryOfRealms, from: number, until: number): number {
  const before = process.cpuUsage()
  for (let number = from; number < until; number += 1) learn(memory, leaseNumbered(number))
  const { user, system } = process.cpuUsage(before)
  return (user + system) / (until - from)
}

it('forgets what it has known longest, and that costs no more than to remember', () => {
  const memory = new MemoryOfRealms()
  learnRange(memory, 0, LIMIT - MEASURED)
  const roomUs = learnRange(memory, LIMIT - MEASURED, LIMIT)
  const fullUs = learnRange(memory, LIMIT, LIMIT + MEASURED)
  const [oldest, newest] = [0, LIMIT + MEASURED - 1].map((number) => {
    return memory.believe(placeOf(leaseNumbered(number)).footprint)
  })
  expect(oldest).toMatchObject({ lastFence: 0, kept: new Map() })
  expect(newest?.lastFence).toBe(7)
  expect(newest?.kept.size).toBe(1)
  expect(fullUs / roomUs).toBeLessThan(2)
}, 60_000)
