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

export function summaryOf(report: ChaosReport): string {
  const late = report.lines.filter((line) => line.kind === 'write' && line.late)
  const refused = late.filter((line) => line.kind === 'write' && !line.accepted)
  return [
    `${intervalsOf(report.lines).length} holds`,
    `${report.history.length} events`,
    `${report.kills} kills`,
    `${report.stops} stops`,
    `${late.length} late writes, ${refused.length} refused by their fence`,
    `${violationsOf(intervalsOf(report.lines)).length} overlaps`,
  ].join(', ')
}
