/**
 * A process of one client, several tasks of which wait for one resource, hold it for a moment each time, and log when.
 * Times are microseconds of the host's monotonic clock.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { openTenure, type Tenure } from '../../src/index.ts'
import { nowUs } from './chaos-log.ts'

const [store = '', resource = '', holder = '', ...numbers] = process.argv.slice(2)
const [tasks = 1, rounds = 1, holdMs = 1, forMs = Infinity] = numbers.map(Number)

async function takeTurns(tenure: Tenure, task: string, untilMs: number): Promise<void> {
  for (let round = 0; round < rounds && performance.now() < untilMs; round += 1) {
    const lease = await tenure.acquire(resource, { ttlMs: 30_000, waitMs: 60_000 })
    const startUs = nowUs()
    await sleep(holdMs)
    const endUs = nowUs()
    await lease.release()
    const { id: leaseId, fence } = lease
    const line = { leaseId, holder: task, fence, startUs, endUs }
    process.stdout.write(`${JSON.stringify(line)}\n`)
  }
}

const tenure = await openTenure(store, { holder })
const untilMs = performance.now() + forMs
const names = Array.from({ length: tasks }, (_, index) => `${holder}.${index}`)
await Promise.all(names.map((task) => takeTurns(tenure, task, untilMs)))
await tenure.close()
