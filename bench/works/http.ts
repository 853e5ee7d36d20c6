/**
 * Work 7: a store behind `tenure serve`, on SQLite. Pairs of the http:// client, of plain calls, of the library on a store
 * of its own, and of etcd's lock service; the handover between two clients; and what it costs to keep leases and idle
 * streams. Servers are processes of their own.
 */
import { fork } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { openTenure } from '../../src/open.ts'
import type { Tenure } from '../../src/client/contract.ts'
import type { TestServer } from '../../test/servers/test-server.ts'
import { runFor, type Slice } from '../measure/load.ts'
import { processorUsOf } from '../measure/processor-time.ts'
import { shuffled } from '../measure/shuffle.ts'
import { median, percentile } from '../measure/statistics.ts'
import type { Plan } from '../plan.ts'
import { messageOf, type Result } from '../result.ts'
import type { OpenSystem, SystemUnderTest } from '../system.ts'
import { etcdLocks, startEtcd } from '../systems/etcd-system.ts'
import { plainCalls } from '../systems/plain-http.ts'
import { serveTenure } from '../systems/served-tenure.ts'
import { tenureClient } from '../systems/tenure-system.ts'
import type { Stage } from './entrants.ts'
import { conductKeeper } from './keeping.ts'
import type { KeeperOptions } from './keeper-process.ts'

export const HTTP_PAIRS = 'pairs over HTTP'
export const HTTP_HANDOVER = 'handover over HTTP'
export const EMBEDDED = 'embedded'
export const HTTP_CLIENT = 'http:// client'
export const PLAIN_CALLS = 'plain calls'
export const ETCD = 'etcd'

const KEEPER = fileURLToPath(new URL('./keeper-process.js', import.meta.url))
const MANY = 100
const TTL_MS = 600_000
const RESOURCES = 1_000
const LEAD_IN_PART = 1 / 3
const SETTLE_MS = 2_000

/** What a server and its clients spend, in parts of one core. */
export interface HttpCosts {
  readonly keeping: {
    readonly leases: number
    readonly clientPart: number
    readonly serverPart: number
    readonly lost: number
  }
  readonly streams: { readonly count: number; readonly bytes: number; readonly cpuPart: number }
}

export interface HttpReport {
  readonly results: readonly Result[]
  readonly costs: readonly HttpCosts[]
}

export async function measureHttp(stage: Stage, plan: Plan): Promise<HttpReport> {
  stage.say('pairs over HTTP')
  const results = [...(await measurePairs(stage, plan.http))]
  stage.say('handover over HTTP')
  results.push(
    await measured(HTTP_HANDOVER, 1, HTTP_CLIENT, () => measureHandover(stage, plan.http)),
  )
  stage.say('leases and streams over HTTP')
  const costs = await measureCosts(stage, plan.http)
  return { results, costs: [costs] }
}

/** Names whose `open` may throw: a peer that is not installed is told of. */
interface Entry {
  readonly name: string
  readonly open: () => Promise<OpenSystem>
  /** In flight. */
  readonly counts: readonly number[]
}

interface Opened {
  readonly name: string
  readonly counts: readonly number[]
  readonly open: OpenSystem | null
  readonly error: string | null
}

async function measurePairs(stage: Stage, plan: Plan['http']): Promise<readonly Result[]> {
  const servers: TestServer[] = []
  const folders = [await stage.places.fresh('sqlite'), await stage.places.fresh('sqlite')]
  const [own, plain] = folders.map(({ at }) => `sqlite:${path.join(at, 'tenure.db')}`)
  const serve = async (store: string): Promise<string> => {
    const server = await serveTenure(store)
    servers.push(server)
    return server.url
  }
  const entries: readonly Entry[] = [
    { name: EMBEDDED, counts: [MANY, 1], open: () => openEmbedded(stage) },
    {
      ...{ name: HTTP_CLIENT, counts: [MANY, 1] },
      open: async () => openClient(await serve(own ?? '')),
    },
    {
      ...{ name: PLAIN_CALLS, counts: [MANY, 1] },
      open: async () => plainCalls(await serve(plain ?? ''), MANY),
    },
    {
      ...{ name: ETCD, counts: [MANY, 1] },
      open: async () => {
        const server = await startEtcd()
        servers.push(server)
        return etcdLocks(server.url, MANY)
      },
    },
  ]
  const opened: Opened[] = []
  for (const entry of entries) opened.push(await openEntry(entry))
  try {
    const results: Result[] = []
    for (const inFlight of [MANY, 1]) results.push(...(await pairsOf(opened, inFlight, plan)))
    return results
  } finally {
    for (const { open } of opened) await open?.close()
    await Promise.all(servers.map((server) => server.close()))
    for (const folder of folders) await stage.places.remove('sqlite', folder)
  }
}

async function openEntry({ name, counts, open }: Entry): Promise<Opened> {
  try {
    return { name, counts, open: await open(), error: null }
  } catch (error) {
    return { name, counts, open: null, error: messageOf(error) }
  }
}

async function openEmbedded({ places }: Stage): Promise<OpenSystem> {
  const system: SystemUnderTest = tenureClient('sqlite') as SystemUnderTest
  const place = await places.fresh('sqlite')
  const open = await system.open(place, MANY)
  return {
    ...open,
    close: async () => {
      await open.close()
      await places.remove('sqlite', place)
    },
  }
}

async function openClient(url: string): Promise<OpenSystem> {
  const tenure = await openTenure(url, { holder: 'bench' })
  return {
    acquire: (name, ttlMs) => tenure.acquire(`work:${name}`, { ttlMs, waitMs: 60_000 }),
    release: (lease) => (lease as { release(): Promise<void> }).release(),
    close: () => tenure.close(),
  }
}

