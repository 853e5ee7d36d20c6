/** A bounded wait for work that may never end. */
import { report } from './diagnostics.ts'
import type { Runtime } from './runtime.ts'

/**
 * Whether the work ended in time. An error within that time is thrown; a later one is reported, because the caller no
 * longer waits.
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
