/** A process that plays worlds of one store from a seed on, until it has played enough or its time is over, and prints what came of them. */
import { ATTEMPT_SHAPES } from '../../sim/attempt-shapes.ts'
import { canHappen, FAULT_KINDS } from '../../sim/log.ts'
import { failureLines, Tally } from '../../sim/report.ts'
import { runSeed, traceHash } from '../../sim/run-seed.ts'
import { SHAPES } from '../../sim/shapes.ts'
import type { StoreKind } from '../../sim/store-host.ts'

export interface WorldsOrder {
  readonly store: StoreKind
  readonly first: number
  readonly worldsMax: number
  readonly minutes: number
  readonly replayEvery: number
}

export interface WorldsReport {
  readonly worlds: number
  readonly events: number
  readonly replayed: number
  readonly failures: readonly string[]
  readonly points: Readonly<Record<string, number>>
}

const FAILURES_TOLD_MAX = 10
const SAY_EVERY = 100

async function play(order: WorldsOrder): Promise<WorldsReport> {
  const { store, first, worldsMax, minutes, replayEvery } = order
  const tally = new Tally()
  const failures: string[] = []
  let worlds = 0
  let events = 0
  let replayed = 0
  const untilMs = performance.now() + minutes * 60_000
  const isOver = (): boolean => worlds >= worldsMax || performance.now() >= untilMs
  while (!isOver() && failures.length < FAILURES_TOLD_MAX) {
    const seed = first + worlds
    const report = await runSeed(seed, { store })
    tally.add(report)
    worlds += 1
    events += report.eventCount
    failures.push(...failureLines(report))
    if (worlds % replayEvery === 0) {
      replayed += 1
      const isSame = traceHash(await runSeed(seed, { store })) === traceHash(report)
      if (!isSame) failures.push(`seed ${seed} on the ${store} store left two different traces`)
    }
    if (worlds % SAY_EVERY === 0) process.stdout.write(`${worlds} worlds\n`)
  }
  return { worlds, events, replayed, failures, points: pointsOf(tally, store) }
}

function pointsOf(tally: Tally, store: StoreKind): Readonly<Record<string, number>> {
  const faults = FAULT_KINDS.filter((kind) => canHappen(kind, store))
  const shapes = store === 'optimistic' ? [...SHAPES, ...ATTEMPT_SHAPES] : SHAPES
  return Object.fromEntries([
    ...faults.map((kind) => [`fault: ${kind}`, tally.faults.get(kind) ?? 0] as const),
    ...shapes.map((shape) => [shape, tally.outcomes.get(shape) ?? 0] as const),
  ])
}

const report = await play(JSON.parse(process.argv[2] ?? '') as WorldsOrder)
process.stdout.write(`${JSON.stringify(report)}\n`)