/** In turns, so that all of them see the same machine; the first turn is for the compiler. */
async function pairsOf(
  opened: readonly Opened[],
  inFlight: number,
  { rounds, sliceMs, warmUpMs }: Plan['http'],
): Promise<readonly Result[]> {
  const able = opened.filter(({ counts }) => counts.includes(inFlight))
  const slices = new Map<string, Slice[]>(able.map(({ name }) => [name, []]))
  const errors = new Map(able.map(({ name, error }) => [name, error]))
  let next = 0
  for (let round = -1; round < rounds; round += 1) {
    for (const { name, open } of shuffled(able, Math.max(0, round))) {
      if (open === null || errors.get(name) !== null) continue
      const pair = async (): Promise<void> => {
        const held = await open.acquire(`r-${(next += 1) % RESOURCES}-${name.length}`, TTL_MS)
        await open.release(held)
      }
      try {
        await runFor({ sliceMs: round < 0 ? warmUpMs : sliceMs * LEAD_IN_PART, inFlight }, pair)
        if (round >= 0) slices.get(name)?.push(await runFor({ sliceMs, inFlight }, pair))
      } catch (error) {
        errors.set(name, messageOf(error))
      }
    }
  }
  return able.map(({ name }) => ({
    ...{ work: HTTP_PAIRS, store: 'sqlite', system: name, inFlight },
    isReference: name === EMBEDDED,
    rounds: errors.get(name) === null ? (slices.get(name) ?? []) : [],
    error: errors.get(name) ?? null,
  }))
}

async function measured(
  work: string,
  inFlight: number,
  system: string,
  measure: () => Promise<Slice>,
): Promise<Result> {
  const place = { work, store: 'sqlite', system, inFlight, isReference: false } as const
  try {
    return { ...place, rounds: [await measure()], error: null }
  } catch (error) {
    return { ...place, rounds: [], error: messageOf(error) }
  }
}

/** Between two clients with connections of their own, as two processes have them: from before the release to the lease. */
async function measureHandover({ places }: Stage, { handovers }: Plan['http']): Promise<Slice> {
  const place = await places.fresh('sqlite')
  await using server = await serveTenure(`sqlite:${path.join(place.at, 'tenure.db')}`)
  const { port } = server
  const clients: [Tenure, Tenure] = [
    await openTenure(`http://127.0.0.1:${port}`, { holder: 'one' }),
    await openTenure(`http://localhost:${port}`, { holder: 'other' }),
  ]
  const spans: number[] = []
  let held = await clients[0].acquire('work:wanted', { ttlMs: TTL_MS })
  for (let turn = 1; turn <= handovers; turn += 1) {
    const waiter = clients[turn % 2] as Tenure
    const waiting = waiter.acquire('work:wanted', { ttlMs: TTL_MS, waitMs: 60_000 })
    while ((await clients[0].inspect('work:wanted')).queue.length === 0) await sleep(1)
    const startMs = performance.now()
    const [next] = await Promise.all([waiting, held.release()])
    spans.push(performance.now() - startMs)
    held = next
  }
  await Promise.all(clients.map((client) => client.close()))
  const scored = spans.slice(Math.floor(handovers * LEAD_IN_PART))
  const perSecond = 1_000 / median(scored)
  return { opsPerSecond: perSecond, p50Ms: median(scored), p99Ms: percentile(scored, 0.99) }
}

async function measureCosts({ places }: Stage, plan: Plan['http']): Promise<HttpCosts> {
  const place = await places.fresh('sqlite')
  await using server = await serveTenure(`sqlite:${path.join(place.at, 'tenure.db')}`)
  const pid = server.pid ?? 0
  const streams = await measureStreams(server.url, pid, plan)
  const options: KeeperOptions = { url: server.url, ...plan.keeping }
  const child = fork(KEEPER, [JSON.stringify(options)])
  const spentUs = async (): Promise<number> => processorUsOf([pid]) ?? Number.NaN
  const { said, before, after } = await conductKeeper(child, spentUs).finally(() => child.kill())
  const { cpuPart: clientPart, lost, lastedMs } = said.kept
  const serverPart = (after - before) / (lastedMs * 1_000)
  return { streams, keeping: { leases: plan.keeping.leases, clientPart, serverPart, lost } }
}

async function measureStreams(
  url: string,
  pid: number,
  { streams, lastsMs }: Plan['http'],
): Promise<HttpCosts['streams']> {
  await openStreams(url, 1).then(close)
  await sleep(SETTLE_MS)
  const before = residentBytes(pid)
  const open = await openStreams(url, streams)
  await sleep(SETTLE_MS)
  const startUs = processorUsOf([pid]) ?? Number.NaN
  const startMs = performance.now()
  await sleep(lastsMs)
  const spentUs = (processorUsOf([pid]) ?? Number.NaN) - startUs
  const bytes = residentBytes(pid) - before
  const cpuPart = spentUs / ((performance.now() - startMs) * 1_000)
  close(open)
  return { count: streams, bytes, cpuPart }
}

async function openStreams(url: string, count: number): Promise<readonly http.IncomingMessage[]> {
  const headers = { Accept: 'text/event-stream' }
  return Promise.all(
    Array.from({ length: count }, async () => {
      const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
        http.get(`${url}/v1/events`, { headers, agent: false }, resolve).once('error', reject)
      })
      return response.on('error', () => undefined).resume()
    }),
  )
}

function close(streams: readonly http.IncomingMessage[]): void {
  for (const stream of streams) stream.destroy()
}

/** Linux tells it in the status of the process. */
function residentBytes(pid: number): number {
  const text = fs.readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(text)?.[1]) * 1_024
}
