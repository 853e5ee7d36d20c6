/** The long form of overlapping-sequences.test.ts. */
import { expect, it } from 'vitest'
import { playAllSequences } from './overlapping-sequences.ts'

it('keeps every promise in all sequences of five commands by two', () => {
  expect(playAllSequences(5).size).toBe(playAllSequences(4).size)
})
