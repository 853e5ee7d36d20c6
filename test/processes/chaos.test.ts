import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { expectChaosHappened, expectPromisesKept, summaryOf } from './chaos-assertions.ts'
import { intervalsOf, staleWritesTaken, violationsOf, type Interval } from './chaos-check.ts'
import { runChaos } from './chaos.ts'

let directory: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-chaos-'))
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

it('processes that are killed and stopped never hold one file at the same time', async () => {
  const report = await runChaos({
    store: `sqlite:${directory}/leases.db`,
    directory,
    processes: 4,
    durationMs: 2_500,
    holds: 30,
  })
  process.stdout.write(`chaos: ${summaryOf(report)}\n`)
  expectPromisesKept(report)
  expectChaosHappened(report, { holds: 30, kills: 1, stops: 1 })
}, 120_000)

const interval = (fence: number, fromUs: number, toUs: number): Interval => ({
  resource: 'file:/a',
  leaseId: `lease-${fence}`,
  fence,
  fromUs,
  toUs,
})

it('the check sees an overlap and a fence that goes back', () => {
  expect(violationsOf([interval(1, 0, 10), interval(2, 10, 20)])).toEqual([])
  expect(violationsOf([interval(1, 0, 11), interval(2, 10, 20)])).toHaveLength(1)
  expect(violationsOf([interval(2, 0, 10), interval(1, 10, 20)])).toHaveLength(1)
  const taken = [2, 1].map((fence) => ({ resource: 'file:/a', fence }))
  expect(staleWritesTaken(taken)).toBe(1)
})

it('the check ends an interval at the holder’s own deadline when nothing else was logged', () => {
  const lease = { leaseId: 'x', resource: 'file:/a', fence: 1 }
  const start = { kind: 'start', atUs: 5, untilUs: 100, ...lease } as const
  const renewed = { kind: 'renewed', atUs: 50, leaseId: 'x', untilUs: 150 } as const
  const end = { kind: 'end', atUs: 120, leaseId: 'x', why: 'released' } as const
  expect(intervalsOf([start])[0]).toMatchObject({ fromUs: 5, toUs: 100 })
  expect(intervalsOf([start, renewed])[0]?.toUs).toBe(150)
  expect(intervalsOf([start, renewed, end])[0]?.toUs).toBe(120)
  expect(intervalsOf([{ ...start, atUs: 100 }])).toEqual([])
})
