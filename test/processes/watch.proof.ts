/** How soon a watcher in another process hears of a commit, on a machine that has nothing else to do. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { openTenure } from '../../src/index.ts'
import { nowUs } from './chaos-log.ts'
import { quantile } from './handover.ts'
import { startWatching } from './watching.ts'

it('a watcher in another process hears of a commit within 20 ms (median)', async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-watch-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  const store = `sqlite:${path.join(directory, 'leases.db')}`
  await using tenure = await openTenure(store, { holder: 'parent' })
  const watching = await startWatching(store)
  const committedUs = new Map<string, number>()
  for (let index = 0; index < 60; index += 1) {
    const lease = await tenure.acquire(`work:${index}`, { ttlMs: 60_000 })
    committedUs.set(lease.id, nowUs())
    // Apart, so that each is a call of its own and none is found by the way.
    await sleep(15)
  }
  await watching.hears(60)
  await watching.kill()
  const delays = watching.heard.map(({ leaseId, atUs }) => {
    return (atUs - (committedUs.get(leaseId) ?? Number.NaN)) / 1000
  })
  const [median, most] = [quantile(delays, 0.5), quantile(delays, 0.9)]
  process.stdout.write(
    `watch: ${delays.length} events of another process, median ${median.toFixed(1)} ms, p90 ${most.toFixed(1)} ms\n`,
  )
  // The poll looks every 500 ms: half of that would be the median without calls.
  expect(median).toBeLessThan(20)
})
