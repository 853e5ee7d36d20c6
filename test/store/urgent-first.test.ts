import { expect, it } from 'vitest'
import type { ReadSet, Urgency } from '../../src/core/realm.ts'
import { parseResource } from '../../src/core/resource.ts'
import { urgentFirst } from '../../src/store/urgent-first.ts'

const RESOURCE = parseResource('work:W-1')

function waiting(name: string, leaseId: string, urgency?: Urgency) {
  const reach = { resource: RESOURCE, extent: 'exact' } as const
  const readSet: ReadSet = { ...reach, leaseId, requestId: null, depth: 'claims' }
  return { name, readSets: [urgency === undefined ? readSet : { ...readSet, urgency }] }
}

it('renewals go first and keep-alives next, but none before a request for the same entry', () => {
  const all = [
    waiting('acquire a', 'a'),
    waiting('release b', 'b'),
    waiting('keep e alive', 'e', 'place'),
    waiting('renew b', 'b', 'lease'),
    waiting('renew c', 'c', 'lease'),
    { name: 'configure', readSets: [] },
    waiting('renew e', 'e', 'lease'),
    waiting('keep a alive', 'a', 'place'),
    waiting('renew c again', 'c', 'lease'),
  ]
  expect(urgentFirst(all).map(({ name }) => name)).toEqual([
    ...['renew c', 'renew c again', 'keep e alive'],
    ...['acquire a', 'release b', 'renew b', 'configure', 'renew e', 'keep a alive'],
  ])
})
