import type { ClockOrder } from './host-clock.ts'

/** What a worker of the chaos is told, as JSON in its one argument. */
export interface WorkerOrder {
  readonly store: string
  /** The database whose table is written through a guard. */
  readonly guarded: string
  readonly log: string
  readonly holder: string
  readonly seed: string
  readonly tasks: number
  readonly resources: number
  readonly ttlMs: number
  readonly claimWindowMs: number
  /** Where the worker sees another time than the host's. */
  readonly clock?: ClockOrder
  /** The library that is tried, as its entry file; of another version, perhaps. */
  readonly library: string
}

/** The exit status of a worker whose store is of a layout that its version does not use. */
export const TURNED_AWAY = 3

export const GUARDED_TABLE = 'writes'
