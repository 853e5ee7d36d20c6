/** Waiting that has an end of its own, for work that may never come to one. */
import type { Runtime } from './runtime.ts'

/**
 * Whether the work ended in time. What it throws in time is thrown; what becomes of it later is nobody's business any
 * more, and rejects into nothing.
 */
export function endsWithin(
  runtime: Runtime,
  withinMs: number,
  work: Promise<unknown>,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const late = (): void => resolve(false)
    const timer = runtime.setTimer(Math.max(0, withinMs), late, { keepAlive: true })
    const ended = (): void => {
      timer.cancel()
      resolve(true)
    }
    const failed = (error: unknown): void => {
      timer.cancel()
      reject(error)
    }
    work.then(ended, failed)
  })
}
