/** Marks come back as they were written, or not at all: one that is read wrongly would let every fence pass. */
import { describe, expect, it } from 'vitest'
import { marksOf, valuesOf, type MarkRow } from '../../src/guard/mark-table.ts'
import { id, WORK } from '../core/builders.ts'

const ROW: MarkRow = {
  ...{ resource: WORK, place: 'own' },
  ...{ exclusive_fence: 7, exclusive_lease: id(1), shared_fence: 0, shared_lease: null },
}

describe('the rows of a guard', () => {
  it.each([7, 7n, '7'])('are the marks that were written, with fences as %o', (fence) => {
    const marks = marksOf([{ ...ROW, exclusive_fence: fence }])
    expect([...marks.values()]).toEqual([
      { exclusive: { fence: 7, leaseId: id(1) }, shared: { fence: 0, leaseId: null } },
    ])
    expect([...marks].map(([key, mark]) => valuesOf(key, mark))).toEqual([
      [WORK, 'own', 7, id(1), 0, null],
    ])
  })

  const { exclusive_fence: exclusiveFence, shared_fence: sharedFence, ...names } = ROW
  it.each<[string, object, string]>([
    ['renamed', { ...names, exclusiveFence, sharedFence }, 'exclusive_fence'],
    ['lists', ['work:a', 'own', 7, id(1), 0, null], 'exclusive_fence'],
    ['no numbers', { ...ROW, exclusive_fence: 'x' }, 'exclusive_fence'],
    ['no whole numbers', { ...ROW, shared_fence: 1.5 }, 'shared_fence'],
    ['below 0', { ...ROW, shared_fence: -1 }, 'shared_fence'],
    ['rounded', { ...ROW, shared_fence: 2 ** 53 }, 'shared_fence'],
  ])('are refused when they come %s', (_, row, column) => {
    expect(() => marksOf([row as MarkRow])).toThrow(
      expect.objectContaining({
        code: 'STORE_SCHEMA',
        message: expect.stringContaining(
          `${column} of tenure_fences must be an integer; the client`,
        ),
        details: { table: 'tenure_fences', column },
      }),
    )
  })
})
