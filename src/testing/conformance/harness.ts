/**
 * What a store brings to the conformance suite, and what the suite brings to a behaviour. The suite asks for a clock
 * that it can move: nothing in it ever sleeps.
 */
import type { Store } from '../../store-port/store.ts'
import type { ManualTicks, TestClock } from '../fake-runtime.ts'
import type { Stage } from './stage.ts'

export interface OpenedStore {
  readonly store: Store
  /** The clock that this store decides by; for an embedded store, the ticks that were passed in. */
  readonly clock: TestClock
  /** Closes the store and opens the same data again. */
  reopen?(): Promise<Store>
  /** Opens the same data a second time, as another process would. */
  openAnother?(): Promise<Store>
  /** Closes everything that was opened and removes the data. */
  close(): Promise<void>
}

/**
 * What not every store can do; a store that cannot says why.
 *
 * `wall`: a wall clock apart from the tick, which a test can set. `domains`: a clock that can become another one.
 */
export type Capability = 'reopen' | 'openAnother' | 'wall' | 'domains'

export interface StoreHarness {
  readonly name: string
  /** An empty store, its own for each behaviour. */
  open(ticks: ManualTicks): Promise<OpenedStore>
  /** Why the store lacks a capability, shown with each behaviour that is therefore not run. */
  readonly without?: Partial<Record<Capability, string>>
}

/** The functions of whatever test runner is in use; Vitest, Jest, Mocha and `node:test` all have them. */
export interface TestTools {
  describe(name: string, body: () => void): unknown
  it(name: string, body: () => Promise<void>): unknown
  /** Shows that a behaviour was not run; its reason is in the name. */
  skip(name: string): unknown
}

/** One sentence that is true of every store, and how to see it. */
export interface Behaviour {
  readonly name: string
  readonly needs?: readonly Capability[]
  run(stage: Stage): Promise<void>
}
