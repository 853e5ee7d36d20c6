/**
 * Which pause serves those best who wait by asking again: too long, and nobody is there when the resource becomes free;
 * too short, and those who ask in vain keep the store from the one who could have it.
 */
import { closeSystem } from '../measure/close-system.ts'
import { judgeBout } from '../measure/bout.ts'
import { contend, workerNames } from '../measure/contend.ts'
import { within } from '../measure/within.ts'
import type { Places } from '../places.ts'
import type { Plan } from '../plan.ts'
import { messageOf, type Result } from '../result.ts'
import { withPause, type StoreName, type SystemUnderTest } from '../system.ts'
import { systemsOf, type Stage } from './entrants.ts'

const RESOURCE = 'wanted'
const WORKERS = 50
const HOLD_MS = 1

export interface PauseTried {
  readonly store: StoreName
  readonly system: string
  readonly pauseMs: number
  readonly handoversPerSecond: number
}

export interface PausesReport {
  readonly pauses: readonly PauseTried[]
  readonly failures: readonly Result[]
}

export async function measurePauses(stage: Stage, plan: Plan): Promise<PausesReport> {
  const pauses: PauseTried[] = []
  const failures: Result[] = []
  const systems = plan.stores.flatMap((store) => systemsOf(stage, store))
  for (const system of systems) {
    const { store, name, polling } = system
    if (polling === undefined) continue
    stage.say(`pauses of ${name} on ${store}`)
    for (const pauseMs of plan.pauses.triedMs) {
      const tried = { store, system: name, pauseMs }
      try {
        const paused = polling.pausing(pauseMs)
        pauses.push({ ...tried, handoversPerSecond: await tryOut(stage.places, paused, plan) })
      } catch (error) {
        const place = { work: `a pause of ${pauseMs} ms`, store, system: name, inFlight: WORKERS }
        failures.push({ ...place, isReference: false, rounds: [], error: messageOf(error) })
      }
    }
  }
  return { pauses, failures }
}

/** Each with the pause that gave it the most handovers; as it was if none was tried. */
export function withBestPauses(
  systems: readonly SystemUnderTest[],
  pauses: readonly PauseTried[],
): readonly SystemUnderTest[] {
  return systems.map((system) => {
    const own = pauses.filter(({ store, system: name }) => {
      return store === system.store && name === system.name
    })
    const [best] = own.toSorted((a, b) => b.handoversPerSecond - a.handoversPerSecond)
    return best === undefined ? system : withPause(system, best.pauseMs)
  })
}

async function tryOut(
  places: Pick<Places, 'fresh' | 'remove'>,
  system: SystemUnderTest,
  { pauses: { leadInMs, roundMs } }: Plan,
): Promise<number> {
  const place = await places.fresh(system.store)
  const open = await within(system.open(place, WORKERS))
  try {
    const { contention } = await judgeBout({
      ...{ names: workerNames('w', WORKERS), leadInMs, roundMs },
      play: (untilUs) => {
        const common = { resource: RESOURCE, workers: WORKERS, prefix: 'w', holdMs: HOLD_MS }
        return within(contend(open, { ...common, untilUs }))
      },
    })
    return contention.handoversPerSecond
  } finally {
    await closeSystem(open)
    await places.remove(system.store, place)
  }
}
