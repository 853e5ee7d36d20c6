/**
 * `npm run bench:bytes -- [--build DIR] [--pairs N] [--in-flight N]`: what an acquire and release pair, each on a resource of
 * its own, leaves on a server: bytes of PostgreSQL's write-ahead log, and bytes of Redis' memory once it has ended. DIR is
 * the `dist` of a build, by default this one's. These are counts: other work on the machine does not change them.
 */
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { Redis } from 'ioredis'
import pg from 'pg'
import { parseResource } from '../src/core/resource.ts'
import { systemRuntime } from '../src/runtime/system-runtime.ts'
import type { LeaseApi } from '../src/service/lease-api.ts'
import { Places } from './places.ts'

interface Build {
  openApi(url: string): Promise<LeaseApi>
}

/** The first pairs make tables and pages that stay. */
const FIRST_PAIRS = 1_000
let resources = 0

async function runPairs(api: LeaseApi, pairs: number, inFlight: number): Promise<void> {
  let left = pairs
  const worker = async (name: number): Promise<void> => {
    while (left > 0) {
      left -= 1
      const id = systemRuntime.uuid()
      resources += 1
      const resource = parseResource(`work:item-${resources}`)
      const holder = `holder-${name}`
      const wanted = { id, resource, holder, session: holder, ttlMs: 30_000, waitMs: 0 }
      const { kind } = await api.acquire(wanted)
      if (kind !== 'granted') throw new Error(`an acquire came to ${kind}`)
      await api.release({ id, resource, holder, requestId: systemRuntime.uuid() })
    }
  }
  await Promise.all(Array.from({ length: inFlight }, (_, name) => worker(name)))
}

async function walBytes(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const text = `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') AS bytes`
  const { rows } = await client.query<{ bytes: string }>(text)
  await client.end()
  return Number(rows[0]?.bytes)
}

async function memoryBytes(url: string): Promise<number> {
  const redis = new Redis(url)
  try {
    return Number(/used_memory_dataset:(\d+)/.exec(await redis.info('memory'))?.[1])
  } finally {
    redis.disconnect()
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      build: { type: 'string', default: 'dist' },
      pairs: { type: 'string', default: '10000' },
      'in-flight': { type: 'string', default: '100' },
    },
  })
  const [pairs, inFlight] = [Number(values.pairs), Number(values['in-flight'])]
  const library = pathToFileURL(path.join(path.resolve(values.build), 'index.js')).href
  const build = (await import(library)) as Build
  const places = await Places.open(['postgres', 'redis'])
  try {
    for (const [store, measure] of [
      ['postgres', walBytes],
      ['redis', memoryBytes],
    ] as const) {
      const { at } = await places.fresh(store)
      const api = await build.openApi(at)
      await runPairs(api, FIRST_PAIRS, inFlight)
      const before = await measure(at)
      await runPairs(api, pairs, inFlight)
      const bytes = Math.round(((await measure(at)) - before) / pairs)
      console.log(`${store}: ${bytes} bytes per pair (${pairs} pairs, ${inFlight} in flight)`)
      await api.close()
    }
  } finally {
    await places.close()
  }
}

await main()
