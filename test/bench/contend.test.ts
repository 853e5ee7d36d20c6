import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { holdFor, nowUs } from '../../bench/measure/contend.ts'
import { median } from '../../bench/measure/statistics.ts'

/** As long as a commit takes. */
const BUSY_US = 500

function work(): void {
  const untilUs = nowUs() + BUSY_US
  while (nowUs() < untilUs);
}

async function heldUs(holdMs: number): Promise<number> {
  await nextTurn()
  const startUs = nowUs()
  const held = holdFor(holdMs)
  setImmediate(work)
  await held
  return nowUs() - startUs
}

it('a hold lasts as long as it should, however busy the loop is', async () => {
  const holds: number[] = []
  for (let turn = 0; turn < 200; turn += 1) holds.push(await heldUs(1))
  expect(Math.min(...holds)).toBeGreaterThanOrEqual(1_000)
  // A timer would be half a millisecond off, to one side or the other.
  expect(median(holds)).toBeLessThan(1_100)
})
