/**
 * A runtime whose time stands still until a test moves it. Timers run in the order of their due times, and everything
 * that one of them sets in motion has come to rest before the next one runs, so a test is exact and never sleeps.
 *
 * It has the three clocks of a real host and the ways in which they come apart: a suspended host (`suspend`), a
 * stopped process (`stall`) and a wall clock that is set (`stepWall`). Ids and random numbers come from a seed.
 *
 * `ManualTicks` is such a clock for a store alone.
 */
import { invalid } from '../core/errors.ts'
import { setImmediate } from '../runtime/system-runtime.ts'
import type { Runtime, Timer, TimerOptions } from '../runtime/runtime.ts'
import type { TickSource } from '../runtime/tick-source.ts'

export interface FakeRuntimeOptions {
  /** Two runtimes with one seed give the same ids and random numbers. Default 1. */
  readonly seed?: number
  /** Wall time at the start. Default 2024-01-01T00:00:00Z. */
  readonly wallMs?: number
  /** False: the platform has no clock that counts sleep. Default true. */
  readonly hasBootClock?: boolean
  /** How symbolic links are resolved. Default: there are none. */
  readonly canonicalPath?: (path: string) => string
}

/** `os.uptime` shows hundredths of a second. */
const BOOT_STEP_MS = 10
const MONOTONIC_START_MS = 1_000
const BOOT_START_MS = 86_412_340
const WALL_START_MS = Date.UTC(2024, 0, 1)

interface FakeTimer {
  readonly dueMs: number
  readonly callback: () => void
  readonly keepAlive: boolean
}

export class FakeRuntime implements Runtime {
  readonly #hasBootClock: boolean
  readonly #canonicalPath: (path: string) => string
  readonly #timers = new Set<FakeTimer>()
  #monotonicMs = MONOTONIC_START_MS
  #bootMs = BOOT_START_MS
  #wallMs: number
  readonly #random: () => number

  constructor(options: FakeRuntimeOptions = {}) {
    this.#hasBootClock = options.hasBootClock ?? true
    this.#canonicalPath = options.canonicalPath ?? ((path) => path)
    this.#wallMs = options.wallMs ?? WALL_START_MS
    this.#random = randomFrom(options.seed ?? 1)
  }

  monotonicMs(): number {
    return this.#monotonicMs
  }

  bootMs(): number | null {
    return this.#hasBootClock ? Math.floor(this.#bootMs / BOOT_STEP_MS) * BOOT_STEP_MS : null
  }

