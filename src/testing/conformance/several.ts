/** Leases that are shared, upgraded and given away, and requests for several at once, as a store keeps them. */
import assert from 'node:assert/strict'
import type { Acquire, AcquireAll } from '../../core/command.ts'
import { parseResource } from '../../core/resource.ts'
import type { Behaviour } from './harness.ts'
import { OTHER, placeOf, WORK, type Stage } from './stage.ts'

const FILE = parseResource('file:/src/a.ts')

export const severalBehaviours: readonly Behaviour[] = [
  {
    name: 'a place in the queue is kept with its priority, its group and what it asks for',
    async run(stage) {
      await stage.grant({ resource: FILE })
      const request = {
        holder: 'bob',
        mode: 'shared',
        slots: 3,
        priority: -100,
        breakable: true,
      } as const
      const several = severalOf(stage, { ...request, lockDelayMs: 7 })
      assert.equal((await stage.runSeveral(several)).kind, 'queued_all')
      const queued = (await stage.events()).filter((event) => event.type === 'lease.queued')
      assert.equal(queued.length, 2)
      for (const { leaseId, ticket } of queued) {
        assert.equal(ticket.group, several.group)
        assert.deepEqual(await stage.kept(leaseId), ticket)
      }
    },
  },
  {
    name: 'a lease that is upgraded, given away and asked to finish is kept as each event left it',
    async run(stage) {
      const lease = await stage.grant({ mode: 'shared', slots: 2, lockDelayMs: 50 })
      const reader = await stage.grant({ holder: 'bob', mode: 'shared', slots: 2 })
      const place = placeOf(lease)
      await stage.run({ kind: 'upgrade', ...place, mayWait: true })
      const upgrading = (await stage.events()).at(-1)
      const waits = { ...lease, upgrading: true, changedAtMs: upgrading?.atMs }
      assert.deepEqual(await stage.kept(lease.id), waits)
      await stage.release(reader)
      const upgraded = (await stage.events()).at(-1)
      assert(upgraded?.type === 'lease.upgraded' && upgraded.fence > reader.fence)
      const { fence, atMs: changedAtMs } = upgraded
      const alone = { ...lease, mode: 'exclusive', fence, changedAtMs }
      assert.deepEqual(await stage.kept(lease.id), alone)
      const newLeaseId = stage.id()
      const transfer = { to: 'eve', newLeaseId, requestId: null }
      await stage.run({ kind: 'transfer', ...place, ...transfer })
      const given = await stage.kept(newLeaseId)
      assert(given?.kind === 'lease' && !given.adopted && given.session === 'eve')
      const eves = { ...place, leaseId: newLeaseId, holder: 'eve' }
      await stage.run({ kind: 'adopt', ...eves, session: 'another session' })
      const operator = { by: 'op', reason: 'why', graceMs: 40, requestId: null }
      const { now } = await stage.see({ kind: 'revoke', ...eves, ...operator })
      const kept = await stage.kept(newLeaseId)
      assert(kept?.kind === 'lease' && kept.adopted && kept.session === 'another session')
      assert.deepEqual(kept.revoking, { by: 'op', reason: 'why' })
      assert.equal(kept.deadline.us, now.tick.us + 40_000)
      assert.deepEqual((await stage.look({ resource: WORK })).entries.get(newLeaseId), kept)
    },
  },
  {
    name: 'a lease that is upgraded and downgraded has its slots back, for the next requests',
    async run(stage) {
      const lease = await stage.grant({ mode: 'shared', slots: 2 })
      await stage.run({ kind: 'upgrade', ...placeOf(lease), mayWait: false })
      await stage.run({ kind: 'downgrade', ...placeOf(lease), requestId: null })
      const [upgraded, downgraded] = (await stage.events()).slice(-2)
      assert(upgraded?.type === 'lease.upgraded' && downgraded?.type === 'lease.downgraded')
      const shared = { ...lease, fence: upgraded.fence, changedAtMs: downgraded.atMs }
      assert.deepEqual(await stage.kept(lease.id), shared)
      await stage.grant({ holder: 'bob', mode: 'shared', slots: 2 })
      const request = { holder: 'cyd', mode: 'shared' } as const
      for (const slots of [2, 3, null]) {
        assert.equal((await stage.run(stage.acquire({ ...request, slots }))).kind, 'held')
      }
    },
  },
  {
    name: 'several of one tree that are seen through the same directory are committed as one',
    async run(stage) {
      const above = await stage.grant({
        resource: parseResource('file:/'),
        mode: 'shared',
        extent: 'subtree',
      })
      const command = severalOf(stage, { mode: 'shared', holder: 'bob' })
      const outcome = await stage.runSeveral(command)
      assert(outcome.kind === 'granted_all')
      const ids = (await stage.entries()).map((entry) => entry.id)
      assert.deepEqual(ids, [above.id, ...outcome.leases.map((lease) => lease.id)])
      for (const lease of outcome.leases) assert.deepEqual(await stage.kept(lease.id), lease)
    },
  },
  {
    name: 'what runs out above several of one tree ends once',
    async run(stage) {
      const above = await stage.grant({
        resource: parseResource('file:/'),
        extent: 'subtree',
        ttlMs: 10,
      })
      const command = severalOf(stage, { holder: 'bob' })
      stage.clock.pass(10)
      assert.equal((await stage.runSeveral(command)).kind, 'granted_all')
      const ended = (await stage.events()).filter((event) => event.leaseId === above.id)
      assert.deepEqual(
        ended.map((event) => event.type),
        ['lease.issued', 'lease.expired'],
      )
    },
  },
  {
    name: 'several that cannot all be had leave nothing held',
    async run(stage) {
      await stage.grant({ resource: FILE })
      const command = severalOf(stage, { holder: 'bob', wait: { kind: 'none' } })
      assert.equal((await stage.runSeveral(command)).kind, 'held')
      const held = (await stage.entries()).filter((entry) => entry.state === 'active')
      assert.equal(held.length, 1)
    },
  },
  {
    name: 'an id that a transfer would give is seen wherever it is in use',
    async run(stage) {
      const lease = await stage.grant()
      const ended = await stage.grant({ resource: OTHER, holder: 'bob' })
      await stage.release(ended)
      const transfer = { to: 'eve', newLeaseId: ended.id, requestId: null }
      const outcome = await stage.run({ kind: 'transfer', ...placeOf(lease), ...transfer })
      assert.equal(outcome.kind, 'id_taken')
      assert.equal((await stage.kept(ended.id))?.state, 'released')
      assert.deepEqual(await stage.kept(lease.id), lease)
    },
  },
]

/** A file of the tree, a directory of it, and both in one request. */
function severalOf(stage: Stage, request: Partial<Acquire>): AcquireAll {
  const wait = { kind: 'up_to', waitMs: 1_000 } as const
  const places = [
    { resource: FILE, extent: 'exact' },
    { resource: parseResource('file:/lib'), extent: 'subtree' },
  ] as const
  const members = places.map((place) => stage.acquire({ wait, ...place, ...request }))
  return { kind: 'acquire_all', group: stage.id(), members }
}
