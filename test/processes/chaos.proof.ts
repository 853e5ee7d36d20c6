/** The long form of chaos.test.ts: 8 processes for 10 seconds, several times over. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, it } from 'vitest'
import { expectChaosHappened, expectPromisesKept, summaryOf } from './chaos-assertions.ts'
import { runChaos } from './chaos.ts'

let directory: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-chaos-'))
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

it.each([1, 2, 3])('8 processes × 10 s on 3 files, round %i: 0 overlaps', async () => {
  const report = await runChaos({
    store: `sqlite:${directory}/leases.db`,
    directory,
    processes: 8,
    durationMs: 10_000,
  })
  process.stdout.write(`chaos: ${summaryOf(report)}\n`)
  expectPromisesKept(report)
  expectChaosHappened(report, { holds: 100, kills: 5, stops: 5 })
})
