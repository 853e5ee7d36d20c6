import { expect, it } from 'vitest'
import { MemoryOfRealms } from '../../src/store/optimistic/memory-of-realms.ts'
import { learnRange, LIMIT } from './remembered-realms.ts'

const MEASURED = 50_000

it('to forget what it has known longest costs no more than to remember', () => {
  const memory = new MemoryOfRealms()
  learnRange(memory, 0, LIMIT - MEASURED)
  const roomUs = learnRange(memory, LIMIT - MEASURED, LIMIT)
  const fullUs = learnRange(memory, LIMIT, LIMIT + MEASURED)
  expect(fullUs / roomUs).toBeLessThan(2)
})
