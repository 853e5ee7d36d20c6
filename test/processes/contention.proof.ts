/** The long form of contention.test.ts, with its figure for a machine that has nothing else to do. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { expectFairHandovers } from './contention-assertions.ts'
import { CONTENDED_STORES } from './contention-stores.ts'

let directory: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-contention-'))
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

it.each(CONTENDED_STORES.map((store) => [store.name, store] as const))(
  '%s: 4 processes × 25 workers take turns for 10 s, woken within 5 ms (median)',
  async (_name, store) => {
    const { medianWakeMs } = await expectFairHandovers(store, directory, { forMs: 10_000 })
    expect(medianWakeMs).toBeLessThan(5)
  },
)
