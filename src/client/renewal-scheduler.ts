/**
 * One timer for everything a client must do at a time: renewals, deadlines and doubts of all its leases, or the
 * keep-alive of all its tickets. Nothing here waits for a call to return, so a slow one delays nobody else.
 *
 * An item says by when it must be attended to and from when on it may be. When the first item is due, all that may be
 * are attended to in the same macrotask, so that the store sees their requests together and commits them as one; of
 * very many, as many as a store commits at once, and the others in the turns that follow.
 * A tick costs O(log n) per item that is attended to, however many there are.
 *
 * While it holds anything, a watchdog looks at the clocks once a second: a host that slept has timers that are late
 * by as long as it slept, and then every item is attended to at once.
 */
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { HolderClock, Moment } from './holder-clock.ts'
import { SlotHeap, type Slot } from './slot-heap.ts'

/** When to come back, on the monotonic clock. */
export interface Attention {
  /** No earlier than this, even if others are attended to. */
  readonly earliestMs: number
  /** No later than this. */
  readonly dueMs: number
}

export interface Attended {
  /** Does what is due and says when to come back; null: never. Must not throw. */
  attend(now: Moment): Attention | null
}

/** Stands for an item in the schedule, knows its places there, and lets go of it for good when it is forgotten. */
export class Turn {
  /** To be used by the scheduler alone. */
  places: { readonly due: Slot<Turn>; readonly earliest: Slot<Turn> } | null = null
  #item: Attended | null

  constructor(item: Attended) {
    this.#item = item
  }

  get item(): Attended | null {
    return this.#item
  }

  end(): void {
    this.#item = null
  }
}

export interface SchedulerOptions {
  readonly runtime: Runtime
  readonly clock: HolderClock
  /** Holding a lease does not keep a process alive; waiting for one does. */
  readonly keepAlive: boolean
}

const WATCHDOG_MS = 1_000
/**
 * So many share a commit. Ten thousand at once would all be under way at the same time, and what is under way is copied
 * by every collection: a third of the time that it took to keep them.
 */
const ATTENDED_AT_ONCE_MAX = 500

export class RenewalScheduler {
  readonly #runtime: Runtime
  readonly #clock: HolderClock
  readonly #keepAlive: boolean
  readonly #byDue = new SlotHeap<Turn>()
  readonly #byEarliest = new SlotHeap<Turn>()
  #timer: { readonly timer: Timer; readonly firesAtMs: number } | null = null
  #looked: Moment | null = null
  /** The last tick left some that may be attended to as well. */
  #hasMore = false
  #closed = false

  constructor({ runtime, clock, keepAlive }: SchedulerOptions) {
    this.#runtime = runtime
    this.#clock = clock
    this.#keepAlive = keepAlive
  }

  get size(): number {
    return this.#byDue.size
  }

  /** Puts it in, or moves it if it is in already. A turn that was forgotten is never attended to again. */
  schedule(turn: Turn, attention: Attention): void {
    if (this.#closed || turn.item === null) return
    if (this.#byDue.size === 0) this.#looked = this.#clock.now()
    this.#place(turn, attention)
    this.#arm()
  }

  forget(turn: Turn): void {
    turn.end()
    if (turn.places !== null) {
      this.#byDue.remove(turn.places.due)
      this.#byEarliest.remove(turn.places.earliest)
    }
    if (this.#byDue.size === 0) this.#disarm()
  }

  #place(turn: Turn, { dueMs, earliestMs }: Attention): void {
    if (turn.places === null) {
      const due = this.#byDue.add(turn, dueMs)
      turn.places = { due, earliest: this.#byEarliest.add(turn, earliestMs) }
      return
    }
    this.#byDue.move(turn.places.due, dueMs)
    this.#byEarliest.move(turn.places.earliest, earliestMs)
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
    const turns = slept ? this.#byDue.slots.map(({ item }) => item) : this.#takeDue(now)
    for (const turn of turns) this.#attend(turn, now)
    this.#arm()
  }

  #attend(turn: Turn, now: Moment): void {
    const attention = turn.item?.attend(now) ?? null
    if (attention === null || turn.item === null) this.forget(turn)
    else this.#place(turn, attention)
  }

  /** All that may be attended to now, provided that at least one of them must. */
  #takeDue({ monotonicMs }: Moment): readonly Turn[] {
    const first = this.#byDue.first
    const isDue = first !== undefined && first.key <= monotonicMs
    if (!isDue && !this.#hasMore) return []
    const due: Turn[] = []
    while (due.length < ATTENDED_AT_ONCE_MAX) {
      const next = this.#byEarliest.first
      this.#hasMore = next !== undefined && next.key <= monotonicMs
      if (next === undefined || !this.#hasMore) break
      this.#byEarliest.remove(next)
      due.push(next.item)
    }
    return due
  }

  /** Sees to it that the timer fires in time for whatever comes first, and never later than the watchdog wants. */
  #arm(): void {
    const first = this.#byDue.first
    if (first === undefined) return this.#disarm()
    // Whenever it was armed, it was for no later than the watchdog wants.
    if (this.#timer !== null && this.#timer.firesAtMs <= first.key) return
    const nowMs = this.#runtime.monotonicMs()
    const firesAtMs = this.#hasMore ? nowMs : Math.min(first.key, nowMs + WATCHDOG_MS)
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
