/**
 * The independent check of a chaos run. It looks at what the workers logged and at what the fenced files took, and
 * knows nothing of how Tenure works.
 *
 * A holder's interval begins when acquire returned and ends at the earliest of its release, its loss and the end of
 * its own view; a worker that was killed or stopped in between has no line for the end, so its own view ends it. A
 * worker that was stopped before it could begin finds its view over when it looks: its interval is empty.
 */
import type { ChaosLine } from './chaos-log.ts'
import type { TakenWrite } from './fenced-files.ts'

export interface Interval {
  readonly resource: string
  readonly leaseId: string
  readonly fence: number
  readonly fromUs: number
  readonly toUs: number
}

export function intervalsOf(lines: readonly ChaosLine[]): readonly Interval[] {
  const intervals = new Map<string, Interval>()
  for (const line of lines) {
    if (line.kind === 'start') {
      const { resource, leaseId, fence, atUs, untilUs } = line
      intervals.set(leaseId, { resource, leaseId, fence, fromUs: atUs, toUs: untilUs })
    }
    if (line.kind !== 'renewed' && line.kind !== 'end') continue
    const known = intervals.get(line.leaseId)
    if (known === undefined) continue
    const toUs = line.kind === 'renewed' ? line.untilUs : Math.min(known.toUs, line.atUs)
    intervals.set(line.leaseId, { ...known, toUs })
  }
  return [...intervals.values()].filter(({ fromUs, toUs }) => fromUs < toUs)
}

/** Pairs that held one resource at one moment, or whose fences are not in the order of their holding. */
export function violationsOf(intervals: readonly Interval[]): readonly string[] {
  const violations: string[] = []
  for (const held of groupByResource(intervals).values()) {
    const inOrder = held.toSorted((a, b) => a.fromUs - b.fromUs)
    for (const [index, later] of inOrder.entries()) {
      const earlier = inOrder[index - 1]
      if (earlier === undefined) continue
      if (earlier.toUs > later.fromUs) {
        violations.push(`${later.resource}: ${earlier.leaseId} and ${later.leaseId} overlap by
          ${earlier.toUs - later.fromUs} µs`)
      }
      if (earlier.fence >= later.fence) {
        violations.push(`${later.resource}: fence ${later.fence} after ${earlier.fence}`)
      }
    }
  }
  return violations
}

/** Writes that the fenced files took although one with a higher fence had been taken before. */
export function staleWritesTaken(taken: readonly TakenWrite[]): number {
  const highest = new Map<string, number>()
  let stale = 0
  for (const { resource, fence } of taken) {
    const mark = highest.get(resource) ?? 0
    if (fence < mark) stale += 1
    highest.set(resource, Math.max(mark, fence))
  }
  return stale
}

/** Writes that were refused although their holder's interval had not ended yet. */
export function refusedWhileHolding(
  lines: readonly ChaosLine[],
  intervals: readonly Interval[],
): number {
  const ends = new Map(intervals.map(({ leaseId, toUs }) => [leaseId, toUs]))
  return lines.filter((line) => {
    return line.kind === 'write' && !line.accepted && line.atUs < (ends.get(line.leaseId) ?? 0)
  }).length
}

function groupByResource(intervals: readonly Interval[]): Map<string, Interval[]> {
  const groups = new Map<string, Interval[]>()
  for (const interval of intervals) {
    const group = groups.get(interval.resource) ?? []
    group.push(interval)
    groups.set(interval.resource, group)
  }
  return groups
}
