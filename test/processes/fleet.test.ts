import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { Proxy } from '../servers/proxy.ts'
import { startRedis } from '../servers/redis-server.ts'
import { freshRedis, type Place } from '../servers/shared-servers.ts'
import { nowUs } from './chaos-log.ts'
import { FencedFiles } from './fenced-files.ts'
import {
  doublePolls,
  handoverGapsMs,
  longestRests,
  median,
  pollsOf,
  type PollInterval,
} from './fleet-check.ts'
import { readFleetLog } from './fleet-log.ts'
import { lossesOf, runStorm } from './fleet-storm.ts'
import {
  FleetStage,
  sessionIds,
  untilSo,
  type FleetWorker,
  type StageOptions,
} from './fleet-stage.ts'

const TTL_MS = 1_800
const REFRESH_MS = 600
/** As long as the intervals allow: processes of a test that wait for a processor are not a store that is away. */
const CALL_MS = 600
const MANAGER = {
  leaseTtlMs: TTL_MS,
  heartbeatTtlMs: TTL_MS,
  refreshMs: REFRESH_MS,
  callMs: CALL_MS,
}

let directory: string
let place: Place
let stage: FleetStage

function stageOn(url: string, changes: Partial<StageOptions> = {}): FleetStage {
  const options = { url, directory, sessions: 60, intervalMs: 100, pollMs: 10, manager: MANAGER }
  return new FleetStage({ ...options, ...changes })
}

beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-fleet-'))
  place = await freshRedis()
  stage = stageOn(place.url)
})

afterEach(async () => {
  stage.killAll()
  await Promise.all(stage.workers.map(({ ended }) => ended))
  await place.remove()
  fs.rmSync(directory, { recursive: true, force: true })
})

/** Resolves when every session is polled, by these workers alone, and none of them has more than its bound. */
async function untilSpread(workers: readonly FleetWorker[], sessions: number): Promise<void> {
  const bound = Math.ceil((1.2 * sessions) / workers.length)
  const names = workers.map(({ name }) => name).toSorted()
  await untilSo(async () => {
    const sinceUs = nowUs()
    await sleep(250)
    const pollers = stage.pollersSince(sinceUs)
    const counts = [...pollers.values()].map(({ size }) => size)
    return (
      pollers.size === names.length &&
      names.every((name) => pollers.has(name)) &&
      counts.every((count) => count <= bound) &&
      counts.reduce((sum, count) => sum + count, 0) === sessions
    )
  })
}

function expectNoDoublePolls(): void {
  expect(doublePolls(stage.polls)).toEqual([])
}

