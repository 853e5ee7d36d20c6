/**
 * A process under whatever clocks it was started with: takes leases with short and with very long TTLs, and prints what is
 * wrong with them.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { isLeaseError, openTenure, type Tenure } from '../../src/index.ts'

export interface ClockReport {
  readonly problems: readonly string[]
  /** No lease is granted at this time. */
  readonly refused: boolean
}

const LONG_TTL_MS = 2 ** 31 + 1
const SHORT_TTL_MS = 300
const problems: string[] = []

function expect(isSo: boolean, otherwise: string): void {
  if (!isSo) problems.push(otherwise)
}

async function tryLeases(tenure: Tenure, rival: Tenure): Promise<void> {
  const long = await tenure.acquire('work:long', { ttlMs: LONG_TTL_MS })
  expect(long.remainingMs > 0.98 * LONG_TTL_MS, `a long lease has ${long.remainingMs} ms left`)
  expect(Number.isSafeInteger(long.fence), `the fence is ${long.fence}`)
  const short = await tenure.acquire('work:short', { ttlMs: SHORT_TTL_MS, autoRenew: false })
  expect(short.remainingMs <= SHORT_TTL_MS, `a short lease has ${short.remainingMs} ms left`)
  short.abandon()
  expect((await rival.tryAcquire('work:short')).kind === 'held', 'a short lease is free at once')
  const next = await rival.acquire('work:short', { ttlMs: SHORT_TTL_MS, waitMs: 5_000 })
  expect(next.fence > short.fence, `fence ${next.fence} follows ${short.fence}`)
  expect(short.state === 'lost', `a short lease is ${short.state} when another holds it`)
  await sleep(2 * SHORT_TTL_MS)
  expect(next.state === 'held', `a lease that renews itself is ${next.state}`)
  expect(long.state === 'held', `a long lease is ${long.state}`)
  expect((await rival.tryAcquire('work:long')).kind === 'held', 'a long lease is free')
  await next.release()
  await long.release()
  expect((await rival.tryAcquire('work:long')).kind === 'granted', 'a released lease is not free')
}

process.on('warning', ({ message }) => problems.push(message))
const store = process.argv[2] ?? ''
const tenure = await openTenure(store, { holder: 'ann' })
const rival = await openTenure(store, { holder: 'ben' })
let refused = false
try {
  await tryLeases(tenure, rival)
} catch (error) {
  if (!isLeaseError(error)) throw error
  refused = error.code === 'STORE_UNAVAILABLE'
  if (!refused) problems.push(`${error.code}: ${error.message}`)
}
await rival.close()
await tenure.close()
process.stdout.write(JSON.stringify({ problems, refused } satisfies ClockReport))
