import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Store } from '../../src/store-port/store.ts'
import { filledMemory, filledSqlite, growthOf } from './subtree-growth.ts'

const SMALL = 1_000
const LARGE = 100_000

let directory: string
let opened: Store[]

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-subtree-'))
  opened = []
})

afterEach(async () => {
  for (const store of opened) await store.close()
  fs.rmSync(directory, { recursive: true, force: true })
})

it.each([
  ['memory', (_name: string, count: number) => filledMemory(count)],
  ['SQLite', (name: string, count: number) => filledSqlite(path.join(directory, name), count)],
])(
  'in %s, an acquire of a file or directory among 100,000 takes at most 1.5 × the time among 1,000',
  async (store, fill) => {
    const small = await fill('small.db', SMALL)
    const large = await fill('large.db', LARGE)
    opened.push(small, large)
    for (const asked of ['file', 'directory'] as const) {
      const { smallMs, largeMs, ratio } = await growthOf({ small, large }, asked)
      process.stdout.write(
        `growth of a ${asked} in ${store}: ${smallMs.toFixed(3)} ms among ${SMALL}, ${largeMs.toFixed(3)} ms among ${LARGE}, ratio ${ratio.toFixed(2)}\n`,
      )
      expect(ratio).toBeLessThanOrEqual(1.5)
    }
  },
  60_000,
)
