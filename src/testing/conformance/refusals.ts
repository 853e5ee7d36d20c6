/** Refusals: counted beside the ledger, in a bounded table. */
import assert from 'node:assert/strict'
import type { LeaseDenied } from '../../core/event.ts'
import { REFUSALS_MAX } from '../../core/limits.ts'
import type { CountedRefusal } from '../../core/refusal.ts'
import { parseResource } from '../../core/resource.ts'
import type { RefusalQuery, Store } from '../../store-port/store.ts'
import type { Behaviour } from './harness.ts'
import { WORK, type Stage } from './stage.ts'

const OTHER = parseResource('file:/src/a "b".ts')
const START_MS = 1_700_000_000_000
const DAY_MS = 86_400_000

export const refusalBehaviours: readonly Behaviour[] = [
  {
    name: 'a refusal comes back exactly as it was counted, that of a request and that of a renewal',
    async run(stage) {
      await stage.grant()
      const request = { holder: 'bob "é"', reason: 'wörds', metadata: { 'k"': 1 } }
      const asked = await stage.refusal(stage.acquire({ ...request, mode: 'shared', slots: 2 }))
      const renewal = { ...asked, holder: 'cyd', reason: 'renewal refused: it', ticket: null }
      await count(stage.store, asked, renewal)
      assert.deepEqual(await stage.store.refusals({ limit: 10 }), [
        { event: asked, count: 1 },
        { event: renewal, count: 1 },
      ])
    },
  },
  {
    name: 'those of one resource, holder and reason are one, with the last of them',
    async run(stage) {
      const first = await refused(stage, 0)
      const last = await refused(stage, 5)
      await stage.store.countRefusals([{ event: first, count: 2 }])
      await stage.store.countRefusals([{ event: last, count: 3 }])
      await stage.store.countRefusals([{ event: await refused(stage, 4), count: 1 }])
      const apart = [{ resource: OTHER }, { holder: 'cyd' }, { reason: 'another' }]
      for (const change of apart) await count(stage.store, { ...first, ...change })
      const [newest, ...others] = await stage.store.refusals({ newestFirst: true, limit: 10 })
      assert.deepEqual(newest, { event: last, count: 6 })
      assert.deepEqual(
        others.map((one) => one.count),
        [1, 1, 1],
      )
    },
  },
  {
    name: 'they are told by time, and by every field that can be asked for',
    async run(stage) {
      const at = async (ms: number, change: object = {}): Promise<LeaseDenied> => {
        return { ...(await refused(stage, ms)), ...change }
      }
      const events = [await at(0), await at(1, { resource: OTHER }), await at(2, { holder: 'cyd' })]
      await count(stage.store, ...events.toReversed())
      const asked = async (query: Partial<RefusalQuery>): Promise<readonly number[]> => {
        const found = await stage.store.refusals({ limit: 10, ...query })
        return found.map(({ event }) => event.atMs - START_MS)
      }
      assert.deepEqual(await asked({}), [0, 1, 2])
      assert.deepEqual(await asked({ newestFirst: true }), [2, 1, 0])
      assert.deepEqual(await asked({ newestFirst: true, limit: 2 }), [2, 1])
      assert.deepEqual(await asked({ limit: 1 }), [0])
      assert.deepEqual(await asked({ resource: OTHER }), [1])
      assert.deepEqual(await asked({ holder: 'cyd' }), [2])
      assert.deepEqual(await asked({ leaseId: events[1]?.leaseId ?? '' }), [1])
      assert.deepEqual(await asked({ fromMs: START_MS + 1 }), [1, 2])
      assert.deepEqual(await asked({ toMs: START_MS + 1, newestFirst: true }), [1, 0])
      assert.deepEqual(await asked({ resource: WORK, holder: 'dan' }), [])
    },
  },
  {
    name: 'those of one millisecond are told by id, reason and holder, and of two alike the one that was counted last',
    async run(stage) {
      const event = { ...(await refused(stage, 0)), ticket: null }
      const ids = [stage.id(), stage.id(), stage.id()].toSorted()
      const [low = '', middle = '', high = ''] = ids
      const inOrder = [
        { leaseId: low, holder: 'z' },
        { leaseId: middle, holder: 'b', reason: 'a' },
        { leaseId: middle, holder: '\uffee', reason: 'b' },
        { leaseId: middle, holder: '\u{1f600}', reason: 'b' },
        { leaseId: high, holder: 'a' },
      ].map((change): LeaseDenied => ({ ...event, ...change }))
      await count(stage.store, { ...event, leaseId: high, holder: 'z' })
      await count(stage.store, ...inOrder.toReversed())
      const asked = async (query: RefusalQuery): Promise<readonly string[]> => {
        return (await stage.store.refusals(query)).map((one) => one.event.holder)
      }
      const holders = inOrder.map(({ holder }) => holder)
      assert.deepEqual(await asked({ limit: 10 }), holders)
      assert.deepEqual(await asked({ limit: 2 }), holders.slice(0, 2))
      const newestFirst = { newestFirst: true, limit: 2 }
      assert.deepEqual(await asked(newestFirst), holders.toReversed().slice(0, 2))
      const [first] = await stage.store.refusals({ limit: 1 })
      assert.deepEqual(first, { event: inOrder[0], count: 2 })
    },
  },
  {
    name: 'there are never more rows than the limit: those of longest ago make room',
    async run(stage) {
      const event = await refused(stage, 0)
      const many = Array.from({ length: REFUSALS_MAX + 20 }, (_, number): CountedRefusal => {
        return { event: { ...event, holder: `h${number}`, atMs: START_MS + number }, count: 1 }
      })
      await stage.store.countRefusals(many.slice(0, REFUSALS_MAX))
      await stage.store.countRefusals(many.slice(REFUSALS_MAX))
      const kept = await stage.store.refusals({ limit: REFUSALS_MAX + 100 })
      assert.equal(kept.length, REFUSALS_MAX)
      assert.equal(kept[0]?.event.atMs, START_MS + 20)
    },
  },
  {
    name: 'the ledger does not tell of them',
    async run(stage) {
      await stage.grant()
      const end = await stage.store.end()
      await count(stage.store, await refused(stage, 0))
      assert.equal(await stage.store.end(), end)
      assert.equal((await stage.events()).length, 1)
      assert.equal((await stage.entries()).length, 1)
    },
  },
  {
    name: 'they go when history goes',
    async run(stage) {
      const { wallMs: nowMs } = await stage.now()
      await stage.grant()
      const event = await refused(stage, 0)
      await count(
        stage.store,
        { ...event, atMs: nowMs - 1 },
        { ...event, atMs: nowMs, holder: 'c' },
      )
      await stage.store.prune({ endedBeforeMs: nowMs - DAY_MS, nowMs, batch: 10 })
      assert.equal((await stage.store.refusals({ limit: 10 })).length, 2)
      await stage.store.prune({ endedBeforeMs: nowMs, nowMs, batch: 10 })
      assert.deepEqual(
        (await stage.store.refusals({ limit: 10 })).map((one) => one.event.holder),
        ['c'],
      )
    },
  },
  {
    name: 'every process counts in the same table, and it outlives them',
    needs: ['openAnother', 'reopen'],
    async run(stage) {
      const event = await refused(stage, 0)
      await count(stage.store, event)
      await count(await stage.another(), event)
      await stage.reopen()
      assert.deepEqual(await stage.store.refusals({ limit: 10 }), [{ event, count: 2 }])
    },
  },
]

async function count(store: Store, ...events: readonly LeaseDenied[]): Promise<void> {
  await store.countRefusals(events.map((event) => ({ event, count: 1 })))
}

/** Bob was refused what Ada holds, so long after the start. */
async function refused(stage: Stage, afterMs: number): Promise<LeaseDenied> {
  await stage.run(stage.acquire())
  const event = await stage.refusal(stage.acquire({ holder: 'bob' }))
  return { ...event, atMs: START_MS + afterMs }
}
