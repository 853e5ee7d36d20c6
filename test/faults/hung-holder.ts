/** What becomes of a lease whose store does not answer, as its holder sees it. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Lease } from '../../src/index.ts'

/** Times are of `performance.now`. */
export interface Course {
  /** What the handle told after the last renewal, in order. */
  readonly told: readonly string[]
  readonly lostAtMs: number
  /** The end of the holder's view as it stood after the last renewal. */
  readonly deadlineMs: number
  /** When a timer for that very moment went off. */
  readonly timerAtMs: number
}

export async function courseOf(lease: Lease): Promise<Course> {
  const told: string[] = []
  let deadlineMs = Number.NaN
  let timer: Promise<number> = Promise.resolve(Number.NaN)
  const onRenewed = (): void => {
    told.length = 0
    // Before what remains is read, so that a pause between the two cannot make the end look later than it is.
    const nowMs = performance.now()
    const { remainingMs } = lease
    deadlineMs = nowMs + remainingMs
    timer = sleep(remainingMs).then(() => performance.now())
  }
  onRenewed()
  lease.on('renewed', onRenewed)
  lease.on('uncertain', () => told.push('uncertain'))
  await new Promise((resolve) => lease.on('lost', resolve))
  const lostAtMs = performance.now()
  return { told: [...told, 'lost'], lostAtMs, deadlineMs, timerAtMs: await timer }
}
