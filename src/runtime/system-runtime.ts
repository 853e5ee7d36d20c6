/** The runtime of a real process. */
import os from 'node:os'
import { canonicalPath } from './file-system.ts'
import { RepeatedFault } from './diagnostics.ts'
import type { Runtime, Timer, TimerOptions } from './runtime.ts'
import { timeOrderedUuid } from './uuid.ts'

/**
 * The timers and the monotonic clock of the host, as they were when Tenure was loaded. A test that replaces the global
 * ones (`vi.useFakeTimers`, `mock.timers` of `node:test`) replaces some and not others, each tool its own: with half of
 * them a lease would never be granted, or never run out. Such a test passes a runtime instead (`tenure/testing`).
 *
 * Everything else looks here. Stores are loaded late, when the global ones may be replaced already. Tenure itself may be,
 * so the timers are those of the module: Vitest leaves them alone, while `node:test` replaces them too.
 */
const timers = process.getBuiltinModule('node:timers')
export const setTimeout: typeof globalThis.setTimeout = timers.setTimeout
export const clearTimeout: typeof globalThis.clearTimeout = timers.clearTimeout
export const setImmediate: typeof globalThis.setImmediate = timers.setImmediate
export const queueMicrotask: typeof globalThis.queueMicrotask = globalThis.queueMicrotask
export const nextTick: typeof process.nextTick = process.nextTick.bind(process)
export const hrtime: typeof process.hrtime = process.hrtime
export const hrtimeUs = (): number => Number(hrtime.bigint() / 1000n)

/** The versions of Node, and of what it was built with. */
export function nodeVersions(): { readonly node: string; readonly sqlite?: string } {
  return process.versions
}

/** A module that Node brings and its types may not know; found in a bundle of whatever format. */
export function builtinModule(name: string): unknown {
  return process.getBuiltinModule(name)
}

/** The longest delay that Node's own timer takes; anything longer would fire at once. */
const TIMER_MS_MAX = 2_147_483_647

const bootClockFault = new RepeatedFault('runtime/boot-clock', { monotonicMs })

export const systemRuntime: Runtime = {
  monotonicMs,
  bootMs,
  wallMs: () => Date.now(),
  setTimer,
  uuid: () => timeOrderedUuid(Date.now()),
  random: () => Math.random(),
  canonicalPath,
}

/** Not `performance.now()`: it is the same clock, but the first look at it loads all of `perf_hooks`. */
function monotonicMs(): number {
  const [seconds, nanoseconds] = hrtime()
  return seconds * 1_000 + nanoseconds / 1_000_000
}

function bootMs(): number | null {
  try {
    const seconds = os.uptime()
    return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : null
  } catch (error) {
    // Some sandboxes forbid the look. Callers can do without a boot clock, but then a holder does not notice sleep.
    bootClockFault.failed(error)
    return null
  }
}

/** Almost every call to a store has a timer, and almost none of them is ever heard of. */
function setTimer(delayMs: number, callback: () => void, options: TimerOptions): Timer {
  if (delayMs > TIMER_MS_MAX) return setLongTimer(delayMs, callback, options)
  const handle = setTimeout(callback, Math.max(delayMs, 0))
  if (!options.keepAlive) handle.unref()
  return { cancel: () => clearTimeout(handle) }
}

function setLongTimer(delayMs: number, callback: () => void, options: TimerOptions): Timer {
  let handle: NodeJS.Timeout
  const arm = (leftMs: number): void => {
    const stepMs = Math.min(Math.max(leftMs, 0), TIMER_MS_MAX)
    const onTimeout = leftMs > stepMs ? () => arm(leftMs - stepMs) : callback
    handle = setTimeout(onTimeout, stepMs)
    if (!options.keepAlive) handle.unref()
  }
  arm(delayMs)
  return { cancel: () => clearTimeout(handle) }
}