  wallMs(): number {
    return Math.floor(this.#wallMs)
  }

  setTimer(delayMs: number, callback: () => void, options: TimerOptions): Timer {
    const dueMs = this.#monotonicMs + Math.max(0, delayMs)
    const timer: FakeTimer = { dueMs, callback, keepAlive: options.keepAlive }
    this.#timers.add(timer)
    return { cancel: () => void this.#timers.delete(timer) }
  }

  uuid(): string {
    const hex = Array.from({ length: 32 }, () => Math.floor(this.random() * 16).toString(16))
    hex[12] = '4'
    hex[16] = '8'
    const digits = hex.join('')
    const ends = [8, 12, 16, 20, 32]
    return ends.map((end, index) => digits.slice(ends[index - 1] ?? 0, end)).join('-')
  }

  random(): number {
    return this.#random()
  }

  canonicalPath(path: string): string {
    return this.#canonicalPath(path)
  }

  /** The clock of an embedded store on the same host: it stands still during `suspend`, as the real one does. */
  get ticks(): TickSource {
    return {
      host: 'fake',
      domain: 'fake/boot-1/0',
      tickUs: () => Math.round(this.#monotonicMs * 1000),
      wallMs: () => this.wallMs(),
    }
  }

  /** Timers that have neither run nor been cancelled. */
  get pendingTimers(): number {
    return this.#timers.size
  }

  /** Those of them that would keep a process alive. */
  get keepAliveTimers(): number {
    return [...this.#timers].filter((timer) => timer.keepAlive).length
  }

  /** Lets `spanMs` pass, running each timer at its own moment. Time ends up exactly `spanMs` later. */
  async advance(spanMs: number): Promise<void> {
    requireSpan(spanMs)
    await this.settle()
    const endMs = this.#monotonicMs + spanMs
    for (;;) {
      const next = this.#nextTimer()
      if (next === null || next.dueMs > endMs) break
      this.#pass(Math.max(0, next.dueMs - this.#monotonicMs))
      this.#timers.delete(next)
      next.callback()
      await this.settle()
    }
    this.#pass(endMs - this.#monotonicMs)
  }

  /** Resolves when nothing is left to do at this moment but timers. */
  async settle(): Promise<void> {
    for (let round = 0; round < 2; round += 1) {
      await new Promise<void>((resolve) => void setImmediate(resolve))
    }
  }

  /** The host sleeps: boot and wall time pass, the monotonic clock and all timers stand still. */
  suspend(spanMs: number): void {
    requireSpan(spanMs)
    this.#bootMs += spanMs
    this.#wallMs += spanMs
  }

  /** The process is stopped, or its event loop blocked: all clocks go on, but no timer runs until `advance`. */
  stall(spanMs: number): void {
    requireSpan(spanMs)
    this.#pass(spanMs)
  }

  /** Sets the wall clock; by a negative span, back. */
  stepWall(spanMs: number): void {
    this.#wallMs += spanMs
  }

  #pass(spanMs: number): void {
    this.#monotonicMs += spanMs
    this.#bootMs += spanMs
    this.#wallMs += spanMs
  }

  /** Of timers due at the same moment, the one that was set first. */
  #nextTimer(): FakeTimer | null {
    let next: FakeTimer | null = null
    for (const timer of this.#timers) {
      if (next === null || timer.dueMs < next.dueMs) next = timer
    }
    return next
  }
}

/** No clock goes back, and timers that set themselves anew would run for ever until a time that is none. */
function requireSpan(spanMs: number): void {
  if (Number.isFinite(spanMs) && spanMs >= 0) return
  throw invalid('spanMs', 'must be milliseconds, at least 0', spanMs)
}

/** mulberry32: one 32-bit word of state, which is plenty for ids and jitter. */
export function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** What a harness must be able to do with its store's clock. */
export interface TestClock {
  /** Lets time pass, on the tick and on the wall. */
  pass(spanMs: number): void
  /** Sets the wall forward, or back; the tick does not move. */
  stepWall(spanMs: number): void
  /** Goes on with another clock, `host/boot/clock`, whose ticks start somewhere else. */
  enterDomain(domain: string): void
}

const TICK_START_US = 1_000_000_000
const TICKS_WALL_START_MS = 1_700_000_000_000

/**
 * A clock that stands still until the test moves it, for stores that take a `TickSource`. Each of the things that can
 * happen to a real clock is a method: time passes, the wall is set, the host reboots or the file moves to another.
 */
export class ManualTicks implements TickSource, TestClock {
  readonly host = 'manual-host'
  #domain: string | null
  #us = TICK_START_US
  #wallMs = TICKS_WALL_START_MS

  /** Null is a platform that cannot tell one boot from the next. */
  constructor(domain: string | null = 'manual-host/boot-1/0') {
    this.#domain = domain
  }

  get domain(): string | null {
    return this.#domain
  }

  tickUs(): number {
    return this.#us
  }

  wallMs(): number {
    return this.#wallMs
  }

  pass(spanMs: number): void {
    this.#us += Math.round(spanMs * 1000)
    this.#wallMs += Math.floor(spanMs)
  }

  stepWall(spanMs: number): void {
    this.#wallMs += spanMs
  }

  /** The ticks of a new clock are lower here, as after a reboot, so that a store that compares them fails. */
  enterDomain(domain: string): void {
    if (domain === this.#domain) return
    this.#domain = domain
    this.#us = Math.floor(this.#us / 2)
  }
}
