import { nextTick, queueMicrotask } from './system-runtime.ts'

/**
 * Runs `work` at the end of this turn of the event loop: after all reactions to settled promises, and the reactions to
 * those, and before Node handles further input or timers.
 *
 * Node drains its queue of ticks before the queue of microtasks, after each callback. So a tick that is queued by a
 * microtask runs after all microtasks, and one that is queued elsewhere runs before them.
 */
export function afterTurn(work: () => void): void {
  queueMicrotask(() => nextTick(work))
}
