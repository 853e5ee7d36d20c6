/** The long form of fleet.test.ts: 20 instances × 1,000 sessions for 60 s, with joins, leaves, kills and lost data. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it } from 'vitest'
import { startRedis } from '../servers/redis-server.ts'
import { FleetStage } from './fleet-stage.ts'
import { lossesOf, runStorm } from './fleet-storm.ts'

it('20 instances × 1,000 sessions × 60 s: no session is polled by two', async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-fleet-'))
  await using server = await startRedis()
  const manager = { leaseTtlMs: 4_500, heartbeatTtlMs: 4_500, refreshMs: 1_500 }
  const work = { sessions: 1_000, intervalMs: 1_000, pollMs: 20 }
  const stage = new FleetStage({ url: server.url, directory, manager, ...work })
  try {
    const report = await runStorm({
      ...{ stage, instances: 20, durationMs: 60_000, everyMs: 1_500, calmMs: 8_000 },
      losses: lossesOf(server),
    })
    process.stdout.write(`fleet: ${JSON.stringify(report)}\n`)
    expect(report.doublePolls).toEqual([])
    expect(report.polledAtEnd).toBe(1_000)
    expect(report.polls).toBeGreaterThan(30_000)
    expect(Math.min(report.joins, report.leaves, report.kills, report.losses)).toBeGreaterThan(3)
  } finally {
    stage.killAll()
    await Promise.all(stage.workers.map(({ ended }) => ended))
    fs.rmSync(directory, { recursive: true, force: true })
  }
})
