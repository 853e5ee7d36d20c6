/** Decisions and commits: one after the other, whole or not at all. */
import assert from 'node:assert/strict'
import { NOTHING, type Commit } from '../../core/commit.ts'
import { readSetOf } from '../../core/decide.ts'
import { parseResource } from '../../core/resource.ts'
import type { Behaviour } from './harness.ts'
import { OTHER, ruling, WINDOW_MS, WORK } from './stage.ts'

export const transactBehaviours: readonly Behaviour[] = [
  {
    name: 'a commit is there for the next decision',
    async run(stage) {
      const lease = await stage.grant()
      const view = await stage.look({ resource: WORK })
      assert.deepEqual([...view.entries.values()], [lease])
    },
  },
  {
    name: 'an entry comes back exactly as it was put, whatever is in it',
    async run(stage) {
      const lease = await stage.grant({
        ...{ holder: `O'Brien "👩‍🚀" \\ %_*`, session: 'séance', reason: 'because; DROP TABLE' },
        metadata: { text: '"\\', ratio: -0.25, huge: 1e21, yes: true, no: false, '': 'empty' },
        ...{ maxRenewals: 0, maxHoldMs: 31_536_000_000, ttlMs: 2_592_000_000 },
        ...{ mode: 'shared', slots: 10_000, lockDelayMs: 2_592_000_000, breakable: true },
      })
      assert.deepEqual(await stage.kept(lease.id), lease)
      const [event] = await stage.events()
      assert(event?.type === 'lease.issued')
      assert.deepEqual(event.lease, lease)
    },
  },
  {
    name: 'a ticket comes back exactly as it was put',
    async run(stage) {
      await stage.grant()
      const { leaseId } = await stage.queue({ holder: 'bob', metadata: { a: 1 } })
      const [, event] = await stage.events()
      assert(event?.type === 'lease.queued')
      assert.deepEqual(await stage.kept(leaseId), event.ticket)
    },
  },
  {
    name: 'an id that was refused and asks again with other options is kept with the new one',
    async run(stage) {
      const held = await stage.grant()
      const refused = stage.acquire({ holder: 'bob', reason: 'first', metadata: { try: 1 } })
      assert.equal((await stage.run(refused)).kind, 'held')
      stage.clock.pass(7)
      const request = { reason: 'second', metadata: { try: 2 }, maxRenewals: 3, maxHoldMs: 9_000 }
      const wait = { kind: 'up_to', waitMs: 1_000 } as const
      const again = { ...refused, ...request, wait, ttlMs: 4_000, session: 'another' }
      assert.equal((await stage.run(again)).kind, 'queued')
      const queued = (await stage.events()).at(-1)
      assert(queued?.type === 'lease.queued')
      assert.deepEqual(await stage.kept(refused.leaseId), queued.ticket)
      await stage.revoke(again)
      await stage.release(held)
      stage.clock.pass(7)
      const lease = await stage.grant({ ...refused, ...request, maxRenewals: 5 })
      assert.deepEqual(await stage.kept(refused.leaseId), lease)
    },
  },
  {
    name: 'a ticket that is dropped and filed again in one commit is kept with its new options',
    async run(stage) {
      await stage.grant({ ttlMs: 10 * WINDOW_MS })
      const first = await stage.queue({ holder: 'bob', reason: 'first', maxRenewals: 1 })
      stage.clock.pass(WINDOW_MS + 1)
      await stage.queue({ ...first, reason: 'second', maxRenewals: 2, session: 'another' })
      const [dropped, queued] = (await stage.events()).slice(-2)
      assert.equal(dropped?.type, 'lease.failed')
      assert(queued?.type === 'lease.queued')
      assert.deepEqual(await stage.kept(first.leaseId), queued.ticket)
    },
  },
  {
    name: 'of twenty that ask at once for one resource, one is granted and nineteen are refused',
    async run(stage) {
      const asked = Array.from({ length: 20 }, (_, n) => {
        return stage.run(stage.acquire({ holder: `h${n}` }))
      })
      const outcomes = (await Promise.all(asked)).map((outcome) => outcome.kind)
      assert.equal(outcomes.filter((kind) => kind === 'granted').length, 1)
      assert.equal(outcomes.filter((kind) => kind === 'held').length, 19)
      assert.equal((await stage.events()).length, 1)
    },
  },
  {
    name: 'of twenty that ask at once for as many files, all are granted, each with its own fence',
    async run(stage) {
      const asked = Array.from({ length: 20 }, (_, n) => {
        return stage.grant({ resource: parseResource(`file:/${n}`) })
      })
      const fences = (await Promise.all(asked)).map((lease) => lease.fence)
      assert.equal(new Set(fences).size, 20)
    },
  },
  {
    name: 'the ledger shows decisions in the order in which they were made',
    async run(stage) {
      const order: string[] = []
      const asked = Array.from({ length: 10 }, async () => {
        const command = stage.acquire({ holder: 'h', wait: { kind: 'up_to', waitMs: 60_000 } })
        await stage.store.transact([readSetOf(command)], (views, now) => {
          order.push(command.leaseId)
          return ruling(command)(views, now)
        })
      })
      await Promise.all(asked)
      const told = (await stage.events()).map((event) => event.leaseId)
      assert.deepEqual(
        told,
        order.filter((id, at) => order.lastIndexOf(id) === at),
      )
    },
  },
  {
    name: 'a decision that is made twice is committed once',
    async run(stage) {
      const command = stage.acquire()
      await stage.store.transact([readSetOf(command)], (views, now) => {
        ruling(command)(views, now)
        return ruling(command)(views, now)
      })
      assert.equal((await stage.events()).length, 1)
      assert.equal((await stage.entries()).length, 1)
    },
  },
  {
    name: 'a decision that throws rejects its own call and leaves nothing',
    async run(stage) {
      const command = stage.acquire()
      const broken = stage.store.transact([readSetOf(command)], () => {
        throw new Error('on purpose')
      })
      await assert.rejects(broken, /on purpose/)
      assert.deepEqual(await stage.events(), [])
      assert.deepEqual(await stage.entries(), [])
    },
  },
  {
    name: 'a decision that throws harms none of those that were made beside it',
    async run(stage) {
      const before = stage.grant({ resource: parseResource('work:before') })
      const broken = stage.store.transact([readSetOf(stage.acquire())], () => {
        throw new Error('on purpose')
      })
      const after = stage.grant({ resource: parseResource('work:after') })
      const ends = await Promise.allSettled([before, broken, after])
      assert.deepEqual(
        ends.map((end) => end.status),
        ['fulfilled', 'rejected', 'fulfilled'],
      )
      assert.equal((await stage.events()).length, 2)
    },
  },
  {
    name: 'a decision without effect leaves no trace',
    async run(stage) {
      const lease = await stage.grant()
      const end = await stage.store.end()
      await stage.look({ resource: WORK })
      assert.equal(await stage.store.end(), end)
      assert.deepEqual(await stage.entries(), [lease])
    },
  },
  {
    name: 'several read sets are shown in the order in which they were asked for',
    async run(stage) {
      const [one, other] = [await stage.grant(), await stage.grant({ resource: OTHER })]
      const commands = [stage.acquire({ resource: OTHER }), stage.acquire()]
      const seen = await stage.store.transact(commands.map(readSetOf), (views) => {
        const ids = views.map((view) => [...view.entries.keys()])
        return { outcome: ids, commit: merged([]), validUntilUs: null }
      })
      assert.deepEqual(seen, [[other.id], [one.id]])
    },
  },
  {
    name: 'what is decided over several realms is committed as one',
    async run(stage) {
      const commands = [stage.acquire(), stage.acquire({ resource: OTHER })]
      await stage.store.transact(commands.map(readSetOf), (views, now) => {
        const rulings = commands.map((command, at) => ruling(command)(views.slice(at, at + 1), now))
        const commit = merged(rulings.map((one) => one.commit))
        return { outcome: null, commit, validUntilUs: null }
      })
      const ids = (await stage.entries()).map((entry) => entry.id)
      assert.deepEqual(
        ids,
        commands.map((command) => command.leaseId),
      )
      assert.equal((await stage.events()).length, 2)
    },
  },
  {
    name: 'an entry that a commit removes is gone, and so is what the ledger told of it',
    async run(stage) {
      const [lease, other] = [await stage.grant(), await stage.grant({ resource: OTHER })]
      await stage.configure('keep_history', 'false')
      await stage.release(lease)
      assert.equal(await stage.kept(lease.id), undefined)
      assert.deepEqual(
        (await stage.events()).map((event) => event.leaseId),
        [other.id],
      )
    },
  },
]

function merged(commits: readonly Commit[]): Commit {
  if (commits.length === 0) return NOTHING
  return {
    changes: commits.flatMap((commit) => commit.changes),
    events: commits.flatMap((commit) => commit.events),
    requests: commits.flatMap((commit) => commit.requests),
    epochs: commits.flatMap((commit) => commit.epochs),
    wakes: commits.flatMap((commit) => commit.wakes),
    firstFence: Math.min(...commits.map((commit) => commit.firstFence)),
    lastFence: Math.max(...commits.map((commit) => commit.lastFence)),
  }
}
