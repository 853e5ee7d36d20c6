import { expect, it } from 'vitest'
import { childReport } from '../../campaign/child-report.ts'
import type { SearchOrder, SearchReport } from '../../campaign/search/search-states.ts'
import { StateTable } from '../../campaign/search/state-table.ts'
import {
  afterMove,
  commandsFor,
  firstState,
  keyOf,
  movesFrom,
  type State,
} from '../core/overlapping-sequences.ts'

const PROGRAM = 'campaign/search/search-states.ts'

it('as many states are told apart as there are', () => {
  const table = new StateTable(new SharedArrayBuffer(2 ** 18 * 8))
  const count = 100_000
  let met = 0
  for (let index = 0; index < count; index += 1) if (table.meet(`state ${index} of many`)) met += 1
  expect(met).toBe(count)
  expect(table.meet(`state ${count - 1} of many`)).toBe(false)
})

it('a search by threads that keep 64 bits of a state meets all states that there are', async () => {
  const depth = 3
  const order: SearchOrder = { world: 'slots', clients: 3, minutes: 2, depthMax: depth }
  const report = await childReport<SearchReport>({ program: PROGRAM, order })
  const { states, steps } = allStates(depth)
  expect(report).toEqual({ states, steps, depth, isAll: false, failures: [] })
})

it('a search says when no longer sequence leads to another state', async () => {
  const order: SearchOrder = { world: 'tree', clients: 1, minutes: 2 }
  const report = await childReport<SearchReport>({ program: PROGRAM, order })
  expect(report).toMatchObject({ isAll: true, failures: [] })
})

/** How many states so many commands of three can lead to, by what their future depends on, unabridged. */
function allStates(depth: number): Pick<SearchReport, 'states' | 'steps'> {
  const commands = commandsFor(3, 'slots')
  const met = new Set<string>()
  let steps = 0
  let states: readonly State[] = [firstState()]
  for (let length = 1; length <= depth; length += 1) {
    const longer: State[] = []
    for (const state of states) {
      for (const move of movesFrom(state, new Set(), commands)) {
        const next = afterMove(state, move)
        const key = keyOf(next, 3)
        steps += 1
        if (met.has(key)) continue
        met.add(key)
        longer.push(next)
      }
    }
    states = longer
  }
  return { states: met.size, steps }
}
