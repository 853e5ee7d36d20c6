import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isLeaseError, type ErrorCode, type LeaseError } from '../../src/core/errors.ts'
import type { CheckArguments, GuardedLease } from '../../src/guard/index.ts'
import { STAGES, type GuardStage, type StageName } from './stages.ts'

let stage: GuardStage

function lease(
  resource: string,
  fence: number,
  more: Partial<Omit<GuardedLease, 'fence'>> = {},
): GuardedLease & { readonly fence: number } {
  return { id: randomUUID(), resource, fence, ...more }
}

async function refusal(call: Promise<unknown>): Promise<LeaseError> {
  const error: unknown = await call.then(
    () => null,
    (reason: unknown) => reason,
  )
  if (!isLeaseError(error)) throw new Error(`expected a LeaseError, got ${String(error)}`)
  return error
}

async function codeOf(call: Promise<unknown>): Promise<ErrorCode> {
  return (await refusal(call)).code
}

describe.each(Object.keys(STAGES) as readonly StageName[])('a guard in %s', (name) => {
  beforeEach(async () => {
    stage = await STAGES[name]()
  })

  afterEach(async () => {
    await stage.close()
  })

  it('lets a holder write many times, and a later holder after it', async () => {
    const [first, second] = [lease('work:W', 10), lease('work:W', 20)]
    await stage.write(first, 'a')
    await stage.write(first, 'b')
    await stage.write(second, 'c')
    expect(await stage.values()).toEqual(['a', 'b', 'c'])
  })

  it('refuses a holder that a later one has passed, and writes nothing', async () => {
    const [old, later] = [lease('work:W', 10), lease('work:W', 20)]
    await stage.write(old, 'a')
    await stage.write(later, 'b')
    const error = await refusal(stage.write(old, 'stale'))
    expect(error).toMatchObject({
      code: 'STALE_FENCE',
      effect: 'none',
      message: 'work:W: fence must be at least 20, got 10',
      details: {
        resource: 'work:W',
        fence: 10,
        leaseId: old.id,
        mark: { resource: 'work:W', place: 'own', fence: 20, leaseId: later.id },
      },
    })
    expect(await stage.values()).toEqual(['a', 'b'])
  })

  it('refuses a fence that was given to another lease already', async () => {
    const [one, other] = [lease('work:W', 10), lease('work:W', 10)]
    await stage.write(one, 'a')
    const error = await refusal(stage.write(other, 'b'))
    expect(error.code).toBe('STALE_FENCE')
    expect(error.message).toBe(`work:W: fence 10 belongs to lease ${one.id}, got lease ${other.id}`)
    expect(await stage.values()).toEqual(['a'])
  })

  it('keeps resources apart', async () => {
    await stage.write(lease('work:W', 20), 'a')
    await stage.write(lease('work:V', 10), 'b')
    expect(await stage.values()).toEqual(['a', 'b'])
  })

  it('does not order those who share, but orders them with those who do not', async () => {
    const shared = (fence: number): GuardedLease => lease('work:W', fence, { mode: 'shared' })
    const [early, late] = [shared(10), shared(12)]
    await stage.write(late, 'a')
    await stage.write(early, 'b')
    expect(await codeOf(stage.write(lease('work:W', 11), 'exclusive'))).toBe('STALE_FENCE')
    await stage.write(lease('work:W', 20), 'c')
    expect(await codeOf(stage.write(late, 'stale'))).toBe('STALE_FENCE')
    await stage.write(shared(30), 'd')
    expect(await stage.values()).toEqual(['a', 'b', 'c', 'd'])
  })

  it('takes a lease with slots for one that is shared', async () => {
    await stage.write(lease('work:W', 12, { slots: 3 }), 'a')
    await stage.write(lease('work:W', 10, { slots: 3 }), 'b')
    await stage.write(lease('work:W', 20), 'c')
    expect(await codeOf(stage.write(lease('work:W', 12, { slots: 3 }), 'd'))).toBe('STALE_FENCE')
  })

  it('takes a derived lease for the root that it acts for', async () => {
    const root = lease('work:W', 10)
    const child = lease('work:W', 15, { root: { id: root.id, fence: root.fence } })
    await stage.write(child, 'child')
    await stage.write(root, 'root')
    await stage.write(child, 'child again')
    await stage.write(lease('work:W', 20), 'next')
    expect(await codeOf(stage.write(child, 'stale'))).toBe('STALE_FENCE')
  })

  it('does not take a derived lease for one of its own kind: it must name its root', async () => {
    const root = lease('work:W', 10)
    const child = { ...lease('work:W', 11), parentId: root.id }
    const error = await refusal(stage.write(child, 'a'))
    expect(error.message).toMatch(/^lease.root must be given for a derived lease/)
    const told = { ...lease('work:W', 12), delegation: { line: [root.id], rootFence: null } }
    expect(await codeOf(stage.write(told, 'a'))).toBe('INVALID_INPUT')
    await stage.write({ ...child, root: { leaseId: root.id, fence: root.fence } }, 'b')
    await stage.write(root, 'c')
    expect(await stage.values()).toEqual(['b', 'c'])
  })

  it('lets a holder that was downgraded go on under its fence', async () => {
    const exclusive = lease('work:W', 10)
    await stage.write(exclusive, 'a')
    await stage.write({ ...exclusive, mode: 'shared' }, 'b')
    await stage.write(lease('work:W', 12, { mode: 'shared' }), 'c')
    expect(await stage.values()).toEqual(['a', 'b', 'c'])
  })

  it('checks a plain fence, and refuses older ones from then on', async () => {
    expect(await stage.check('work:W', 10)).toBe(true)
    expect(await stage.check('work:W', 10)).toBe(true)
    expect(await stage.check('work:W', 11)).toBe(true)
    expect(await codeOf(stage.check('work:W', 10))).toBe('STALE_FENCE')
    expect(await codeOf(stage.write(lease('work:W', 10), 'stale'))).toBe('STALE_FENCE')
    const owner = lease('work:W', 11)
    await stage.write(owner, 'a')
    expect(await codeOf(stage.write(lease('work:W', 11), 'other'))).toBe('STALE_FENCE')
    expect(await stage.check('work:W', 11)).toBe(true)
  })

  it('checks a lease as it is: those who share, and slots, do not shut each other out', async () => {
    for (const [resource, how] of [
      ['work:W', { mode: 'shared' }],
      ['work:V', { slots: 3 }],
    ] as const) {
      const [early, late] = [lease(resource, 10, how), lease(resource, 12, how)]
      expect(await stage.check(late)).toBe(true)
      expect(await stage.check(early)).toBe(true)
      await stage.write(early, 'a')
      expect(await codeOf(stage.check(lease(resource, 11)))).toBe('STALE_FENCE')
    }
    expect(await stage.check('work:W', 9, { mode: 'shared' })).toBe(true)
    const alone = lease('work:W', 20)
    expect(await stage.check(alone)).toBe(true)
    await stage.write(alone, 'b')
    expect(await codeOf(stage.check('work:W', 12, { mode: 'shared' }))).toBe('STALE_FENCE')
    expect(await codeOf(stage.check(lease('work:W', 20)))).toBe('STALE_FENCE')
  })

  it('checks a derived lease as its root', async () => {
    const root = lease('work:W', 10)
    expect(await stage.check(lease('work:W', 15, { root }))).toBe(true)
    await stage.write(root, 'a')
  })

  it('refuses to check what is neither a lease nor a fence', async () => {
    const cases: readonly (readonly [asked: readonly unknown[], message: string])[] = [
      [[{ id: 'me', resource: 'work:W', fence: 1 }], 'lease.id must be a UUID, got "me"'],
      [[lease('work:W', 1), { resorce: 'x' }], 'got "resorce"'],
      [['work:W', '1'], 'fence must be an integer 1..9007199254740991, got "1"'],
      [['work:W', 1, { mode: 'alone' }], 'mode must be exclusive or shared, got "alone"'],
      [['work:W', 1, { exent: 'exact' }], 'options must be among mode, extent, got "exent"'],
      [[undefined], 'lease must be an object with id, resource and fence, got undefined'],
    ]
    for (const [asked, message] of cases) {
      const error = await refusal((async () => stage.check(...(asked as CheckArguments)))())
      expect(error.code).toBe('INVALID_INPUT')
      expect(error.message).toContain(message)
    }
  })

  describe('of a tree', () => {
    const tree = (path: string, fence: number): GuardedLease => {
      return lease(`file:${path}`, fence, { extent: 'subtree' })
    }

    it('refuses below what a later lease of the whole directory has begun to write', async () => {
      const [file, directory] = [lease('file:/r/a/b.ts', 10), tree('/r', 20)]
      await stage.write(file, 'a')
      await stage.write(directory, 'b', { resource: 'file:/r/other.ts' })
      expect(await codeOf(stage.write(file, 'stale'))).toBe('STALE_FENCE')
    })

    it('refuses a directory where a later lease of a file has written', async () => {
      const [directory, file] = [tree('/r', 10), lease('file:/r/a/b.ts', 20)]
      await stage.write(directory, 'a')
      await stage.write(file, 'b')
      expect(await codeOf(stage.write(directory, 'c', { resource: 'file:/r/a/b.ts' }))).toBe(
        'STALE_FENCE',
      )
      expect(await codeOf(stage.write(directory, 'd'))).toBe('STALE_FENCE')
      expect(await stage.values()).toEqual(['a', 'b'])
    })

    it('refuses below what a later lease of the whole directory has checked', async () => {
      const file = lease('file:/r/a/b.ts', 10)
      expect(await stage.check(tree('/r', 20))).toBe(true)
      expect(await codeOf(stage.write(file, 'stale'))).toBe('STALE_FENCE')
      expect(await codeOf(stage.write(tree('/r/a', 15), 'stale'))).toBe('STALE_FENCE')
      const above = stage.write(tree('/', 15), 'stale', { resource: 'file:/r/x' })
      expect(await codeOf(above)).toBe('STALE_FENCE')
      expect(await stage.check('file:/s', 20, { extent: 'subtree' })).toBe(true)
      expect(await codeOf(stage.check('file:/s/a', 10))).toBe('STALE_FENCE')
    })

    it('refuses to check a directory in which a later lease has written', async () => {
      await stage.write(lease('file:/r/a', 20), 'a')
      expect(await codeOf(stage.check(tree('/r', 10)))).toBe('STALE_FENCE')
      const aside = await stage.check(tree('/r', 10), { resource: 'file:/r/b' })
      expect(aside).toBe(true)
      const sharing = { mode: 'shared', extent: 'subtree' } as const
      expect(await stage.check('file:/t', 20, sharing)).toBe(true)
      expect(await stage.check('file:/t/a', 10, { mode: 'shared' })).toBe(true)
    })

    it('lets neighbours write whatever their order', async () => {
      await stage.write(lease('file:/r/b.ts', 20), 'a')
      await stage.write(lease('file:/r/a.ts', 10), 'b')
      await stage.write(tree('/r/sub', 15), 'c')
      await stage.write(tree('/r/sub_backup', 12), 'd')
      await stage.write(lease('file:/r/sub_backup.ts', 11), 'e')
      await stage.write(lease('file:/r', 9), 'the directory alone')
      await stage.write(lease('file:/r', 30), 'the directory alone, later')
      await stage.write(lease('file:/r/b.ts', 21), 'f')
      expect(await stage.values()).toHaveLength(8)
    })

    it('takes the directory itself for one of what a subtree covers', async () => {
      await stage.write(tree('/r', 20), 'a', { resource: 'file:/r/x.ts' })
      expect(await codeOf(stage.write(lease('file:/r', 10), 'stale'))).toBe('STALE_FENCE')
    })

    it('reaches up to the root', async () => {
      await stage.write(lease('file:/a/b/c', 10), 'a')
      await stage.write(tree('/', 20), 'b', { resource: 'file:/z' })
      expect(await codeOf(stage.write(lease('file:/a/b/c', 10), 'stale'))).toBe('STALE_FENCE')
    })

    it('refuses to write what the lease does not cover', async () => {
      const outside = refusal(stage.write(tree('/r/a', 10), 'x', { resource: 'file:/r/ab' }))
      expect(await outside).toMatchObject({
        code: 'SCOPE_VIOLATION',
        message: 'resource must be covered by the lease of file:/r/a, got file:/r/ab',
      })
      const exact = stage.write(lease('file:/r', 10), 'x', { resource: 'file:/r/a' })
      expect(await codeOf(exact)).toBe('SCOPE_VIOLATION')
      expect(await codeOf(stage.write(lease('work:W', 10), 'x', { resource: 'work:V' }))).toBe(
        'SCOPE_VIOLATION',
      )
      expect(await stage.values()).toEqual([])
    })
  })

  it.each([
    [{ fence: 0 }, 'lease.fence must be an integer 1..9007199254740991, got 0'],
    [{ fence: -5 }, 'lease.fence must be an integer 1..9007199254740991, got -5'],
    [{ fence: 1.5 }, 'lease.fence must be an integer 1..9007199254740991, got 1.5'],
    [{ fence: Number.NaN }, 'lease.fence must be an integer 1..9007199254740991, got NaN'],
    [
      { fence: 2 ** 53 },
      'lease.fence must be an integer 1..9007199254740991, got 9007199254740992',
    ],
    [{ fence: '7' }, 'lease.fence must be an integer 1..9007199254740991, got "7"'],
    [{ id: 'me' }, 'lease.id must be a UUID, got "me"'],
    [{ id: undefined }, 'lease.id must be a UUID, got undefined'],
    [{ resource: 'W' }, 'resource must be kind:name, got "W"'],
    [{ mode: 'alone' }, 'mode must be exclusive or shared, got "alone"'],
    [{ extent: 'all' }, 'extent must be exact or subtree, got "all"'],
    [{ slots: 0 }, 'slots must be an integer 1..10000, got 0'],
  ])('refuses a lease with %o', async (bad, message) => {
    const given = { ...lease('work:W', 10), ...bad } as GuardedLease
    const error = await refusal((async () => stage.write(given, 'x'))())
    expect(error).toMatchObject({ code: 'INVALID_INPUT', message })
    expect(await stage.values()).toEqual([])
  })

  it('refuses what is no lease at all', async () => {
    const call = (async () => stage.write(null as unknown as GuardedLease, 'x'))()
    expect((await refusal(call)).message).toBe(
      'lease must be an object with id, resource and fence, got null',
    )
  })
})
