/** How much is measured: enough for figures to keep, less for a look, or just enough to see every ratio within a minute. */
import type { StoreName } from './system.ts'

export const WORKS = [
  // First: whoever polls has the best of them in what follows.
  'pauses',
  'uncontended',
  'contended',
  'many',
  'keeping',
  'http',
  'start-up',
  'hook',
  'profile',
] as const
export type WorkName = (typeof WORKS)[number]

export interface Plan {
  readonly works: readonly WorkName[]
  readonly stores: readonly StoreName[]
  /** False when everything is too short to say whether a target is met. */
  readonly isJudged: boolean
  readonly uncontended: {
    readonly rounds: number
    readonly sliceMs: number
    /** Before the first round, for the compiler. */
    readonly warmUpMs: number
    /** How many resources there are. */
    readonly resources: number
  }
  readonly contended: {
    readonly rounds: number
    /** Before each round; not counted. */
    readonly leadInMs: number
    readonly roundMs: number
    /** How long each round without a hold lasts; it makes far more turns. */
    readonly holdlessMs: number
  }
  readonly pauses: {
    readonly triedMs: readonly number[]
    readonly leadInMs: number
    readonly roundMs: number
  }
  readonly many: {
    /** Beside a store of 1,000, which is always there. */
    readonly sizes: readonly number[]
    readonly rounds: number
    readonly samples: number
  }
  readonly keeping: { readonly leases: number; readonly ttlMs: number; readonly lastsMs: number }
  readonly http: {
    readonly rounds: number
    readonly sliceMs: number
    readonly warmUpMs: number
    readonly handovers: number
    readonly keeping: Plan['keeping']
    readonly streams: number
    /** How long the streams are idle. */
    readonly lastsMs: number
  }
  readonly startUp: { readonly rounds: number }
  /** Among how many leases of others. */
  readonly hook: { readonly sizes: readonly number[]; readonly rounds: number }
  /** How often each operation is done, three times over. */
  readonly profile: { readonly operations: number }
}

export type Amounts = Omit<Plan, 'works' | 'stores'>

const PAUSES_MS = [1, 2, 5, 10, 20, 50]

export const FULL: Amounts = {
  isJudged: true,
  uncontended: { rounds: 7, sliceMs: 300, warmUpMs: 2_000, resources: 1_000 },
  contended: { rounds: 3, leadInMs: 500, roundMs: 10_000, holdlessMs: 1_000 },
  pauses: { triedMs: PAUSES_MS, leadInMs: 300, roundMs: 1_200 },
  many: { sizes: [1, 100_000, 1_000_000], rounds: 7, samples: 60 },
  keeping: { leases: 10_000, ttlMs: 30_000, lastsMs: 60_000 },
  http: {
    ...{
      rounds: 7,
      sliceMs: 1_000,
      warmUpMs: 3_000,
      handovers: 300,
      streams: 1_000,
      lastsMs: 30_000,
    },
    keeping: { leases: 10_000, ttlMs: 30_000, lastsMs: 60_000 },
  },
  startUp: { rounds: 15 },
  hook: { sizes: [10, 1_000, 10_000], rounds: 101 },
  profile: { operations: 20_000 },
}

export const BRIEF: Amounts = {
  isJudged: false,
  uncontended: { rounds: 5, sliceMs: 150, warmUpMs: 1_000, resources: 1_000 },
  contended: { rounds: 1, leadInMs: 500, roundMs: 3_000, holdlessMs: 500 },
  pauses: { triedMs: PAUSES_MS, leadInMs: 100, roundMs: 500 },
  many: { sizes: [1, 100_000], rounds: 5, samples: 40 },
  keeping: { leases: 10_000, ttlMs: 30_000, lastsMs: 30_000 },
  http: {
    ...{
      rounds: 5,
      sliceMs: 500,
      warmUpMs: 1_500,
      handovers: 150,
      streams: 1_000,
      lastsMs: 10_000,
    },
    keeping: { leases: 10_000, ttlMs: 30_000, lastsMs: 30_000 },
  },
  startUp: { rounds: 9 },
  hook: { sizes: [10, 1_000, 10_000], rounds: 25 },
  profile: { operations: 5_000 },
}

export const QUICK: Amounts = {
  isJudged: false,
  uncontended: { rounds: 3, sliceMs: 15, warmUpMs: 60, resources: 300 },
  contended: { rounds: 1, leadInMs: 50, roundMs: 150, holdlessMs: 50 },
  pauses: { triedMs: PAUSES_MS, leadInMs: 20, roundMs: 100 },
  many: { sizes: [1, 2_000], rounds: 3, samples: 3 },
  keeping: { leases: 500, ttlMs: 1_500, lastsMs: 600 },
  http: {
    ...{ rounds: 3, sliceMs: 60, warmUpMs: 200, handovers: 15, streams: 50, lastsMs: 300 },
    keeping: { leases: 200, ttlMs: 1_500, lastsMs: 600 },
  },
  startUp: { rounds: 3 },
  hook: { sizes: [10, 1_000], rounds: 3 },
  profile: { operations: 500 },
}
