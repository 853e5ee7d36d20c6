/** A lease ends together with all that was derived from it, however deep in a tree they lie, on every store. */
import { describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { Family, id, ROOT_TTL_MS } from './family.ts'
import { openOnTicksOf, STORES_ON_TICKS, watchCommits } from './stores-on-ticks.ts'

const REPO = parseResource('file:/repo')
const STRANGER = { holder: 'stranger', session: 'stranger', ttlMs: 1_000, waitMs: 0 }

interface Grown {
  readonly family: Family
  readonly root: LeaseInfo
  readonly commits: (readonly string[])[]
  /** Lets the root run out, and its descendants with it. */
  readonly expire: () => void
}

/** Boss has the whole tree, lead a part of it, aide a file in that, a second another file, and a reader the top alone. */
async function grow(kind: (typeof STORES_ON_TICKS)[number]): Promise<Grown> {
  const { store, clock } = await openOnTicksOf(kind)
  const { store: watched, commits } = watchCommits(store)
  const family = new Family(() => watched)
  const root = await family.root('file:/repo', 'subtree')
  const part = { resource: 'file:/repo/src', extent: 'subtree', holder: 'lead' } as const
  const lead = await family.derive(root, part)
  await family.derive(lead, { resource: 'file:/repo/src/deep/a.ts', holder: 'aide' })
  await family.derive(root, { resource: 'file:/repo/docs', holder: 'second' })
  await family.derive(root, { extent: 'exact', holder: 'reader' })
  commits.length = 0
  return { family, root, commits, expire: () => clock.pass(ROOT_TTL_MS) }
}

type Act = (api: LeaseService) => Promise<unknown>

const EXPIRED = ['aide', 'boss', 'lead', 'reader', 'second'].map(
  (holder) => `lease.expired ${holder}`,
)

describe.each(STORES_ON_TICKS)('on %s, what was derived', (kind) => {
  it.each<readonly [string, Act, readonly string[]]>([
    [
      'a stranger acquires',
      (api) => api.acquire({ ...STRANGER, id: id(1), resource: REPO }),
      ['lease.issued stranger'],
    ],
    [
      'a stranger acquires it together with something else',
      (api) => {
        const members = [
          { id: id(1), resource: parseResource('work:W-9') },
          { id: id(2), resource: REPO },
        ]
        return api.acquireAll({ ...STRANGER, group: id(3), members })
      },
      ['lease.issued stranger', 'lease.issued stranger'],
    ],
    ['somebody sweeps', (api) => api.cleanup(), []],
  ])('ends in the commit that finds its root expired, when %s', async (_who, act, more) => {
    const { family, commits, expire } = await grow(kind)
    expire()
    await act(family.api)
    const [commit = [], ...others] = commits
    expect(others).toEqual([])
    expect(commit.filter((event) => !event.startsWith('lease.accounted')).toSorted()).toEqual([
      ...EXPIRED,
      ...more,
    ])
  })

  it('ends in one commit with several that are given back together', async () => {
    const { family, root, commits } = await grow(kind)
    const other = await family.root('work:W-1')
    commits.length = 0
    const members = [other, root].map(({ id: leaseId, resource }, index) => {
      return { id: leaseId, resource, requestId: id(index) }
    })
    const answers = await family.api.releaseAll({ holder: 'boss', members })
    expect(answers.map((answer) => answer.kind)).toEqual(['released', 'released'])
    expect(commits).toHaveLength(1)
    const ends = commits[0]?.filter((event) => !event.startsWith('lease.accounted'))
    expect(ends?.toSorted()).toEqual([
      ...['lease.released boss', 'lease.released boss'],
      ...['aide', 'lead', 'reader', 'second'].map((holder) => `lease.revoked ${holder}`),
    ])
  })
})

it('a sweep takes one transaction for a family', async () => {
  const { family, expire } = await grow('memory')
  const transact = family.store.transact.bind(family.store)
  let transactions = 0
  const counting = new Proxy(family.store, {
    get: (target, name) => {
      if (name === 'transact') transactions += 1
      return name === 'transact' ? transact : Reflect.get(target, name)
    },
  })
  const api = new LeaseService({ store: counting, runtime: new FakeRuntime() })
  expire()
  expect(await api.cleanup()).toMatchObject({ expired: 5 })
  expect(transactions).toBe(1)
})
