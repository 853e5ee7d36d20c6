/**
 * A process that waits for one resource under several sessions, holds it for a moment each time, and logs when. Times
 * are microseconds of the host's monotonic clock. It says `ready` on standard output once all its waits are filed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { openTenure } from '../../src/index.ts'
import { nowUs } from './chaos-log.ts'

const [store = '', resource = '', holder = '', sessions = '1', rounds = '1', holdMs = '1'] =
  process.argv.slice(2)

async function takeTurns(index: number): Promise<void> {
  const tenure = await openTenure(store, { holder: `${holder}.${index}` })
  for (let round = 0; round < Number(rounds); round += 1) {
    const lease = await tenure.acquire(resource, { ttlMs: 30_000, waitMs: 60_000 })
    const startUs = nowUs()
    await sleep(Number(holdMs))
    const endUs = nowUs()
    await lease.release()
    const line = { holder: lease.holder, fence: lease.fence, startUs, endUs }
    process.stdout.write(`${JSON.stringify(line)}\n`)
  }
  await tenure.close()
}

await Promise.all(Array.from({ length: Number(sessions) }, (_, index) => takeTurns(index)))
