/**
 * What became of workers who all wanted one resource: who had it when. From this alone, and from nothing that the
 * system says about itself, it is judged whether the system excluded, whom it served, and how long the others waited.
 */
import { median, percentile } from './statistics.ts'

/** Times are microseconds of the host's monotonic clock, which all processes share. */
export interface Turn {
  readonly worker: string
  readonly askedUs: number
  /** After the system said yes. */
  readonly startUs: number
  /** Before the system was told that it is over: so two turns that overlap were held at one time. */
  readonly endUs: number
}

export interface Waiting {
  readonly worker: string
  readonly waitedUs: number
}

export interface Turns {
  readonly turns: readonly Turn[]
  /** Those who still waited at the end. */
  readonly waiting: readonly Waiting[]
}

export interface Contention {
  readonly acquisitions: number
  /** Turns that another worker than the one before had. */
  readonly handovers: number
  readonly handoversPerSecond: number
  readonly gapP50Ms: number
  readonly gapP99Ms: number
  /** The turns of whoever had the fewest, by those of whoever had the most. */
  readonly fairness: number
  readonly fewest: number
  readonly most: number
  readonly starved: number
  /** Waits that had not ended are counted with what they had lasted. */
  readonly waitP99Ms: number
  readonly waitMaxMs: number
  /** Everybody once, one after the other: workers × (hold + gap). */
  readonly idealWaitMs: number
}

/** How everything begins that says that two had it at one time. */
export const NO_EXCLUSION = 'does not exclude'

/** Says which two turns were held at one time; null: none. */
export function overlapOf(turns: readonly Turn[]): string | null {
  const sorted = turns.toSorted((a, b) => a.startUs - b.startUs)
  let last: Turn | null = null
  for (const turn of sorted) {
    if (last !== null && turn.startUs < last.endUs) {
      const us = Math.min(turn.endUs, last.endUs) - turn.startUs
      return `${NO_EXCLUSION}: worker ${last.worker} and worker ${turn.worker} both had it for ${us} µs`
    }
    last = turn
  }
  return null
}

export interface Window {
  readonly fromUs: number
  readonly untilUs: number
}

/** Judges what began within the window; before it, those who wait first had to come together. */
export function contentionOf(
  { turns, waiting }: Turns,
  workers: readonly string[],
  { fromUs, untilUs }: Window,
): Contention {
  const within = turns.filter(({ startUs }) => startUs >= fromUs)
  const sorted = within.toSorted((a, b) => a.startUs - b.startUs)
  const steps = sorted.slice(1).map((turn, index) => ({ turn, before: sorted[index] ?? turn }))
  const passed = steps.filter(({ turn, before }) => turn.worker !== before.worker)
  const gaps = passed.map(({ turn, before }) => (turn.startUs - before.endUs) / 1_000)
  const counts = countsOf(sorted, workers)
  const [fewest, most] = [Math.min(...counts), Math.max(...counts)]
  const holdMs = median(sorted.map(({ startUs, endUs }) => (endUs - startUs) / 1_000))
  const waits = [
    ...sorted.map(({ askedUs, startUs }) => (startUs - askedUs) / 1_000),
    ...waiting.map(({ waitedUs }) => waitedUs / 1_000),
  ]
  return {
    acquisitions: sorted.length,
    handovers: passed.length,
    handoversPerSecond: passed.length / ((untilUs - fromUs) / 1_000_000),
    gapP50Ms: median(gaps),
    gapP99Ms: percentile(gaps, 0.99),
    ...{ fairness: most === 0 ? 0 : fewest / most, fewest, most },
    starved: counts.filter((count) => count === 0).length,
    waitP99Ms: percentile(waits, 0.99),
    waitMaxMs: percentile(waits, 1),
    idealWaitMs: workers.length * (holdMs + median(gaps)),
  }
}

function countsOf(turns: readonly Turn[], workers: readonly string[]): readonly number[] {
  const counts = new Map(workers.map((worker) => [worker, 0]))
  for (const { worker } of turns) counts.set(worker, (counts.get(worker) ?? 0) + 1)
  return [...counts.values()]
}
