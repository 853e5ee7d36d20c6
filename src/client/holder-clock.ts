/**
 * Elapsed time as a holder must count it: never less than what passed on the store's clock.
 *
 * The monotonic clock is precise but stands still while the host sleeps; the boot clock counts sleep but is coarse. So
 * the larger of the two counts, and the boot clock is believed only where it is ahead by more than its own coarseness
 * explains; then one step is added, because two readings may differ by a step less than what passed. Where there is no boot clock, wall time takes its place: setting it forward then costs leases early, and
 * setting it back changes nothing. One percent of every term is given away, because two clocks may run at different
 * rates. What this does not cover: a host whose monotonic clock runs slow by more than that; and for one millisecond of
 * running time a sleep of which the wall clock, set back at that very moment, shows nothing either.
 */
import type { Runtime } from '../runtime/runtime.ts'

/** One reading of all clocks. */
export interface Moment {
  readonly monotonicMs: number
  readonly bootMs: number | null
  readonly wallMs: number
}

/** A span that runs from a moment: what a store granted, counted from before it was asked. */
export interface Term {
  readonly from: Moment
  readonly spanMs: number
}

/** What its term says of a lease to the holder, between two answers of the store. */
export type TermState = 'held' | 'uncertain' | 'lost'

/**
 * The one rule for the lease of a handle and for a session of a fleet. At the end of its term the lease is lost, whatever else
 * is known. `isTroubled`: a renewal or the connection has failed since the last confirmation; `untilDoubtMs`: until the next
 * confirmation is overdue.
 */
export function termState(
  leftMs: number,
  { isTroubled, untilDoubtMs }: { readonly isTroubled: boolean; readonly untilDoubtMs: number },
): TermState {
  if (leftMs <= 0) return 'lost'
  return isTroubled || untilDoubtMs <= 0 ? 'uncertain' : 'held'
}

/** The boot clock shows hundredths of a second on most platforms, and whole seconds on some. */
const FINE_STEP_MS = 10
const COARSE_STEP_MS = 1_000
const WALL_STEP_MS = 1
/** Ahead by no more than this and a step, a clock proves nothing. */
const SLACK_MS = 10
const RATE_ALLOWANCE = 0.01
/** A reading of the boot clock opens a file on Linux; one a millisecond is more than its own steps can tell. */
const BOOT_FRESH_MS = 1

export class HolderClock {
  readonly #runtime: Runtime
  /** Taken for coarse until it shows a fraction. */
  #bootStepMs = COARSE_STEP_MS
  /** When the boot clock was last read. */
  #last: Moment | null = null

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  now(): Moment {
    const monotonicMs = this.#runtime.monotonicMs()
    const wallMs = this.#runtime.wallMs()
    const last = this.#last
    if (last !== null && isShortlyAfter(last, monotonicMs, wallMs)) {
      return { monotonicMs, bootMs: last.bootMs, wallMs }
    }
    this.#last = { monotonicMs, bootMs: this.#readBoot(), wallMs }
    return this.#last
  }

  #readBoot(): number | null {
    const bootMs = this.#runtime.bootMs()
    const isWholeSecond = bootMs === null || bootMs % COARSE_STEP_MS === 0
    if (!isWholeSecond) this.#bootStepMs = FINE_STEP_MS
    return bootMs
  }

  /** The larger of monotonic and boot time between two moments. */
  elapsedMs(since: Moment, now: Moment): number {
    const monotonicMs = now.monotonicMs - since.monotonicMs
    if (since.bootMs === null || now.bootMs === null) {
      return larger(monotonicMs, now.wallMs - since.wallMs, WALL_STEP_MS)
    }
    return larger(monotonicMs, now.bootMs - since.bootMs, this.#bootStepMs)
  }

  /** What is left of a term, negative once it is over. */
  remainingMs(term: Term, now: Moment): number {
    return term.spanMs - term.spanMs * RATE_ALLOWANCE - this.elapsedMs(term.from, now)
  }

  /** Whether the host slept between two moments, so that timers due by the monotonic clock are late. */
  sleptBetween(since: Moment, now: Moment): boolean {
    return this.elapsedMs(since, now) > now.monotonicMs - since.monotonicMs
  }
}

function larger(preciseMs: number, coarseMs: number, stepMs: number): number {
  return coarseMs > preciseMs + stepMs + SLACK_MS ? coarseMs + stepMs : preciseMs
}

/**
 * Whether so little has passed that the boot clock can have nothing new to tell: by the monotonic clock, and, because
 * that one stands still while the host sleeps, by wall time as well.
 */
function isShortlyAfter(last: Moment, monotonicMs: number, wallMs: number): boolean {
  return (
    monotonicMs - last.monotonicMs < BOOT_FRESH_MS &&
    Math.abs(wallMs - last.wallMs) <= BOOT_FRESH_MS
  )
}
