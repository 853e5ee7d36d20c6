/**
 * Work 3: what one operation costs among so many live leases, and what each of them takes. A store with 1,000 stands
 * beside the one that grows, and both are measured in turns, so that growth is not mistaken for a busy machine. What is
 * measured lies anywhere among the others, and no name is used twice: no cache has it from the last time.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { closeSystem } from '../measure/close-system.ts'
import { collectGarbage } from '../measure/collect-garbage.ts'
import type { Slice } from '../measure/load.ts'
import { median, percentile } from '../measure/statistics.ts'
import { within } from '../measure/within.ts'
import type { Plan } from '../plan.ts'
import { messageOf, type Result } from '../result.ts'
import {
  holderNumbered,
  LEASES_PER_HOLDER,
  type OpenSystem,
  type StoreName,
  type SystemUnderTest,
} from '../system.ts'
import { inTurns, systemsOf, type Entrant, type Stage } from './entrants.ts'
import { spaceOf, type Space } from './space.ts'

const SMALL = 1_000
const TTL_MS = 600_000
const SHORT_MS = 5
/** A store's clock may be a little behind ours. */
const RUN_OUT_MS = 40
/** A million of them take minutes. */
const FILL_PATIENCE_MS = 1_200_000

export const MANY_KINDS = ['acquire', 'renew', 'expire', 'list by holder'] as const
export type ManyKind = (typeof MANY_KINDS)[number]

/** Among `size` leases, beside 1,000, in the same rounds. */
export interface Growth {
  readonly store: StoreName
  readonly system: string
  readonly kind: ManyKind
  readonly size: number
  readonly rounds: readonly Slice[]
  readonly smallRounds: readonly Slice[]
}

export interface SpaceTaken {
  readonly store: StoreName
  readonly size: number
  /** Per live lease, beyond its own names. */
  readonly space: Space
}

export interface ManyReport {
  readonly results: readonly Result[]
  readonly growth: readonly Growth[]
  readonly space: readonly SpaceTaken[]
}

export async function measureMany(stage: Stage, plan: Plan): Promise<ManyReport> {
  const reports: ManyReport[] = []
  for (const store of plan.stores) {
    const systems = systemsOf(stage, store).filter(
      ({ name, role }) => role === 'reference' || name === 'tenure-service',
    )
    for (const system of systems) reports.push(await tryToMeasure(stage, system, plan.many))
  }
  return together(reports)
}

async function tryToMeasure(
  stage: Stage,
  system: SystemUnderTest,
  plan: Plan['many'],
): Promise<ManyReport> {
  try {
    return await measureSystem(stage, system, plan)
  } catch (error) {
    const place = placeOf(system, 'acquire', plan.sizes.at(-1) ?? SMALL)
    const failed = { ...place, rounds: [], error: messageOf(error) }
    return { results: [failed], growth: [], space: [] }
  }
}

async function measureSystem(
  { places, say }: Stage,
  system: SystemUnderTest,
  { sizes, rounds, samples }: Plan['many'],
): Promise<ManyReport> {
  const small = await enter(places, system)
  const large = await enter(places, system)
  const reports: ManyReport[] = []
  try {
    await fill(small, SMALL)
    let filled = 0
    for (const size of sizes) {
      say(`${system.name} on ${system.store} among ${size.toLocaleString('en')} live leases`)
      const space = await grow(places, large, size - filled)
      filled = size
      const isTold = system.role === 'tenure' && size > SMALL
      const taken = isTold ? [{ store: system.store, size, space }] : []
      const isLast = size === sizes.at(-1)
      const measured = await measureKinds({ small, large }, { size, isLast, rounds, samples })
      reports.push({ ...measured, space: taken })
    }
  } finally {
    for (const { place, open } of [small, large]) {
      await closeSystem(open)
      await places.remove(system.store, place)
    }
  }
  return together(reports)
}

function together(reports: readonly ManyReport[]): ManyReport {
  return {
    results: reports.flatMap(({ results }) => results),
    growth: reports.flatMap(({ growth }) => growth),
    space: reports.flatMap(({ space }) => space),
  }
}

/** Makes so many more, and tells what each of them takes. */
async function grow(places: Stage['places'], entrant: Entrant, count: number): Promise<Space> {
  const { system, place } = entrant
  const before = await spaceOf(places, system.store, place)
  const heapBefore = collectGarbage()
  await fill(entrant, count)
  const heapBytes = (collectGarbage() - heapBefore) / count
  const after = await spaceOf(places, system.store, place)
  return { ...perLease(before, after, count), heapBytes }
}

interface Sizing {
  readonly size: number
  /** The store that stayed small is told of once, by its last rounds. */
  readonly isLast: boolean
  readonly rounds: number
  readonly samples: number
}

