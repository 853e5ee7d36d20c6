/** How soon a waiter in another process has what was released, on a machine that has nothing else to do. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { gapsMs, quantile, takeTurns } from './handover.ts'

it('a waiter in another process starts within 10 ms (median) of a release', async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-handover-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  const store = `sqlite:${path.join(directory, 'leases.db')}`
  const takers = ['left', 'right'].map((holder) =>
    takeTurns({ store, resource: 'work:baton', holder, rounds: 100, holdMs: 15 }),
  )
  const turns = (await Promise.all(takers.map((taker) => taker.turns))).flat()
  const gaps = gapsMs(turns)
  const median = quantile(gaps, 0.5)
  process.stdout.write(
    `handover: ${gaps.length} between processes, median ${median.toFixed(1)} ms, p90 ${quantile(gaps, 0.9).toFixed(1)} ms\n`,
  )
  expect(gaps.length).toBeGreaterThan(100)
  expect(median).toBeLessThan(10)
})
