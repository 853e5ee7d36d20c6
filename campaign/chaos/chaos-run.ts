/** One run of the chaos: workers on a stage, trouble until the time is over, calm, and the check of what they logged. */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { guard } from '../../src/guard/index.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { Random } from '../../sim/random.ts'
import type { StepOrder, StepOutcome } from '../part.ts'
import { Crew } from './crew.ts'
import { FaketimeFile } from './faketime.ts'
import { checkHolds, type HoldFacts } from './hold-check.ts'
import { monotonicUs } from './host-clock.ts'
import type { OpenStage } from './stage.ts'
import type { Scene, Trouble } from './troubles.ts'
import { GUARDED_TABLE } from './worker-order.ts'

export interface ChaosOptions {
  readonly open: OpenStage
  readonly processes: number
  /** In each process. */
  readonly tasks: number
  readonly troubles: readonly Trouble[]
  /** Default 250. */
  readonly ttlMs?: number
  /** The pause between two troubles, at most; default 1.5 s. */
  readonly pauseMsMax?: number
  /**
   * The trouble is outside of what the store promises: overlaps are counted, as the control, and nothing but fences that grow
   * and the guard stands between them and a stale write.
   */
  readonly isControl?: boolean
  readonly setsWorkerClocks?: boolean
  /** At which the clocks of half of the workers run; those of the others are true. */
  readonly workerClockRate?: number
  /** The store lies on a small file system of its own. */
  readonly hasSmallDisk?: boolean
  /** By trouble: how often a run must meet it, or it does not count. */
  readonly timesMin?: Readonly<Record<string, number>>
}

const TTL_MS_DEFAULT = 250
const CLAIM_WINDOW_MS = 300
const CALM_MS = 3_000
/** For every worker to hold something again; on a busy machine a new one takes seconds to begin. */
const RESUMED_WITHIN_MS = 20_000
const FINISH_WITHIN_MS = 30_000
const BEGIN_WITHIN_MS = 60_000
const PAUSE_MS_MAX = 1_500
const SMALL_DISK = 'size=96m'
const OPERATIONS_PER_SECOND_MIN = 200
const EXPIRED_SHARE_MIN = 0.3
const SHOWN_MAX = 5

export async function runChaos(options: ChaosOptions, order: StepOrder): Promise<StepOutcome> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-chaos-'))
  const disk = path.join(directory, 'disk')
  fs.mkdirSync(disk)
  if (options.hasSmallDisk) execFileSync('mount', ['-t', 'tmpfs', '-o', SMALL_DISK, 'tmpfs', disk])
  try {
    return await runIn(directory, options, order)
  } finally {
    if (options.hasSmallDisk) execFileSync('umount', ['--lazy', disk])
    fs.rmSync(directory, { recursive: true, force: true })
  }
}

async function runIn(
  directory: string,
  options: ChaosOptions,
  { seed, minutes, say }: StepOrder,
): Promise<StepOutcome> {
  const random = new Random(`chaos/${seed}`)
  const guarded = path.join(directory, 'guarded.db')
  await createGuarded(guarded)
  const workerClock = options.setsWorkerClocks
    ? new FaketimeFile(path.join(directory, 'worker-time'))
    : null
  const stage = await options.open(path.join(directory, 'disk'))
  const { processes, tasks, ttlMs = TTL_MS_DEFAULT, workerClockRate: rate } = options
  const crew = new Crew({
    ...{ directory, processes, seed, random, stores: stage.stores },
    env: { ...workerClock?.env, ...stage.env },
    wrapper: stage.link?.wrapper ?? [],
    ...(rate === undefined ? {} : { clockRate: rate }),
    order: {
      ...{ guarded, tasks, ttlMs },
      resources: Math.max(4, Math.floor((processes * tasks) / 2)),
      claimWindowMs: CLAIM_WINDOW_MS,
    },
  })
  try {
    await crew.untilAllWork(BEGIN_WITHIN_MS)
    const beganMs = performance.now()
    const scene: Scene = { crew, stage, random, ttlMs, directory, workerClock }
    const counts = await makeTrouble(scene, options, { untilMs: beganMs + minutes * 60_000, say })
    const calmAtUs = monotonicUs()
    await sleep(CALM_MS)
    await crew.untilAllHoldAgain(RESUMED_WITHIN_MS)
    const seconds = (performance.now() - beganMs) / 1_000
    const awake = crew.runningLogs
    await crew.finish(FINISH_WITHIN_MS)
    say('checks the logs')
    const { logs, crashes } = crew
    const facts = checkHolds(logs)
    const idle = logs
      .filter((log, index) => awake.has(log) && (facts.lastStartUs[index] ?? 0) < calmAtUs)
      .map((log) => fs.readFileSync(log, 'utf8').trimEnd().split('\n').slice(-2).join(' '))
    const isControl = options.isControl === true
    const { timesMin = {} } = options
    return outcomeOf(facts, { counts, timesMin, seconds, crashes, idle, isControl })
  } finally {
    crew.killAll()
    await stage.close()
  }
}