describe('a fleet of processes', () => {
  it('spreads evenly as instances join, without a gap and without two at a time', async () => {
    const first = await stage.start()
    await untilSpread([first], 60)
    const others = await Promise.all([stage.start(), stage.start()])
    await untilSpread([first, ...others], 60)
    const endUs = nowUs()
    await stage.stopAll()
    expectNoDoublePolls()
    const gaps = handoverGapsMs(stage.logs)
    process.stdout.write(`fleet: ${gaps.length} handovers, median gap ${median(gaps)} ms\n`)
    expect(gaps.length).toBeGreaterThan(30)
    expect(median(gaps)).toBeLessThan(50)
    expect(Math.max(...longestRests(stage.polls, endUs).values())).toBeLessThan(1_000)
  })

  it('that starts all at once gives each session one owner, and one that is killed is replaced in time', async () => {
    stage = stageOn(place.url, { sessions: 100 })
    const workers = Array.from({ length: 5 }, () => stage.launch())
    await Promise.all(workers.map(({ started }) => started))
    await untilSpread(workers, 100)
    const [victim, ...others] = workers
    const beforeUs = nowUs()
    await sleep(300)
    const orphans = stage.pollersSince(beforeUs).get(victim?.name ?? '') ?? new Set()
    expect(orphans.size).toBeGreaterThan(5)
    await victim?.kill()
    const killedUs = nowUs()
    await untilSpread(others, 100)
    await stage.stopAll()
    expectNoDoublePolls()
    const lateMs = [...orphans].map((session) => {
      const next = stage.polls.find((poll) => poll.session === session && poll.fromUs > killedUs)
      return ((next?.fromUs ?? Infinity) - killedUs) / 1000
    })
    process.stdout.write(`fleet: the last orphan was polled after ${Math.max(...lateMs)} ms\n`)
    expect(Math.max(...lateMs)).toBeLessThan(TTL_MS + REFRESH_MS)
  })

  it('loses an instance that is stopped past its TTL: it begins no poll when it goes on', async () => {
    stage = stageOn(place.url, { sessions: 20, pollMs: 60, intervalMs: 70, hasWrites: true })
    const victim = await stage.start()
    const other = await stage.start()
    await untilSpread([victim, other], 20)
    const pausedUs = nowUs()
    await victim.pause()
    await untilSpread([other], 20)
    // A late write is refused by whoever has written since; a takeover alone raises no mark.
    await untilSo(() => {
      const written = other.lines.filter((line) => line.kind === 'end' && line.atUs > pausedUs)
      return new Set(written.map((line) => 'session' in line && line.session)).size === 20
    })
    const resumedUs = nowUs()
    victim.resume()
    await untilSpread([victim, other], 20)
    await stage.stopAll()
    expectNoDoublePolls()
    const { lines } = victim
    const acquired = lines.find(
      (line) => line.kind === 'event' && line.name === 'acquired' && line.atUs > resumedUs,
    )
    const begun = lines.find((line) => line.kind === 'begin' && line.atUs > resumedUs)
    expect(
      acquired?.kind === 'event' && begun?.kind === 'begin' && begun.atUs > acquired.atUs,
    ).toBe(true)
    // A poll that was under way when it was stopped wrote when it went on, and was refused.
    const late = lines.filter((line) => line.kind === 'end' && line.isTaken === false)
    expect(late.length).toBeGreaterThan(0)
    const files = await FencedFiles.open(stage.writes)
    expect(files.taken().length).toBeGreaterThan(100)
    files.close()
  })

  it('pauses while Redis restarts and has lost everything, and recovers without two at a time', async () => {
    await using server = await startRedis()
    stage = stageOn(server.url, { sessions: 40 })
    const workers = await Promise.all([stage.start(), stage.start(), stage.start()])
    await untilSpread(workers, 40)
    const isUncertain = ({ lines }: FleetWorker): boolean => {
      return lines.some((line) => line.kind === 'event' && line.name === 'uncertain')
    }
    await server.kill()
    // All of them notice; whoever would have renewed next only after the restart is not spared.
    await untilSo(() => workers.every(isUncertain))
    await server.restart()
    const restartedUs = nowUs()
    await untilSpread(workers, 40)
    const recoveredMs = (nowUs() - restartedUs) / 1000
    await stage.stopAll()
    expectNoDoublePolls()
    process.stdout.write(`fleet: all polled ${Math.round(recoveredMs)} ms after the restart\n`)
  })

  it('leaves an instance its time that has not heard of a restart in which Redis lost everything', async () => {
    await using server = await startRedis()
    await using proxy = await Proxy.start(server.url)
    stage = stageOn(server.url, { sessions: 20 })
    const cutOff = await stage.start({ url: proxy.through(server.url) })
    const other = await stage.start()
    await untilSpread([cutOff, other], 20)
    // It is told nothing, not even that its connection is gone, and goes on until a renewal is overdue.
    proxy.blackHole()
    await server.kill()
    await server.restart()
    await untilSpread([other], 20)
    proxy.clear()
    await untilSpread([cutOff, other], 20)
    await stage.stopAll()
    expectNoDoublePolls()
  })

  it('an instance that cannot reach Redis stops in time, although what it polls is reachable', async () => {
    await using proxy = await Proxy.start(place.url)
    stage = stageOn(place.url, { sessions: 20, hasWrites: true })
    const cutOff = await stage.start({ url: proxy.through(place.url) })
    const other = await stage.start()
    await untilSpread([cutOff, other], 20)
    proxy.blackHole()
    const cutUs = nowUs()
    await untilSpread([other], 20)
    await sleep(300)
    const began = stage.polls.filter((poll) => poll.worker === cutOff.name && poll.fromUs > cutUs)
    const lastMs = (Math.max(0, ...began.map(({ fromUs }) => fromUs)) - cutUs) / 1000
    // It is uncertain, and begins nothing, once a renewal is overdue; long before anybody else may have it.
    expect(lastMs).toBeLessThan(REFRESH_MS + CALL_MS + 100)
    proxy.clear()
    await untilSpread([cutOff, other], 20)
    await stage.stopAll()
    expectNoDoublePolls()
    const refused = stage.workers.flatMap(({ lines }) =>
      lines.filter((line) => line.kind === 'end' && line.isTaken === false),
    )
    expect(refused).toEqual([])
  })

  it('is restarted one instance after the other, and no session rests for a second', async () => {
    stage = stageOn(place.url, { sessions: 100 })
    let workers = await Promise.all(Array.from({ length: 5 }, async () => stage.start()))
    await untilSpread(workers, 100)
    for (const old of workers) {
      const fresh = await stage.start()
      await old.stop()
      workers = [...workers.filter((worker) => worker !== old), fresh]
    }
    await untilSpread(workers, 100)
    const endUs = nowUs()
    await stage.stopAll()
    expectNoDoublePolls()
    const rests = longestRests(stage.polls, endUs)
    const gaps = handoverGapsMs(stage.logs)
    const worst = Math.max(...rests.values())
    process.stdout.write(
      `fleet: rolling restart, ${gaps.length} handovers, median gap ${median(gaps)} ms, longest rest ${worst} ms\n`,
    )
    expect(rests.size).toBe(100)
    expect(worst).toBeLessThan(1_000)
    expect(median(gaps)).toBeLessThan(50)
  })
})

