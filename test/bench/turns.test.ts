import { describe, expect, it } from 'vitest'
import { allDone } from '../../bench/measure/all-done.ts'
import { contentionOf, overlapOf, type Turn } from '../../bench/measure/turns.ts'

/** A turn that was waited for since 0. */
function turn(worker: string, startMs: number, endMs: number): Turn {
  return { worker, askedUs: 0, startUs: startMs * 1_000, endUs: endMs * 1_000 }
}

const SECOND = { fromUs: 0, untilUs: 1_000_000 }

describe('turns that overlap', () => {
  it('are found, in whatever order they were noted, with who and for how long', () => {
    const turns = [turn('c', 30, 40), turn('a', 0, 10), turn('b', 9, 20)]
    expect(overlapOf(turns)).toBe('does not exclude: worker a and worker b both had it for 1000 µs')
  })

  it('are found although the second ends before the first', () => {
    expect(overlapOf([turn('a', 0, 100), turn('b', 10, 20)])).toMatch(/for 10000 µs$/)
  })

  it('are not seen where one begins as the other ends', () => {
    expect(overlapOf([turn('a', 0, 10), turn('b', 10, 20)])).toBeNull()
    expect(overlapOf([])).toBeNull()
  })
})

describe('contention', () => {
  it('counts as handovers only the turns that another worker had before', () => {
    const turns = [turn('a', 0, 1), turn('a', 2, 3), turn('b', 5, 6), turn('b', 7, 8)]
    const { handovers, acquisitions, gapP50Ms } = contentionOf(
      { turns, waiting: [] },
      ['a', 'b'],
      SECOND,
    )
    expect({ handovers, acquisitions, gapP50Ms }).toEqual({
      ...{ handovers: 1, acquisitions: 4, gapP50Ms: 2 },
    })
  })

  it('counts whoever had no turn at all', () => {
    const turns = [turn('a', 0, 1), turn('b', 2, 3), turn('a', 4, 5)]
    const { fairness, fewest, most, starved } = contentionOf(
      { turns, waiting: [] },
      ['a', 'b', 'c'],
      SECOND,
    )
    expect({ fairness, fewest, most, starved }).toEqual({
      ...{ fairness: 0, fewest: 0, most: 2, starved: 1 },
    })
  })

  it('counts a wait that the end cut short with what it had lasted', () => {
    const waiting = [{ worker: 'c', waitedUs: 900_000 }]
    const { waitP99Ms } = contentionOf({ turns: [turn('a', 1, 2)], waiting }, ['a', 'c'], SECOND)
    expect(waitP99Ms).toBe(900)
  })

  it('leaves out what began before the window, and takes the rate over the window', () => {
    const turns = [turn('a', 0, 1), turn('b', 2, 3), turn('a', 500, 501), turn('b', 502, 503)]
    const window = { fromUs: 500_000, untilUs: 1_000_000 }
    const { handovers, handoversPerSecond } = contentionOf(
      { turns, waiting: [] },
      ['a', 'b'],
      window,
    )
    expect({ handovers, handoversPerSecond }).toEqual({ handovers: 1, handoversPerSecond: 2 })
  })

  it('knows the ideal: everybody once, each with its hold and the gap after it', () => {
    const turns = [turn('a', 0, 2), turn('b', 3, 5), turn('a', 6, 8)]
    expect(contentionOf({ turns, waiting: [] }, ['a', 'b'], SECOND).idealWaitMs).toBe(2 * (2 + 1))
  })
})

it('a work that fails has ended for everybody before it is told', async () => {
  let isOver = false
  const slow = new Promise<void>((resolve) => {
    setTimeout(() => {
      isOver = true
      resolve()
    }, 20)
  })
  await expect(allDone([Promise.reject(new Error('gave up')), slow])).rejects.toThrow('gave up')
  expect(isOver).toBe(true)
})
