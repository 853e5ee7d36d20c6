/**
 * `npm run bench:before -- --before DIR`: acquire and release pairs on SQLite of another build of Tenure beside those of this
 * one, 100 in flight, in one process and in rounds that take turns, beside so many leases that have ended. DIR is the `dist`
 * of the other build. Absolute times on a shared machine say little; the ratio of two rounds that follow each other does.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import type { LeaseApi } from '../src/service/lease-api.ts'
import { parseResource } from '../src/core/resource.ts'
import { systemRuntime } from '../src/runtime/system-runtime.ts'

const IN_FLIGHT = 100
const PLACES = 1_000

/** What both builds have; the rest of their types may differ. */
interface Build {
  openApi(url: string): Promise<LeaseApi>
}

interface Side {
  readonly name: 'before' | 'after'
  readonly api: LeaseApi
  /** What a build calls the id of a lease in its requests: earlier ones say `leaseId`. */
  readonly naming: (id: string) => { readonly id: string }
}

interface Round {
  readonly microseconds: number
  readonly processorMicroseconds: number
  /** Given to the operating system to write, in the log and the file; null where it does not tell. */
  readonly bytes: number | null
}

async function runPairs({ api, naming }: Side, pairs: number): Promise<void> {
  let left = pairs
  const worker = async (name: number): Promise<void> => {
    while (left > 0) {
      left -= 1
      const resource = parseResource(`work:item-${left % PLACES}`)
      const holder = `holder-${name}`
      const named = naming(systemRuntime.uuid())
      const wanted = { ...named, resource, holder, session: holder, ttlMs: 30_000, waitMs: 0 }
      const { kind } = await api.acquire(wanted)
      if (kind !== 'granted') throw new Error(`an acquire came to ${kind}`)
      await api.release({ ...named, resource, holder, requestId: systemRuntime.uuid() })
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, (_, name) => worker(name)))
}

/** Linux counts them; elsewhere there is no such file. */
function bytesWritten(): number | null {
  const file = '/proc/self/io'
  if (!fs.existsSync(file)) return null
  return Number(/^wchar: (\d+)$/m.exec(fs.readFileSync(file, 'utf8'))?.[1])
}

async function measure(side: Side, pairs: number): Promise<Round> {
  const [bytes, processor, startMs] = [bytesWritten(), process.cpuUsage(), performance.now()]
  await runPairs(side, pairs)
  const microseconds = ((performance.now() - startMs) * 1_000) / pairs
  const { user, system } = process.cpuUsage(processor)
  const written = bytesWritten()
  return {
    microseconds,
    processorMicroseconds: (user + system) / pairs,
    bytes: bytes === null || written === null ? null : (written - bytes) / pairs,
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}

async function openSide(name: Side['name'], build: string, directory: string): Promise<Side> {
  const library = (await import(pathToFileURL(path.join(build, 'index.js')).href)) as Build
  const api = await library.openApi(`sqlite:${path.join(directory, `${name}.db`)}`)
  return { name, api, naming: await namingOf(api) }
}

/** The one of the two names that a lease of no importance is asked for by without a word about unknown fields. */
async function namingOf(api: LeaseApi): Promise<Side['naming']> {
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

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      before: { type: 'string' },
      after: { type: 'string', default: 'dist' },
      ended: { type: 'string', default: '1000' },
      pairs: { type: 'string', default: '5000' },
      rounds: { type: 'string', default: '5' },
    },
  })
  if (values.before === undefined) throw new Error('before must be the dist of a build, got none')
  const [ended, pairs, rounds] = [Number(values.ended), Number(values.pairs), Number(values.rounds)]
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-before-after-'))
  const sides = [
    await openSide('before', path.resolve(values.before), directory),
    await openSide('after', path.resolve(values.after), directory),
  ]
  const found: Record<Side['name'], Round[]> = { before: [], after: [] }
  for (const side of sides) await runPairs(side, ended)
  for (let round = 0; round < rounds; round += 1) {
    const order = round % 2 === 0 ? sides : sides.toReversed()
    for (const side of order) found[side.name].push(await measure(side, pairs))
  }
  for (const { api } of sides) await api.close()
  fs.rmSync(directory, { recursive: true, force: true })
  const summary = (name: Side['name']): Record<keyof Round, number> => ({
    microseconds: median(found[name].map((one) => one.microseconds)),
    processorMicroseconds: median(found[name].map((one) => one.processorMicroseconds)),
    bytes: median(found[name].map((one) => one.bytes ?? 0)),
  })
  const ratio = median(
    found.after.map(
      ({ microseconds }, round) => (found.before[round]?.microseconds ?? 0) / microseconds,
    ),
  )
  const [before, after] = [summary('before'), summary('after')]
  process.stdout.write(
    `${JSON.stringify({ ended, pairs, rounds, before, after, ratio }, null, 2)}\n`,
  )
}

await main()
