/** Reading the ledger: in order of commit, from any position, by every field there is. */
import assert from 'node:assert/strict'
import { rootWith } from '../../core/delegation.ts'
import { LEASE_EVENT_TYPES } from '../../core/event.ts'
import { parseResource } from '../../core/resource.ts'
import { NO_SCOPE } from '../../core/scope.ts'
import type { HistoryQuery } from '../../store-port/store.ts'
import type { Behaviour } from './harness.ts'
import { OTHER, refusesWith, TTL_MS, WORK, type Stage } from './stage.ts'

const DELAYED = parseResource('work:W-delayed')
const DERIVED = parseResource('work:W-derived')
const AUTHORITY = { scope: { ...NO_SCOPE, tools: ['edit'] }, limits: { tokens: 7 } }

export const historyBehaviours: readonly Behaviour[] = [
  {
    name: 'events are told in order of commit, oldest first, or newest first if asked',
    async run(stage) {
      await handover(stage)
      const order = ['issued', 'queued', 'renewed', 'released', 'offered', 'issued']
      assert.deepEqual(await told(stage, {}), order)
      assert.deepEqual(await told(stage, { newestFirst: true }), order.toReversed())
    },
  },
  {
    name: 'an event comes back exactly as it was written',
    async run(stage) {
      const seen = await stage.see(stage.acquire({ reason: 'wörds', metadata: { 'k"': 1 } }))
      assert(seen.outcome.kind === 'granted')
      const { lease } = seen.outcome
      assert.deepEqual(await stage.events(), [
        {
          ...{ type: 'lease.issued', leaseId: lease.id, resource: WORK, holder: 'ada' },
          ...{ session: 'session-of-ada', atMs: seen.now.wallMs, before: null, after: 'active' },
          ...{ renewals: 0, reason: 'wörds', requestId: null, lease },
        },
      ])
    },
  },
  {
    name: 'a lease made while no history was kept stays out of the ledger when it is kept again',
    async run(stage) {
      await stage.configure('keep_history', 'false')
      const lease = await stage.grant()
      await stage.configure('keep_history', 'true')
      await stage.renew(lease, stage.id())
      await stage.release(lease, stage.id())
      assert.deepEqual(await told(stage, {}), [])
      assert.equal(await stage.kept(lease.id), undefined)
      await stage.grant({ holder: 'bob' })
      assert.deepEqual(await told(stage, {}), ['issued'])
    },
  },
  {
    name: 'a lease that was recorded from its beginning is so to its end, whatever is configured meanwhile',
    async run(stage) {
      const lease = await stage.grant()
      await stage.configure('keep_history', 'false')
      stage.clock.pass(1)
      await stage.renew(lease, stage.id())
      await stage.configure('keep_history', 'true')
      assert.deepEqual(await told(stage, {}), ['issued', 'renewed'])
      await stage.configure('keep_history', 'false')
      await stage.release(lease, stage.id())
      assert.deepEqual(await told(stage, {}), [])
    },
  },
  {
    name: 'every type of event survives being written and read',
    async run(stage) {
      const written = stage.recordEvents()
      await everyType(stage)
      const events = await stage.events()
      const types = new Set<string>(events.map((event) => event.type))
      assert.deepEqual([...types].toSorted(), EVERY_RECORDED_TYPE)
      assert.deepEqual(events, written)
    },
  },
  {
    name: 'a scope and a budget that were asked for are kept with the ticket, and go with its lease',
    async run(stage) {
      const written = stage.recordEvents()
      const held = await stage.grant()
      const queued = await stage.queue({ holder: 'bob', authority: AUTHORITY })
      const { leaseId } = queued
      const [ticket] = (await stage.entries()).filter(({ id }) => id === leaseId)
      assert.deepEqual(ticket?.delegation, rootWith(AUTHORITY))
      await stage.release(held)
      await stage.claim(queued)
      assert.deepEqual((await stage.kept(leaseId))?.delegation, rootWith(AUTHORITY))
      assert.deepEqual(await stage.events(), written)
    },
  },
  {
    name: 'by lease',
    async run(stage) {
      const lease = await stage.grant()
      await stage.grant({ resource: OTHER })
      await stage.release(lease)
      assert.deepEqual(await told(stage, { leaseId: lease.id }), ['issued', 'released'])
    },
  },
  {
    name: 'by resource',
    async run(stage) {
      await stage.grant()
      await stage.grant({ resource: OTHER })
      assert.deepEqual(await told(stage, { resource: OTHER }), ['issued'])
    },
  },
  {
    name: 'by the kinds of resources',
    async run(stage) {
      await stage.grant({ resource: parseResource('work:a') })
      await stage.grant({ resource: parseResource('workflow:work:b') })
      await stage.grant({ resource: parseResource('file:/work:c') })
      const resources = async (...kinds: readonly string[]): Promise<readonly string[]> => {
        const entries = await stage.store.history({ kinds, limit: 100 })
        return entries.map(({ event }) => event.resource)
      }
      assert.deepEqual(await resources('work'), ['work:a'])
      assert.deepEqual(await resources('file'), ['file:/work:c'])
      assert.deepEqual(await resources('file', 'workflow'), ['workflow:work:b', 'file:/work:c'])
      assert.deepEqual(await resources(), [])
    },
  },
  {
    name: 'by holder',
    async run(stage) {
      await stage.grant({ holder: 'ada' })
      await stage.queue({ holder: 'bob' })
      assert.deepEqual(await told(stage, { holder: 'bob' }), ['queued'])
    },
  },
  {
    name: 'by type, also where two types share a word',
    async run(stage) {
      await stage.grant()
      await stage.refuseInLedger({ holder: 'bob' })
      await stage.revoke(await stage.queue({ holder: 'cyd' }))
      assert.deepEqual(await told(stage, { types: ['lease.denied'] }), ['denied'])
      assert.deepEqual(await told(stage, { types: ['lease.failed'] }), ['failed'])
      const both = ['lease.failed', 'lease.issued'] as const
      assert.deepEqual(await told(stage, { types: both }), ['issued', 'failed'])
      assert.deepEqual(await told(stage, { types: [] }), [])
    },
  },
  {
    name: 'by time, both ends included',
    async run(stage) {
      const lease = await stage.grant()
      const start = (await stage.now()).wallMs
      stage.clock.pass(100)
      await stage.renew(lease)
      stage.clock.pass(100)
      await stage.release(lease)
      assert.deepEqual(await told(stage, { fromMs: start + 100 }), ['renewed', 'released'])
      assert.deepEqual(await told(stage, { toMs: start + 100 }), ['issued', 'renewed'])
      assert.deepEqual(await told(stage, { fromMs: start + 1, toMs: start + 199 }), ['renewed'])
    },
  },
  {
    name: 'in pages: each after the position of the last, nothing lost and nothing twice',
    async run(stage) {
      await handover(stage)
      for (const newestFirst of [false, true]) {
        const whole = await stage.store.history({ newestFirst, limit: 100 })
        const pages = await inPages(stage, newestFirst)
        assert.deepEqual(pages, whole)
      }
    },
  },
  {
    name: 'the end is the position after the last event',
    async run(stage) {
      const empty = await stage.store.end()
      const lease = await stage.grant()
      const end = await stage.store.end()
      assert.deepEqual(await told(stage, { after: empty }), ['issued'])
      assert.deepEqual(await told(stage, { after: end }), [])
      await stage.release(lease)
      assert.deepEqual(await told(stage, { after: end }), ['released'])
    },
  },
  {
    name: 'an unknown position is refused',
    async run(stage) {
      await refusesWith('INVALID_INPUT', () => {
        return stage.store.history({ after: 'not a position', limit: 1 })
      })
    },
  },
  {
    name: 'a position that the ledger has not reached is refused: nothing would ever come after it',
    async run(stage) {
      await stage.grant()
      const end = await stage.store.end()
      const beyond = end.replaceAll(/\d+/g, (digits) => String(Number(digits) + 1e12))
      await refusesWith('INVALID_INPUT', () => stage.store.history({ after: beyond, limit: 1 }))
      assert.deepEqual(await told(stage, { after: end }), [])
    },
  },
]

