import { describe, expect, it } from 'vitest'
import { FenceMemory, isStaleGrant } from '../../src/client/stale-answers.ts'

describe('the memory of fences', () => {
  it('keeps the highest fence of a realm, in whatever order they come', () => {
    const memory = new FenceMemory()
    memory.remember('file:', { fence: 7, leaseId: 'b' })
    memory.remember('file:', { fence: 5, leaseId: 'a' })
    expect(memory.highest('file:')).toEqual({ fence: 7, leaseId: 'b' })
    expect(memory.highest('work:W-1')).toBeNull()
  })

  it('forgets the realms that were used least recently, and no others', () => {
    const memory = new FenceMemory(2)
    memory.remember('work:1', { fence: 1, leaseId: 'a' })
    memory.remember('work:2', { fence: 2, leaseId: 'b' })
    memory.remember('work:1', { fence: 3, leaseId: 'c' })
    memory.remember('work:3', { fence: 4, leaseId: 'd' })
    expect(memory.highest('work:2')).toBeNull()
    expect(memory.highest('work:1')).toEqual({ fence: 3, leaseId: 'c' })
    expect(memory.highest('work:3')).toEqual({ fence: 4, leaseId: 'd' })
  })

  it.each([
    ['the first grant of a realm', { leaseId: 'a', fence: 1, repeated: false }, null, false],
    [
      'a higher fence',
      { leaseId: 'b', fence: 6, repeated: false },
      { leaseId: 'a', fence: 5 },
      false,
    ],
    ['a lower one', { leaseId: 'b', fence: 4, repeated: false }, { leaseId: 'a', fence: 5 }, true],
    [
      'a fence given twice',
      { leaseId: 'b', fence: 5, repeated: false },
      { leaseId: 'a', fence: 5 },
      true,
    ],
    [
      'the same lease again',
      { leaseId: 'a', fence: 5, repeated: true },
      { leaseId: 'a', fence: 5 },
      false,
    ],
    [
      'an id used again where no history is kept',
      { leaseId: 'a', fence: 6, repeated: false },
      { leaseId: 'a', fence: 5 },
      false,
    ],
    [
      'the same lease with a lower fence',
      { leaseId: 'a', fence: 4, repeated: true },
      { leaseId: 'a', fence: 5 },
      true,
    ],
    [
      'an older lease of a tree again',
      { leaseId: 'b', fence: 4, repeated: true },
      { leaseId: 'a', fence: 5 },
      false,
    ],
  ])('%s: stale is %4$s', (_what, granted, before, expected) => {
    expect(isStaleGrant(granted, before)).toBe(expected)
  })
})
