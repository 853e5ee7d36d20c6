import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Store } from '../../src/store-port/store.ts'
import { BRIEF } from './many-leases.ts'
import { filledMemory, filledSqlite, growthOf } from './subtree-growth.ts'

const SMALL = 500
const LARGE = 25_000

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
  [
    'SQLite',
    (name: string, count: number) => filledSqlite(path.join(directory, name), count, BRIEF),
  ],
])(
  // A scan of all leases would take 50 × the time; by how little it grows is measured by `npm run proof`.
  'in %s, an acquire of a file or directory among 50 × as many leases does not take 5 × the time',
  async (store, fill) => {
    const small = await fill('small.db', SMALL)
    const large = await fill('large.db', LARGE)
    opened.push(small, large)
    for (const asked of ['file', 'directory'] as const) {
      const { smallMs, largeMs, ratio } = await growthOf({ small, large }, asked, BRIEF)
      process.stdout.write(
        `growth of a ${asked} in ${store}: ${smallMs.toFixed(3)} ms among ${SMALL}, ${largeMs.toFixed(3)} ms among ${LARGE}, ratio ${ratio.toFixed(2)}\n`,
      )
      expect(ratio).toBeLessThan(5)
    }
  },
)
