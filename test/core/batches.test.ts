import { expect, it } from 'vitest'
import { batchesOf } from '../../src/core/batches.ts'

it.each<[items: readonly number[], batches: readonly (readonly number[])[]]>([
  [[], []],
  [[1], [[1]]],
  [[1, 2], [[1, 2]]],
  [
    [1, 2, 3, 4, 5],
    [[1, 2], [3, 4], [5]],
  ],
])('%j is cut into batches of two at most, in order, none of them empty', (items, batches) => {
  expect([...batchesOf(items, 2)]).toEqual(batches)
})
