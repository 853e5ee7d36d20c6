/**
 * Time, timers, ids and randomness as everything outside the core gets them. Production uses `systemRuntime`; the
 * simulator and the tests pass one of their own, so nothing else may touch clocks or `Math.random`.
 */
import type { TickSource } from './tick-source.ts'

export interface Timer {
  /** Idempotent; after it returns the callback does not run. */
  cancel(): void
}

export interface TimerOptions {
  /** Whether the timer keeps the process alive. */
  readonly keepAlive: boolean
}

export interface Runtime {
  /** Milliseconds since some point, with a fraction; never goes back, and stands still while the host sleeps. */
  monotonicMs(): number
  /** Milliseconds since boot, counting sleep, a few milliseconds coarse; null where the platform has no such clock. */
  bootMs(): number | null
  wallMs(): number
  /** Calls back once after `delayMs`, however long that is, or later; a real timer may be almost 1 ms early. */
  setTimer(delayMs: number, callback: () => void, options: TimerOptions): Timer
  uuid(): string
  /** 0 inclusive to 1 exclusive. */
  random(): number
  /**
   * An absolute path with its deepest existing ancestor resolved through symbolic links. Throws the system's error for a
   * path that is there and cannot be followed.
   */
  canonicalPath(path: string): string
  /** The deciding clock of embedded stores on this host. Absent: the host's own. */
  readonly ticks?: TickSource
}
