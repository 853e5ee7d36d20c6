/**
 * `npm run bench:before -- --before DIR`: another build of Tenure beside this one, in one process and in rounds that take turns,
 * on a store of its own each: `--store sqlite`, `postgres` or `redis`. DIR is the `dist` of the other build. `--work` is what
 * is measured: `pairs` of acquire and release by the service, `handles` the same by handles, `renewals` by handles of leases
 * that are held. Absolute times on a shared machine say little; the ratio of two rounds that follow each other does.
 */
import fs from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import type { Tenure } from '../src/client/contract.ts'
import type { LeaseApi } from '../src/service/lease-api.ts'
import { parseResource } from '../src/core/resource.ts'
import { systemRuntime } from '../src/runtime/system-runtime.ts'
import { ownProcessorUs, processorUsOf } from './measure/processor-time.ts'
import { Places } from './places.ts'
import type { StoreName } from './system.ts'
import { tenureUrl } from './systems/tenure-system.ts'

const RESOURCES = 1_000
const TTL_MS = 600_000
const STORES = ['sqlite', 'postgres', 'redis'] as const
const WORKS = ['pairs', 'handles', 'renewals'] as const

/** What both builds have; the rest of their types may differ. */
interface Build {
  openApi(url: string): Promise<LeaseApi>
  openTenure(url: string, options: { readonly holder: string }): Promise<Tenure>
}

interface Side {
  readonly name: 'before' | 'after'
  readonly api: LeaseApi
  readonly tenure: Tenure
  readonly pair: (worker: number, turn: number) => Promise<void>
  readonly work: (worker: number, turn: number) => Promise<void>
}

interface Round {
  readonly microseconds: number
  readonly processorMicroseconds: number
  /** Of the server; null for a store without one. */
  readonly serverMicroseconds: number | null
  /** Given to the operating system to write, by this process; null where it does not tell. */
  readonly bytes: number | null
}

interface Plan {
  readonly store: StoreName
  readonly work: (typeof WORKS)[number]
  readonly inFlight: number
  readonly ended: number
  readonly pairs: number
  readonly rounds: number
}

async function runTurns(
  turn: (worker: number, turn: number) => Promise<void>,
  turns: number,
  inFlight: number,
): Promise<void> {
  let left = turns
  const worker = async (name: number): Promise<void> => {
    while (left > 0) {
      left -= 1
      await turn(name, left)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, (_, name) => worker(name)))
}

/** Linux counts them; elsewhere there is no such file. */
function bytesWritten(): number | null {
  const file = '/proc/self/io'
  if (!fs.existsSync(file)) return null
  return Number(/^wchar: (\d+)$/m.exec(fs.readFileSync(file, 'utf8'))?.[1])
}

