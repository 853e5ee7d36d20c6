/** Memory over a million leases, and clocks at their ends. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { startPostgres } from '../../test/servers/postgres-server.ts'
import { startRedis } from '../../test/servers/redis-server.ts'
import type { TestServer } from '../../test/servers/test-server.ts'
import { childReport } from '../child-report.ts'
import type { Part, Step, StepOrder, StepOutcome } from '../part.ts'
import { timesStep } from './times.ts'
import type { LeasesOrder, LeasesReport } from './many-pairs.ts'

const LEASES = 1_000_000
const WHOLE_MINUTES = 15
const GROWTH_MAX = 1.05

type StoreName = 'sqlite' | 'postgres' | 'redis'

function memoryStep(store: StoreName): Step {
  return {
    name: `memory on ${store}`,
    minutes: WHOLE_MINUTES,
    run: (order) => runMemory(store, order),
  }
}

async function runMemory(name: StoreName, { minutes, say }: StepOrder): Promise<StepOutcome> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-soak-'))
  const server = await serverOf(name)
  try {
    const store = server?.url ?? `sqlite:${path.join(directory, 'leases.db')}?synchronous=normal`
    const order: LeasesOrder = { store, leases: LEASES, minutes }
    const program = 'campaign/soak/many-pairs.ts'
    const nodeOptions = ['--expose-gc']
    const report = await childReport<LeasesReport>({ program, order, nodeOptions, onLine: say })
    const { leases, heapBefore, heapAfter, left } = report
    const growth = heapAfter / heapBefore
    const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`
    const heap = `heap ${megabytes(heapBefore)} before, ${megabytes(heapAfter)} after`
    return {
      counts: { leases, stores: leases >= LEASES ? 1 : 0 },
      failures: [
        ...(growth > GROWTH_MAX ? [`the heap grew: ${heap}`] : []),
        ...left.map((resource) => `left behind after closing: ${resource}`),
      ],
      shortfalls: leases < LEASES ? [`${leases} leases are too few to compare the heap`] : [],
      note: heap,
    }
  } finally {
    await server?.close()
    fs.rmSync(directory, { recursive: true, force: true })
  }
}

async function serverOf(name: StoreName): Promise<TestServer | null> {
  if (name === 'postgres') return startPostgres()
  return name === 'redis' ? startRedis() : null
}

export const soak: Part = {
  name: 'soak',
  about:
    'A million leases created and ended on each store by one process: its heap is within 5 % of what it was after the first 300,000, and nothing is left when it closes. ' +
    'Processes whose clocks are at the ends of what numbers hold: up for 120 days and for 20 years (beyond 2^53 ns), in 2038, in 2255, with TTLs beyond 2^31 ms; and in 2256, where the store must refuse.',
  steps: [...(['sqlite', 'postgres', 'redis'] as const).map(memoryStep), timesStep],
  atLeast: { leases: 3_000_000, stores: 3, clocks: 5 },
}
