import { describe, expect, it } from 'vitest'
import {
  blockerOf,
  byResource,
  coveredByOthers,
  isAloneOn,
} from '../../src/core/covering-leases.ts'
import { describeBlocker } from '../../src/core/conflict.ts'
import { describeEntry, type Lease } from '../../src/core/lease.ts'
import type { Reach } from '../../src/core/resource.ts'
import { file, id, lease, nowAt, TTL_MS, tickAt, WALL_MS } from './builders.ts'

const FILE: Reach = { resource: file('/repo/src/a.ts'), extent: 'exact' }
const BELOW: Reach = { resource: file('/repo/src'), extent: 'subtree' }
const SRC = { resource: file('/repo/src'), extent: 'subtree' } as const
const ENDS = { deadline: tickAt(TTL_MS) }

/** What ann, who has the leases of `own`, finds in her way. */
function inTheWay(place: Reach, others: readonly Partial<Lease>[], own: Partial<Lease>[] = []) {
  const all = [
    ...others.map((change, index) => lease({ holder: 'bob', ...ENDS, id: id(index), ...change })),
    ...own.map((change) => lease({ holder: 'ann', ...ENDS, id: id(99), ...change })),
  ]
  const listed = all.map((entry) => describeEntry(entry, nowAt(TTL_MS - 1)))
  return coveredByOthers(byResource(listed), place, 'ann').map(({ id: found }) => found)
}

describe('what others hold of a place', () => {
  it.each<[string, Reach, Partial<Lease>, boolean]>([
    ['the file itself', FILE, { resource: FILE.resource }, true],
    ['a directory above it', FILE, SRC, true],
    ['everything there is', FILE, { resource: file('/'), extent: 'subtree' }, true],
    ['the directory alone', FILE, { resource: file('/repo/src') }, false],
    ['a directory beside it', FILE, { ...SRC, resource: file('/repo/sr') }, false],
    ['another file', FILE, { resource: file('/repo/src/b.ts') }, false],
    ['the file, whose lease is over', FILE, { ...FILE, deadline: tickAt(TTL_MS - 1) }, false],
    ['the directory of a file without a name', BELOW, SRC, true],
    ['that directory alone', BELOW, { resource: file('/repo/src') }, false],
    ['a file of that directory', BELOW, { resource: FILE.resource }, false],
  ])('is found, or not: %s', (_, place, change, isFound) => {
    expect(inTheWay(place, [change])).toEqual(isFound ? [id(0)] : [])
  })

  it('is nothing where the holder has a lease of its own that covers the place', () => {
    expect(inTheWay(FILE, [{ ...SRC }], [FILE])).toEqual([])
    expect(inTheWay(FILE, [{ ...FILE }], [SRC])).toEqual([])
    expect(inTheWay(FILE, [SRC], [{ resource: file('/repo/src/b.ts') }])).toEqual([id(0)])
  })

  it('is all that share it', () => {
    const shared = { ...FILE, mode: 'shared' } as const
    expect(inTheWay(FILE, [shared, { ...shared, holder: 'cyd' }])).toEqual([id(0), id(1)])
  })

  it('is told as to anybody who is blocked', () => {
    const waitedFor = { createdAtMs: WALL_MS - 3_000 }
    const held = lease({ ...ENDS, ...waitedFor, reason: 'patch 12' })
    const told = blockerOf(describeEntry(held, nowAt(1)))
    expect(told).toEqual(describeBlocker(held, 'lease', nowAt(1)))
  })
})

describe('a lease lets its holder write alone', () => {
  it.each<[string, Partial<Lease>, Reach, boolean]>([
    ['to what it names', FILE, FILE, true],
    ['to what is below it', SRC, FILE, true],
    ['not to what is beside it', { resource: file('/repo/src/b.ts') }, FILE, false],
    ['not to what is below the directory alone', { resource: file('/repo/src') }, FILE, false],
    ['not when it is shared', { ...FILE, mode: 'shared' }, FILE, false],
    ['not when it is one of several', { ...FILE, mode: 'shared', slots: 2 }, FILE, false],
    ['not when it was upgraded from a share that is counted', { ...FILE, slots: 2 }, FILE, false],
    ['not after it has ended', { ...FILE, state: 'released' }, FILE, false],
    ['not at its deadline', { ...FILE, deadline: tickAt(1) }, FILE, false],
    ['not before it was adopted', { ...FILE, adopted: false }, FILE, false],
  ])('%s', (_, change, place, isAlone) => {
    const listed = describeEntry(lease({ ...ENDS, ...change }), nowAt(1))
    expect(isAloneOn(listed, place)).toBe(isAlone)
  })
})
