import { expect, it } from 'vitest'
import { StateTable } from '../../campaign/search/state-table.ts'

it('a state is played again only when more commands are to come than before', () => {
  const table = new StateTable()
  expect(table.meet('a', 2)).toBe(true)
  expect(table.meet('a', 2)).toBe(false)
  expect(table.meet('a', 1)).toBe(false)
  expect(table.meet('a', 3)).toBe(true)
  expect(table.size).toBe(1)
})

it('as many states are told apart as there are, also when the table grows', () => {
  const table = new StateTable()
  const count = 200_000
  for (let index = 0; index < count; index += 1) table.meet(`state ${index} of many`, 1)
  expect(table.size).toBe(count)
  expect(table.meet(`state ${count - 1} of many`, 1)).toBe(false)
})
