/** Retention: what has ended long enough ago goes with its whole history; nothing live ever does. */
import assert from 'node:assert/strict'
import { isLeaseError } from '../../core/errors.ts'
import { parseResource } from '../../core/resource.ts'
import type { Position, Pruned } from '../../store-port/store.ts'
import type { Behaviour } from './harness.ts'
import { OTHER, TTL_MS, WORK, type Stage } from './stage.ts'

const AGE_MS = 1_000_000

export const pruneBehaviours: readonly Behaviour[] = [
  {
    name: 'an ended lease goes with its whole history',
    async run(stage) {
      const lease = await stage.grant()
      await stage.renew(lease)
      await stage.release(lease)
      stage.clock.pass(2 * AGE_MS)
      assert.deepEqual(await prune(stage), { leases: 1, events: 3, more: false })
      assert.deepEqual(await stage.entries(), [])
      assert.deepEqual(await stage.events(), [])
    },
  },
  {
    name: 'a lease that ended more recently stays, whole',
    async run(stage) {
      const lease = await stage.grant()
      stage.clock.pass(TTL_MS / 2)
      await stage.release(lease)
      stage.clock.pass(AGE_MS)
      assert.deepEqual(await prune(stage), { leases: 0, events: 0, more: false })
      assert.equal((await stage.events()).length, 2)
      assert.equal((await stage.kept(lease.id))?.state, 'released')
    },
  },
  {
    name: 'a live lease stays, however old it is',
    async run(stage) {
      const lease = await stage.grant({ ttlMs: 100 * AGE_MS })
      stage.clock.pass(50 * AGE_MS)
      assert.equal((await prune(stage)).leases, 0)
      assert.deepEqual(await stage.entries(), [lease])
    },
  },
  {
    name: 'an expired lease that is not settled yet stays, because its end is not recorded',
    async run(stage) {
      const lease = await stage.grant()
      stage.clock.pass(50 * AGE_MS)
      assert.equal((await prune(stage)).leases, 0)
      assert.deepEqual(await stage.entries(), [lease])
    },
  },
  {
    name: 'an end that was noticed late stays for as long as one that was noticed at once',
    async run(stage) {
      const before = await stage.store.end()
      await stage.grant()
      stage.clock.pass(50 * AGE_MS)
      const next = await stage.grant({ ttlMs: 100 * AGE_MS })
      assert.equal((await prune(stage)).leases, 0)
      assert.deepEqual(await after(stage, before), [
        ...['lease.issued', 'lease.expired', 'lease.issued'],
      ])
      stage.clock.pass(2 * AGE_MS)
      assert.equal((await prune(stage)).leases, 1)
      assert.deepEqual(await stage.entries(), [next])
    },
  },
  {
    name: 'a lease that ended stays for its own ttl at least',
    async run(stage) {
      const lease = await stage.grant({ ttlMs: 10 * AGE_MS })
      await stage.release(lease)
      stage.clock.pass(9 * AGE_MS)
      assert.equal((await prune(stage)).leases, 0)
      stage.clock.pass(2 * AGE_MS)
      assert.equal((await prune(stage)).leases, 1)
    },
  },
  {
    name: 'failed attempts go as well',
    async run(stage) {
      await stage.grant({ ttlMs: 100 * AGE_MS })
      await stage.refuseInLedger({ holder: 'refused' })
      await stage.revoke(await stage.queue({ holder: 'bob' }))
      stage.clock.pass(2 * AGE_MS)
      assert.deepEqual(await prune(stage), { leases: 2, events: 3, more: false })
    },
  },
  {
    name: 'old renewals of a live lease go, but never the last one',
    async run(stage) {
      const lease = await stage.grant({ ttlMs: 100 * AGE_MS })
      for (let n = 0; n < 3; n += 1) {
        stage.clock.pass(1)
        await stage.renew(lease)
      }
      stage.clock.pass(2 * AGE_MS)
      assert.deepEqual(await prune(stage), { leases: 0, events: 2, more: false })
      const kept = await stage.kept(lease.id)
      assert.equal(kept?.kind === 'lease' && kept.renewals, 3)
      const left = (await stage.events()).map((event) => event.renewals)
      assert.deepEqual(left, [0, 3])
    },
  },
  {
    name: 'old advances of a live lease go, but never the last one, nor before its ttl has passed',
    async run(stage) {
      const resource = parseResource('workflow:order-991')
      const lease = await stage.grant({ resource, ttlMs: 5 * AGE_MS })
      for (let epoch = 0; epoch < 3; epoch += 1) await stage.advance(lease, epoch)
      stage.clock.pass(4 * AGE_MS)
      await stage.renew(lease)
      assert.equal((await prune(stage)).events, 0)
      stage.clock.pass(4 * AGE_MS)
      assert.deepEqual(await prune(stage), { leases: 0, events: 2, more: false })
      const kept = await stage.kept(lease.id)
      assert.equal(kept?.kind === 'lease' && kept.epoch, 3)
      const left = (await stage.events()).map((event) => event.type)
      assert.deepEqual(left, ['lease.issued', 'lease.advanced', 'lease.renewed'])
      const [, last] = await stage.events()
      assert.equal(last?.type === 'lease.advanced' && last.to, 3)
    },
  },
  {
    name: 'a batch has an end, and says whether there is more to do',
    async run(stage) {
      for (const name of ['a', 'b', 'c']) {
        await stage.release(await stage.grant({ resource: parseResource(`work:${name}`) }))
      }
      stage.clock.pass(2 * AGE_MS)
      const first = await prune(stage, 2)
      assert.deepEqual([first.leases, first.more], [2, true])
      const second = await prune(stage, 2)
      assert.deepEqual([second.leases, second.more], [1, false])
      assert.deepEqual(await stage.events(), [])
    },
  },
  {
    name: 'fences go on growing after everything was pruned and the wall set back',
    needs: ['wall'],
    async run(stage) {
      const lease = await stage.grant()
      await stage.release(lease)
      stage.clock.pass(2 * AGE_MS)
      await prune(stage)
      assert.deepEqual(await stage.entries(), [])
      stage.clock.stepWall(-100 * AGE_MS)
      assert((await stage.grant()).fence > lease.fence)
    },
  },
  {
    name: 'positions stay valid after what they pointed at was pruned',
    async run(stage) {
      await stage.release(await stage.grant())
      const end = await stage.store.end()
      stage.clock.pass(2 * AGE_MS)
      await prune(stage)
      assert.equal(await stage.store.end(), end)
      const lease = await stage.grant({ resource: OTHER })
      const [entry, ...rest] = await stage.store.history({ after: end, limit: 10 })
      assert.equal(entry?.event.leaseId, lease.id)
      assert.deepEqual(rest, [])
    },
  },
  {
    name: 'a reader that has not seen what was pruned is told so, and where nothing is missing',
    async run(stage) {
      const start = await stage.store.end()
      const live = await stage.grant({ resource: OTHER, ttlMs: 100 * AGE_MS })
      const [first] = await stage.store.history({ limit: 1 })
      await stage.release(await stage.grant())
      const seen = await stage.store.end()
      stage.clock.pass(2 * AGE_MS)
      await stage.renew(live)
      assert.equal((await after(stage, start)).length, 4)
      assert.equal((await prune(stage)).leases, 1)
      let prunedUpTo = ''
      for (const missed of [start, first?.position ?? '']) {
        await assert.rejects(after(stage, missed), (error: unknown) => {
          assert(isLeaseError(error, 'INVALID_INPUT'))
          assert.equal(error.details['field'], 'after')
          prunedUpTo = String(error.details['prunedUpTo'])
          return true
        })
        assert.deepEqual(await after(stage, prunedUpTo), ['lease.renewed'])
      }
      assert.deepEqual(await after(stage, seen), ['lease.renewed'])
      assert.deepEqual(await after(stage, await stage.store.end()), [])
      // A reader that asks for what is kept, and not for what was missed, gets it.
      const kept = await stage.store.history({ after: start, limit: 10 })
      assert.deepEqual(
        kept.map(({ event }) => event.type),
        ['lease.issued', 'lease.renewed'],
      )
    },
  },
  {
    name: 'a reader misses nothing when renewals go that a later one has superseded',
    async run(stage) {
      const start = await stage.store.end()
      const lease = await stage.grant({ ttlMs: 100 * AGE_MS })
      for (let n = 0; n < 3; n += 1) {
        stage.clock.pass(1)
        await stage.renew(lease)
      }
      stage.clock.pass(2 * AGE_MS)
      assert.equal((await prune(stage)).events, 2)
      assert.deepEqual(await after(stage, start), ['lease.issued', 'lease.renewed'])
    },
  },
  {
    name: 'an id that was pruned is free for a new lease',
    async run(stage) {
      const lease = await stage.grant()
      await stage.release(lease)
      stage.clock.pass(2 * AGE_MS)
      await prune(stage)
      const again = await stage.grant({ leaseId: lease.id })
      assert(again.fence > lease.fence)
      assert.equal((await stage.look({ resource: WORK })).entries.size, 1)
    },
  },
]

/** The types of what comes after a position, for a reader that misses none. */
async function after(stage: Stage, position: Position): Promise<readonly string[]> {
  const entries = await stage.store.history({ after: position, unbroken: true, limit: 10 })
  return entries.map(({ event }) => event.type)
}

async function prune(stage: Stage, batch = 100): Promise<Pruned> {
  const { wallMs } = await stage.now()
  return stage.store.prune({ endedBeforeMs: wallMs - AGE_MS, nowMs: wallMs, batch })
}
