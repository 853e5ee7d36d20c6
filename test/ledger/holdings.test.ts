import { describe, expect, it } from 'vitest'
import type { LeaseEvent } from '../../src/core/event.ts'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import { holdingsIn } from '../../src/ledger/holdings.ts'
import { replayLedger } from '../../src/ledger/replay-ledger.ts'
import { acquire, claim, id, release, WAITING, WALL_MS } from '../core/builders.ts'
import { TinyRealm } from '../core/tiny-realm.ts'
import { fc } from '../fast-check.ts'
import { codeOf, Family, ROOT_TTL_MS } from '../delegation/family.ts'
import { wholeHistory } from './ledger-world.ts'

async function eventsOf(family: Family): Promise<readonly LeaseEvent[]> {
  return (await wholeHistory(family.store)).map(({ event }) => event)
}

describe('what somebody held between two instants', () => {
  it('is every lease that was held at some moment of them, with its own beginning and end', async () => {
    const family = new Family()
    const begin = family.ticks.wallMs()
    const released = await family.root('work:a')
    family.ticks.pass(1_000)
    await family.release(released)
    family.ticks.pass(1_000)
    const expired = await family.root('work:a')
    const held = await family.root('work:b')
    const child = await family.derive(held, { holder: 'ann', ttlMs: 5_000 })
    const events = await eventsOf(family)
    const nowMs = begin + 2_000 + ROOT_TTL_MS - 1
    const ask = (fromMs: number, toMs: number, holder = 'boss') => {
      const query = { fromMs: begin + fromMs, toMs: begin + toMs, nowMs, holder }
      return holdingsIn(events, query).map(({ leaseId }) => leaseId)
    }
    expect(ask(0, 10)).toEqual([released.id])
    expect(ask(500, 600)).toEqual([released.id])
    expect(ask(1_000, 1_999)).toEqual([])
    expect(ask(999, 2_000)).toEqual([released.id, expired.id, held.id])
    expect(ask(0, 9_000, 'ann')).toEqual([child.id])
    expect(ask(7_000, 9_000, 'ann')).toEqual([])
    expect(ask(0, 9_000, 'eve')).toEqual([])
    const query = { fromMs: begin, toMs: nowMs + 9, nowMs: nowMs + 9, resource: 'work:a' }
    expect(holdingsIn(events, query)).toMatchObject([
      { end: 'released', toMs: begin + 1_000, releaseReason: 'voluntary' },
      { end: 'expired', toMs: begin + 2_000 + ROOT_TTL_MS },
    ])
  })
})

describe('what was held', () => {
  it('is told in the order in which it was granted, and not asked for', () => {
    const realm = new TinyRealm()
    realm.run(acquire({ leaseId: id(1) }))
    realm.run(acquire({ leaseId: id(2), holder: 'bob', ...WAITING }))
    realm.pass(10)
    realm.run(acquire({ leaseId: id(3), resource: parseResource('work:W-2') }))
    realm.pass(10)
    realm.run(release({ holder: 'cyd', session: 'session-of-cyd' }))
    realm.run(claim())
    const nowMs = WALL_MS + 100
    const told = holdingsIn(realm.ledger, { fromMs: WALL_MS, toMs: nowMs, nowMs })
    expect(told.map(({ leaseId }) => leaseId)).toEqual([id(1), id(3), id(2)])
  })
})