async function measureKinds(
  { small, large }: { readonly small: Entrant; readonly large: Entrant },
  { size, isLast, rounds, samples }: Sizing,
): Promise<Pick<ManyReport, 'results' | 'growth'>> {
  const growth: Growth[] = []
  const results: Result[] = []
  const { system, open } = large
  const kinds = MANY_KINDS.filter((kind) => kind !== 'list by holder' || open.list !== undefined)
  for (const kind of kinds) {
    const measured = await inTurns([small, large], rounds, (entrant) =>
      measureKind(kind, { open: entrant.open, samples, live: entrant === small ? SMALL : size }),
    )
    const [ours, theirs] = [measured.get(large), measured.get(small)]
    if (ours?.kind === 'measured' && theirs?.kind === 'measured') {
      const where = { store: system.store, system: system.name, kind }
      const smallRounds = theirs.rounds
      growth.push({ ...where, size, rounds: ours.rounds, smallRounds })
      if (isLast) growth.push({ ...where, size: SMALL, rounds: smallRounds, smallRounds })
    } else {
      const failed = [ours, theirs].find((one) => one?.kind === 'failed')
      const error = failed?.kind === 'failed' ? failed.error : 'it was not measured'
      results.push({ ...placeOf(system, kind, size), rounds: [], error })
    }
  }
  const scored = growth.map(({ kind, size: among, rounds: own }) => {
    return { ...placeOf(system, kind, among), rounds: own, error: null }
  })
  return { growth, results: [...results, ...scored] }
}

function placeOf(
  { name, store, role }: SystemUnderTest,
  kind: ManyKind,
  size: number,
): Omit<Result, 'rounds' | 'error'> {
  const work = `${kind} among ${size.toLocaleString('en')}`
  return { work, store, system: name, inFlight: 1, isReference: role === 'reference' }
}

async function enter(places: Stage['places'], system: SystemUnderTest): Promise<Entrant> {
  const place = await places.fresh(system.store)
  return { system, place, open: await within(system.open(place, 1)) }
}

async function fill({ open }: Entrant, count: number): Promise<void> {
  if (open.fill !== undefined) await within(open.fill(count), FILL_PATIENCE_MS)
}

function perLease(before: Space, after: Space, count: number): Space {
  const each = (from: number | null, to: number | null, names: number): number | null =>
    from === null || to === null ? null : (to - from) / count - names
  return {
    diskBytes: each(before.diskBytes, after.diskBytes, NAMES_BYTES),
    memoryBytes: each(before.memoryBytes, after.memoryBytes, 0),
    heapBytes: null,
  }
}

/** `work:live-` and a UUID; the holder and the session have up to 13 bytes each, counted as 12. */
const NAMES_BYTES = 'work:live-'.length + 36 + 12 + 12

async function measureKind(kind: ManyKind, among: Among): Promise<Slice> {
  const spans: number[] = []
  const timed = async <Value>(work: () => Promise<Value>): Promise<Value> => {
    const startMs = performance.now()
    const value = await work()
    spans.push(performance.now() - startMs)
    return value
  }
  await MEASURE[kind]({ ...among, timed })
  const totalMs = spans.reduce((sum, span) => sum + span, 0)
  const opsPerSecond = (1_000 * spans.length) / totalMs
  return { opsPerSecond, p50Ms: median(spans), p99Ms: percentile(spans, 0.99) }
}

interface Among {
  readonly open: OpenSystem
  readonly samples: number
  /** How many leases were filled in. */
  readonly live: number
}

interface Sampling extends Among {
  readonly timed: <Value>(work: () => Promise<Value>) => Promise<Value>
}

const MEASURE: Readonly<Record<ManyKind, (sampling: Sampling) => Promise<void>>> = {
  acquire: async ({ open, samples, timed }) => {
    for (const name of namesOf(samples)) {
      await open.release(await timed(() => open.acquire(name, TTL_MS)))
    }
  },
  renew: async ({ open, samples, timed }) => {
    const held: unknown[] = []
    for (const name of namesOf(samples)) held.push(await open.acquire(name, TTL_MS))
    for (const one of held) await timed(async () => open.renew?.(one, 2 * TTL_MS))
    for (const one of held) await open.release(one)
  },
  // What has run out is settled by whoever asks for it next.
  expire: async ({ open, samples, timed }) => {
    const names = namesOf(samples)
    for (const name of names) await open.acquire(name, SHORT_MS)
    await sleep(RUN_OUT_MS)
    for (const name of names) await open.release(await timed(() => open.acquire(name, TTL_MS)))
  },
  'list by holder': async ({ open, samples, live, timed }) => {
    const holders = Math.max(1, Math.floor(live / LEASES_PER_HOLDER))
    for (let index = 0; index < samples; index += 1) {
      const holder = holderNumbered(Math.floor(Math.random() * holders))
      const found = await timed(async () => open.list?.(holder))
      const wanted = Math.min(live, LEASES_PER_HOLDER)
      if (found !== wanted) throw new Error(`${holder} has ${wanted} leases, ${found} were listed`)
    }
  },
}

function namesOf(samples: number): readonly string[] {
  return Array.from({ length: samples }, () => `live-${randomUUID()}`)
}
