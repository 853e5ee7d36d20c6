/**
 * Two versions on one store: the last one before the stores were rewritten, built from its sources, and this one. Workers of
 * one version are at work when those of the other come. Either all of them go on together and keep every promise, or the
 * version that cannot use the layout is turned away.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from '../../sim/random.ts'
import { createGuarded, violationsOf } from '../chaos/chaos-run.ts'
import { Crew } from '../chaos/crew.ts'
import { checkHolds } from '../chaos/hold-check.ts'
import { postgresStage, redisStage, sqliteStage, type OpenStage } from '../chaos/stage.ts'
import type { Part, Step, StepOrder, StepOutcome } from '../part.ts'
import { olderLibrary, OLDER_COMMIT } from './older-library.ts'

const WHOLE_MINUTES = 15
const RUNS_PER_STEP = 10
const ALONE_MS = 3_000
const TOGETHER_MS = 6_000
const BEGIN_WITHIN_MS = 60_000
const FINISH_WITHIN_MS = 30_000
const CREW = { processes: 3, tasks: 8 }

type First = 'older' | 'newer'

interface RunReport {
  readonly operations: number
  readonly calls: number
  readonly turnedAway: number
  readonly failures: readonly string[]
}

function step(name: string, open: OpenStage, first: First): Step {
  return {
    name: `${name}, the ${first} version first`,
    minutes: WHOLE_MINUTES,
    run: (order) => runStep(open, first, order),
  }
}

async function runStep(open: OpenStage, first: First, order: StepOrder): Promise<StepOutcome> {
  const reports: RunReport[] = []
  const untilMs = performance.now() + order.minutes * 60_000
  while (reports.length < RUNS_PER_STEP && performance.now() < untilMs) {
    reports.push(await runOnce(open, first, order.seed + reports.length))
    order.say(`${reports.length} runs`)
  }
  const sum = (of: (report: RunReport) => number): number => {
    return reports.reduce((total, report) => total + of(report), 0)
  }
  return {
    counts: {
      runs: reports.length,
      operations: sum(({ operations }) => operations),
      'calls of the store': sum(({ calls }) => calls),
      'workers turned away': sum(({ turnedAway }) => turnedAway),
    },
    failures: reports.flatMap(({ failures }) => failures),
    shortfalls: [],
    note: `beside commit ${OLDER_COMMIT}`,
  }
}

async function runOnce(open: OpenStage, first: First, seed: number): Promise<RunReport> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-versions-'))
  const guarded = path.join(directory, 'guarded.db')
  await createGuarded(guarded)
  const older = await olderLibrary()
  const stage = await open(directory)
  const crewOf = (name: First): Crew =>
    new Crew({
      ...{ directory, name, seed, processes: CREW.processes, stores: stage.stores, env: {} },
      random: new Random(`versions/${seed}/${name}`),
      ...(name === 'older' ? { library: older } : {}),
      order: { guarded, tasks: CREW.tasks, resources: 16, ttlMs: 250, claimWindowMs: 300 },
    })
  const crews = [crewOf(first)]
  try {
    await crews[0]?.untilAllWork(BEGIN_WITHIN_MS)
    await sleep(ALONE_MS)
    crews.push(crewOf(first === 'older' ? 'newer' : 'older'))
    await sleep(TOGETHER_MS)
    for (const crew of crews) await crew.finish(FINISH_WITHIN_MS)
    const facts = checkHolds(crews.flatMap(({ logs }) => logs))
    return {
      ...{ operations: facts.operations, calls: facts.calls },
      turnedAway: crews.reduce((sum, crew) => sum + crew.turnedAway, 0),
      failures: [
        ...violationsOf(facts, { isControl: false }).slice(0, 5),
        ...crews.flatMap(({ crashes }) => crashes.map((line) => `a worker ended: ${line}`)),
      ],
    }
  } finally {
    for (const crew of crews) crew.killAll()
    await stage.close()
    fs.rmSync(directory, { recursive: true, force: true })
  }
}

export const versions: Part = {
  name: 'versions',
  about:
    'The last version before the stores were rewritten and this one on one store, under load, whichever came first. Either both keep every promise together, or the one that cannot use the layout is turned away with `STORE_SCHEMA`. Operations are those of [chaos](#chaos).',
  steps: (['older', 'newer'] as const).flatMap((first) => [
    step('sqlite', sqliteStage, first),
    step('postgres', postgresStage, first),
    step('redis', redisStage, first),
  ]),
  atLeast: { runs: 30, operations: 30_000 },
}
