import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { expectFairHandovers } from './contention-assertions.ts'
import { CONTENDED_STORES } from './contention-stores.ts'
import { overlaps, passed } from './contention.ts'

let directory: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-contention-'))
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

it.each(CONTENDED_STORES.map((store) => [store.name, store] as const))(
  '%s: 4 processes × 25 workers take turns, one at a time and in order of asking',
  async (_name, store) => {
    const { turns } = await expectFairHandovers(store, directory, { rounds: 2 })
    expect(turns).toBe(200)
  },
)

it('the check sees two turns at once and a fence that goes back', () => {
  const turn = (fence: number, startUs: number, endUs: number) => {
    return { leaseId: `lease-${fence}`, holder: 'ann', fence, startUs, endUs }
  }
  expect(overlaps([turn(1, 0, 10), turn(2, 10, 20)])).toEqual([])
  expect(overlaps([turn(1, 0, 11), turn(2, 10, 20)])).toHaveLength(1)
  expect(overlaps([turn(2, 0, 10), turn(1, 10, 20)])).toHaveLength(1)
})

it('the check sees who was served before one who had asked earlier', () => {
  const event = (type: string, leaseId: string) => ({ type, leaseId })
  const [first, second] = [event('lease.queued', 'first'), event('lease.queued', 'second')]
  expect(passed([first, second, event('lease.issued', 'first')])).toEqual([])
  expect(passed([first, second, event('lease.issued', 'second')])).toEqual(['second'])
  expect(passed([first, event('lease.issued', 'new')])).toEqual(['new'])
  expect(passed([first, event('lease.failed', 'first'), event('lease.issued', 'new')])).toEqual([])
})
