/** What the campaign makes of Stryker's report on one source file. */
import { describe, expect, it } from 'vitest'
import { outcomeOf, triedOf, type TriedMutants } from '../../campaign/mutation/mutation.ts'
import { isInThird } from '../../campaign/mutation/random-third.ts'

const SOURCE = `function isOver(lease, now) {
  return lease.endsAt <= now || lease.isReleased
}`

type Mutant = TriedMutants['mutants'][number]

function mutantOf(id: string, status: string, columns: readonly [number, number]): Mutant {
  const [start, end] = columns.map((column) => ({ line: 2, column })) as [Place, Place]
  const location = { start, end }
  return { id, status, mutatorName: 'ConditionalExpression', replacement: 'false', location }
}

type Place = Mutant['location']['start']

const LATE = 'return lease.endsAt <= now || lease.isReleased: lease.endsAt <= now → false'
const RELEASED = 'return lease.endsAt <= now || lease.isReleased: lease.isReleased → false'
const late = (status: string) => mutantOf('1', status, [10, 29])
const released = (status: string) => mutantOf('2', status, [33, 49])

function outcome(mutants: readonly Mutant[], given: Partial<TriedMutants> = {}) {
  const all = { source: SOURCE, mutants, tried: mutants, explained: {}, ...given }
  return outcomeOf('src/core/lease.ts', all)
}

describe('a mutant', () => {
  it('that no test notices is a failure, whether tests meet it or not', () => {
    const { counts, failures } = outcome([late('Survived'), released('NoCoverage')])
    expect(failures).toEqual([`survived: ${LATE}`, `met by no test: ${RELEASED}`])
    expect(counts).toMatchObject({ mutants: 2, 'mutants of core': 2, 'killed of core': 0 })
  })

  it('that fails a test, or ends in no time, is killed', () => {
    const { counts, failures } = outcome([late('Killed'), released('Timeout')])
    expect(failures).toEqual([])
    expect(counts).toMatchObject({ 'mutants of core': 2, 'killed of core': 2 })
  })

  it('with which a file of tests does not load is tried, and killed', () => {
    const tried = triedOf([late('RuntimeError'), released('CompileError')], null)
    expect(tried).toEqual([late('RuntimeError')])
    expect(outcome(tried).counts).toMatchObject({ 'mutants of core': 1, 'killed of core': 1 })
  })

  it('that survives and is explained is no failure, and is counted', () => {
    const { counts, failures } = outcome([late('Survived')], { explained: { [LATE]: 'why' } })
    expect(failures).toEqual([])
    expect(counts).toMatchObject({ 'killed of core': 0, 'survivors explained': 1 })
  })

  it('that is explained and killed, or gone, is a failure', () => {
    const explained = { [LATE]: 'why', 'a line of old: a → b': 'why' }
    expect(outcome([late('Killed')], { explained }).failures).toEqual([
      `explained, but killed now: ${LATE}`,
      'explained, but killed now: a line of old: a → b',
    ])
  })

  it('that is not in the third that is tried may be explained all the same', () => {
    const [one, other] = [late('Survived'), released('CompileError')]
    const explained = { [LATE]: 'why', [RELEASED]: 'why' }
    const { counts, failures } = outcome([one, other], { tried: [one], explained })
    expect(failures).toEqual([])
    expect(counts).toMatchObject({ mutants: 1 })
  })
})

it('a third is random, of about that size, and the same for one seed', () => {
  const ids = Array.from({ length: 3_000 }, (_, id) => String(id))
  const third = ids.filter((id) => isInThird('7 src/ledger/fold.ts', id))
  expect(third.length).toBeGreaterThan(900)
  expect(third.length).toBeLessThan(1_100)
  expect(ids.filter((id) => isInThird('7 src/ledger/fold.ts', id))).toEqual(third)
  expect(ids.filter((id) => isInThird('8 src/ledger/fold.ts', id))).not.toEqual(third)
})