describe('a fleet in a storm', () => {
  it('of joins, leaves, kills and lost data never polls a session twice, and polls all in the end', async () => {
    await using server = await startRedis()
    stage = stageOn(server.url, { sessions: 100 })
    const storm = { stage, instances: 4, durationMs: 4_000, everyMs: 400, calmMs: 6_000 }
    const report = await runStorm({ ...storm, losses: lossesOf(server) })
    process.stdout.write(`fleet: ${JSON.stringify(report)}\n`)
    expect(report.doublePolls).toEqual([])
    expect(report.polledAtEnd).toBe(100)
    expect(report.polls).toBeGreaterThan(1_000)
    expect(Math.min(report.joins, report.leaves, report.kills)).toBeGreaterThan(0)
  })
})

describe('a fleet on a store without Redis', () => {
  it('spreads, survives a kill, and hands over when it stops', async () => {
    stage = stageOn(`sqlite:${directory}/fleet.db`, { sessions: 30 })
    const workers = await Promise.all([stage.start(), stage.start(), stage.start()])
    await untilSpread(workers, 30)
    const [victim, ...others] = workers
    await victim?.kill()
    await untilSpread(others, 30)
    await others[0]?.stop()
    await untilSpread(others.slice(1), 30)
    await stage.stopAll()
    expectNoDoublePolls()
    const gaps = handoverGapsMs(stage.logs)
    process.stdout.write(
      `fleet: on SQLite ${gaps.length} handovers, median gap ${median(gaps)} ms\n`,
    )
  })
})

describe('a mixed fleet', () => {
  it('with an instance of nothing but redis-cli never has two owners, and leaves nothing unpolled', async () => {
    const sessions = 24
    stage = stageOn(place.url, { sessions })
    const ours = await Promise.all([stage.start(), stage.start()])
    await untilSpread(ours, sessions)
    const foreign = startForeign(place.url)
    await untilSo(() => foreign.polls().length > 0)
    await sleep(1_500)
    const mixedUs = nowUs()
    await sleep(1_000)
    const endUs = nowUs()
    await foreign.stop()
    await untilSpread(ours, sessions)
    await stage.stopAll()
    const all = [...stage.polls, ...foreign.polls()]
    expect(doublePolls(all)).toEqual([])
    const polled = all.filter(({ fromUs }) => fromUs > mixedUs && fromUs < endUs)
    expect(new Set(polled.map(({ session }) => session)).size).toBe(sessions)
    expect(new Set(polled.map(({ worker }) => worker)).size).toBe(3)
  })

  /** Of the sessions it is told of, half, so that ours must stand in for what it leaves lying. */
  function startForeign(url: string): {
    polls(): readonly PollInterval[]
    stop(): Promise<unknown>
  } {
    const program = path.resolve(import.meta.dirname, 'foreign-instance.mjs')
    const log = path.join(directory, 'foreign.log')
    const known = sessionIds(24).filter((_, index) => index % 2 === 0)
    const child = spawn(process.execPath, [program, url, log, String(TTL_MS), ...known], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    const ended = once(child, 'close')
    return {
      polls: () => pollsOf({ worker: 'foreign', wasHarmed: false, lines: readFleetLog(log) }),
      stop: async () => {
        child.kill('SIGTERM')
        return ended
      },
    }
  }
})

describe('the check of the pollers’ own logs', () => {
  const [session = ''] = sessionIds(1)
  const poll = (worker: string, fence: number, fromUs: number, toUs: number) => ({
    ...{ worker, session, fence, fromUs, toUs },
  })

  it('sees two polls at a time, also behind a long one, and a fence that goes back', () => {
    expect(doublePolls([poll('a', 1, 0, 10), poll('b', 2, 10, 20)])).toEqual([])
    expect(doublePolls([poll('a', 1, 0, 11), poll('b', 2, 10, 20)])).toHaveLength(1)
    expect(
      doublePolls([poll('a', 1, 0, 90), poll('a', 1, 10, 20), poll('b', 2, 30, 40)]),
    ).toHaveLength(2)
    expect(doublePolls([poll('b', 2, 0, 10), poll('a', 1, 10, 20)])).toHaveLength(1)
  })

  it('counts rest from the end of one poll to the begin of the next, and until the end', () => {
    const polls = [poll('a', 1, 0, 1_000), poll('b', 2, 5_000, 6_000)]
    expect(longestRests(polls, 6_500).get(session)).toBe(4)
    expect(longestRests(polls, 16_000).get(session)).toBe(10)
  })
})
