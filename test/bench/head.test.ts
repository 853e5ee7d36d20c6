import { expect, it } from 'vitest'
import { headOf } from '../../bench/report/head.ts'
import { QUICK, WORKS, type WorkName } from '../../bench/plan.ts'
import { pageOf } from '../../bench/report/page.ts'
import { FINDINGS } from './some-findings.ts'

const TRIED = 'this run has tried several pauses first'
const EARLIER = 'an earlier run found best'

it('the page says that pauses were tried where they were', () => {
  expect(headOf(WORKS)).toContain(TRIED)
  expect(headOf(WORKS)).not.toContain(EARLIER)
})

it('and where they were not, that an earlier run has', () => {
  const head = headOf(WORKS.filter((work) => work !== 'pauses'))
  expect(head).not.toContain(TRIED)
  expect(head).toContain(EARLIER)
})

it.each([
  ['uncontended', 'pinned by'],
  ['uncontended', 'Before and after the uncontended work'],
  ['contended', 'keeps a core busy'],
  ['contended', 'Who overlaps once is scored nowhere'],
  ['contended', 'one client, whose concurrent calls take turns'],
  ['many', 'Growth is measured beside a small store'],
] as const)('the page speaks of %s only where it was measured', (work, words) => {
  expect(headOf([work])).toContain(words)
  expect(headOf(WORKS.filter((other) => other !== work && other !== 'pauses'))).not.toContain(words)
})

it('the page of a run that is not finished speaks of what it has measured so far', () => {
  const works: readonly WorkName[] = ['uncontended', 'contended']
  const plan = { ...QUICK, works, stores: ['redis'] as const }
  const run = { plan, machine: { facts: [] }, findings: FINDINGS }
  expect(pageOf({ ...run, missing: [] }, [])).toContain('A *handover* is')
  expect(pageOf({ ...run, missing: ['contended'] }, [])).not.toContain('A *handover* is')
})
