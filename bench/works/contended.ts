/**
 * Work 2: everybody wants one resource. 50 workers in one process who hold it for 1 ms or not at all, and 4 processes
 * of 12 workers. Counted are true handovers: turns that another worker had before.
 */
import { judgeBout } from '../measure/bout.ts'
import { contend, workerNames, type ContendOptions } from '../measure/contend.ts'
import { median } from '../measure/statistics.ts'
import type { Contention, Turns } from '../measure/turns.ts'
import { within } from '../measure/within.ts'
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

/** The scene that has targets. */
export const JUDGED_SCENE = 'handover, 1 ms hold'
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
        { ...common, work: JUDGED_SCENE, holdMs: 1, roundMs },
        { ...common, work: 'handover, 0 ms hold', holdMs: 0, roundMs: holdlessMs },
      ],
    },
    {
      company: { processes: PROCESSES, workers: 12 },
      scenes: [{ ...common, work: `${JUDGED_SCENE}, ${PROCESSES} processes`, holdMs: 1, roundMs }],
    },
  ]
}

export async function measureContended(stage: Stage, plan: Plan): Promise<readonly Result[]> {
  // All stores in the same rounds: handovers are compared with those of advisory locks, wherever Tenure keeps its own.
  const systems = plan.stores
    .flatMap((store) => systemsOf(stage, store))
    .filter(({ contends }) => contends)
  const contenders = Contenders.start({ processes: PROCESSES })
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
      entrants.push({ system, place, open: await within(system.open(place, company.workers)) })
    } catch (error) {
      const failed = { kind: 'failed', error: messageOf(error) } as const
      results.push(...scenes.map((scene) => resultOf(company, scene, system, failed)))
    }
  }
  const failed = new Map<Entrant, Measured<Played>>()
  for (const scene of scenes) {
    // Without a hold no two turns of a process can be seen to overlap: whoever did not exclude before is out.
    const able = entrants.filter((entrant) => !failed.has(entrant))
    const played = await inTurns(able, scene.rounds, (entrant) =>
      play(places, entrant, { company, scene }),
    )
    for (const [entrant, outcome] of [...failed, ...played]) {
      if (outcome.kind === 'failed') failed.set(entrant, outcome)
      results.push(resultOf(company, scene, entrant.system, outcome))
    }
  }
  await closeAll(entrants, places)
  return results
}

async function play(
  places: Pick<Places, 'counts'>,
  { system, place, open }: Entrant,
  { company, scene }: { readonly company: Company; readonly scene: Scene },
): Promise<Played> {
  const { holdMs, leadInMs, roundMs } = scene
  const { workers } = company
  const player: Player = open
  const before = await places.counts(system.store, place)
  const { contention, served } = await judgeBout({
    ...{ names: namesOf(company), leadInMs, roundMs },
    play: (untilUs) => {
      const options = { resource: RESOURCE, workers, prefix: 'w', holdMs, untilUs }
      return player.play === undefined ? contend(player, options) : player.play(options)
    },
  })
  const after = await places.counts(system.store, place)
  const each = (figure: keyof StoreCounts): number | null => {
    const [from, to] = [before?.[figure] ?? null, after?.[figure] ?? null]
    return from === null || to === null || served === 0 ? null : (to - from) / served
  }
  const calls = { operationsPerHandover: each('operations'), commitsPerHandover: each('commits') }
  return { contention, ...calls }
}

function namesOf({ processes, workers }: Company): readonly string[] {
  if (processes === 1) return workerNames('w', workers)
  return Array.from({ length: processes }, (_, n) => workerNames(`w${n}.`, workers)).flat()
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
