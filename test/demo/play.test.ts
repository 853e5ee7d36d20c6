/** The accidents of the demo happen however long it takes: in one of ten minutes each waits for its time. */
import { expect, it, vi } from 'vitest'
import { AGENT_NAMES, KILLED, play, STOPPED } from '../../src/demo/play.ts'
import type { AgentReport, Assignment } from '../../src/demo/report.ts'

vi.mock('node:timers/promises', () => ({ setTimeout: () => Promise.resolve() }))

it('waits for each accident until its time has come, and some more', async () => {
  const durationMs = 600_000
  const assignments = new Map<string, Assignment>()
  const waitsMs: number[] = []
  const cast = {
    start: (assignment: Assignment) => void assignments.set(assignment.name, assignment),
    report: async (_fits: (report: AgentReport) => boolean, timeoutMs: number) => {
      waitsMs.push(timeoutMs)
      return null
    },
    finish: async () => undefined,
  }
  await play({ cast, storeUrl: 'memory:', directory: '/demo', durationMs } as never)
  expect([...assignments.keys()]).toEqual(AGENT_NAMES)
  const [killMs = 0, stopMs = 0] = waitsMs
  expect(killMs).toBeGreaterThanOrEqual((assignments.get(KILLED)?.cueMs ?? NaN) + 30_000)
  expect(stopMs).toBeGreaterThanOrEqual((assignments.get(STOPPED)?.cueMs ?? NaN) + 30_000)
})
