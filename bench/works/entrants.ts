/** Opens systems side by side, and measures them in turns: A B C, B A C. One that fails drops out and is told of. */
import { closeSystem } from '../measure/close-system.ts'
import { shuffled } from '../measure/shuffle.ts'
import { within } from '../measure/within.ts'
import type { Places } from '../places.ts'
import { messageOf } from '../result.ts'
import type { OpenSystem, Place, StoreName, SystemUnderTest } from '../system.ts'

export interface Entrant {
  readonly system: SystemUnderTest
  readonly place: Place
  readonly open: OpenSystem
}

export interface Opened {
  readonly entrants: readonly Entrant[]
  /** By the name of the system. */
  readonly failures: ReadonlyMap<string, string>
}

/** Opens each on a place of its own and lets `check` throw what stands against measuring it. */
export async function openAll(
  systems: readonly SystemUnderTest[],
  { places, workers }: { readonly places: Pick<Places, 'fresh'>; readonly workers: number },
  check: (entrant: Entrant) => Promise<void>,
): Promise<Opened> {
  const entrants: Entrant[] = []
  const failures = new Map<string, string>()
  for (const system of systems) {
    let open: OpenSystem | null = null
    try {
      const place = await places.fresh(system.store)
      open = await within(system.open(place, workers))
      const entrant = { system, place, open }
      await within(check(entrant))
      entrants.push(entrant)
    } catch (error) {
      failures.set(system.name, messageOf(error))
      if (open !== null) await closeSystem(open)
    }
  }
  return { entrants, failures }
}

export async function closeAll(
  entrants: readonly Entrant[],
  places: Pick<Places, 'remove'>,
): Promise<void> {
  for (const { system, place, open } of entrants) {
    await closeSystem(open)
    await places.remove(system.store, place)
  }
}

export type Measured<Figure> =
  | { readonly kind: 'measured'; readonly rounds: readonly Figure[] }
  | { readonly kind: 'failed'; readonly error: string }

/** Everybody once, then everybody once more in another order, so that all of them see the same machine. */
export async function inTurns<Figure>(
  entrants: readonly Entrant[],
  rounds: number,
  measure: (entrant: Entrant, round: number) => Promise<Figure>,
): Promise<ReadonlyMap<Entrant, Measured<Figure>>> {
  const figures = new Map<Entrant, Figure[]>(entrants.map((entrant) => [entrant, []]))
  const failed = new Map<Entrant, string>()
  for (let round = 0; round < rounds; round += 1) {
    for (const entrant of shuffled(entrants, round)) {
      if (failed.has(entrant)) continue
      try {
        figures.get(entrant)?.push(await within(measure(entrant, round)))
      } catch (error) {
        failed.set(entrant, messageOf(error))
      }
    }
  }
  return new Map(
    entrants.map((entrant): [Entrant, Measured<Figure>] => {
      const error = failed.get(entrant)
      if (error !== undefined) return [entrant, { kind: 'failed', error }]
      return [entrant, { kind: 'measured', rounds: figures.get(entrant) ?? [] }]
    }),
  )
}

/** What every work is given. */
export interface Stage {
  readonly places: Places
  readonly systems: readonly SystemUnderTest[]
  /** Says what is going on, for whoever waits. */
  readonly say: (line: string) => void
}

export function systemsOf(stage: Stage, store: StoreName): readonly SystemUnderTest[] {
  return stage.systems.filter((system) => system.store === store)
}
