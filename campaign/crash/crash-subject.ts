/**
 * A process that makes one commit and is killed by strace in the middle of it, or ends. It removes its marker when all that
 * comes before is done, and prints `answered` as soon as the call has returned.
 */
import fs from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { openTenure, type Tenure } from '../../src/index.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

export const COMMIT_KINDS = [
  'grant',
  'renew',
  'release with a hand-over',
  'acquire several',
  'transfer',
  'prune',
  'migration',
] as const

export type CommitKind = (typeof COMMIT_KINDS)[number]

export interface CrashOrder {
  readonly file: string
  readonly synchronous: 'full' | 'normal'
  readonly kind: CommitKind
  readonly marker: string
}

/** Of the lease that a kind of commit is about, so that it can be looked for afterwards. */
export const LEASE_ID = '00000000-0000-7000-8000-000000000001'
export const NEXT_ID = '00000000-0000-7000-8000-000000000002'
export const SEVERAL: readonly string[] = ['work:a', 'work:b', 'file:/tree/c']
export const RECEIVER = 'ben'
const RESOURCE = 'work:a'
const TTL_MS = 600_000
const PRUNED = 30
/** Within what a store believes of a clock at once. */
const PRUNED_AFTER_MS = 3_600_000

type Act = () => Promise<unknown>

const PREPARE: Readonly<Record<CommitKind, (tenure: Tenure, order: CrashOrder) => Promise<Act>>> = {
  grant: async (tenure) => {
    return () => tenure.acquire(RESOURCE, { leaseId: LEASE_ID, ttlMs: TTL_MS })
  },
  renew: async (tenure) => {
    const lease = await tenure.acquire(RESOURCE, { leaseId: LEASE_ID, ttlMs: TTL_MS })
    return () => lease.renew()
  },
  'release with a hand-over': async (tenure) => {
    const lease = await tenure.acquire(RESOURCE, { leaseId: LEASE_ID, ttlMs: TTL_MS })
    const options = { leaseId: NEXT_ID, ttlMs: TTL_MS, waitMs: TTL_MS }
    const next = tenure.acquire(RESOURCE, options)
    while ((await tenure.inspect(RESOURCE)).queue.length === 0) await sleep(5)
    return async () => {
      await lease.release()
      await next
    }
  },
  'acquire several': async (tenure) => {
    return () => tenure.acquireAll(SEVERAL, { ttlMs: TTL_MS })
  },
  transfer: async (tenure) => {
    const lease = await tenure.acquire(RESOURCE, { leaseId: LEASE_ID, ttlMs: TTL_MS })
    return () => lease.transfer(RECEIVER)
  },
  prune: async (tenure, { file, synchronous }) => {
    for (let made = 0; made < PRUNED; made += 1) {
      await (await tenure.acquire(`work:${made}`, { ttlMs: 10_000 })).release()
    }
    const store = await SqliteStore.open({ path: file, synchronous })
    const nowMs = Date.now() + PRUNED_AFTER_MS
    return () => store.prune({ endedBeforeMs: nowMs, nowMs, batch: PRUNED })
  },
  migration: async (_tenure, order) => {
    return async () => (await openTenure(storeOf(order), { holder: 'ann' })).close()
  },
}

function storeOf({ file, synchronous }: CrashOrder): string {
  return `sqlite:${file}?synchronous=${synchronous}`
}

export async function runSubject(order: CrashOrder): Promise<void> {
  const { kind, marker } = order
  // Opening the older store converts it, and that is the commit itself.
  const tenure = await openTenure(kind === 'migration' ? 'memory:' : storeOf(order), {
    holder: 'ann',
  })
  const act = await PREPARE[kind](tenure, order)
  fs.unlinkSync(marker)
  await act()
  fs.writeSync(1, 'answered')
  await tenure.close()
}
