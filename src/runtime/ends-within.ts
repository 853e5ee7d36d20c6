/** Waiting that has an end of its own, for work that may never come to one. */
import { report } from './diagnostics.ts'
import type { Runtime } from './runtime.ts'

/**
 * Whether the work ended in time. What it throws in time is thrown; what it throws later is reported, for nobody waits for
 * it any more.
 */
export function endsWithin(
  runtime: Runtime,
  withinMs: number,
  work: Promise<unknown>,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    let isLate = false
    const late = (): void => {
      isLate = true
      resolve(false)
    }
    const timer = runtime.setTimer(Math.max(0, withinMs), late, { keepAlive: true })
    const ended = (): void => {
      timer.cancel()
      resolve(true)
    }
    const failed = (error: unknown): void => {
      if (isLate) return report('runtime/late-end', error)
      timer.cancel()
      reject(error)
    }
    work.then(ended, failed)
  })
}
