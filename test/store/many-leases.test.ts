import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { BRIEF, measureGrowth } from './many-leases.ts'

let directory: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-many-'))
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

/** A scan of all leases would take 100 × the time; by how little it grows is measured by `npm run proof`. */
it('an acquire among 100 × as many live leases does not take 5 × the time', async () => {
  const files = { small: path.join(directory, 'small.db'), large: path.join(directory, 'large.db') }
  const { smallMs, largeMs, ratio } = await measureGrowth(
    files,
    { small: 1_000, large: 100_000 },
    BRIEF,
  )
  process.stdout.write(
    `growth: ${smallMs.toFixed(3)} ms among 1,000, ${largeMs.toFixed(3)} ms among 100,000, ratio ${ratio.toFixed(2)}\n`,
  )
  expect(ratio).toBeLessThan(5)
})
