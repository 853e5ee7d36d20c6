/**
 * A process that takes leases, reads what it means to change, and stops itself at the worst moment. What it does first when
 * it is woken is to look at its leases: nothing of it has run in between, no timer and no callback.
 */
import { isLeaseError, openTenure, type Lease } from '../../src/index.ts'
import { openPlace } from '../../test/processes/guarded-place.ts'
import type { ZombieOrder, ZombieReport } from './zombie-round.ts'

const order = JSON.parse(process.argv[2] ?? '') as ZombieOrder
const place = await openPlace(order.place.kind, order.place.url)
const tenure = await openTenure(order.store, { holder: 'zombie' })
const leases: Lease[] = []
for (const resource of order.resources) {
  const lease = await tenure.acquire(resource, { ttlMs: order.ttlMs, waitMs: 10_000 })
  await place.enter(lease)
  leases.push(lease)
}
const unguarded = await place.read('unguarded')
process.kill(process.pid, 'SIGSTOP')
const stillHeld = leases.filter(({ state }) => state === 'held').length

let stalePassed = 0
let staleRefused = 0
for (const lease of leases) {
  try {
    await place.write(lease, 2)
    stalePassed += 1
  } catch (error) {
    if (!isLeaseError(error) || error.code !== 'STALE_FENCE') throw error
    staleRefused += 1
  }
}
await place.writeUnguarded(unguarded + 1)
process.stdout.write(
  JSON.stringify({ stillHeld, stalePassed, staleRefused } satisfies ZombieReport),
)
await tenure.close()
await place.close()
