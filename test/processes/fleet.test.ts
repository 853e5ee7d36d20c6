import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
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

function expectNoDoublePolls(): void {
  expect(doublePolls(stage.polls)).toEqual([])
}

describe('a fleet of processes', () => {
  it('spreads evenly as instances join, without two at a time', async () => {
    const first = await stage.start()
    await stage.untilSpread([first], 60)
    const others = await Promise.all([stage.start(), stage.start()])
    await stage.untilSpread([first, ...others], 60)
    await stage.stopAll()
    expectNoDoublePolls()
    expect(handoverGapsMs(stage.logs).length).toBeGreaterThan(30)
  })

  it('that starts all at once gives each session one owner, and one that is killed is replaced', async () => {
    stage = stageOn(place.url, { sessions: 100 })
    const workers = Array.from({ length: 5 }, () => stage.launch())
    await Promise.all(workers.map(({ started }) => started))
    await stage.untilSpread(workers, 100)
    const [victim, ...others] = workers
    await victim?.kill()
    await stage.untilSpread(others, 100)
    await stage.stopAll()
    expectNoDoublePolls()
  })

  it('loses an instance that is stopped past its TTL: it begins no poll when it goes on', async () => {
    stage = stageOn(place.url, { sessions: 20, pollMs: 60, intervalMs: 70, hasWrites: true })
    const victim = await stage.start()
    const other = await stage.start()
    await stage.untilSpread([victim, other], 20)
    const pausedUs = nowUs()
    await victim.pause()
    await stage.untilSpread([other], 20)
    // A late write is refused by whoever has written since; a takeover alone raises no mark.
    await untilSo(() => {
      const written = other.lines.filter((line) => line.kind === 'end' && line.atUs > pausedUs)
      return new Set(written.map((line) => 'session' in line && line.session)).size === 20
    })
    const resumedUs = nowUs()
    victim.resume()
    await stage.untilSpread([victim, other], 20)
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
    await stage.untilSpread(workers, 40)
    const isUncertain = ({ lines }: FleetWorker): boolean => {
      return lines.some((line) => line.kind === 'event' && line.name === 'uncertain')
    }
    await server.kill()
    // All of them notice; whoever would have renewed next only after the restart is not spared.
    await untilSo(() => workers.every(isUncertain))
    await server.restart()
    await stage.untilSpread(workers, 40)
    await stage.stopAll()
    expectNoDoublePolls()
  })

  it('leaves an instance its time that has not heard of a restart in which Redis lost everything', async () => {
    await using server = await startRedis()
    await using proxy = await Proxy.start(server.url)
    stage = stageOn(server.url, { sessions: 20 })
    const cutOff = await stage.start({ url: proxy.through(server.url) })
    const other = await stage.start()
    await stage.untilSpread([cutOff, other], 20)
    // It is told nothing, not even that its connection is gone, and goes on until a renewal is overdue.
    proxy.blackHole()
    await server.kill()
    await server.restart()
    await stage.untilSpread([other], 20)
    proxy.clear()
    await stage.untilSpread([cutOff, other], 20)
    await stage.stopAll()
    expectNoDoublePolls()
  })

  it('an instance that cannot reach Redis stops before others begin, although what it polls is reachable', async () => {
    await using proxy = await Proxy.start(place.url)
    stage = stageOn(place.url, { sessions: 20, hasWrites: true })
    const cutOff = await stage.start({ url: proxy.through(place.url) })
    const other = await stage.start()
    await stage.untilSpread([cutOff, other], 20)
    proxy.blackHole()
    await stage.untilSpread([other], 20)
    proxy.clear()
    await stage.untilSpread([cutOff, other], 20)
    await stage.stopAll()
    expectNoDoublePolls()
    const refused = stage.workers.flatMap(({ lines }) =>
      lines.filter((line) => line.kind === 'end' && line.isTaken === false),
    )
    expect(refused).toEqual([])
  })

  it('is restarted one instance after the other, and no session is polled by two', async () => {
    let workers: readonly FleetWorker[] = await Promise.all([1, 2, 3].map(() => stage.start()))
    await stage.untilSpread(workers, 60)
    for (const old of workers) {
      const fresh = await stage.start()
      await old.stop()
      workers = [...workers.filter((worker) => worker !== old), fresh]
    }
    await stage.untilSpread(workers, 60)
    await stage.stopAll()
    expectNoDoublePolls()
  })
})

describe('a fleet in a storm', () => {
  it('of joins, leaves, kills and lost data never polls a session twice, and polls all in the end', async () => {
    await using server = await startRedis()
    stage = stageOn(server.url, { sessions: 100 })
    const storm = { stage, instances: 4, durationMs: 4_000, everyMs: 400 }
    const report = await runStorm({ ...storm, losses: lossesOf(server) })
    process.stdout.write(`fleet: ${JSON.stringify(report)}\n`)
    expect(report.doublePolls).toEqual([])
    expect(report.polledAtEnd).toBe(100)
    expect(report.polls).toBeGreaterThan(300)
    expect(Math.min(report.joins, report.leaves, report.kills)).toBeGreaterThan(0)
  })
})

describe('a fleet on a store without Redis', () => {
  it('spreads, survives a kill, and hands over when it stops', async () => {
    stage = stageOn(`sqlite:${directory}/fleet.db`, { sessions: 30 })
    const workers = await Promise.all([stage.start(), stage.start(), stage.start()])
    await stage.untilSpread(workers, 30)
    const [victim, ...others] = workers
    await victim?.kill()
    await stage.untilSpread(others, 30)
    await others[0]?.stop()
    await stage.untilSpread(others.slice(1), 30)
    await stage.stopAll()
    expectNoDoublePolls()
  })
})

describe('a mixed fleet', () => {
  it('with an instance of nothing but redis-cli never has two owners, and leaves nothing unpolled', async () => {
    const sessions = 24
    stage = stageOn(place.url, { sessions })
    const ours = await Promise.all([stage.start(), stage.start()])
    await stage.untilSpread(ours, sessions)
    const foreign = startForeign(place.url)
    // All of them poll, and nothing is left lying, from now on.
    await untilSo(() => foreign.polls().length > 0)
    const sinceUs = nowUs()
    await untilSo(() => {
      const all = [...stage.polls, ...foreign.polls()]
      const polled = all.filter(({ fromUs }) => fromUs > sinceUs)
      const workers = new Set(polled.map(({ worker }) => worker))
      return workers.size === 3 && new Set(polled.map(({ session }) => session)).size === sessions
    })
    await foreign.stop()
    await stage.untilSpread(ours, sessions)
    await stage.stopAll()
    expect(doublePolls([...stage.polls, ...foreign.polls()])).toEqual([])
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
