/** The long form of subtree-growth.test.ts. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { filledSqlite, growthOf } from './subtree-growth.ts'

let directory: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-subtree-'))
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

it.each(['file', 'directory'] as const)(
  'an acquire of a %s among 1,000,000 live leases of files takes at most 1.5 × the time among 1,000',
  async (asked) => {
    const small = await filledSqlite(path.join(directory, 'small.db'), 1_000)
    const large = await filledSqlite(path.join(directory, 'large.db'), 1_000_000)
    const { smallMs, largeMs, ratio } = await growthOf({ small, large }, asked)
    await small.close()
    await large.close()
    process.stdout.write(
      `growth of a ${asked}: ${smallMs.toFixed(3)} ms among 1,000, ${largeMs.toFixed(3)} ms among 1,000,000, ratio ${ratio.toFixed(2)}\n`,
    )
    expect(ratio).toBeLessThanOrEqual(1.5)
  },
)