describe('where renewals are not recorded', () => {
  /** A lease of a minute that is renewed for three, of which the ledger tells nothing. */
  async function unrecorded() {
    const family = new Family()
    const setting = { key: 'record_renewals', value: 'false', resourceId: null } as const
    await family.store.configure({ ...setting, scope: 'global' })
    const begin = family.ticks.wallMs()
    const lease = await family.root('work:a')
    for (let round = 0; round < 6; round += 1) {
      family.ticks.pass(ROOT_TTL_MS / 2)
      await family.api.renew({ id: lease.id, holder: lease.holder })
    }
    return { family, lease, begin, lateMs: begin + 2 * ROOT_TTL_MS }
  }

  it.each(['released', 'expired', 'revoked'])(
    'a lease that was %s was held until then',
    async (end) => {
      const { family, lease, lateMs } = await unrecorded()
      if (end === 'released') await family.release(lease)
      if (end === 'revoked') await family.api.revoke({ id: lease.id, by: 'root' })
      if (end === 'expired') family.ticks.pass(2 * ROOT_TTL_MS)
      if (end === 'expired') await family.root('work:a')
      const events = await eventsOf(family)
      expect(events.some(({ type }) => type === 'lease.renewed')).toBe(false)
      const [told] = replayLedger(events, { atMs: lateMs })
      expect(told).toMatchObject({ id: lease.id, state: 'active' })
      const query = { fromMs: lateMs, toMs: lateMs, nowMs: family.ticks.wallMs() }
      expect(holdingsIn(events, query)).toMatchObject([{ leaseId: lease.id, end }])
      const nowMs = family.ticks.wallMs()
      const after = replayLedger(events, { atMs: nowMs }).find(({ id }) => id === lease.id)
      expect(after?.state).toBe(end)
    },
  )

  it('a lease that is held is, by the word of the store that keeps it', async () => {
    const { family, lease, lateMs } = await unrecorded()
    const events = await eventsOf(family)
    const kept = new Map([[lease.id, await family.see(lease)]])
    for (const atMs of [lateMs, family.ticks.wallMs()]) {
      expect(replayLedger(events, { atMs, kept })).toMatchObject([
        { id: lease.id, state: 'active' },
      ])
      const query = { fromMs: atMs, toMs: atMs, nowMs: family.ticks.wallMs(), kept }
      expect(holdingsIn(events, query)).toMatchObject([{ end: 'active', toMs: null }])
    }
    const [told] = replayLedger(events, { atMs: family.ticks.wallMs(), kept })
    expect(told?.deadline).toEqual((await family.see(lease)).deadline)
    const nowMs = family.ticks.wallMs() + ROOT_TTL_MS
    expect(replayLedger(events, { atMs: nowMs, kept })).toMatchObject([{ state: 'expired' }])
  })

  it('a lease that was given notice was held until that was over, however late it was seen', async () => {
    const { family, lease, lateMs } = await unrecorded()
    await family.api.revoke({ id: lease.id, by: 'root', graceMs: 1_000 })
    const endMs = family.ticks.wallMs() + 1_000
    family.ticks.pass(ROOT_TTL_MS)
    await family.root('work:a')
    const events = await eventsOf(family)
    for (const [atMs, state] of [
      [lateMs, 'active'],
      [endMs - 1, 'active'],
      [endMs, 'revoked'],
      [endMs + 1_000, 'revoked'],
    ] as const) {
      expect(replayLedger(events, { atMs })).toMatchObject([{ id: lease.id, state }])
    }
  })
})

describe('a file in a directory that somebody held', () => {
  it('was held with it, and not by whoever held its neighbour', async () => {
    const family = new Family()
    const repo = await family.root('file:/repo', 'subtree')
    const other = await family.root('file:/repo_backup', 'subtree')
    const [nowMs, events] = [family.ticks.wallMs(), await eventsOf(family)]
    const ask = (resource: string) => {
      const query = { fromMs: nowMs, toMs: nowMs, nowMs, resource }
      return holdingsIn(events, query).map(({ leaseId }) => leaseId)
    }
    expect(ask('file:/repo/src/app.ts')).toEqual([repo.id])
    expect(ask('file:/repo')).toEqual([repo.id])
    expect(ask('file:/repo_backup/x')).toEqual([other.id])
    expect(ask('file:/')).toEqual([])
  })
})

describe('for every history', () => {
  const acts = fc.array(fc.tuple(fc.nat(3), fc.nat(2), fc.integer({ min: 1, max: 40_000 })), {
    maxLength: 30,
  })

  it('what is held at an instant is what a replay of that instant shows', async () => {
    await fc.assert(
      fc.asyncProperty(acts, fc.nat(300_000), async (script, at) => {
        const family = new Family()
        const begin = family.ticks.wallMs()
        const leases = new Map<string, LeaseInfo>()
        for (const [what, which, spanMs] of script) {
          family.ticks.pass(spanMs)
          const resource = `work:${which}`
          const lease = leases.get(resource)
          if (what < 2 || lease === undefined) {
            await family.root(resource).then(
              (root) => leases.set(resource, root),
              () => undefined,
            )
          } else if (what === 2) await codeOf(family.release(lease))
          else await family.api.renew({ id: lease.id, holder: lease.holder })
        }
        const events = await eventsOf(family)
        const [atMs, nowMs] = [Math.min(begin + at, family.ticks.wallMs()), family.ticks.wallMs()]
        const replayed = replayLedger(events, { atMs }).filter(({ state }) => state === 'active')
        const held = holdingsIn(events, { fromMs: atMs, toMs: atMs, nowMs })
        expect(held.map(({ leaseId }) => leaseId).toSorted()).toEqual(
          replayed.map(({ id }) => id).toSorted(),
        )
      }),
      { numRuns: 150 },
    )
  })
})
