import { expect, it } from 'vitest'
import { MemoryOfRealms } from '../../src/store/optimistic/memory-of-realms.ts'
import { placeOf } from './postgres/hand-made.ts'
import { learnRange, leaseNumbered, LIMIT } from './remembered-realms.ts'

it('forgets what it has known longest, and nothing before it is full', () => {
  const memory = new MemoryOfRealms()
  const believed = (number: number) => memory.believe(placeOf(leaseNumbered(number)).readSet)
  learnRange(memory, 0, LIMIT)
  expect(believed(0)).toMatchObject({ lastFence: 7, kept: { size: 1 } })
  learnRange(memory, LIMIT, LIMIT + 1)
  expect(believed(0)).toMatchObject({ lastFence: 0, kept: new Map() })
  expect(believed(LIMIT)).toMatchObject({ lastFence: 7, kept: { size: 1 } })
})
