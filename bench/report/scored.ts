/** What the tables of systems have in common. */
import type { Result } from '../result.ts'
import { ALL_SYSTEMS } from '../systems/all-systems.ts'

export function scored(results: readonly Result[]): readonly Result[] {
  return results.filter(({ error, rounds }) => error === null && rounds.length > 0)
}

/** What one would have to do without; shown beside the figures, because it is part of what they cost. */
export function lacksOf({ store, system: name }: Result): string {
  const system = ALL_SYSTEMS.find((one) => one.store === store && one.name === name)
  const lacks = Object.entries(system?.offers ?? {}).flatMap(([what, isThere]) =>
    isThere ? [] : [what === 'ttl' ? 'TTL' : what],
  )
  return lacks.length === 0 ? '—' : lacks.join(', ')
}
