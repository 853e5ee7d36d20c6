/** Work 4: what it costs one process to keep many leases alive, and how near to the end any of them comes. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { within } from '../measure/within.ts'
import type { StoreCounts } from '../places.ts'
import type { Plan } from '../plan.ts'
import { messageOf, type Result } from '../result.ts'
import type { StoreName } from '../system.ts'
import { tenureUrl } from '../systems/tenure-system.ts'
import type { Stage } from './entrants.ts'
import type { Kept, KeeperOptions, Said } from './keeper-process.ts'

const PROGRAM = fileURLToPath(new URL('./keeper-process.js', import.meta.url))

export interface Keeping extends Kept {
  readonly store: StoreName
  readonly leases: number
  readonly ttlMs: number
  readonly renewalsPerSecond: number
  readonly operationsPerSecond: number | null
}

export interface KeepingReport {
  readonly keeping: readonly Keeping[]
  readonly results: readonly Result[]
}

export async function measureKeeping(stage: Stage, plan: Plan): Promise<KeepingReport> {
  const keeping: Keeping[] = []
  const results: Result[] = []
  const work = `keep ${plan.keeping.leases.toLocaleString('en')}`
  for (const store of plan.stores) {
    stage.say(`${work} on ${store}`)
    const place = { work, store, system: 'tenure', inFlight: 1, isReference: false }
    try {
      const kept = await measureStore(stage, store, plan.keeping)
      keeping.push(kept)
      const none = { p50Ms: Number.NaN, p99Ms: Number.NaN }
      const rounds = [{ opsPerSecond: kept.renewalsPerSecond, ...none }]
      results.push({ ...place, rounds, error: null })
    } catch (error) {
      results.push({ ...place, rounds: [], error: messageOf(error) })
    }
  }
  return { keeping, results }
}

async function measureStore(
  { places }: Stage,
  store: StoreName,
  { leases, ttlMs, lastsMs }: Plan['keeping'],
): Promise<Keeping> {
  const place = await places.fresh(store)
  const options: KeeperOptions = { url: tenureUrl(store, place), leases, ttlMs, lastsMs }
  const child = fork(PROGRAM, [JSON.stringify(options)])
  const { said, before, after } = await conductKeeper(child, () =>
    places.counts(store, place),
  ).finally(() => child.kill())
  await places.remove(store, place)
  const seconds = said.kept.lastedMs / 1_000
  return {
    ...{ ...said.kept, store, leases, ttlMs },
    renewalsPerSecond: said.kept.renewals / seconds,
    operationsPerSecond: callsBetween(before, after, seconds),
  }
}

/** Lets a keeper keep, and counts what was spent before and after it. */
export async function conductKeeper<Counts>(
  child: ChildProcess,
  counts: () => Promise<Counts>,
): Promise<{
  readonly said: Extract<Said, { readonly kind: 'kept' }>
  readonly before: Counts
  readonly after: Counts
}> {
  const ended = once(child, 'exit')
  await within(hear(child))
  const before = await counts()
  const heard = hear(child)
  child.send('go')
  const said = await within(heard)
  if (said.kind !== 'kept') throw new Error(`the keeper said ${said.kind}`)
  const after = await counts()
  child.send('end')
  await within(ended)
  return { said, before, after }
}

async function hear(child: ChildProcess): Promise<Said> {
  const gone = once(child, 'exit').then((): [Said] => [{ kind: 'failed', error: 'it is gone' }])
  const [said] = (await Promise.race([once(child, 'message'), gone])) as [Said]
  if (said.kind === 'failed') throw new Error(`the keeper failed: ${said.error}`)
  return said
}

/** SQLite and PostgreSQL tell of those that wrote, which keeping does every time. */
function callsBetween(
  before: StoreCounts | null,
  after: StoreCounts | null,
  seconds: number,
): number | null {
  const [from, to] = [before, after].map((counts) => counts?.operations ?? counts?.commits ?? null)
  return typeof from === 'number' && typeof to === 'number' ? (to - from) / seconds : null
}
