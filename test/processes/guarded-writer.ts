/**
 * One of several writers of one number: takes the lease, reads, adds one, writes, and now and then is paused between
 * the two for longer than its lease lasts, so that nothing in it can renew or look. Says in the end what was accepted.
 */
import { isLeaseError, openTenure, type Lease } from '../../src/index.ts'
import { openPlace, RESOURCE, type PlaceKind } from './guarded-place.ts'
import type { WriterReport } from './guarded-writers.ts'

const [store = '', kind = '', url = '', holder = '', writes = '0'] = process.argv.slice(2)
const TTL_MS = 150
const PAUSES = 0.04

const place = await openPlace(kind as PlaceKind, url)
const tenure = await openTenure(store, { holder, claimWindowMs: 500 })
const report = { accepted: 0, refused: 0, unguarded: 0 }

/** As a long collection of garbage would: not even timers run. */
function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

async function write(lease: Lease): Promise<void> {
  const [value, unguarded] = [await place.read('guarded'), await place.read('unguarded')]
  if (Math.random() < PAUSES) pause(TTL_MS * 2)
  await place.writeUnguarded(unguarded + 1)
  report.unguarded += 1
  try {
    await place.write(lease, value + 1)
    report.accepted += 1
  } catch (error) {
    if (isStale(error)) report.refused += 1
    throw error
  }
}

function isStale(error: unknown): boolean {
  return isLeaseError(error) && error.code === 'STALE_FENCE'
}

/** At least one, also where a busy machine needs longer to enter than the lease lasts: it has looked before. */
async function hold(lease: Lease): Promise<void> {
  await place.enter(lease)
  do await write(lease)
  while (lease.state === 'held' && report.unguarded < Number(writes) && Math.random() > 0.1)
}

while (report.unguarded < Number(writes)) {
  try {
    const lease = await tenure.acquire(RESOURCE, { ttlMs: TTL_MS, waitMs: 10_000 })
    await hold(lease)
    await lease[Symbol.asyncDispose]()
  } catch (error) {
    if (!isLeaseError(error)) throw error
    // Whoever comes too late may hear so before it writes anything, when it makes its fence known.
    const isExpected = isStale(error) || error.retryable || error.code.startsWith('LEASE_')
    if (!isExpected) throw error
  }
}
await tenure.close()
await place.close()
process.send?.(report satisfies WriterReport)
process.disconnect?.()
