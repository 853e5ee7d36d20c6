/** A request id is remembered with its effect, in the same commit, whether or not the ledger carries it. */
import assert from 'node:assert/strict'
import type { PriorEffect } from '../../core/realm.ts'
import type { Behaviour } from './harness.ts'
import { TTL_MS, WORK, type Stage } from './stage.ts'

const DAY_MS = 86_400_000

export const requestBehaviours: readonly Behaviour[] = [
  {
    name: 'a request that was never heard has no effect to tell of',
    async run(stage) {
      await stage.grant()
      assert.equal(await prior(stage, stage.id()), null)
    },
  },
  {
    name: 'a request whose event is in the ledger is known by it',
    async run(stage) {
      const lease = await stage.grant()
      const [renewal, release] = [stage.id(), stage.id()]
      await stage.renew(lease, renewal)
      await stage.release(lease, release)
      assert.deepEqual(await prior(stage, renewal), { leaseId: lease.id, type: 'lease.renewed' })
      assert.deepEqual(await prior(stage, release), { leaseId: lease.id, type: 'lease.released' })
    },
  },
  {
    name: 'a revocation is known, of a lease as of a waiter',
    async run(stage) {
      const lease = await stage.grant()
      const waiter = await stage.queue({ holder: 'bob' })
      const [ofLease, ofWaiter] = [stage.id(), stage.id()]
      await stage.revoke(waiter, ofWaiter)
      await stage.revoke(lease, ofLease)
      assert.deepEqual(await prior(stage, ofLease), { leaseId: lease.id, type: 'lease.revoked' })
      assert.deepEqual(await prior(stage, ofWaiter), {
        leaseId: waiter.leaseId,
        type: 'lease.failed',
      })
    },
  },
  {
    name: 'a renewal that the ledger does not record is known all the same',
    async run(stage) {
      await stage.configure('record_renewals', 'false')
      const lease = await stage.grant()
      const request = stage.id()
      await stage.renew(lease, request)
      assert.equal((await stage.events()).length, 1)
      assert.deepEqual(await prior(stage, request), { leaseId: lease.id, type: 'lease.renewed' })
    },
  },
  {
    name: 'a release is known where no history is kept and nothing else is left of the lease',
    async run(stage) {
      await stage.configure('keep_history', 'false')
      const lease = await stage.grant()
      const request = stage.id()
      await stage.release(lease, request)
      assert.deepEqual(await prior(stage, request), { leaseId: lease.id, type: 'lease.released' })
    },
  },
  {
    name: 'an acquire that is delivered again after its lease has ended is not granted again',
    async run(stage) {
      await stage.configure('keep_history', 'false')
      const command = stage.acquire()
      assert.equal((await stage.run(command)).kind, 'granted')
      stage.clock.pass(TTL_MS)
      await stage.release(await stage.grant({ holder: 'bob' }))
      assert.equal((await stage.run(command)).kind, 'terminal')
    },
  },
  {
    name: 'a repeated renewal renews no second time, however often and at once it is sent',
    async run(stage) {
      const lease = await stage.grant()
      const request = stage.id()
      await Promise.all(Array.from({ length: 10 }, () => stage.renew(lease, request)))
      const kept = await stage.kept(lease.id)
      assert(kept?.kind === 'lease')
      assert.equal(kept.renewals, 1)
    },
  },
  {
    name: 'an unrecorded request is remembered for a day, and pruned after that',
    async run(stage) {
      await stage.configure('keep_history', 'false')
      const request = stage.id()
      const lease = await stage.grant()
      await stage.release(lease, request)
      await pruneAfter(stage, DAY_MS - 1_000)
      assert.notEqual(await prior(stage, request), null)
      await pruneAfter(stage, 2_000)
      assert.equal(await prior(stage, request), null)
    },
  },
]

async function prior(stage: Stage, requestId: string): Promise<PriorEffect | null> {
  const view = await stage.look({ resource: WORK, requestId })
  if (view.prior === null) return null
  const { leaseId, type } = view.prior
  return { leaseId, type }
}

async function pruneAfter(stage: Stage, spanMs: number): Promise<void> {
  stage.clock.pass(spanMs)
  const { wallMs } = await stage.now()
  await stage.store.prune({ endedBeforeMs: wallMs - DAY_MS, nowMs: wallMs, batch: 100 })
}
