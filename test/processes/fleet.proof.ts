/**
 * The long form of fleet.test.ts: 20 instances × 1,000 sessions for 60 s, with joins, leaves, kills and lost data; and how soon a
 * session is polled again, which says something only on a machine that has nothing else to do.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Proxy } from '../servers/proxy.ts'
import { startRedis } from '../servers/redis-server.ts'
import { freshRedis, type Place } from '../servers/shared-servers.ts'
import { nowUs } from './chaos-log.ts'
import { doublePolls, handoverGapsMs, longestRests, median } from './fleet-check.ts'
import { FleetStage } from './fleet-stage.ts'
import { lossesOf, runStorm } from './fleet-storm.ts'

const TTL_MS = 1_800
const REFRESH_MS = 600
const CALL_MS = 600
const QUICK = {
  ...{ leaseTtlMs: TTL_MS, heartbeatTtlMs: TTL_MS, refreshMs: REFRESH_MS, callMs: CALL_MS },
}

let directory: string
let place: Place
let stage: FleetStage

function stageOf(sessions: number): FleetStage {
  const options = { url: place.url, directory, intervalMs: 100, pollMs: 10, manager: QUICK }
  return new FleetStage({ ...options, sessions })
}

beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-fleet-'))
  place = await freshRedis()
})

afterEach(async () => {
  stage.killAll()
  await Promise.all(stage.workers.map(({ ended }) => ended))
  await place.remove()
  fs.rmSync(directory, { recursive: true, force: true })
})

function expectShortGaps(endUs: number): void {
  expect(doublePolls(stage.polls)).toEqual([])
  const gaps = handoverGapsMs(stage.logs)
  const rests = longestRests(stage.polls, endUs)
  const worst = Math.max(...rests.values())
  process.stdout.write(
    `fleet: ${gaps.length} handovers, median gap ${median(gaps)} ms, longest rest ${worst} ms\n`,
  )
  expect(rests.size).toBe(stage.sessions)
  expect(median(gaps)).toBeLessThan(50)
  expect(worst).toBeLessThan(1_000)
}

it('20 instances × 1,000 sessions × 60 s: no session is polled by two', async () => {
  const manager = { leaseTtlMs: 4_500, heartbeatTtlMs: 4_500, refreshMs: 1_500 }
  const work = { sessions: 1_000, intervalMs: 1_000, pollMs: 20 }
  await using server = await startRedis()
  stage = new FleetStage({ url: server.url, directory, manager, ...work })
  const report = await runStorm({
    ...{ stage, instances: 20, durationMs: 60_000, everyMs: 1_500 },
    losses: lossesOf(server),
  })
  process.stdout.write(`fleet: ${JSON.stringify(report)}\n`)
  expect(report.doublePolls).toEqual([])
  expect(report.polledAtEnd).toBe(1_000)
  expect(report.polls).toBeGreaterThan(30_000)
  expect(Math.min(report.joins, report.leaves, report.kills, report.losses)).toBeGreaterThan(3)
})

it('as instances join, no session rests for a second, and half of them for less than 50 ms', async () => {
  stage = stageOf(60)
  const first = await stage.start()
  await stage.untilSpread([first], 60)
  const others = await Promise.all([stage.start(), stage.start()])
  await stage.untilSpread([first, ...others], 60)
  const endUs = nowUs()
  await stage.stopAll()
  expectShortGaps(endUs)
})

it('restarted one instance after the other, no session rests for a second, and half for less than 50 ms', async () => {
  stage = stageOf(100)
  let workers = await Promise.all(Array.from({ length: 5 }, async () => stage.start()))
  await stage.untilSpread(workers, 100)
  for (const old of workers) {
    const fresh = await stage.start()
    await old.stop()
    workers = [...workers.filter((worker) => worker !== old), fresh]
  }
  await stage.untilSpread(workers, 100)
  const endUs = nowUs()
  await stage.stopAll()
  expectShortGaps(endUs)
})

it('what an instance polled that is killed is polled again one TTL and one refresh later', async () => {
  stage = stageOf(100)
  const workers = await Promise.all(Array.from({ length: 5 }, async () => stage.start()))
  await stage.untilSpread(workers, 100)
  const [victim, ...others] = workers
  await victim?.kill()
  const killedUs = nowUs()
  const ofVictim = stage.polls.filter(({ worker }) => worker === victim?.name)
  const orphans = new Set(ofVictim.slice(-20).map(({ session }) => session))
  await stage.untilSpread(others, 100)
  await stage.stopAll()
  const lateMs = [...orphans].map((session) => {
    const next = stage.polls.find((poll) => poll.session === session && poll.fromUs > killedUs)
    return ((next?.fromUs ?? Infinity) - killedUs) / 1000
  })
  process.stdout.write(`fleet: the last orphan was polled after ${Math.max(...lateMs)} ms\n`)
  expect(Math.max(...lateMs)).toBeLessThan(TTL_MS + REFRESH_MS)
})

it('an instance that cannot reach Redis begins no poll once a renewal is overdue', async () => {
  await using proxy = await Proxy.start(place.url)
  stage = stageOf(20)
  const cutOff = await stage.start({ url: proxy.through(place.url) })
  const other = await stage.start()
  await stage.untilSpread([cutOff, other], 20)
  proxy.blackHole()
  const cutUs = nowUs()
  await stage.untilSpread([other], 20)
  proxy.clear()
  const began = stage.polls.filter((poll) => poll.worker === cutOff.name && poll.fromUs > cutUs)
  const lastMs = (Math.max(0, ...began.map(({ fromUs }) => fromUs)) - cutUs) / 1000
  // Long before anybody else may have it.
  expect(lastMs).toBeLessThan(REFRESH_MS + CALL_MS + 100)
})
