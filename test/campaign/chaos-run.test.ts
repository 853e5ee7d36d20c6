/** What a run of the chaos makes of what its checker found. */
import { expect, it } from 'vitest'
import { outcomeOf, violationsOf, type RunFacts } from '../../campaign/chaos/chaos-run.ts'
import type { HoldFacts } from '../../campaign/chaos/hold-check.ts'

const FACTS: HoldFacts = {
  ...{ operations: 1_000, calls: 700, grants: 100, expired: 40, renewals: 50 },
  ...{ writes: 200, lateWrites: 5, refusedWrites: 3 },
  ...{ overlaps: [], fenceFaults: [], fencesBack: [], staleWrites: [], wrongRefusals: [] },
  ...{ undecided: [], refusals: {}, errors: {}, lastStartUs: [] },
}
const RUN: RunFacts = {
  ...{ counts: {}, timesMin: {}, seconds: 1, crashes: [], idle: [], isControl: false },
}

it('counts what was logged and what the store answered apart', () => {
  const { counts } = outcomeOf(FACTS, RUN)
  expect(counts).toMatchObject({ operations: 1_000, 'calls of the store': 700 })
})

it('does not count a control that saw no overlap', () => {
  const control = { ...RUN, isControl: true }
  expect(outcomeOf(FACTS, control)).toMatchObject({
    counts: { 'overlaps (control)': 0 },
    shortfalls: ['the control saw no overlap, so that it shows nothing of the fault'],
  })
  expect(outcomeOf({ ...FACTS, overlaps: ['two'] }, control)).toMatchObject({
    ...{ failures: [], shortfalls: [] },
  })
  expect(outcomeOf(FACTS, RUN).shortfalls).toEqual([])
})

it('takes each kind of finding for a failure, and in a control those that its trouble does not explain', () => {
  const found = {
    ...{ overlaps: ['overlap'], fenceFaults: ['fence'], wrongRefusals: ['it held'] },
    ...{ fencesBack: ['back'], staleWrites: ['stale'], undecided: ['line'] },
  }
  const always = ['back', 'the guard let a stale write pass: stale', 'cannot be decided: line']
  const explained = ['overlap', 'fence', 'the guard refused a write although it held']
  expect(violationsOf({ ...FACTS, ...found }, RUN)).toEqual([...explained, ...always])
  expect(violationsOf({ ...FACTS, ...found }, { isControl: true })).toEqual(always)
})
