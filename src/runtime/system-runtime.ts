/** The runtime of a real process. */
import os from 'node:os'
import { RepeatedFault } from './diagnostics.ts'
import { canonicalPath } from './file-system.ts'
import type { Runtime, Timer, TimerOptions } from './runtime.ts'

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
export const wallClockMs = (): number => Date.now()

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
  wallMs: wallClockMs,
  setTimer,
  uuid: () => timeOrderedUuid(wallClockMs()),
  random: () => Math.random(),
  canonicalPath,
}

/** Not `performance.now()`: it is the same clock, but the first look at it loads all of `perf_hooks`. */
function monotonicMs(): number {
  const time = hrtime()
  return time[0] * 1_000 + time[1] / 1_000_000
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
  return new SystemTimer(handle)
}

/** A class: an object with a function of its own for each timer would be three objects. */
class SystemTimer implements Timer {
  readonly #handle: NodeJS.Timeout

  constructor(handle: NodeJS.Timeout) {
    this.#handle = handle
  }

  cancel(): void {
    clearTimeout(this.#handle)
  }
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

const RANDOM_BYTES = 8
const POOL = new Uint8Array(RANDOM_BYTES * 256)
const DIGITS = Buffer.from('0123456789abcdef')
/** The last id, as it is written: one text is made of it, and none of its parts. */
const ID = Buffer.alloc(36, '-')

let used = POOL.length
let lastMs = 0
let counter = 0
writeTime(lastMs)

/**
 * Ids that sort by the time of their making (UUID version 7). Stores keep ids in ordered indexes: new ones that all
 * land at the end touch a few pages, where random ones touch one page each. Measured on SQLite with 100 operations
 * to a transaction, that made the whole store more than twice as fast.
 */
export function timeOrderedUuid(wallMs: number): string {
  if (used === POOL.length) {
    globalThis.crypto.getRandomValues(POOL)
    used = 0
  }
  advance(wallMs)
  writeDigit(15, counter >> 8)
  writeByte(16, counter & 0xff)
  writeByte(19, 0x80 | (randomByte() & 0x3f))
  writeByte(21, randomByte())
  for (let at = 24; at < ID.length; at += 2) writeByte(at, randomByte())
  return ID.toString('latin1')
}

/** Ids of one millisecond are told apart by a counter, which borrows from the next when it is full. */
function advance(wallMs: number): void {
  if (wallMs <= lastMs && counter < 0xfff) {
    counter += 1
    return
  }
  lastMs = Math.max(wallMs, lastMs + 1)
  counter = 0
  writeTime(lastMs)
}

function writeTime(ms: number): void {
  const time = ms.toString(16).padStart(12, '0')
  ID.write(`${time.slice(0, 8)}-${time.slice(8)}-7`, 'latin1')
}

function randomByte(): number {
  const byte = POOL[used] ?? 0
  used += 1
  return byte
}

function writeByte(at: number, byte: number): void {
  writeDigit(at, byte >> 4)
  writeDigit(at + 1, byte & 0xf)
}

function writeDigit(at: number, digit: number): void {
  ID[at] = DIGITS[digit] ?? 0
}

const SECRET_BYTES = 32

/** A secret of 256 random bits, as text that needs no escaping in a header or a shell. */
export function randomSecret(): string {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(SECRET_BYTES))
  return Buffer.from(bytes).toString('base64url')
}

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

export function hostName(): string {
  return os.hostname()
}

/** Wall time at the start of this process, with a fraction. */
export function processStartedAtMs(): number {
  return performance.timeOrigin
}

export function ownProcessId(): number {
  return process.pid
}

/** 0 for the thread that a process begins with. */
export function ownThreadId(): number {
  return process.getBuiltinModule('node:worker_threads').threadId
}

/** Whether the system keeps, with each file, who may read it. */
export function hasFileModes(): boolean {
  return process.platform !== 'win32'
}

/** A process of another user cannot be asked, but it answers that it is there. */
export function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}
