import { expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { urgentFirst } from '../../src/store/urgent-first.ts'

const RESOURCE = parseResource('work:W-1')

function waiting(name: string, leaseId: string, isUrgent = false) {
  const readSet = { resource: RESOURCE, extent: 'exact', leaseId, requestId: null } as const
  const depth = isUrgent ? ({ depth: 'entry', isUrgent } as const) : ({ depth: 'claims' } as const)
  return { name, readSets: [{ ...readSet, ...depth }] }
}

it('renewals go before what waits already, but not before a request for the same lease', () => {
  const all = [
    waiting('acquire a', 'a'),
    waiting('release b', 'b'),
    waiting('renew b', 'b', true),
    waiting('renew c', 'c', true),
    { name: 'configure', readSets: [] },
    waiting('renew d', 'd', true),
    waiting('renew c again', 'c', true),
  ]
  const first = ['renew c', 'renew d', 'renew c again']
  const others = ['acquire a', 'release b', 'renew b', 'configure']
  expect(urgentFirst(all).map(({ name }) => name)).toEqual([...first, ...others])
})
