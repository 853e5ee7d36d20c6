/**
 * The renewal loop: one timer for everything a client must do at a time, that is renewals, deadlines and doubts of all its
 * leases, or the keep-alive of all its tickets. Nothing here waits for a call to return, so a slow one delays no other.
 *
 * A task says by when it must run and from when on it may. When the first task is due, all that may run do so in the same
 * macrotask, so that the store sees their requests together and commits them as one; of very many, as many as a store
 * commits at once, and the others in the macrotasks that follow. A tick costs O(log n) per task that runs, however many
 * there are.
 *
 * While it has any task, a watchdog looks at the clocks once a second: a host that slept has timers that are late by as
 * long as it slept, and then every task runs at once.
 */
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { HolderClock, Moment } from './holder-clock.ts'

/** When a task runs, on the monotonic clock. */
export interface DueWindow {
  /** No earlier than this, even if others run. */
  readonly earliestMs: number
  /** No later than this. */
  readonly dueMs: number
}

export interface Runnable {
  /** Does what is due and says when to run again; null: never. Must not throw. */
  runDue(now: Moment): DueWindow | null
}

/** A place in the schedule. Once it is forgotten it never runs again and holds nothing of what it ran. */
export class ScheduledTask {
  /** To be used by the scheduler alone. */
  slots: { readonly due: Slot<ScheduledTask>; readonly earliest: Slot<ScheduledTask> } | null = null
  #item: Runnable | null

  constructor(item: Runnable) {
    this.#item = item
  }

  get item(): Runnable | null {
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
const RUN_AT_ONCE_MAX = 500

export class RenewalScheduler {
  readonly #runtime: Runtime
  readonly #clock: HolderClock
  readonly #keepAlive: boolean
  readonly #byDue = new SlotHeap<ScheduledTask>()
  readonly #byEarliest = new SlotHeap<ScheduledTask>()
  #timer: { readonly timer: Timer; readonly firesAtMs: number } | null = null
  #looked: Moment | null = null
  /** The last tick left some that may run as well. */
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

  /** Puts it in, or moves it if it is in already. A task that was forgotten never runs again. */
  schedule(task: ScheduledTask, window: DueWindow): void {
    if (this.#closed || task.item === null) return
    if (this.#byDue.size === 0) this.#looked = this.#clock.now()
    this.#place(task, window)
    this.#arm()
  }

  forget(task: ScheduledTask): void {
    task.end()
    if (task.slots !== null) {
      this.#byDue.remove(task.slots.due)
      this.#byEarliest.remove(task.slots.earliest)
    }
    if (this.#byDue.size === 0) this.#disarm()
  }

  #place(task: ScheduledTask, { dueMs, earliestMs }: DueWindow): void {
    if (task.slots === null) {
      const due = this.#byDue.add(task, dueMs)
      task.slots = { due, earliest: this.#byEarliest.add(task, earliestMs) }
      return
    }
    this.#byDue.move(task.slots.due, dueMs)
    this.#byEarliest.move(task.slots.earliest, earliestMs)
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
    const tasks = slept ? this.#byDue.slots.map(({ item }) => item) : this.#takeDue(now)
    for (const task of tasks) this.#run(task, now)
    this.#arm()
  }

  #run(task: ScheduledTask, now: Moment): void {
    const window = task.item?.runDue(now) ?? null
    if (window === null || task.item === null) this.forget(task)
    else this.#place(task, window)
  }

  /** All that may run now, provided that at least one of them must. */
  #takeDue({ monotonicMs }: Moment): readonly ScheduledTask[] {
    const first = this.#byDue.first
    const isDue = first !== undefined && first.key <= monotonicMs
    if (!isDue && !this.#hasMore) return []
    const due: ScheduledTask[] = []
    while (due.length < RUN_AT_ONCE_MAX) {
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

export interface Slot<Item> {
  readonly item: Item
  /** To be changed by the heap alone. */
  key: number
  position: number
}

/** Where a slot is that has been taken out. */
const OUTSIDE = -1

/**
 * A binary heap whose slots know where they are, so that one can be moved or taken out in O(log n) without looking for it: the
 * caller that puts something in keeps the slot.
 */
export class SlotHeap<Item> {
  readonly #slots: Slot<Item>[] = []

  get size(): number {
    return this.#slots.length
  }

  /** The slot with the smallest key. */
  get first(): Slot<Item> | undefined {
    return this.#slots[0]
  }

  get slots(): readonly Slot<Item>[] {
    return this.#slots
  }

  add(item: Item, key: number): Slot<Item> {
    const slot = { item, key, position: this.#slots.length }
    this.#rise(slot.position, slot)
    return slot
  }

  /** Gives a slot another key; one that was taken out is put in again. */
  move(slot: Slot<Item>, key: number): void {
    slot.key = key
    if (slot.position === OUTSIDE) this.#rise(this.#slots.length, slot)
    else this.#place(slot.position, slot)
  }

  /** Without effect on a slot that is not in. */
  remove(slot: Slot<Item>): void {
    const { position } = slot
    if (position === OUTSIDE) return
    slot.position = OUTSIDE
    const last = this.#slots.pop()
    if (last !== undefined && last !== slot) this.#place(position, last)
  }

  clear(): void {
    for (const slot of this.#slots) slot.position = OUTSIDE
    this.#slots.length = 0
  }

  #place(position: number, slot: Slot<Item>): void {
    const parent = this.#slots[(position - 1) >> 1]
    if (position > 0 && parent !== undefined && slot.key < parent.key) this.#rise(position, slot)
    else this.#sink(position, slot)
  }

  #rise(start: number, slot: Slot<Item>): void {
    let position = start
    while (position > 0) {
      const above = (position - 1) >> 1
      const parent = this.#slots[above]
      if (parent === undefined || parent.key <= slot.key) break
      this.#put(position, parent)
      position = above
    }
    this.#put(position, slot)
  }

  #sink(start: number, slot: Slot<Item>): void {
    let position = start
    for (;;) {
      const below = this.#smallerChild(position)
      const child = this.#slots[below]
      if (child === undefined || child.key >= slot.key) break
      this.#put(position, child)
      position = below
    }
    this.#put(position, slot)
  }

  #smallerChild(position: number): number {
    const left = 2 * position + 1
    const leftKey = this.#slots[left]?.key ?? Infinity
    const rightKey = this.#slots[left + 1]?.key ?? Infinity
    return rightKey < leftKey ? left + 1 : left
  }

  #put(position: number, slot: Slot<Item>): void {
    this.#slots[position] = slot
    slot.position = position
  }
}