export async function createGuarded(file: string): Promise<void> {
  const Driver = await loadSqlite()
  const database = new Driver(file)
  database.pragma('journal_mode = WAL')
  guard.sqlite(database).init()
  database.exec(`CREATE TABLE ${GUARDED_TABLE} (
    number INTEGER PRIMARY KEY AUTOINCREMENT, resource INTEGER, fence INTEGER)`)
  database.close()
}

async function makeTrouble(
  scene: Scene,
  { troubles, pauseMsMax = PAUSE_MS_MAX }: ChaosOptions,
  { untilMs, say }: { readonly untilMs: number; readonly say: (text: string) => void },
): Promise<Readonly<Record<string, number>>> {
  const counts: Record<string, number> = {}
  while (performance.now() < untilMs && scene.crew.crashes.length === 0) {
    await sleep(scene.random.between(100, pauseMsMax))
    const trouble = scene.random.pick(troubles)
    const { name } = trouble
    await trouble.act(scene)
    counts[name] = (counts[name] ?? 0) + 1
    say(`${Math.round(scene.crew.bytes / 1e6)} MB of logs, ${name}`)
  }
  return counts
}

export interface RunFacts {
  readonly counts: Readonly<Record<string, number>>
  readonly timesMin: Readonly<Record<string, number>>
  readonly seconds: number
  readonly crashes: readonly string[]
  /** What workers logged last that held nothing after the trouble. */
  readonly idle: readonly string[]
  readonly isControl: boolean
}

/** What a run must not have. The trouble of a control explains overlaps and what follows from them, but no stale write. */
export function violationsOf(
  facts: HoldFacts,
  { isControl }: Pick<RunFacts, 'isControl'>,
): readonly string[] {
  const { overlaps, fenceFaults, wrongRefusals, fencesBack, staleWrites, undecided } = facts
  const refused = wrongRefusals.map((line) => `the guard refused a write although ${line}`)
  return [
    ...(isControl ? [] : [...overlaps, ...fenceFaults, ...refused]),
    ...fencesBack,
    ...staleWrites.map((line) => `the guard let a stale write pass: ${line}`),
    ...undecided.map((line) => `cannot be decided: ${line}`),
  ]
}

export function outcomeOf(facts: HoldFacts, run: RunFacts): StepOutcome {
  const { operations, grants, expired, overlaps } = facts
  const failures = [
    ...violationsOf(facts, run),
    ...run.crashes.map((line) => `a worker ended: ${line}`),
    ...run.idle.map((line) => `a worker held nothing after the trouble; its log ends with ${line}`),
  ]
  const perSecond = operations / run.seconds
  const share = grants === 0 ? 0 : expired / grants
  const shortfalls = [
    ...(perSecond < OPERATIONS_PER_SECOND_MIN
      ? [`${Math.round(perSecond)} operations a second`]
      : []),
    ...(share < EXPIRED_SHARE_MIN ? [`${Math.round(share * 100)} % of the grants expired`] : []),
    ...Object.entries(run.timesMin).flatMap(([name, least]) => {
      const times = run.counts[name] ?? 0
      return times < least ? [`${times} of ${least} ${name}`] : []
    }),
    ...(run.isControl && overlaps.length === 0
      ? ['the control saw no overlap, so that it shows nothing of the fault']
      : []),
  ]
  const codes = Object.entries({ ...facts.refusals, ...facts.errors })
  const told = codes.map(([code, count]) => `${count} ${code}`).join(', ')
  return {
    counts: {
      ...{ operations, 'calls of the store': facts.calls, grants },
      ...{ 'expired grants': expired, renewals: facts.renewals },
      ...{ 'late writes': facts.lateWrites, 'stale writes refused': facts.refusedWrites },
      ...(run.isControl ? { 'overlaps (control)': overlaps.length } : {}),
      ...run.counts,
    },
    failures: [...failures.slice(0, SHOWN_MAX), ...more(failures.length - SHOWN_MAX)],
    shortfalls,
    note: `${Math.round(perSecond)} operations a second, ${Math.round(share * 100)} % expired${
      told === '' ? '' : `; ${told}`
    }`,
  }
}

function more(count: number): readonly string[] {
  return count > 0 ? [`and ${count} more`] : []
}
