import { expect, it, vi } from 'vitest'
import { timeOrderedUuid } from '../../src/runtime/system-runtime.ts'

const PATTERN = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

it('ids are unique, well formed, and sort in the order of their making even when the clock goes back', () => {
  const start = 1_900_000_000_000
  const ids = Array.from({ length: 20_000 }, (_, index) =>
    timeOrderedUuid(index < 10_000 ? start : start - 5_000),
  )
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.every((id) => PATTERN.test(id))).toBe(true)
  expect(ids.toSorted()).toEqual(ids)
})

it.each([0, -86_400_000])(
  'the first id of a process is well formed when its clock reads %i',
  async (wallMs) => {
    vi.resetModules()
    const fresh = await import('../../src/runtime/system-runtime.ts')
    const ids = [wallMs, wallMs, wallMs + 1].map((ms) => fresh.timeOrderedUuid(ms))
    for (const id of ids) expect(id).toMatch(PATTERN)
    expect(ids.toSorted()).toEqual(ids)
  },
)
