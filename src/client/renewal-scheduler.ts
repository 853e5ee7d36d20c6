/**
 * One timer for everything a client must do at a time: renewals, deadlines and doubts of all its leases, or the
 * keep-alive of all its tickets. Nothing here waits for a call to return, so a slow one delays nobody else.
 *
 * An item says by when it must be attended to and from when on it may be. When the first item is due, all that may be
 * are attended to in the same macrotask, so that the store sees their requests together and commits them as one.
 * A tick costs O(log n) per item that is attended to, however many there are.
 *
 * While it holds anything, a watchdog looks at the clocks once a second: a host that slept has timers that are late
 * by as long as it slept, and then every item is attended to at once.
 */
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { HolderClock, Moment } from './holder-clock.ts'
import { KeyedHeap } from './keyed-heap.ts'

/** When to come back, on the monotonic clock. */
export interface Attention {
  /** No earlier than this, even if others are attended to. */
  readonly earliestMs: number
  /** No later than this. */
  readonly dueMs: number
}

export interface Attended {
  /** Its place in the schedule, which the scheduler alone sets; null: it has none. */
  turn: Turn | null
  /** Does what is due and says when to come back; null: never. Must not throw. */
  attend(now: Moment): Attention | null
}

/**
 * The heaps hold these instead of the items, and let go of the item at once when it is forgotten: a map that is used as
 * much as theirs would keep it until the next full collection (see `TransientMap`).
 */
export interface Turn {
  item: Attended | null
}

export interface SchedulerOptions {
  readonly runtime: Runtime
  readonly clock: HolderClock
  /** Holding a lease does not keep a process alive; waiting for one does. */
  readonly keepAlive: boolean
}

const WATCHDOG_MS = 1_000

export class RenewalScheduler {
  readonly #runtime: Runtime
  readonly #clock: HolderClock
  readonly #keepAlive: boolean
  readonly #byDue = new KeyedHeap<Turn>()
  readonly #byEarliest = new KeyedHeap<Turn>()
  #timer: { readonly timer: Timer; readonly firesAtMs: number } | null = null
  #looked: Moment | null = null
  #closed = false

  constructor({ runtime, clock, keepAlive }: SchedulerOptions) {
    this.#runtime = runtime
    this.#clock = clock
    this.#keepAlive = keepAlive
  }

  get size(): number {
    return this.#byDue.size
  }

  schedule(item: Attended, attention: Attention): void {
    if (this.#closed) return
    if (this.#byDue.size === 0) this.#looked = this.#clock.now()
    item.turn ??= { item }
    this.#place(item.turn, attention)
    this.#arm()
  }

  forget(item: Attended): void {
    const { turn } = item
    if (turn === null) return
    item.turn = null
    turn.item = null
    this.#byDue.delete(turn)
    this.#byEarliest.delete(turn)
    if (this.#byDue.size === 0) this.#disarm()
  }

  #place(turn: Turn, { dueMs, earliestMs }: Attention): void {
    this.#byDue.set(turn, dueMs)
    this.#byEarliest.set(turn, earliestMs)
  }

  /** Forgets everything, and everything that is scheduled later. */
  close(): void {
    this.#closed = true
    this.#byDue.clear()
    this.#byEarliest.clear()
    this.#disarm()
  }

  #tick(): void {
    this.#timer = null
    const now = this.#clock.now()
    const slept = this.#looked !== null && this.#clock.sleptBetween(this.#looked, now)
    this.#looked = now
    const turns = slept ? [...this.#byDue.items()] : this.#takeDue(now)
    for (const turn of turns) this.#attend(turn, now)
    this.#arm()
  }

  #attend(turn: Turn, now: Moment): void {
    const { item } = turn
    if (item === null) return
    const attention = item.attend(now)
    if (attention === null) this.forget(item)
    else if (item.turn === turn) this.#place(turn, attention)
  }

  /** All that may be attended to now, provided that at least one of them must. */
  #takeDue({ monotonicMs }: Moment): readonly Turn[] {
    const first = this.#byDue.first
    if (first === undefined || first.key > monotonicMs) return []
    const due: Turn[] = []
    for (;;) {
      const next = this.#byEarliest.first
      if (next === undefined || next.key > monotonicMs) return due
      this.#byEarliest.delete(next.item)
      due.push(next.item)
    }
  }

  /** Sees to it that the timer fires in time for whatever comes first, and never later than the watchdog wants. */
  #arm(): void {
    const first = this.#byDue.first
    if (first === undefined) return this.#disarm()
    const nowMs = this.#runtime.monotonicMs()
    const firesAtMs = Math.min(first.key, nowMs + WATCHDOG_MS)
    if (this.#timer !== null && this.#timer.firesAtMs <= firesAtMs) return
    this.#disarm()
    const delayMs = Math.max(1, Math.ceil(firesAtMs - nowMs))
    const options = { keepAlive: this.#keepAlive }
    const timer = this.#runtime.setTimer(delayMs, () => this.#tick(), options)
    this.#timer = { timer, firesAtMs }
  }

  #disarm(): void {
    this.#timer?.timer.cancel()
    this.#timer = null
  }
}