async function measure(
  side: Side,
  { pairs, inFlight }: Plan,
  pids: readonly number[],
): Promise<Round> {
  const counts = (): readonly (number | null)[] => {
    const serverUs = pids.length === 0 ? null : processorUsOf(pids)
    return [performance.now() * 1_000, ownProcessorUs(), serverUs, bytesWritten()]
  }
  const before = counts()
  await runTurns(side.work, pairs, inFlight)
  const [us = 0, ownUs = 0, serverUs = null, bytes = null] = counts().map((count, index) => {
    const was = before[index] ?? null
    return count === null || was === null ? null : (count - was) / pairs
  })
  return {
    microseconds: us ?? 0,
    processorMicroseconds: ownUs ?? 0,
    serverMicroseconds: serverUs,
    bytes,
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}

async function openSide(name: Side['name'], build: string, url: string, plan: Plan): Promise<Side> {
  const library = (await import(pathToFileURL(path.join(build, 'index.js')).href)) as Build
  const api = await library.openApi(url)
  const tenure = await library.openTenure(url, { holder: 'bench' })
  const pair = pairBy(api, await namingOf(api))
  const works: Readonly<Record<Plan['work'], () => Promise<Side['work']> | Side['work']>> = {
    pairs: () => pair,
    handles: () => async (_, turn) => {
      const lease = await tenure.acquire(`work:item-${turn % RESOURCES}`, { ttlMs: TTL_MS })
      await lease.release()
    },
    renewals: () => renewals(tenure),
  }
  return { name, api, tenure, pair, work: await works[plan.work]() }
}

function pairBy(api: LeaseApi, naming: (id: string) => { readonly id: string }): Side['pair'] {
  return async (worker, turn) => {
    const resource = parseResource(`work:item-${turn % RESOURCES}`)
    const holder = `holder-${worker}`
    const named = naming(systemRuntime.uuid())
    const wanted = { ...named, resource, holder, session: holder, ttlMs: TTL_MS, waitMs: 0 }
    const { kind } = await api.acquire(wanted)
    if (kind !== 'granted') throw new Error(`an acquire came to ${kind}`)
    await api.release({ ...named, resource, holder, requestId: systemRuntime.uuid() })
  }
}

/** A renewal must extend the lease, so each asks for a little more. */
async function renewals(tenure: Tenure): Promise<Side['work']> {
  const names = Array.from({ length: RESOURCES }, (_, index) => `work:kept-${index}`)
  const held = await Promise.all(names.map((name) => tenure.acquire(name, { ttlMs: TTL_MS })))
  let extended = 0
  return async (_, turn) => {
    extended += 1
    await held[turn % RESOURCES]?.renew({ ttlMs: TTL_MS + extended })
  }
}

/** What a build calls the id of a lease in its requests: earlier ones say `leaseId`, and refuse unknown fields. */
async function namingOf(api: LeaseApi): Promise<(id: string) => { readonly id: string }> {
  const both = [(id: string) => ({ id }), (leaseId: string) => ({ id: '', leaseId })]
  for (const naming of both) {
    const named = naming(systemRuntime.uuid())
    const who = { resource: parseResource('work:naming'), holder: 'bench', session: 'bench' }
    const known = await api.acquire({ ...named, ...who, ttlMs: 1, waitMs: 0 }).then(
      () => true,
      (error: unknown) => {
        if (error instanceof Error && 'code' in error && error.code === 'INVALID_INPUT')
          return false
        throw error
      },
    )
    if (known) return naming
  }
  throw new Error('neither id nor leaseId is what the build calls the id of a lease')
}

function oneOf<Word extends string>(option: string, words: readonly Word[], given: string): Word {
  const known = words.find((word) => word === given)
  if (known !== undefined) return known
  throw new Error(`${option} must be one of ${words.join(', ')}, got ${given}`)
}

function summaryOf(rounds: readonly Round[]): Round {
  const middle = (figure: keyof Round): number | null => {
    const figures = rounds.map((round) => round[figure]).filter((one) => one !== null)
    return figures.length === 0 ? null : median(figures)
  }
  return {
    microseconds: middle('microseconds') ?? 0,
    processorMicroseconds: middle('processorMicroseconds') ?? 0,
    serverMicroseconds: middle('serverMicroseconds'),
    bytes: middle('bytes'),
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      before: { type: 'string' },
      after: { type: 'string', default: 'dist' },
      store: { type: 'string', default: 'sqlite' },
      work: { type: 'string', default: 'pairs' },
      'in-flight': { type: 'string', default: '100' },
      ended: { type: 'string', default: '1000' },
      pairs: { type: 'string', default: '5000' },
      rounds: { type: 'string', default: '5' },
    },
  })
  if (values.before === undefined) throw new Error('before must be the dist of a build, got none')
  const plan: Plan = {
    store: oneOf('store', STORES, values.store),
    work: oneOf('work', WORKS, values.work),
    inFlight: Number(values['in-flight']),
    ended: Number(values.ended),
    pairs: Number(values.pairs),
    rounds: Number(values.rounds),
  }
  const { store, rounds } = plan
  const places = await Places.open([store])
  const open = async (name: Side['name'], build: string): Promise<Side> => {
    return openSide(name, path.resolve(build), tenureUrl(store, await places.fresh(store)), plan)
  }
  const sides = [await open('before', values.before), await open('after', values.after)]
  const found: Record<Side['name'], Round[]> = { before: [], after: [] }
  for (const { pair } of sides) await runTurns(pair, plan.ended, 100)
  for (const side of sides) await runTurns(side.work, Math.min(plan.pairs, 1_000), plan.inFlight)
  for (let round = 0; round < rounds; round += 1) {
    const order = round % 2 === 0 ? sides : sides.toReversed()
    for (const side of order) {
      found[side.name].push(await measure(side, plan, places.processes(store)))
    }
  }
  for (const { api, tenure } of sides) {
    await tenure.close()
    await api.close()
  }
  await places.close()
  const ratio = median(
    found.after.map(
      ({ microseconds }, round) => (found.before[round]?.microseconds ?? 0) / microseconds,
    ),
  )
  const [before, after] = [summaryOf(found.before), summaryOf(found.after)]
  process.stdout.write(`${JSON.stringify({ ...plan, before, after, ratio }, null, 2)}\n`)
}

await main()
