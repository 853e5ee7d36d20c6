import { nextTick, queueMicrotask } from './system-runtime.ts'

/**
 * Runs something when everybody who can go on has gone on as far as they can without waiting: before the process looks
 * for input or timers, and after all promises that are settled have been heard, and all that follows from them.
 *
 * Node hears of ticks whenever a callback of its own has ended, and only then of promises. So a tick that is asked for
 * from within a promise waits for all of them, and one that is asked for from elsewhere for none.
 */
export function afterTurn(work: () => void): void {
  queueMicrotask(() => nextTick(work))
}
