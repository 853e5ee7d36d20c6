/**
 * A process that waits for one resource under several sessions, holds it for a moment each time, and logs when. Times
 * are microseconds of the host's monotonic clock.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { openTenure, type Tenure } from '../../src/index.ts'
import { nowUs } from './chaos-log.ts'

const [store = '', resource = '', holder = '', ...numbers] = process.argv.slice(2)
const [sessions = 1, rounds = 1, holdMs = 1, forMs = Infinity] = numbers.map(Number)

async function takeTurns(tenure: Tenure, untilMs: number): Promise<void> {
  for (let round = 0; round < rounds && performance.now() < untilMs; round += 1) {
    const lease = await tenure.acquire(resource, { ttlMs: 30_000, waitMs: 60_000 })
    const startUs = nowUs()
    await sleep(holdMs)
    const endUs = nowUs()
    await lease.release()
    const { id: leaseId, fence } = lease
    const line = { leaseId, holder: lease.holder, fence, startUs, endUs }
    process.stdout.write(`${JSON.stringify(line)}\n`)
  }
  await tenure.close()
}

const clients = await Promise.all(
  Array.from({ length: sessions }, (_, index) => {
    return openTenure(store, { holder: `${holder}.${index}` })
  }),
)
const untilMs = performance.now() + forMs
await Promise.all(clients.map((tenure) => takeTurns(tenure, untilMs)))
