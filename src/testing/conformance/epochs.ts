/**
 * Epochs of workflows: each is used once, by the holder of the workflow, and none comes back, whatever becomes of the
 * lease, the ledger or the process.
 */
import assert from 'node:assert/strict'
import type { Lease } from '../../core/lease.ts'
import { parseResource } from '../../core/resource.ts'
import type { Behaviour } from './harness.ts'
import { placeOf, TTL_MS, WORK, type Stage } from './stage.ts'

const FLOW = parseResource('workflow:order-991')
const OTHER = parseResource('workflow:order-992')

export const epochBehaviours: readonly Behaviour[] = [
  {
    name: 'a workflow starts at epoch 0, and each advance goes on from the last',
    async run(stage) {
      const lease = await flow(stage)
      assert.equal(lease.epoch, 0)
      assert.deepEqual(await used(stage, lease, 0), [0, 1])
      assert.deepEqual(await used(stage, lease, 1, 100), [1, 101])
      assert.equal((await stage.look({ resource: FLOW })).epoch, 101)
      assert.equal(epochOf(await stage.kept(lease.id)), 101)
    },
  },
  {
    name: 'an advance from anywhere but the next epoch is refused and changes nothing',
    async run(stage) {
      const lease = await flow(stage)
      await used(stage, lease, 0, 5)
      for (const from of [0, 4, 6]) {
        const outcome = await stage.advance(lease, from)
        assert.deepEqual(outcome, { kind: 'stale_epoch', leaseId: lease.id, from, epoch: 5 })
      }
      assert.equal((await stage.look({ resource: FLOW })).epoch, 5)
    },
  },
  {
    name: 'the next holder goes on where the last one stopped, however that one ended',
    async run(stage) {
      const first = await flow(stage)
      await used(stage, first, 0, 3)
      await stage.release(first)
      const second = await flow(stage)
      assert.equal(second.epoch, 3)
      await used(stage, second, 3)
      stage.clock.pass(TTL_MS + 1)
      const third = await flow(stage)
      assert.equal(third.epoch, 4)
      await stage.revoke(third)
      assert.equal((await flow(stage)).epoch, 4)
    },
  },
  {
    name: 'a holder that is over advances nothing',
    async run(stage) {
      const lease = await flow(stage)
      await used(stage, lease, 0)
      stage.clock.pass(TTL_MS + 1)
      assert.equal((await stage.advance(lease, 1)).kind, 'expired')
      const next = await flow(stage)
      await used(stage, next, 1)
      assert.equal((await stage.advance(lease, 2)).kind, 'expired')
      await stage.revoke(next)
      assert.equal((await stage.advance(next, 2)).kind, 'terminal')
      assert.equal((await stage.look({ resource: FLOW })).epoch, 2)
    },
  },
  {
    name: 'the receiver of a transfer goes on where the giver stopped',
    async run(stage) {
      const lease = await flow(stage)
      await used(stage, lease, 0, 7)
      const receiver = { to: 'bob', newLeaseId: stage.id(), requestId: null }
      const outcome = await stage.run({ kind: 'transfer', ...placeOf(lease), ...receiver })
      assert(outcome.kind === 'transferred' && outcome.lease !== null)
      assert.equal(outcome.lease.epoch, 7)
      assert.deepEqual(await used(stage, outcome.lease, 7), [7, 8])
    },
  },
  {
    name: 'a waiter that claims its offer goes on where the last one stopped',
    async run(stage) {
      const lease = await flow(stage)
      const ticket = await stage.queue({ resource: FLOW, holder: 'bob' })
      await used(stage, lease, 0, 2)
      await stage.release(lease)
      const outcome = await stage.claim(ticket)
      assert(outcome.kind === 'granted')
      assert.equal(outcome.lease.epoch, 2)
    },
  },
  {
    name: 'workflows that are taken together have each its own epoch',
    async run(stage) {
      const lease = await flow(stage)
      await used(stage, lease, 0, 9)
      await stage.release(lease)
      const members = [FLOW, OTHER].map((resource) => stage.acquire({ resource }))
      const outcome = await stage.runSeveral({ kind: 'acquire_all', group: stage.id(), members })
      assert(outcome.kind === 'granted_all')
      assert.deepEqual(outcome.leases.map(epochOf), [9, 0])
    },
  },
  {
    name: 'an advance is one event, which folds; a repeated request has no other effect',
    async run(stage) {
      const lease = await flow(stage)
      const requestId = stage.id()
      const epochs = { from: 0, count: 3, reason: 'state: paid', requestId }
      const command = { kind: 'advance', ...placeOf(lease), ...epochs } as const
      for (let i = 0; i < 2; i += 1) {
        const outcome = await stage.run(command)
        assert(outcome.kind === 'advanced')
        assert.deepEqual([outcome.from, outcome.to, outcome.lease.epoch], [0, 3, 3])
      }
      const advances = (await stage.events()).filter(({ type }) => type === 'lease.advanced')
      assert.equal(advances.length, 1)
      const [event] = advances
      assert(event?.type === 'lease.advanced')
      assert.deepEqual([event.from, event.to, event.reason], [0, 3, 'state: paid'])
      assert.equal(event.requestId, requestId)
    },
  },
  {
    name: 'epochs stay when no history is kept, and when all of it was pruned',
    async run(stage) {
      await stage.configure('keep_history', 'false')
      const lease = await flow(stage)
      await used(stage, lease, 0, 4)
      await stage.release(lease)
      assert.deepEqual(await stage.entries(), [])
      assert.equal((await flow(stage)).epoch, 4)
      stage.clock.pass(100 * TTL_MS)
      const { now } = await stage.store.find({ ids: [], limit: 1 })
      const policy = { endedBeforeMs: now.wallMs, nowMs: now.wallMs, batch: 100 }
      await stage.store.prune(policy)
      assert.equal((await flow(stage)).epoch, 4)
    },
  },
  {
    name: 'epochs survive the process',
    needs: ['reopen'],
    async run(stage) {
      const lease = await flow(stage)
      await used(stage, lease, 0, 6)
      await stage.reopen()
      assert.equal((await stage.look({ resource: FLOW })).epoch, 6)
      assert.deepEqual(await used(stage, lease, 6), [6, 7])
    },
  },
  {
    name: 'what is no workflow has no epoch',
    async run(stage) {
      const lease = await stage.grant({ resource: WORK })
      assert.equal((await stage.advance(lease, 0)).kind, 'no_epoch')
      const shared = await stage.grant({ resource: FLOW, mode: 'shared' })
      assert.equal((await stage.advance(shared, 0)).kind, 'no_epoch')
    },
  },
]

async function flow(stage: Stage): Promise<Lease> {
  return stage.grant({ resource: FLOW })
}

/** The epochs that an advance has used up; it must not be refused. */
async function used(
  stage: Stage,
  lease: Lease,
  from: number,
  count = 1,
): Promise<readonly [number, number]> {
  const outcome = await stage.advance(lease, from, count)
  assert(outcome.kind === 'advanced', JSON.stringify(outcome))
  return [outcome.from, outcome.to]
}

function epochOf(entry: unknown): unknown {
  return typeof entry === 'object' && entry !== null && 'epoch' in entry ? entry.epoch : null
}
