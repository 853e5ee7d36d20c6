/**
 * Runs one seed and judges it: every checker looks at the evidence. The whole trace can be boiled down to a hash, so
 * that two runs of one seed can be compared.
 */
import { createHash } from 'node:crypto'
import { allOrNothing } from './checkers/all-or-nothing.ts'
import { callsEnd } from './checkers/calls-end.ts'
import { configured } from './checkers/configured.ts'
import { cycleFreedom } from './checkers/cycle-freedom.ts'
import { holdLimit } from './checkers/hold-limit.ts'
import { exclusion } from './checkers/i1-exclusion.ts'
import { fencing } from './checkers/i2-fencing.ts'
import { neverEarly } from './checkers/i3-never-early.ts'
import { pessimistic } from './checkers/i4-pessimistic.ts'
import { nowMeansNow } from './checkers/i5-now.ts'
import { noWayBack } from './checkers/i6-no-way-back.ts'
import { oneEvent } from './checkers/i7-one-event.ts'
import { exactlyOnce } from './checkers/i8-exactly-once.ts'
import { fair } from './checkers/i9-fair.ts'
import { lessNeverMore } from './checkers/i11-less-never-more.ts'
import { lockDelayRespected } from './checkers/lock-delay.ts'
import { noStarvation } from './checkers/no-starvation.ts'
import { nothingLeft } from './checkers/nothing-left.ts'
import { slotsNeverExceeded } from './checkers/slots.ts'
import { neverUnowned } from './checkers/transfer.ts'
import { transferHeard } from './checkers/transfer-heard.ts'
import type { Checker, Complaint, Evidence } from './evidence.ts'
import type { FaultKind, Logged } from './log.ts'
import { shapesOf } from './shapes.ts'
import { Simulation, type WorldOptions } from './simulation.ts'
import type { StoreKind } from './store-host.ts'

export const CHECKERS: readonly Checker[] = [
  exclusion,
  slotsNeverExceeded,
  allOrNothing,
  neverUnowned,
  fencing,
  neverEarly,
  lockDelayRespected,
  holdLimit,
  pessimistic,
  nowMeansNow,
  configured,
  transferHeard,
  noWayBack,
  oneEvent,
  exactlyOnce,
  callsEnd,
  nothingLeft,
  fair,
  noStarvation,
  cycleFreedom,
  lessNeverMore,
]

export interface Verdict {
  readonly promise: string
  readonly name: string
  readonly complaints: readonly Complaint[]
}

export interface Report {
  readonly seed: number
  readonly store: StoreKind
  readonly verdicts: readonly Verdict[]
  readonly faults: ReadonlyMap<FaultKind, number>
  /** How often each kind of outcome occurred, by operation. */
  readonly outcomes: ReadonlyMap<string, number>
  readonly eventCount: number
  readonly evidence: Evidence
}

export interface RunOptions extends WorldOptions {
  /** The checkers; all of them by default. */
  readonly checkers?: readonly Checker[]
}

export async function runSeed(seed: number, options: RunOptions = {}): Promise<Report> {
  const { store = 'memory', checkers = CHECKERS } = options
  const simulation = new Simulation(seed, options)
  const { log } = simulation
  const onUnhandled = (reason: unknown): void => {
    log.write({ kind: 'unhandled', message: String(reason) })
  }
  process.on('unhandledRejection', onUnhandled)
  try {
    const evidence = await simulation.run()
    for (const { event } of [...evidence.ledger, ...evidence.refusals]) log.count(event.type)
    for (const shape of shapesOf(evidence)) log.count(shape)
    return {
      ...{ seed, store },
      verdicts: checkers.map((checker) => ({
        promise: checker.promise,
        name: checker.name,
        complaints: checker.check(evidence),
      })),
      faults: log.faults,
      outcomes: log.outcomes,
      eventCount: simulation.eventCount,
      evidence,
    }
  } finally {
    process.off('unhandledRejection', onUnhandled)
  }
}

export function brokenPromises(report: Report): readonly Verdict[] {
  return report.verdicts.filter((verdict) => verdict.complaints.length > 0)
}

/** The command that shows a seed again, with its whole trace. */
export function replayCommand({ seed, store }: Pick<Report, 'seed' | 'store'>): string {
  return `npm run sim -- --seed ${seed} --store ${store}`
}

/** Two runs of one seed have the same hash, on any machine. */
export function traceHash({ evidence: { log, ledger } }: Report): string {
  const hash = createHash('sha256')
  for (const entry of log) hash.update(lineOf(entry))
  for (const timed of ledger) hash.update(JSON.stringify(timed))
  return hash.digest('hex').slice(0, 16)
}

/** One line of the trace. */
export function lineOf({ atUs, ...rest }: Logged): string {
  return `${(atUs / 1_000_000).toFixed(6)} ${JSON.stringify(rest)}\n`
}
