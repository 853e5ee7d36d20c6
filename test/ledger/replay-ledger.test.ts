import { describe, expect, it } from 'vitest'
import { describeEntry, type LeaseInfo } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import { replayLedger } from '../../src/ledger/replay-ledger.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { randomFrom } from '../../src/testing/fake-runtime.ts'
import { allEntries } from '../../src/testing/all-entries.ts'
import { FakeRuntime, ManualTicks } from '../../src/testing/fake-runtime.ts'
import { Family, ROOT_TTL_MS } from '../delegation/family.ts'
import { wholeHistory } from './ledger-world.ts'

const RESOURCES = ['work:a', 'work:b', 'file:/c'].map(parseResource)
const HOLDERS = ['ada', 'bob', 'cyd']
const STEPS = 300

interface Snapshot {
  readonly atMs: number
  readonly leases: readonly LeaseInfo[]
}

/** Leases that are asked for, renewed, given back and revoked, and what the tables said after each step. */
async function lived(seed: number) {
  const ticks = new ManualTicks()
  const store = new MemoryStore({ ticks })
  const api = new LeaseService({ store, runtime: new FakeRuntime() })
  const random = randomFrom(seed)
  const pick = <Item>(items: readonly Item[]): Item => {
    const item = items[Math.floor(random() * items.length)]
    if (item === undefined) throw new Error('nothing to pick from')
    return item
  }
  const snapshots: Snapshot[] = []
  for (let step = 0; step < STEPS; step += 1) {
    ticks.pass(1 + Math.floor(random() * 400))
    const [resource, holder] = [pick(RESOURCES), pick(HOLDERS)]
    const leaseId = `00000000-0000-4000-8000-${String(step).padStart(12, '0')}`
    const ttlMs = pick([300, 2_000])
    const live = (await store.find({ states: ['active'], limit: 9 })).entries
    const act = random()
    if (act < 0.5 || live.length === 0) {
      await api.acquire({ id: leaseId, resource, holder, session: holder, ttlMs, waitMs: 0 })
    } else {
      const one = pick(live)
      if (act < 0.7) await api.renew({ id: one.id, holder: one.holder, ttlMs })
      else if (act < 0.9) await api.release({ id: one.id, holder: one.holder })
      else await api.revoke({ id: one.id, by: 'root' })
    }
    const { now } = await store.find({ limit: 1 })
    const leases = (await allEntries(store))
      .filter((entry) => entry.kind === 'lease')
      .map((entry) => describeEntry(entry, now))
    snapshots.push({ atMs: now.wallMs, leases })
  }
  return { snapshots, events: (await wholeHistory(store)).map(({ event }) => event) }
}

describe('the state at a past instant', () => {
  it.each([1, 2, 3])('is what the tables said then (seed %i)', async (seed) => {
    const { snapshots, events } = await lived(seed)
    const random = randomFrom(seed)
    for (let round = 0; round < 60; round += 1) {
      const snapshot = snapshots[Math.floor(random() * snapshots.length)]
      if (snapshot === undefined) throw new Error('no snapshot')
      const replayed = replayLedger(events, { atMs: snapshot.atMs })
      const leases = replayed.filter(({ grantedAtMs }) => grantedAtMs !== null)
      const told = snapshot.leases.toSorted((a, b) => (a.id < b.id ? -1 : 1))
      expect(leases).toEqual(told)
    }
  })

  it('is over after the end of a lease, however late its child was found to have ended', async () => {
    const one = new Family()
    const root = await one.root()
    const wide = await one.derive(root, { budget: { tokens: 9 } })
    await one.derive(wide, { budget: { tokens: 4 } })
    one.ticks.pass(2 * ROOT_TTL_MS)
    const { now } = await one.store.find({ limit: 1 })
    one.ticks.pass(ROOT_TTL_MS)
    await one.release(await one.root())
    const events = (await wholeHistory(one.store)).map(({ event }) => event)
    const states = replayLedger(events, { atMs: now.wallMs }).map(({ state }) => state)
    expect(states).toEqual(['expired', 'expired', 'expired'])
  })

  it('before everything is nothing', async () => {
    const { events } = await lived(4)
    expect(replayLedger(events, { atMs: 0 })).toEqual([])
  })
})
