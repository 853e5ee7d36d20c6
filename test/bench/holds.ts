/** Holds of a millisecond while the loop has other work to do. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { holdFor, nowUs } from '../../bench/measure/contend.ts'

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

export async function holdsUs(count: number): Promise<readonly number[]> {
  const holds: number[] = []
  for (let turn = 0; turn < count; turn += 1) holds.push(await heldUs(1))
  return holds
}
