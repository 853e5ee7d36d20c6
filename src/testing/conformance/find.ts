/** Reading entries: as they are kept, live ones in order of creation, ended ones in that of their ends. */
import assert from 'node:assert/strict'
import { parseResource } from '../../core/resource.ts'
import type { EntryQuery } from '../../store-port/store.ts'
import type { Behaviour } from './harness.ts'
import { OTHER, TTL_MS, WINDOW_MS, WORK, type Stage } from './stage.ts'

const FILE = parseResource('file:/src/a.ts')

export const findBehaviours: readonly Behaviour[] = [
  {
    name: 'an empty store has nothing to find',
    async run(stage) {
      const { entries, more } = await stage.store.find({ limit: 1 })
      assert.deepEqual({ entries, more }, { entries: [], more: false })
    },
  },
  {
    name: 'entries are found in order of creation',
    async run(stage) {
      const names = ['work:c', 'work:a', 'work:b']
      for (const name of names) await stage.grant({ resource: parseResource(name) })
      const found = (await stage.entries()).map((entry) => entry.resource)
      assert.deepEqual(found, names)
    },
  },
  {
    name: 'by id, in the order of the ids, unknown ones left out',
    async run(stage) {
      const first = await stage.grant()
      const second = await stage.grant({ resource: OTHER })
      const ids = [second.id, stage.id(), first.id]
      assert.deepEqual(await found(stage, { ids }), [second.id, first.id])
      assert.deepEqual(await found(stage, { ids: [] }), [])
    },
  },
  {
    name: 'by resource',
    async run(stage) {
      const lease = await stage.grant()
      await stage.grant({ resource: OTHER })
      assert.deepEqual(await found(stage, { resource: WORK }), [lease.id])
    },
  },
  {
    name: 'by holder and by session, to the letter',
    async run(stage) {
      const lease = await stage.grant({ holder: 'a_a', session: 's%' })
      await stage.grant({ resource: OTHER, holder: 'aXa', session: 'sX' })
      assert.deepEqual(await found(stage, { holder: 'a_a' }), [lease.id])
      assert.deepEqual(await found(stage, { session: 's%' }), [lease.id])
      assert.deepEqual(await found(stage, { holder: 'A_A' }), [])
    },
  },
  {
    name: 'by state, as it is kept',
    async run(stage) {
      const ended = await stage.grant()
      await stage.release(ended)
      const held = await stage.grant()
      const waiter = await stage.queue({ holder: 'bob' })
      assert.deepEqual(await found(stage, { states: ['released'] }), [ended.id])
      assert.deepEqual(await found(stage, { states: ['pending'] }), [waiter.leaseId])
      const live = await found(stage, { states: ['active', 'pending'] })
      assert.deepEqual(live, [held.id, waiter.leaseId])
      stage.clock.pass(TTL_MS)
      assert.deepEqual(await found(stage, { states: ['active'] }), [held.id])
      assert.deepEqual(await found(stage, { states: ['expired'] }), [])
    },
  },
  {
    name: 'by deadline, at the tick of the question',
    async run(stage) {
      const lease = await stage.grant()
      const waiter = await stage.queue({ holder: 'bob' })
      const ended = await stage.grant({ resource: OTHER })
      await stage.release(ended)
      assert.deepEqual(await found(stage, { deadline: 'running' }), [lease.id, waiter.leaseId])
      assert.deepEqual(await found(stage, { deadline: 'passed' }), [])
      stage.clock.pass(WINDOW_MS + 1)
      assert.deepEqual(await found(stage, { deadline: 'running' }), [lease.id])
      assert.deepEqual(await found(stage, { deadline: 'passed' }), [waiter.leaseId])
      stage.clock.pass(TTL_MS - WINDOW_MS)
      const passed = await found(stage, { deadline: 'passed' })
      assert.deepEqual(passed.toSorted(), [lease.id, waiter.leaseId].toSorted())
    },
  },
  {
    name: 'an offer has a deadline of its own',
    async run(stage) {
      const lease = await stage.grant()
      const waiter = await stage.queue({ holder: 'bob' })
      stage.clock.pass(WINDOW_MS - 1)
      await stage.release(lease)
      stage.clock.pass(WINDOW_MS - 1)
      assert.deepEqual(await found(stage, { deadline: 'running' }), [waiter.leaseId])
      stage.clock.pass(2)
      assert.deepEqual(await found(stage, { deadline: 'passed' }), [waiter.leaseId])
    },
  },
  {
    name: 'by what they overlap, live ones only',
    async run(stage) {
      const ended = await stage.grant({ resource: FILE })
      await stage.release(ended)
      const lease = await stage.grant({ resource: FILE })
      const subtree = { resource: parseResource('file:/src'), extent: 'subtree' } as const
      assert.deepEqual(await found(stage, { overlapping: subtree }), [lease.id])
      const elsewhere = { resource: parseResource('file:/src'), extent: 'exact' } as const
      assert.deepEqual(await found(stage, { overlapping: elsewhere }), [])
    },
  },
  {
    name: 'by several fields at once',
    async run(stage) {
      const lease = await stage.grant({ holder: 'ada' })
      await stage.grant({ resource: OTHER, holder: 'ada' })
      await stage.queue({ holder: 'bob' })
      const query = { resource: WORK, holder: 'ada', states: ['active'] } as const
      assert.deepEqual(await found(stage, query), [lease.id])
    },
  },
  {
    name: 'no more than the limit, saying whether there are more',
    async run(stage) {
      for (const name of ['a', 'b', 'c']) {
        await stage.grant({ resource: parseResource(`work:${name}`) })
      }
      const [two, three] = [
        await stage.store.find({ limit: 2 }),
        await stage.store.find({ limit: 3 }),
      ]
      assert.deepEqual([two.entries.length, two.more], [2, true])
      assert.deepEqual([three.entries.length, three.more], [3, false])
      assert.equal(three.next, null)
    },
  },
  {
    name: 'page by page, each once and in order of creation, whatever changes meanwhile',
    async run(stage) {
      const names = Array.from({ length: 7 }, (_, index) => `work:P-${index}`)
      const leases = []
      for (const name of names) {
        leases.push(await stage.grant({ resource: parseResource(name), session: 's' }))
      }
      const ids = leases.map(({ id }) => id)
      const queries: readonly Omit<EntryQuery, 'limit'>[] = [
        {},
        { session: 's' },
        { holder: 'ada', states: ['active'] },
        { states: ['active', 'pending'], deadline: 'running' },
      ]
      for (const query of queries) assert.deepEqual(await paged(stage, query), ids)
      const [first, second] = leases
      assert.ok(first !== undefined && second !== undefined)
      const page = await stage.store.find({ limit: 2 })
      await stage.release(first)
      await stage.renew(second)
      const late = await stage.grant({ session: 's' })
      const rest = await paged(stage, {}, page.next)
      assert.deepEqual(rest, [...ids.slice(2), late.id])
    },
  },
  {
    name: 'page by page what has ended on one resource, in the order of the ends',
    async run(stage) {
      const ids = []
      for (let turn = 0; turn < 5; turn += 1) {
        const lease = await stage.grant()
        await stage.release(lease)
        ids.push(lease.id)
      }
      assert.deepEqual(await paged(stage, { resource: WORK, states: ['released'] }), ids)
      assert.deepEqual(await paged(stage, { states: ['released', 'expired'] }), ids)
      assert.deepEqual(await paged(stage, { resource: WORK }), [])
    },
  },
  {
    name: 'what has ended apart from what is in its lock delay, and from the last end on what has ended since',
    async run(stage) {
      const ended = await stage.grant()
      await stage.revoke(ended)
      const delayed = await stage.grant({ resource: OTHER, lockDelayMs: WINDOW_MS })
      await stage.revoke(delayed)
      const query = { states: ['revoked'], limit: 3 } as const
      const { entries, lastEnd } = await stage.store.find(query)
      assert.deepEqual(
        entries.map(({ id }) => id),
        [ended.id],
      )
      assert.ok(lastEnd !== null)
      const rest = { ...query, after: lastEnd }
      assert.deepEqual(await paged(stage, { ...query, delayed: true }), [delayed.id])
      assert.deepEqual(await paged(stage, query, lastEnd), [])
      assert.equal((await stage.store.find(rest)).lastEnd, null)
      stage.clock.pass(WINDOW_MS + 1)
      await stage.grant({ resource: OTHER })
      assert.deepEqual(await paged(stage, { ...query, delayed: true }), [])
      assert.deepEqual(await paged(stage, query, lastEnd), [delayed.id])
      assert.notEqual((await stage.store.find(rest)).lastEnd, null)
    },
  },
  {
    name: 'an entry that changes keeps its place in the order of creation',
    async run(stage) {
      const first = await stage.grant()
      const second = await stage.grant({ resource: OTHER })
      await stage.renew(first)
      assert.deepEqual(await found(stage, {}), [first.id, second.id])
    },
  },
]

async function paged(
  stage: Stage,
  query: Omit<EntryQuery, 'limit'>,
  start: string | null = null,
): Promise<readonly string[]> {
  const ids: string[] = []
  for (let after = start; ;) {
    const from = after === null ? {} : { after }
    const { entries, more, next } = await stage.store.find({ ...query, ...from, limit: 2 })
    ids.push(...entries.map(({ id }) => id))
    assert.equal(next !== null, more)
    if (next === null) return ids
    after = next
  }
}

async function found(stage: Stage, query: Omit<EntryQuery, 'limit'>): Promise<readonly string[]> {
  const { entries } = await stage.store.find({ ...query, limit: 100 })
  return entries.map((entry) => entry.id)
}
