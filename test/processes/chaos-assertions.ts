/** What must be true after a chaos run, short or long. */
import { expect } from 'vitest'
import { intervalsOf, refusedWhileHolding, staleWritesTaken, violationsOf } from './chaos-check.ts'
import type { ChaosReport } from './chaos.ts'

export function expectPromisesKept(report: ChaosReport): void {
  const intervals = intervalsOf(report.lines)
  expect(report.crashes).toEqual([])
  expect(violationsOf(intervals)).toEqual([])
  expect(staleWritesTaken(report.taken)).toBe(0)
  expect(refusedWhileHolding(report.lines, intervals)).toBe(0)
  expect(report.differences).toEqual([])
  const issued = new Map<string, number>()
  for (const { event } of report.history) {
    if (event.type === 'lease.issued') issued.set(event.leaseId, event.lease.fence)
  }
  const missing = intervals.filter(({ leaseId, fence }) => issued.get(leaseId) !== fence)
  expect(missing).toEqual([])
}

/** The run must have been worth its name, or its zeros mean nothing. */
export function expectChaosHappened(
  report: ChaosReport,
  atLeast: { readonly holds: number; readonly kills: number; readonly stops: number },
): void {
  expect(intervalsOf(report.lines).length).toBeGreaterThanOrEqual(atLeast.holds)
  expect(report.kills).toBeGreaterThanOrEqual(atLeast.kills)
  expect(report.stops).toBeGreaterThanOrEqual(atLeast.stops)
  const expiries = report.history.filter(({ event }) => event.type === 'lease.expired')
  expect(expiries.length).toBeGreaterThan(0)
}

/** Every worker that was not killed has held something after the trouble was over. */
export function expectServiceResumed({ logs, calmAtUs }: ChaosReport): void {
  const finished = logs.filter((log) => (log.at(-1)?.atUs ?? 0) > calmAtUs)
  expect(finished.length).toBeGreaterThan(0)
  const idle = finished.filter(
    (log) => !log.some((line) => line.kind === 'start' && line.atUs > calmAtUs),
  )
  expect(idle.map((log) => log.at(-1))).toEqual([])
}

/** How often the workers heard each error of the store. */
export function errorCounts({ lines }: ChaosReport): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const line of lines) {
    if (line.kind === 'error') counts[line.code] = (counts[line.code] ?? 0) + 1
  }
  return counts
}

export function summaryOf(report: ChaosReport): string {
  const late = report.lines.filter((line) => line.kind === 'write' && line.late)
  const refused = late.filter((line) => line.kind === 'write' && !line.accepted)
  return [
    `${intervalsOf(report.lines).length} holds`,
    `${report.history.length} events`,
    ...Object.entries(errorCounts(report)).map(([code, count]) => `${count} ${code}`),
    `${report.kills} kills`,
    `${report.stops} stops`,
    `${late.length} late writes, ${refused.length} refused by their fence`,
    `${violationsOf(intervalsOf(report.lines)).length} overlaps`,
  ].join(', ')
}
