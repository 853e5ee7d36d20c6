/**
 * Cycles of requests that wait for each other: each is found when it is closed, whatever it goes through, and its youngest
 * ticket is refused; nobody is refused who would have been served in the end.
 */
import { beforeEach, describe, expect, it } from 'vitest'
import type { Entry } from '../../src/core/lease.ts'
import { parseResource, type Extent, type Resource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { EntryQuery, Found } from '../../src/store-port/store.ts'
import type { Fault } from '../../src/runtime/diagnostics.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime, ManualTicks } from '../../src/testing/fake-runtime.ts'
import { FaultyStore } from '../../src/testing/faulty-store.ts'
import { onOwnFault } from '../runtime/hear-faults.ts'
import { compareHistories } from './compared-histories.ts'
import { WaitingWorld } from './waiting-world.ts'

const LENGTHS = Array.from({ length: 15 }, (_, index) => index + 2)
const name = (index: number): string => `s${String(index).padStart(2, '0')}`

let world: WaitingWorld

beforeEach(() => {
  world = new WaitingWorld()
})

async function cycleOf(leaseId: string): Promise<readonly string[]> {
  const entry = await world.entry(leaseId)
  if (entry?.kind !== 'ticket' || entry.failure !== 'deadlock') throw new Error('was not refused')
  return (entry.cycle ?? []).map(({ holder, resource }) => `${holder} → ${resource}`)
}

function askerOf(api: LeaseService, priority = 0) {
  return (holder: string, resource: string, waitMs: number, under: string[]) =>
    api.acquire({
      ...{ id: crypto.randomUUID(), resource: parseResource(resource), holder, under, priority },
      ...{ session: holder, waitMs, claimWindowMs: 60_000, ttlMs: 60_000 },
    })
}

describe('a cycle is broken when it is closed', () => {
  it.each(LENGTHS)('by %i through leases of flat resources', async (length) => {
    await ring(
      length,
      (index) => [`work:${index}`, 'exact'],
      (index) => [`work:${index}`, 'exact'],
    )
  })

  it.each(LENGTHS)('by %i through directories and files in them', async (length) => {
    const held = (index: number): Place => [`file:/t/${index}`, 'subtree']
    await ring(length, held, (index) => [`file:/t/${index}/deep/file`, 'exact'])
  })

  it.each(LENGTHS)('by %i through files and the directories that they are in', async (length) => {
    const held = (index: number): Place => [`file:/t/${index}/deep/file`, 'exact']
    await ring(length, held, (index) => [`file:/t/${index}`, 'subtree'])
  })

  it.each(LENGTHS)('by %i through flat and tree resources in turn', async (length) => {
    const held = (index: number): Place =>
      index % 2 === 0 ? [`work:${index}`, 'exact'] : [`file:/t/${index}`, 'subtree']
    const wanted = (index: number): Place =>
      index % 2 === 0 ? [`work:${index}`, 'exact'] : [`file:/t/${index}/f`, 'exact']
    await ring(length, held, wanted)
  })

  it.each(LENGTHS.slice(1))('by %i through a ticket', async (length) => {
    await world.hold(name(1), 'work:door', { mode: 'shared' })
    await world.wait(name(0), 'work:door')
    for (let index = 2; index < length; index += 1) await world.hold(name(index), `work:${index}`)
    for (let index = 1; index < length - 1; index += 1) {
      const answer = await world.wait(name(index), `work:${index + 1}`)
      expect(answer.kind).toBe('queued')
    }
    const last = await world.wait(name(length - 1), 'work:door', { mode: 'shared' })
    expect(last).toMatchObject({ kind: 'deadlock' })
    expect(last.kind === 'deadlock' && last.cycle.length).toBe(length)
  })

  it('of more than sixteen is left to its timeouts', async () => {
    for (let index = 0; index < 17; index += 1) await world.hold(name(index), `work:${index}`)
    for (let index = 0; index < 17; index += 1) {
      const answer = await world.wait(name(index), `work:${(index + 1) % 17}`)
      expect(answer.kind).toBe('queued')
    }
  })
})

type Place = readonly [resource: string, extent: Extent]

/** Each holds one and waits for the next one's; the last to ask closes the ring, and is the youngest. */
async function ring(
  length: number,
  held: (index: number) => Place,
  wanted: (index: number) => Place,
): Promise<void> {
  for (let index = 0; index < length; index += 1) {
    const [resource, extent] = held(index)
    await world.hold(name(index), resource, { extent })
  }
  for (let index = 0; index < length - 1; index += 1) {
    const [resource, extent] = wanted(index + 1)
    expect((await world.wait(name(index), resource, { extent })).kind).toBe('queued')
  }
  const [resource, extent] = wanted(0)
  const last = await world.wait(name(length - 1), resource, { extent })
  expect(last.kind).toBe('deadlock')
  if (last.kind !== 'deadlock') return
  const steps = await cycleOf(last.leaseId)
  expect(steps).toHaveLength(length)
  expect(new Set(steps).size).toBe(length)
  expect(steps[0]).toBe(`${name(length - 1)} → ${resource}`)
}

describe('a cycle', () => {
  it('that two close at the same moment is broken once', async () => {
    await world.hold('ann', 'work:a')
    await world.hold('bob', 'work:b')
    await Promise.all([world.wait('ann', 'work:b'), world.wait('bob', 'work:a')])
    const entries = await world.entries()
    const refused = entries.filter((entry) => entry.kind === 'ticket' && entry.state === 'failed')
    expect(refused).toHaveLength(1)
    expect(refused[0]).toMatchObject({ failure: 'deadlock', holder: 'bob' })
    expect(entries.filter((entry) => entry.state === 'pending')).toHaveLength(1)
  })

  it('names who holds what, in words', async () => {
    await world.hold('ann', 'work:a')
    await world.hold('bob', 'work:b')
    await world.wait('ann', 'work:b')
    const answer = await world.wait('bob', 'work:a')
    expect(answer).toMatchObject({ kind: 'deadlock' })
    const [event] = await world.api.history({ types: ['lease.failed'] })
    expect(event?.event.reason).toBe('bob → work:a → ann → work:b → bob')
  })

  it('is looked for again when the store was away during the search, and the failure is reported', async () => {
    const faults: Fault[] = []
    const stop = onOwnFault((fault) => faults.push(fault))
    await world.hold('ann', 'work:a')
    await world.hold('bob', 'work:b')
    await world.wait('ann', 'work:b')
    world.failNext('find', 2, { after: 1 })
    expect((await world.wait('bob', 'work:a')).kind).toBe('queued')
    expect(faults).toMatchObject([{ source: 'service/deadlock-search', count: 1 }])
    stop()
    await world.runtime.advance(10_000)
    await world.settled()
    const [event] = await world.api.history({ types: ['lease.failed'] })
    expect(event?.event).toMatchObject({ holder: 'bob', failure: 'deadlock' })
  })

  it('is found at once although the answer to one question of the search was lost', async () => {
    const faults: Fault[] = []
    const stop = onOwnFault((fault) => faults.push(fault))
    await world.hold('ann', 'work:a')
    await world.hold('bob', 'work:b')
    await world.wait('ann', 'work:b')
    world.failNext('find', 1, { after: 1 })
    expect((await world.wait('bob', 'work:a')).kind).toBe('deadlock')
    stop()
    expect(faults).toEqual([])
  })

  it('is found soon after a page that the store was slow to answer', async () => {
    const runtime = new FakeRuntime()
    let slowMs = 0
    const store = new (class extends MemoryStore {
      override async find(query: EntryQuery): Promise<Found> {
        const takesMs = slowMs
        slowMs = 0
        if (takesMs > 0) await runtime.advance(takesMs)
        return super.find(query)
      }
    })({ ticks: new ManualTicks() })
    const api = new LeaseService({ store, runtime })
    const ask = askerOf(api)
    const held = await Promise.all([ask('ann', 'work:a', 0, []), ask('bob', 'work:b', 0, [])])
    const [a = '', b = ''] = held.map((one) => (one.kind === 'granted' ? one.lease.id : ''))
    await ask('ann', 'work:b', 60_000, [a])
    slowMs = 5_000
    await ask('bob', 'work:a', 60_000, [b])
    for (let tenths = 0; tenths < 30; tenths += 1) await runtime.advance(100)
    const failed = await api.history({ types: ['lease.failed'] })
    expect(failed.map(({ event }) => event)).toMatchObject([{ failure: 'deadlock' }])
    await api.close()
  })

  it('is looked for among the first of a queue in one reading of it', async () => {
    let reads = 0
    const store = new (class extends MemoryStore {
      override async find(query: EntryQuery): Promise<Found> {
        reads += 1
        return super.find(query)
      }
    })({ ticks: new ManualTicks() })
    const api = new LeaseService({ store, runtime: systemRuntime })
    const resource = parseResource('work:door')
    const ask = (waitMs: number) => {
      const own = { id: crypto.randomUUID(), session: 'ann', holder: 'ann' }
      return api.acquire({ ...own, resource, waitMs, ttlMs: 60_000 })
    }
    await ask(0)
    const readsFor = async (waiters: number): Promise<number> => {
      for (let waiter = 0; waiter < waiters; waiter += 1) await ask(60_000)
      const before = reads
      await api.inspect({ resource })
      return reads - before
    }
    expect([await readsFor(1), await readsFor(9)]).toEqual([4, 4])
    await api.close()
  })

  it('through several at once refuses all of them together', async () => {
    await world.hold('ann', 'work:a')
    await world.hold('bob', 'work:b')
    await world.wait('ann', 'work:b')
    const answer = await world.waitAll('bob', ['work:a', 'work:c'])
    expect(answer).toMatchObject({ kind: 'deadlock' })
    expect((await world.entries()).filter((entry) => entry.state === 'pending')).toHaveLength(1)
    expect(await world.wait('eve', 'work:c')).toMatchObject({ kind: 'granted' })
  })
})

describe('an upgrade', () => {
  beforeEach(async () => {
    await world.hold('ann', 'work:x', { mode: 'shared' })
    await world.hold('bob', 'work:x', { mode: 'shared' })
  })

  it('is part of a cycle that a ticket closes', async () => {
    await world.hold('ann', 'work:y')
    expect((await world.upgrade('ann', 'work:x')).kind).toBe('upgrading')
    expect(await world.wait('bob', 'work:y')).toMatchObject({ kind: 'deadlock' })
    expect((await world.upgrade('ann', 'work:x')).kind).toBe('upgrading')
  })

  it('that closes a cycle refuses the ticket in it, and stands', async () => {
    await world.hold('ann', 'work:y')
    expect((await world.wait('bob', 'work:y')).kind).toBe('queued')
    expect((await world.upgrade('ann', 'work:x')).kind).toBe('upgrading')
    expect(await world.claim('bob', 'work:y')).toMatchObject({ kind: 'deadlock' })
    await world.release('bob', 'work:x')
    expect(await world.upgrade('ann', 'work:x')).toMatchObject({ kind: 'upgraded' })
  })

  it('that closes a cycle of upgrades is refused itself, and its wish taken back', async () => {
    await world.hold('ann', 'work:z', { mode: 'shared' })
    await world.hold('bob', 'work:z', { mode: 'shared' })
    expect((await world.upgrade('ann', 'work:x')).kind).toBe('upgrading')
    const answer = await world.upgrade('bob', 'work:z')
    expect(answer).toMatchObject({
      kind: 'deadlock',
      cycle: [{ holder: 'bob' }, { holder: 'ann' }],
    })
    expect(await world.lease('bob', 'work:z')).toMatchObject({ upgrading: false, mode: 'shared' })
  })

  it('is refused once when two close a cycle of upgrades at the same moment', async () => {
    await world.hold('bob', 'work:z', { mode: 'shared' })
    await world.hold('ann', 'work:z', { mode: 'shared' })
    const answers = await Promise.all([
      world.upgrade('bob', 'work:z'),
      world.upgrade('ann', 'work:x'),
    ])
    expect(answers).toMatchObject([{ kind: 'upgrading' }, { kind: 'deadlock' }])
    expect(await world.lease('ann', 'work:x')).toMatchObject({ upgrading: false })
    expect((await world.upgrade('bob', 'work:z')).kind).toBe('upgrading')
  })

  it('of the same resource by a second is refused at once', async () => {
    expect((await world.upgrade('ann', 'work:x')).kind).toBe('upgrading')
    expect(await world.upgrade('bob', 'work:x')).toMatchObject({ kind: 'deadlock' })
  })
})

describe('a cycle is broken when it is closed', () => {
  /** Bob waits for what ann holds, and ann for what cyd holds. */
  beforeEach(async () => {
    await world.hold('ann', 'work:a')
    await world.hold('cyd', 'work:c', { mode: 'shared' })
    expect((await world.wait('bob', 'work:a')).kind).toBe('queued')
    expect((await world.wait('ann', 'work:c')).kind).toBe('queued')
  })

  /** Before anybody who waits was heard of again. */
  async function refused(): Promise<readonly string[]> {
    await world.settled()
    const failed = await world.api.history({ types: ['lease.failed'] })
    return failed.map(({ event }) => event.holder)
  }

  it('by a transfer to somebody who waits', async () => {
    await world.give('cyd', 'work:c', 'bob')
    expect(await refused()).toEqual(['ann'])
    expect(await world.claim('ann', 'work:c')).toMatchObject({ kind: 'deadlock' })
  })
})

it('all cycles through one request are broken, not only the first that is found', async () => {
  await world.hold('cyd', 'work:x')
  for (const reader of ['ann', 'kim']) await world.hold(reader, 'work:y', { mode: 'shared' })
  await world.wait('eve', 'work:y')
  for (const reader of ['ann', 'kim']) await world.wait(reader, 'work:x')
  await world.give('cyd', 'work:x', 'eve')
  await world.settled()
  const failed = await world.api.history({ types: ['lease.failed'] })
  expect(failed.map(({ event }) => event.holder).toSorted()).toEqual(['ann', 'kim'])
})

it('a look at a resource shows the cycle of the first in its queue, whoever came first', async () => {
  const store = new MemoryStore({ ticks: new ManualTicks() })
  // Nothing is found here that would break the cycle.
  const blind = new FaultyStore({
    store,
    weather: ({ method }) => (method === 'find' ? { fault: 'lost_request' } : undefined),
  })
  const api = new LeaseService({ store: blind, runtime: new FakeRuntime() })
  const ask = askerOf(api)
  const leaseOf = async (holder: string, resource: string): Promise<string> => {
    const answer = await ask(holder, resource, 0, [])
    if (answer.kind !== 'granted') throw new Error(`${resource} is held`)
    return answer.lease.id
  }
  const [a, b] = [await leaseOf('ann', 'work:a'), await leaseOf('bob', 'work:b')]
  for (const name of ['cyd', 'dan', 'eve', 'fay']) await ask(name, 'work:a', 60_000, [])
  await askerOf(api, 100)('bob', 'work:a', 60_000, [b])
  await ask('ann', 'work:b', 60_000, [a])
  const seeing = new LeaseService({ store, runtime: new FakeRuntime() })
  const { cycles, queue } = await seeing.inspect({ resource: parseResource('work:a') })
  expect(queue[0]?.holder).toBe('bob')
  expect(cycles.map((cycle) => cycle.map(({ holder }) => holder))).toEqual([['bob', 'ann']])
})

describe('nobody is refused', () => {
  it('who waits for a lease whose holder was asked to finish: it ends by itself', async () => {
    await world.hold('ann', 'work:a')
    await world.hold('bob', 'work:b')
    const leaseId = (await world.lease('ann', 'work:a'))?.id ?? ''
    await world.api.revoke({ id: leaseId, by: 'op', graceMs: 30_000 })
    expect((await world.wait('ann', 'work:b')).kind).toBe('queued')
    expect((await world.wait('bob', 'work:a')).kind).toBe('queued')
    world.ticks.pass(30_001)
    expect((await world.claim('bob', 'work:a')).kind).toBe('granted')
  })

  it('who waits for a lock delay of somebody who waits for it', async () => {
    await world.hold('ann', 'work:a', { lockDelayMs: 60_000, ttlMs: 1_000 })
    await world.hold('bob', 'work:b')
    world.ticks.pass(1_001)
    expect((await world.wait('bob', 'work:a')).kind).toBe('queued')
    expect((await world.wait('ann', 'work:b')).kind).toBe('queued')
    expect((await world.claim('bob', 'work:a')).kind).toBe('queued')
    expect((await world.claim('ann', 'work:b')).kind).toBe('queued')
  })

  it('who waits for one of several places of which another may come free', async () => {
    await world.hold('ann', 'pool:p', { slots: 2 })
    await world.hold('cyd', 'pool:p', { slots: 2 })
    await world.hold('bob', 'work:b')
    expect((await world.wait('bob', 'pool:p', { slots: 2 })).kind).toBe('queued')
    expect((await world.wait('ann', 'work:b')).kind).toBe('queued')
  })

  it('until all who have a place wait for it', async () => {
    await world.hold('ann', 'pool:p', { slots: 2 })
    await world.hold('cyd', 'pool:p', { slots: 2 })
    await world.hold('bob', 'work:b')
    await world.wait('bob', 'pool:p', { slots: 2 })
    await world.wait('ann', 'work:b')
    expect((await world.wait('cyd', 'work:b')).kind).toBe('deadlock')
  })

  it('until the one place that is left is not enough for whoever is first in the queue', async () => {
    await world.hold('ann', 'pool:p', { slots: 3 })
    await world.hold('bob', 'work:b')
    expect((await world.wait('cyd', 'pool:p', { slots: 1 })).kind).toBe('queued')
    expect((await world.wait('bob', 'pool:p', { slots: 3 })).kind).toBe('queued')
    expect((await world.wait('ann', 'work:b')).kind).toBe('deadlock')
  })

  it('until one who shares with anybody waits before it for those who are counted', async () => {
    await world.hold('ann', 'pool:p', { slots: 3 })
    await world.hold('bob', 'work:b')
    expect((await world.wait('cyd', 'pool:p', { mode: 'shared' })).kind).toBe('queued')
    await world.wait('dan', 'pool:p', { slots: 3 })
    expect((await world.wait('bob', 'pool:p', { slots: 3 })).kind).toBe('queued')
    const refused = await world.wait('ann', 'work:b')
    // Beside ann there is a place for bob: what keeps him is cyd, for whom there is none.
    const cycle = refused.kind === 'deadlock' ? refused.cycle.map(({ holder }) => holder) : []
    expect(cycle.toSorted()).toEqual(['ann', 'bob', 'cyd'])
  })

  it('whose turn came between the search and the refusal', async () => {
    await world.hold('ann', 'work:a')
    await world.hold('bob', 'work:b')
    await world.wait('ann', 'work:b')
    world.beforeSecondCommit(() => world.release('ann', 'work:a'))
    expect((await world.wait('bob', 'work:a')).kind).toBe('queued')
    expect((await world.claim('bob', 'work:a')).kind).toBe('granted')
  })

  it('who is alone with it before its wish is taken back', async () => {
    for (const who of ['ann', 'bob']) {
      await world.hold(who, 'work:x', { mode: 'shared' })
      await world.hold(who, 'work:y', { mode: 'shared' })
    }
    expect((await world.upgrade('ann', 'work:x')).kind).toBe('upgrading')
    world.beforeSecondCommit(() => world.release('ann', 'work:y'))
    expect((await world.upgrade('bob', 'work:y')).kind).toBe('upgrading')
    expect(await world.lease('bob', 'work:y')).toMatchObject({ mode: 'exclusive' })
  })

  it('who only stands behind a cycle of others', async () => {
    await world.hold('ann', 'work:a')
    await world.hold('bob', 'work:b')
    await world.wait('ann', 'work:b')
    expect((await world.wait('eve', 'work:a')).kind).toBe('queued')
    expect((await world.wait('bob', 'work:a')).kind).toBe('deadlock')
    expect((await world.claim('eve', 'work:a')).kind).toBe('queued')
  })
})

it('agrees with an oracle that plays every history to its end, in 1,000 of them', async () => {
  expect(await compareHistories(1, 1_000)).toBeGreaterThan(20)
})

/** A store that tells of tickets as `changed` makes them, from the second look for the same cycle on. */
class Reread extends MemoryStore {
  readonly #changed: (entry: Entry) => Entry
  #looks = 0

  constructor(changed: (entry: Entry) => Entry) {
    super({ ticks: new ManualTicks() })
    this.#changed = changed
  }

  override async find(query: EntryQuery): Promise<Found> {
    const found = await super.find(query)
    if (query.ids !== undefined) this.#looks += 1
    return this.#looks < 3 ? found : { ...found, entries: found.entries.map(this.#changed) }
  }
}

describe('a cycle that a second look', () => {
  const refusedIn = async (changed: (entry: Entry) => Entry): Promise<readonly string[]> => {
    const service = new LeaseService({ store: new Reread(changed), runtime: new FakeRuntime() })
    const ask = async (who: string, name: string, under: readonly string[]): Promise<string> => {
      const leaseId = systemRuntime.uuid()
      const resource = parseResource(`work:${name}`)
      const waitMs = under.length === 0 ? 0 : 60_000
      const wish = { holder: who, session: who, ttlMs: 60_000, waitMs, under }
      await service.acquire({ id: leaseId, resource, ...wish })
      await service.settled()
      return leaseId
    }
    const [a, b] = [await ask('ann', 'a', []), await ask('bob', 'b', [])]
    await ask('ann', 'b', [a])
    await ask('bob', 'a', [b])
    const failed = await service.history({ types: ['lease.failed'] })
    return failed.map(({ event }) => event.holder)
  }

  it('finds again counts', async () => {
    expect(await refusedIn((entry) => entry)).toEqual(['bob'])
  })

  it('finds with a ticket that was filed anew meanwhile does not', async () => {
    const filedAnew = (entry: Entry): Entry => {
      return entry.kind === 'ticket' ? { ...entry, orderUs: entry.orderUs + 1 } : entry
    }
    expect(await refusedIn(filedAnew)).toEqual([])
  })

  it('found of several that lapse and are asked for anew before they are refused does not', async () => {
    const ticks = new ManualTicks()
    let looks = 0
    let askAnew = async (): Promise<void> => undefined
    const store = new (class extends MemoryStore {
      override async find(query: EntryQuery): Promise<Found> {
        const isAboutWaits = query.holder === 'bob' && query.states?.includes('pending') === true
        if (isAboutWaits) looks += 1
        // The first two looks find the cycle; the third is for all that wait together.
        if (isAboutWaits && looks === 3) await askAnew()
        return super.find(query)
      }
    })({ ticks })
    const service = new LeaseService({ store, runtime: new FakeRuntime() })
    const span = { ttlMs: 3_600_000, claimWindowMs: 60_000 }
    const ask = async (who: string, resource: Resource, under: string[]): Promise<string> => {
      const own = { id: systemRuntime.uuid(), resource, holder: who, session: who, under }
      await service.acquire({ ...own, ...span, waitMs: under.length === 0 ? 0 : 600_000 })
      return own.id
    }
    const [door, gate, hall] = ['door', 'gate', 'hall'].map((name) => parseResource(`work:${name}`))
    if (door === undefined || gate === undefined || hall === undefined) throw new Error('a place')
    const [anns, bobs] = [await ask('ann', door, []), await ask('bob', gate, [])]
    await ask('ann', gate, [anns])
    const members = [door, hall].map((resource) => ({ id: systemRuntime.uuid(), resource }))
    const several = { group: systemRuntime.uuid(), members, holder: 'bob', session: 'bob' }
    const askForSeveral = () => {
      return service.acquireAll({ ...several, ...span, under: [bobs], waitMs: 600_000 })
    }
    askAnew = async () => {
      ticks.pass(60_001)
      expect((await askForSeveral()).kind).toBe('queued_all')
    }
    await askForSeveral()
    await service.settled()
    expect(looks).toBeGreaterThanOrEqual(3)
    const failed = await service.history({ types: ['lease.failed'] })
    expect(failed.map(({ event }) => (event as { failure?: string }).failure)).not.toContain(
      'deadlock',
    )
  })
})

describe('a wait that nobody says to be under anything', () => {
  it('closes no cycle, whatever its session holds: another task may release it', async () => {
    await world.hold('ann', 'work:a')
    await world.hold('bob', 'work:b')
    await world.wait('ann', 'work:b', { under: [] })
    expect((await world.wait('bob', 'work:a')).kind).toBe('queued')
    await world.release('ann', 'work:a')
    expect((await world.claim('bob', 'work:a')).kind).toBe('granted')
  })

  it('counts as under what is implied, until that is withdrawn', async () => {
    await world.hold('ann', 'work:a')
    await world.hold('bob', 'work:b')
    await world.wait('ann', 'work:b', { under: undefined })
    await world.wait('bob', 'work:a')
    const [held] = await world.leasesOf('ann')
    expect((await world.claim('ann', 'work:b', { implied: [held ?? ''] })).kind).toBe('queued')
    expect(await world.claim('bob', 'work:a')).toMatchObject({
      kind: 'deadlock',
      cycle: [{ holder: 'ann', implied: true }, { holder: 'bob' }],
    })
  })

  it('is under what another holder has in no case', async () => {
    await world.hold('ann', 'work:a')
    await world.hold('bob', 'work:b')
    const [foreign = ''] = await world.leasesOf('bob')
    const [own = ''] = await world.leasesOf('ann')
    await world.wait('ann', 'work:b', { under: [own] })
    expect((await world.wait('cyd', 'work:a', { under: [foreign] })).kind).toBe('queued')
  })
})

interface Page {
  readonly fromMs: number
  readonly toMs: number
}

describe('a search', () => {
  /** The pages that a search reads within so many seconds, each of which keeps the event loop busy for 20 ms. */
  async function pagesOf(waiters: number, seconds: number): Promise<readonly Page[]> {
    const runtime = new FakeRuntime()
    const pages: Page[] = []
    let pageMs = 0
    const store = new (class extends MemoryStore {
      override async find(query: EntryQuery): Promise<Found> {
        const fromMs = runtime.monotonicMs()
        // No timer runs meanwhile.
        runtime.stall(pageMs)
        if (pageMs > 0) pages.push({ fromMs, toMs: runtime.monotonicMs() })
        return super.find(query)
      }
    })({ ticks: new ManualTicks() })
    const api = new LeaseService({ store, runtime })
    const ask = askerOf(api)
    await ask('ann', 'work:0', 0, [])
    for (let index = 1; index <= waiters; index += 1) {
      const held = await ask(name(index), `work:${index}`, 0, [])
      const under = held.kind === 'granted' ? [held.lease.id] : []
      if (index === waiters) pageMs = 20
      await ask(name(index), `work:${index - 1}`, 60_000, under)
    }
    for (let tenths = 0; tenths < seconds * 10; tenths += 1) await runtime.advance(100)
    await api.close()
    return pages
  }

  it('rests after each page for as long as the page took, so that renewals go first', async () => {
    const pages = await pagesOf(1, 3)
    expect(pages.length).toBeGreaterThanOrEqual(3)
    for (const [index, { fromMs }] of pages.slice(1).entries()) {
      expect(fromMs - (pages[index]?.toMs ?? 0)).toBeGreaterThanOrEqual(20)
    }
  })

  it('of twelve pages is over within a second, and a long one takes a fifth of the time', async () => {
    const pages = await pagesOf(15, 10)
    const [first, twelfth, last] = [pages[0], pages[11], pages.at(-1)]
    if (first === undefined || twelfth === undefined || last === undefined) {
      throw new Error(`only ${pages.length} pages were read`)
    }
    expect(pages.length).toBeGreaterThanOrEqual(30)
    expect(twelfth.toMs - first.fromMs).toBeLessThanOrEqual(1_000)
    // What was owed at the end may be taken later.
    const wholeMs = last.toMs - first.fromMs + 1_000
    expect(pages.length * 20).toBeLessThanOrEqual(wholeMs / 5 + 20)
  })

  it('around one of many that wait for the same reads each place and each holder once', async () => {
    await world.hold('ann', 'work:door')
    for (let index = 0; index < 50; index += 1) {
      await world.hold(name(index), `work:${index}`)
      await world.wait(name(index), 'work:door', { under: [] })
    }
    const before = world.finds
    await world.hold('eve', 'work:e')
    expect((await world.wait('eve', 'work:door')).kind).toBe('queued')
    // Its own ticket, the door, and what ann waits for and upgrades; and what the test itself looks at.
    expect(world.finds - before).toBeLessThanOrEqual(8)
  })

  it('for many that are filed together is one', async () => {
    await world.hold('ann', 'work:door')
    for (let index = 0; index < 50; index += 1) await world.hold(name(index), `work:${index}`)
    const before = world.finds
    const waits = Array.from({ length: 50 }, (_, index) => world.wait(name(index), 'work:door'))
    expect(new Set((await Promise.all(waits)).map(({ kind }) => kind))).toEqual(new Set(['queued']))
    expect(world.finds - before).toBeLessThan(50 * 2 + 20)
  })

  it('of more pages than one stretch is reported, and goes on until it has found the cycle', async () => {
    const faults: Fault[] = []
    const stop = onOwnFault((fault) => faults.push(fault))
    await world.hold('eve', 'work:e')
    const readers = Array.from({ length: 150 }, (_, index) => name(index))
    for (const reader of readers) await world.hold(reader, 'work:door', { mode: 'shared' })
    expect((await world.wait(name(149), 'work:e')).kind).toBe('queued')
    const before = world.finds
    expect((await world.wait('eve', 'work:door')).kind).toBe('deadlock')
    expect(world.finds - before).toBeGreaterThan(256)
    stop()
    expect(faults.map(({ source }) => source)).toContain('service/deadlock-search')
    expect(String(faults[0]?.error)).toContain('has read 256 pages and goes on')
  })
})
