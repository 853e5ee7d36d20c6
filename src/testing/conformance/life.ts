/** Opening, closing and opening again; and after all that, a ledger that still tells the state. */
import assert from 'node:assert/strict'
import { evolveEntry } from '../../core/evolve.ts'
import type { Entry, LeaseId } from '../../core/lease.ts'
import { parseResource } from '../../core/resource.ts'
import type { Store } from '../../store-port/store.ts'
import { allEntries } from '../all-entries.ts'
import type { Behaviour } from './harness.ts'
import { playScript } from './script.ts'
import { refusesWith, ruling, TTL_MS, WORK, type Stage } from './stage.ts'
import { readSetOf } from '../../core/decide.ts'

export const lifeBehaviours: readonly Behaviour[] = [
  ...[1, 2, 3, 4].map((seed) => ({
    name: `after a random script the ledger folds to the entries (seed ${seed})`,
    async run(stage: Stage) {
      await playScript(stage, { seed, steps: 150 })
      await foldsToEntries(stage)
    },
  })),
  {
    name: 'a closed store refuses every call',
    async run(stage) {
      const { store } = stage
      await stage.grant()
      await store.close()
      const command = stage.acquire()
      const calls: readonly (() => Promise<unknown>)[] = [
        () => store.transact([readSetOf(command)], ruling(command)),
        () => store.find({ limit: 1 }),
        () => store.history({ limit: 1 }),
        () => store.end(),
        () => store.countRefusals([]),
        () => store.refusals({ limit: 1 }),
        () => store.settings(),
        () => store.configure({ key: 'keep_history', value: 'true', ...GLOBAL }),
        () => store.prune({ endedBeforeMs: 0, nowMs: 0, batch: 1 }),
        () => store.subscribe('session', () => undefined),
      ]
      for (const call of calls) await refusesWith('CLOSED', call)
    },
  },
  {
    name: 'a store may be closed twice',
    async run(stage) {
      await Promise.all([stage.store.close(), stage.store.close()])
      await stage.store.close()
    },
  },
  {
    name: 'closing lets the calls under way end',
    async run(stage) {
      const asked = stage.run(stage.acquire())
      await stage.store.close()
      assert.equal((await asked).kind, 'granted')
    },
  },
  {
    name: 'the store says what it is, what its clock is and what that is worth',
    run(stage) {
      const { url, clock, durability } = stage.store.description
      for (const text of [url, clock, durability]) assert.notEqual(text, '')
      return Promise.resolve()
    },
  },
  {
    name: 'entries, ledger, settings and positions are there after opening again',
    needs: ['reopen'],
    async run(stage) {
      await playScript(stage, { seed: 5, steps: 60 })
      await stage.configure('max_renewals', '3')
      const before = await everything(stage.store)
      await stage.reopen()
      assert.deepEqual(await everything(stage.store), before)
      await foldsToEntries(stage)
    },
  },
  {
    name: 'fences and ticks go on growing after opening again, although the wall was set back',
    needs: ['reopen', 'wall'],
    async run(stage) {
      const before = await stage.see(stage.acquire())
      stage.clock.stepWall(-86_400_000)
      await stage.reopen()
      const after = await stage.see(stage.acquire({ resource: parseResource('work:W-2') }))
      assert.equal(after.now.tick.domain, before.now.tick.domain)
      assert(after.now.tick.us > before.now.tick.us)
      assert(after.now.wallMs >= before.now.wallMs)
      assert(before.outcome.kind === 'granted' && after.outcome.kind === 'granted')
      assert(after.outcome.lease.fence > before.outcome.lease.fence)
    },
  },
  {
    name: 'a lease is still held after opening again, and a request still known',
    needs: ['reopen'],
    async run(stage) {
      const lease = await stage.grant()
      const request = stage.id()
      await stage.renew(lease, request)
      await stage.reopen()
      assert.equal((await stage.run(stage.acquire({ holder: 'bob' }))).kind, 'held')
      const view = await stage.look({ resource: WORK, requestId: request })
      assert.equal(view.prior?.leaseId, lease.id)
      stage.clock.pass(TTL_MS + 1)
      assert.equal((await stage.run(stage.acquire({ holder: 'bob' }))).kind, 'granted')
    },
  },
  {
    name: 'two that opened the same data never both get one resource',
    needs: ['openAnother'],
    async run(stage) {
      const another = await stage.another()
      const asked = Array.from({ length: 20 }, (_, n) => {
        return stage.run(stage.acquire({ holder: `h${n}` }), n % 2 === 0 ? stage.store : another)
      })
      const granted = (await Promise.all(asked)).filter((outcome) => outcome.kind === 'granted')
      assert.equal(granted.length, 1)
      assert.deepEqual(await everything(another), await everything(stage.store))
    },
  },
]

const GLOBAL = { scope: 'global', resourceId: null } as const

/** I7, but for when a waiter was last heard of, which the ledger does not record. */
async function foldsToEntries(stage: Stage): Promise<void> {
  const folded = new Map<LeaseId, Entry>()
  for (const event of await stage.events()) {
    folded.set(event.leaseId, evolveEntry(folded.get(event.leaseId), event))
  }
  const kept = new Map((await stage.entries()).map((entry) => [entry.id, entry]))
  assert.deepEqual([...folded.keys()].toSorted(), [...kept.keys()].toSorted())
  for (const [id, entry] of folded) {
    const other = kept.get(id)
    assert(other !== undefined)
    assert.deepEqual(told(entry), told(other))
  }
}

function told(entry: Entry): Omit<Entry, 'deadline'> | Entry {
  if (entry.kind === 'lease') return entry
  const { deadline: _deadline, ...rest } = entry
  return rest
}

async function everything(store: Store): Promise<unknown> {
  const entries = await allEntries(store)
  const ledger = await store.history({ limit: 1000 })
  return { entries, ledger, settings: await store.settings(), end: await store.end() }
}
