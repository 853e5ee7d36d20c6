/**
 * Work 2: everybody wants one resource. 50 workers in one process who hold it for 1 ms or not at all, and 4 processes
 * of 12 workers. Counted are true handovers: turns that another worker had before.
 */
import { contend, nowUs, workerNames, type ContendOptions } from '../measure/contend.ts'
import { median } from '../measure/statistics.ts'
import { contentionOf, overlapOf, type Contention, type Turns } from '../measure/turns.ts'
import type { Places, StoreCounts } from '../places.ts'
import type { Plan } from '../plan.ts'
import { messageOf, type Result } from '../result.ts'
import type { OpenSystem, SystemUnderTest } from '../system.ts'
import { Contenders } from './contenders.ts'
import {
  closeAll,
  inTurns,
  systemsOf,
  type Entrant,
  type Measured,
  type Stage,
} from './entrants.ts'

const RESOURCE = 'wanted'
const PROCESSES = 4

/** Who contends: so many workers in each of so many processes. */
export interface Company {
  readonly processes: number
  readonly workers: number
}

export interface Scene {
  readonly work: string
  readonly holdMs: number
  /** Until all have come together and the compiler has seen everything; not counted. */
  readonly leadInMs: number
  readonly roundMs: number
  readonly rounds: number
}

interface Act {
  readonly company: Company
  readonly scenes: readonly Scene[]
}

function actsOf({ rounds, leadInMs, roundMs, holdlessMs }: Plan['contended']): readonly Act[] {
  const common = { rounds, leadInMs }
  return [
    {
      company: { processes: 1, workers: 50 },
      scenes: [
        { ...common, work: 'handover, 1 ms hold', holdMs: 1, roundMs },
        { ...common, work: 'handover, 0 ms hold', holdMs: 0, roundMs: holdlessMs },
      ],
    },
    {
      company: { processes: PROCESSES, workers: 12 },
      scenes: [{ ...common, work: 'handover, 1 ms hold, 4 processes', holdMs: 1, roundMs }],
    },
  ]
}

export async function measureContended(stage: Stage, plan: Plan): Promise<readonly Result[]> {
  // All stores in the same rounds: handovers are compared with those of advisory locks, wherever Tenure keeps its own.
  const systems = plan.stores
    .flatMap((store) => systemsOf(stage, store))
    .filter(({ contends }) => contends)
  const contenders = Contenders.start(PROCESSES)
  const results: Result[] = []
  try {
    for (const act of actsOf(plan.contended)) {
      const { processes, workers } = act.company
      stage.say(`contended, processes × workers: ${processes} × ${workers}`)
      const players = processes === 1 ? systems : systems.map((s) => across(s, contenders))
      results.push(...(await measureAct(stage.places, players, act)))
    }
  } finally {
    await contenders.end()
  }
  return results
}

/** What plays a scene: in this process, or in several others. */
interface Player extends OpenSystem {
  play?(options: ContendOptions): Promise<Turns>
}

function across(system: SystemUnderTest, contenders: Contenders): SystemUnderTest {
  const never = async (): Promise<never> => Promise.reject(new Error('the contenders do that'))
  return {
    ...system,
    open: async (place, workers): Promise<Player> => {
      await contenders.open(system, place, workers)
      return {
        ...{ acquire: never, release: never },
        play: (options) => contenders.contend(system, options),
        close: () => contenders.close(system),
      }
    },
  }
}

interface Played {
  readonly contention: Contention
  readonly operationsPerHandover: number | null
  readonly commitsPerHandover: number | null
}

export async function measureAct(
  places: Pick<Places, 'fresh' | 'remove' | 'counts'>,
  systems: readonly SystemUnderTest[],
  { company, scenes }: Act,
): Promise<readonly Result[]> {
  const entrants: Entrant[] = []
  const results: Result[] = []
  for (const system of systems) {
    const place = await places.fresh(system.store)
    try {
      entrants.push({ system, place, open: await system.open(place, company.workers) })
    } catch (error) {
      const failed = { kind: 'failed', error: messageOf(error) } as const
      results.push(...scenes.map((scene) => resultOf(company, scene, system, failed)))
    }
  }
  for (const scene of scenes) {
    const played = await inTurns(entrants, scene.rounds, (entrant) =>
      play(places, entrant, { company, scene }),
    )
    for (const [{ system }, outcome] of played) {
      results.push(resultOf(company, scene, system, outcome))
    }
  }
  await closeAll(entrants, places)
  return results
}

async function play(
  places: Pick<Places, 'counts'>,
  entrant: Entrant,
  { company, scene }: { readonly company: Company; readonly scene: Scene },
): Promise<Played> {
  const { holdMs, leadInMs, roundMs } = scene
  const { workers, processes } = company
  const before = await countsOf(places, entrant)
  const fromUs = nowUs() + leadInMs * 1_000
  const untilUs = fromUs + roundMs * 1_000
  const options = { resource: RESOURCE, workers, prefix: 'w', holdMs, untilUs }
  const player: Player = entrant.open
  const turns =
    player.play === undefined ? await contend(player, options) : await player.play(options)
  const after = await countsOf(places, entrant)
  const overlap = overlapOf(turns.turns)
  if (overlap !== null) throw new Error(overlap)
  const names =
    processes === 1
      ? workerNames('w', workers)
      : Array.from({ length: processes }, (_, index) => workerNames(`w${index}.`, workers)).flat()
  const contention = contentionOf(turns, names, { fromUs, untilUs })
  const all = contentionOf(turns, names, { fromUs: 0, untilUs }).handovers
  const each = (figure: 'operations' | 'commits'): number | null => {
    const [from, to] = [before?.[figure] ?? null, after?.[figure] ?? null]
    return from === null || to === null || all === 0 ? null : (to - from) / all
  }
  const calls = { operationsPerHandover: each('operations'), commitsPerHandover: each('commits') }
  return { contention, ...calls }
}

/** `proper-lockfile` keeps nothing in a store that counts. */
function countsOf(
  places: Pick<Places, 'counts'>,
  { system, place }: Entrant,
): Promise<StoreCounts | null> {
  return places.counts(system.store, place)
}

function resultOf(
  { processes, workers }: Company,
  { work }: Scene,
  system: SystemUnderTest,
  outcome: Measured<Played>,
): Result {
  const rounds = outcome.kind === 'measured' ? outcome.rounds : []
  const middle = (figure: 'operationsPerHandover' | 'commitsPerHandover'): number | null => {
    const known = rounds.map((round) => round[figure]).filter((value) => value !== null)
    return known.length === 0 ? null : median(known)
  }
  return {
    ...{ work, store: system.store, system: system.name, inFlight: processes * workers },
    isReference: system.role === 'reference',
    rounds: rounds.map(({ contention }) => ({
      opsPerSecond: contention.handoversPerSecond,
      p50Ms: contention.gapP50Ms,
      p99Ms: contention.gapP99Ms,
    })),
    error: outcome.kind === 'failed' ? outcome.error : null,
    contention: {
      rounds: rounds.map(({ contention }) => contention),
      operationsPerHandover: middle('operationsPerHandover'),
      commitsPerHandover: middle('commitsPerHandover'),
    },
  }
}