const EVERY_RECORDED_TYPE: readonly string[] = LEASE_EVENT_TYPES.filter((type) => {
  return type !== 'lease.waiting'
}).toSorted()

/** Ada holds and renews, Bob waits, Ada releases, Bob claims. */
async function handover(stage: Stage): Promise<void> {
  const lease = await stage.grant()
  const ticket = await stage.queue({ holder: 'bob' })
  await stage.renew(lease)
  await stage.release(lease)
  const outcome = await stage.claim(ticket)
  assert.equal(outcome.kind, 'granted')
}

/** Lets everything happen that the ledger can tell of. */
export async function everyType(stage: Stage): Promise<void> {
  await handover(stage)
  await stage.refuseInLedger({ holder: 'refused' })
  await stage.revoke(await stage.queue({ holder: 'cyd' }))
  await stage.revoke(await stage.grant({ resource: OTHER }))
  await stage.grant({ resource: DELAYED, lockDelayMs: 60_000 })
  stage.clock.pass(TTL_MS + 1)
  await stage.run(stage.acquire({ resource: DELAYED, holder: 'delayed' }))
  stage.clock.pass(61_000)
  const last = await stage.grant({ resource: DELAYED, holder: 'last' })
  await stage.release(last)
  await everyChangeOfAHolder(stage)
  await deadlock(stage)
  await stage.advance(await stage.grant({ resource: parseResource('workflow:w') }), 0)
  await family(stage)
}

