/**
 * What is measured: one interface for Tenure, for its peers, and for the hand-written loops that show what a store can
 * do at most. A work is written against this interface alone, so that everybody is asked for the same.
 */
export const STORE_NAMES = ['sqlite', 'redis', 'postgres'] as const
export type StoreName = (typeof STORE_NAMES)[number]

/** What a system does beside excluding others. What is false here is missing, not slow. */
export interface Offers {
  /** A holder that dies loses what it has after a while. */
  readonly ttl: boolean
  readonly fence: boolean
  /** Whoever waits is served in the order of asking. */
  readonly fair: boolean
  readonly history: boolean
  /** What was answered survives a loss of power, with the store's settings of this run. */
  readonly durable: boolean
}

/** Empty, and used by one system only. */
export interface Place {
  /** A URL; for SQLite the path of a folder. */
  readonly at: string
}

export interface SystemUnderTest<Held = unknown> {
  readonly name: string
  readonly store: StoreName
  /** Ratios are taken against the store's reference: the floor or limit written by hand. */
  readonly role: 'tenure' | 'reference' | 'peer'
  /** The settings it runs with, for people. */
  readonly settings: string
  readonly offers: Offers
  /** False for what is made for the uncontended works only. */
  readonly contends: boolean
  /** For whoever waits by asking again. */
  readonly polling?: Polling<Held>
  /** Once for a process, whose workers share it. `workers`: how many of them will wait at the same time. */
  open(place: Place, workers: number): Promise<OpenSystem<Held>>
}

export interface Polling<Held = unknown> {
  /** Between two attempts, without what is added by chance so that not all ask in step. */
  readonly pauseMs: number
  /** The same system with another pause. */
  pausing(pauseMs: number): SystemUnderTest<Held>
}

/** Whoever does not poll has none, and stays as it is. */
export function withPause(system: SystemUnderTest, pauseMs: number | null): SystemUnderTest {
  return pauseMs === null ? system : (system.polling?.pausing(pauseMs) ?? system)
}

export interface OpenSystem<Held = unknown> {
  /** Waits until it has the resource; throws if it cannot get it. */
  acquire(resource: string, ttlMs: number): Promise<Held>
  /** Throws if it was not the holder's any more. */
  release(held: Held): Promise<void>
  renew?(held: Held, ttlMs: number): Promise<void>
  /** For a limit that has no callers: does so many at once, in one transaction. */
  readonly loop?: Loop
  /** Makes so many more live leases, as fast as it can. */
  fill?(count: number): Promise<void>
  /** Tells how many live leases a holder has. Of what was filled in, each holder has ten: see `holderNumbered`. */
  list?(holder: string): Promise<number>
  close(): Promise<void>
}

/** So many at once, over so many resources. */
export interface Loop {
  pairs(count: number, resources: number): void
  /** Each renewal has another expiry than the last one: a write of the same bytes is skipped by SQLite. */
  renewals(count: number, resources: number): void
}

export const LEASES_PER_HOLDER = 10

export function holderNumbered(number: number): string {
  return `holder-${number}`
}

export const NOTHING: Offers = {
  ttl: false,
  fence: false,
  fair: false,
  history: false,
  durable: false,
}
