/**
 * The timers and the monotonic clock of the host, as they were when Tenure was loaded. A test that replaces the global
 * ones (`vi.useFakeTimers`, `mock.timers` of `node:test`) replaces some and not others, each tool its own: with half of
 * them a lease would never be granted, or never run out. Such a test passes a runtime instead (`tenure/testing`).
 *
 * Everything else looks here. Stores are loaded late, when the global ones may be replaced already.
 */
export const setTimeout: typeof globalThis.setTimeout = globalThis.setTimeout
export const clearTimeout: typeof globalThis.clearTimeout = globalThis.clearTimeout
export const setImmediate: typeof globalThis.setImmediate = globalThis.setImmediate
export const queueMicrotask: typeof globalThis.queueMicrotask = globalThis.queueMicrotask
export const nextTick: typeof process.nextTick = process.nextTick.bind(process)
export const hrtime: typeof process.hrtime = process.hrtime
export const hrtimeUs = (): number => Number(hrtime.bigint() / 1000n)