/** Ada derives a lease for Bob, who spends some of its budget, and takes it away with her own. */
async function family(stage: Stage): Promise<void> {
  const ada = await stage.grant({ resource: DERIVED })
  const place = { resource: DERIVED, extent: 'exact' } as const
  const bob = { ...place, leaseId: stage.id(), holder: 'bob' }
  const request = { mode: 'shared', ttlMs: 1_000, reason: null, budget: { tokens: 5 } } as const
  const scope = { unlimited: false, workIds: ['W-1'], tools: ['edit'], namespaces: ['src'] }
  const from = { parentId: ada.id, by: ada.holder, session: 'session-of-bob' }
  const derived = await stage.run({ kind: 'derive', ...bob, ...from, ...request, scope })
  assert.equal(derived.kind, 'granted')
  const spending = { amounts: { tokens: 2 }, requestId: stage.id() }
  assert.equal((await stage.run({ kind: 'spend', ...bob, ...spending })).kind, 'spent')
  const grandchild = { ...bob, leaseId: stage.id(), holder: 'cyd', budget: { tokens: 1 } }
  const line = { parentId: bob.leaseId, by: 'bob', session: 'session-of-cyd' }
  const next = { ...request, ...grandchild, ...line, ttlMs: 500, scope }
  assert.equal((await stage.run({ kind: 'derive', ...next })).kind, 'granted')
  await stage.release(ada)
}

/** Ada and Bob share; Ada is upgraded, downgrades, gives it to Eve, who is asked to finish and gives it to Fay. */
async function everyChangeOfAHolder(stage: Stage): Promise<void> {
  const ada = await stage.grant({ mode: 'shared' })
  const bob = await stage.grant({ holder: 'bob', mode: 'shared' })
  const place = { resource: ada.resource, extent: ada.extent, holder: 'ada' }
  const upgrade = { kind: 'upgrade', leaseId: ada.id, ...place, mayWait: true } as const
  assert.equal((await stage.run(upgrade)).kind, 'upgrading')
  await stage.release(bob)
  const requestId = stage.id()
  assert.equal(
    (await stage.run({ kind: 'downgrade', leaseId: ada.id, ...place, requestId })).kind,
    'downgraded',
  )
  const note = { reason: 'half way "é"', metadata: { done: 5, of: 'ten', isLast: false } }
  const words = { kind: 'update', leaseId: ada.id, ...place, requestId: stage.id() } as const
  assert.equal((await stage.run({ ...words, note })).kind, 'updated')
  const none = { reason: null, metadata: null }
  assert.equal((await stage.run({ ...words, requestId: null, note: none })).kind, 'updated')
  const at = { leaseId: ada.id, resource: ada.resource, extent: ada.extent }
  const write = { by: 'mallory "é"', target: ada.resource, reason: 'sed -i', requestId: stage.id() }
  assert.equal((await stage.run({ kind: 'trespass', ...at, ...write })).kind, 'trespassed')
  const newLeaseId = stage.id()
  const transfer = { to: 'eve', newLeaseId, requestId: stage.id() }
  assert.equal(
    (await stage.run({ kind: 'transfer', leaseId: ada.id, ...place, ...transfer })).kind,
    'transferred',
  )
  const eves = { leaseId: newLeaseId, ...place, holder: 'eve' }
  assert.equal(
    (await stage.run({ kind: 'adopt', ...eves, session: 'session-of-eve' })).kind,
    'granted',
  )
  const operator = { by: 'operator', reason: 'deploy', graceMs: 1_000, requestId: stage.id() }
  assert.equal((await stage.run({ kind: 'revoke', ...eves, ...operator })).kind, 'revoked')
  const onward = { to: 'fay', newLeaseId: stage.id(), requestId: null }
  assert.equal((await stage.run({ kind: 'transfer', ...eves, ...onward })).kind, 'transferred')
}

async function deadlock(stage: Stage): Promise<void> {
  const { leaseId, resource, extent } = await stage.queue({ holder: 'cyd' })
  const cycle = [
    { holder: 'cyd', session: 'session-of-cyd', resource: 'work:W-1' },
    { holder: 'eve "é"', session: 'session-of-eve', resource: 'work:W-2' },
  ]
  const [ticket] = (await stage.store.find({ ids: [leaseId], limit: 1 })).entries
  assert.ok(ticket?.kind === 'ticket', 'the ticket is found by its id')
  const { orderUs } = ticket
  await stage.run({ kind: 'refuse_deadlock', leaseId, resource, extent, orderUs, cycle })
}

async function inPages(stage: Stage, newestFirst: boolean): Promise<readonly unknown[]> {
  const all: unknown[] = []
  let query: HistoryQuery = { newestFirst, limit: 2 }
  for (;;) {
    const page = await stage.store.history(query)
    const last = page.at(-1)
    assert(page.length <= query.limit)
    if (last === undefined) return all
    all.push(...page)
    query = { ...query, after: last.position }
  }
}

async function told(stage: Stage, query: Omit<HistoryQuery, 'limit'>): Promise<readonly string[]> {
  const ledger = await stage.store.history({ ...query, limit: 100 })
  return ledger.map(({ event }) => event.type.replace('lease.', ''))
}
