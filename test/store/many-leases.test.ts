import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { measureGrowth } from './many-leases.ts'

let directory: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-many-'))
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

it('an acquire among 100,000 live leases takes at most 1.5 × the time among 1,000', async () => {
  const files = { small: path.join(directory, 'small.db'), large: path.join(directory, 'large.db') }
  const { smallMs, largeMs, ratio } = await measureGrowth(files, { small: 1_000, large: 100_000 })
  process.stdout.write(
    `growth: ${smallMs.toFixed(3)} ms among 1,000, ${largeMs.toFixed(3)} ms among 100,000, ratio ${ratio.toFixed(2)}\n`,
  )
  expect(ratio).toBeLessThanOrEqual(1.5)
}, 60_000)
