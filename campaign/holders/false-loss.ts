/** Holders whose process stalls for less than a third of the TTL, again and again: none of them may lose its lease. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { startPostgres } from '../../test/servers/postgres-server.ts'
import { startRedis } from '../../test/servers/redis-server.ts'
import type { TestServer } from '../../test/servers/test-server.ts'
import { childReport } from '../child-report.ts'
import type { Part, Step, StepOrder, StepOutcome } from '../part.ts'
import type { StallOrder, StallReport } from './stalled-holders.ts'

const WHOLE_MINUTES = 4
const TTL_MS = 3_000
const LEASES = 2_000

type StoreName = 'sqlite' | 'postgres' | 'redis'

function step(store: StoreName): Step {
  return { name: `renewals on ${store}`, minutes: WHOLE_MINUTES, run: (order) => run(store, order) }
}

async function run(name: StoreName, { seed, minutes, say }: StepOrder): Promise<StepOutcome> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-stalls-'))
  const server = await serverOf(name)
  try {
    const store = server?.url ?? `sqlite:${path.join(directory, 'leases.db')}`
    const order: StallOrder = { store, minutes, leases: LEASES, ttlMs: TTL_MS, seed }
    const program = 'campaign/holders/stalled-holders.ts'
    const { renewals, stalls, losses, longestStallMs } = await childReport<StallReport>({
      ...{ program, order, onLine: say },
    })
    // A stall that a busy machine made longer than it was meant to be is none below a third of the TTL.
    const isTooLong = longestStallMs >= TTL_MS / 3
    return {
      counts: { renewals, stalls },
      failures: isTooLong ? [] : losses.map((line) => `lost: ${line}`),
      shortfalls: isTooLong ? [`a stall took ${longestStallMs} ms, the machine is not idle`] : [],
      note: `${LEASES} leases of ${TTL_MS} ms, the longest stall ${longestStallMs} ms`,
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

export const falseLoss: Part = {
  name: 'false-loss',
  about:
    'A process that holds two thousand leases stalls (nothing in it runs) for up to nine tenths of a third of the TTL, again and again. No lease may be lost: a holder that loses what it could have kept is wrong as well.',
  steps: (['sqlite', 'postgres', 'redis'] as const).map(step),
  atLeast: { renewals: 1_000_000 },
}
