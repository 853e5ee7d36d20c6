/** The simulator at length: worlds of both stores side by side, some of them replayed. */
import { childReport } from '../child-report.ts'
import { STEP_MINUTES_MAX, type Part, type Step, type StepOutcome } from '../part.ts'
import type { WorldsOrder, WorldsReport } from './play-worlds.ts'

const STEPS = 10
/** Of each store: about 8 minutes where nothing else runs. */
const WORLDS_PER_STEP = 6_000
const REPLAY_EVERY = 80
/** A world makes much garbage of its own, and all of it can go when it is over: a tenth more worlds. */
const NODE_OPTIONS = ['--max-semi-space-size=64']
/** Seeds of different steps and different runs do not meet. */
const SEEDS_PER_STEP = 1_000_000
const SEEDS_PER_RUN = 20_000_000

function step(index: number): Step {
  return {
    name: `worlds, step ${index + 1}`,
    minutes: STEP_MINUTES_MAX,
    run: async ({ seed, minutes, say }) => {
      const first = (seed % 1_000) * SEEDS_PER_RUN + index * SEEDS_PER_STEP + 1
      const reports = await Promise.all(
        (['memory', 'optimistic'] as const).map((store) => {
          const worldsMax = WORLDS_PER_STEP
          const order: WorldsOrder = { store, first, worldsMax, minutes, replayEvery: REPLAY_EVERY }
          const program = 'campaign/simulation/play-worlds.ts'
          const onLine = (line: string): void => say(`${store}: ${line}`)
          return childReport<WorldsReport>({ program, order, nodeOptions: NODE_OPTIONS, onLine })
        }),
      )
      return outcomeOf(reports, first)
    },
  }
}

function outcomeOf(reports: readonly WorldsReport[], first: number): StepOutcome {
  const sum = (of: (report: WorldsReport) => number): number => {
    return reports.reduce((total, report) => total + of(report), 0)
  }
  const points: Record<string, number> = {}
  for (const report of reports) {
    for (const [name, count] of Object.entries(report.points)) {
      points[name] = (points[name] ?? 0) + count
    }
  }
  return {
    counts: {
      worlds: sum(({ worlds }) => worlds),
      events: sum(({ events }) => events),
      'worlds replayed': sum(({ replayed }) => replayed),
    },
    points,
    failures: reports.flatMap(({ failures }) => failures),
    shortfalls: [],
    note: `seeds from ${first} on`,
  }
}

export const simulation: Part = {
  name: 'simulation',
  about:
    'The production core, service and client on simulated time, network, store and processes, with crashes, pauses, lost and repeated messages; every promise has ' +
    'a checker of its own. Each seed is played on a store that decides where it is and on one that decides before it asks. Some worlds are played twice and must leave the same trace. ' +
    'Every situation that makes a promise hard to keep must have occurred at least 100 times.',
  steps: Array.from({ length: STEPS }, (_, index) => step(index)),
  atLeast: { worlds: 100_000, 'worlds replayed': 1_000 },
  pointsAtLeast: 100,
}
