/** Whose act it is, under which fence and on what: read in one way by all guards. */
import { describe, expect, it } from 'vitest'
import {
  parseFence,
  readAct,
  readCheck,
  requireResult,
  requireSynchronous,
  type CheckArguments,
  type GuardedLease,
  type WriteOptions,
} from '../../src/guard/act.ts'
import { id } from '../core/builders.ts'

const LEASE: GuardedLease = { id: id(1), resource: 'work:W-1', fence: 7 }
const TREE: GuardedLease = { id: id(1), resource: 'file:/s', fence: 7, extent: 'subtree' }
const ROOT = { id: id(9), fence: 5 }

describe('an act', () => {
  const exact = { resource: 'work:W-1', extent: 'exact' }
  const tree = { resource: 'file:/s', extent: 'subtree' }
  it.each<[string, GuardedLease, WriteOptions, object]>([
    ['exclusive unless it says else', LEASE, {}, { leaseId: id(1), fence: 7, shared: false }],
    ['shared', { ...LEASE, mode: 'shared' }, {}, { shared: true }],
    ['a slot', { ...LEASE, slots: 1 }, {}, { shared: true }],
    ['no slot', { ...LEASE, mode: 'exclusive', slots: null }, {}, { shared: false }],
    ['on the whole of what it covers', LEASE, {}, { target: exact, reach: exact }],
    ['on a tree', TREE, {}, { target: tree, reach: tree }],
    ['on a resource with nothing below it', { ...LEASE, extent: 'subtree' }, {}, { target: exact }],
    [
      'on less than it covers',
      TREE,
      { resource: 'file:/s/a' },
      { target: { resource: 'file:/s/a', extent: 'exact' }, reach: tree },
    ],
    ['of its root', { ...LEASE, root: ROOT }, {}, { leaseId: id(9), fence: 5, shared: false }],
    [
      'of the root of a grant, as that holds it',
      { ...LEASE, root: { leaseId: id(9), fence: 5, mode: 'shared' }, mode: 'exclusive' },
      {},
      { leaseId: id(9), fence: 5, shared: true },
    ],
    [
      'of its root, which is alone',
      { ...LEASE, root: { ...ROOT, mode: 'exclusive' }, mode: 'shared' },
      {},
      { shared: false },
    ],
    ['of no root', { ...LEASE, root: null, parentId: null }, {}, { leaseId: id(1), fence: 7 }],
    [
      'of the root that its account names',
      { ...LEASE, parentId: id(8), delegation: { line: [id(9), id(8)], rootFence: 5 } },
      {},
      { leaseId: id(9), fence: 5, shared: false },
    ],
  ])('is %s', (_, lease, options, expected) => {
    expect(readAct(lease, options)).toMatchObject(expected)
  })

  const fence = 'must be an integer 1..9007199254740991, got'
  it.each<[unknown, unknown, string]>([
    [null, {}, 'lease must be an object with id, resource and fence, got null'],
    ['work:W-1', {}, 'lease must be an object with id, resource and fence, got "work:W-1"'],
    [LEASE, { colour: 1 }, 'options must be among resource, got "colour"'],
    [{ ...LEASE, id: 'x' }, {}, 'lease.id must be a UUID, got "x"'],
    [{ ...LEASE, fence: 0 }, {}, `lease.fence ${fence} 0`],
    [{ ...LEASE, fence: 2 ** 53 }, {}, `lease.fence ${fence} 9007199254740992`],
    [{ ...LEASE, fence: '7' }, {}, `lease.fence ${fence} "7"`],
    [{ ...LEASE, mode: 'alone' }, {}, 'mode must be exclusive or shared, got "alone"'],
    [{ ...LEASE, extent: 'all' }, {}, 'extent must be exact or subtree, got "all"'],
    [{ ...LEASE, slots: 0 }, {}, 'slots must be an integer 1..10000, got 0'],
    [{ ...LEASE, root: { ...ROOT, id: 'x' } }, {}, 'lease.root.id must be a UUID, got "x"'],
    [{ ...LEASE, root: { ...ROOT, fence: 0 } }, {}, `lease.root.fence ${fence} 0`],
    [
      { ...LEASE, parentId: id(8) },
      {},
      'lease.root must be given for a derived lease: the id and fence, got undefined',
    ],
    [
      TREE,
      { resource: 'file:/t' },
      'resource must be covered by the lease of file:/s, got file:/t',
    ],
  ])('is not read from %j with %j', (lease, options, message) => {
    expect(() => readAct(lease as GuardedLease, options as WriteOptions)).toThrow(
      expect.objectContaining({ message }),
    )
  })

  it('outside of its lease is told what it was, and of which lease', () => {
    const read = (): unknown => readAct(TREE, { resource: 'file:/t' })
    const details = { field: 'resource', resource: 'file:/t', lease: 'file:/s', extent: 'subtree' }
    expect(read).toThrow(expect.objectContaining({ code: 'SCOPE_VIOLATION', details }))
  })
})

describe('a check', () => {
  it.each<[CheckArguments, object]>([
    [[LEASE], { leaseId: id(1), fence: 7, shared: false }],
    [[TREE, { resource: 'file:/s/a' }], { target: { resource: 'file:/s/a', extent: 'exact' } }],
    [['work:W-1', 7], { leaseId: null, fence: 7, shared: false }],
    [['work:W-1', 7, { mode: 'shared' }], { leaseId: null, shared: true }],
    [['file:/s', 7, { extent: 'subtree' }], { target: { resource: 'file:/s', extent: 'subtree' } }],
  ])('is read from %j', (asked, expected) => {
    expect(readCheck(asked)).toMatchObject(expected)
  })

  it.each<[readonly unknown[], string]>([
    [['work:W-1', 0], 'fence must be an integer 1..9007199254740991, got 0'],
    [['work:W-1', 7, { slots: 2 }], 'options must be among mode, extent, got "slots"'],
    [['W-1', 7], 'resource must be kind:name, got "W-1"'],
    [[LEASE, { colour: 1 }], 'options must be among resource, got "colour"'],
  ])('is not read from %j', (asked, message) => {
    expect(() => readCheck(asked as CheckArguments)).toThrow(expect.objectContaining({ message }))
  })

  it('takes fences from 1 to the largest that is exact', () => {
    for (const fence of [1, 2 ** 53 - 1]) expect(parseFence(fence, 'fence')).toBe(fence)
  })
})

describe('work under a guard', () => {
  it.each([
    [undefined, 'work must be a function, got undefined'],
    [async () => 1, 'work must not be asynchronous, got "an async function"'],
  ])('is not %s', (work, message) => {
    expect(() => requireSynchronous(work)).toThrow(expect.objectContaining({ message }))
  })

  it('is a function that is done when it returns', () => {
    expect(() => requireSynchronous(() => 1)).not.toThrow()
    for (const result of [undefined, null, 0, 'then', {}, { then: 5 }]) {
      expect(requireResult(result)).toBe(result)
    }
  })

  it('is refused when it has returned a promise all the same', () => {
    expect(() => requireResult(Promise.resolve(1))).toThrow(
      expect.objectContaining({ message: 'work must not be asynchronous, got "a promise"' }),
    )
  })
})
