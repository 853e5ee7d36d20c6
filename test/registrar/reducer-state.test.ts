/** The reducer over the ledger of a store, its digest and its checkpoints. */
import { describe, expect, it } from 'vitest'
import { realmOf } from '../../src/core/resource.ts'
import type { LeaseEvent } from '../../src/core/event.ts'
import { canonicalJson } from '../../src/core/canonical-json.ts'
import { LeaseReducer } from '../../src/registrar/lease-reducer.ts'
import { ledgerRecord } from '../../src/registrar/payloads.ts'
import { allEntries } from '../../src/testing/all-entries.ts'
import { fc } from '../fast-check.ts'
import { livedWorld, wholeHistory } from '../ledger/ledger-world.ts'
import { applied, expired, issued, refusal, released, renewed, tick } from './registrar-events.ts'

async function storeEvents(seed: number): Promise<readonly LeaseEvent[]> {
  const { store } = await livedWorld(seed, 600)
  return (await wholeHistory(store)).map(({ event }) => event)
}

function reduced(events: readonly LeaseEvent[]): LeaseReducer {
  return applied(new LeaseReducer(), ...events.map(ledgerRecord))
}

describe('the ledger of a store', () => {
  it.each([1, 2, 4])('is what the store says of its leases (seed %i)', async (seed) => {
    const { store } = await livedWorld(seed, 600)
    const events = (await wholeHistory(store)).map(({ event }) => event)
    const reducer = reduced(events)
    const entries = await allEntries(store)
    const told = new Set(events.map(({ leaseId }) => leaseId))
    const kept = entries.filter((entry) => entry.kind === 'lease' && told.has(entry.id))
    expect(kept.length).toBeGreaterThan(20)
    for (const entry of kept) {
      const lease = reducer.state.get(entry.id)
      expect([entry.id, lease?.state.toLowerCase()]).toEqual([entry.id, entry.state])
      const { fence } = entry.kind === 'lease' ? entry : { fence: null }
      expect(lease?.entry.fence).toBe(fence)
    }
    expect(reducer.state.len()).toBe(kept.length)
  })

  it('is refused when an event is about a stranger, comes twice, or comes after the end', async () => {
    const events = await storeEvents(4)
    const first = events.find((event) => event.type === 'lease.issued')
    const end = events.find((event) => event.type === 'lease.released')
    if (first === undefined || end === undefined) throw new Error('the script made no lease')
    const reducer = reduced(events)
    expect(refusal(reducer, ledgerRecord(first))).toBe('LEASE_EXISTS')
    expect(refusal(reducer, ledgerRecord(end))).toBe('LEASE_TERMINAL')
    expect(refusal(new LeaseReducer(), ledgerRecord(end))).toBe('LEASE_NOT_FOUND')
    const live = applied(new LeaseReducer(), ledgerRecord(first))
    const stranger = { ...end, leaseId: first.leaseId, holder: 'stranger' }
    expect(refusal(live, ledgerRecord(stranger))).toBe('NOT_HOLDER')
    const odd = { ...ledgerRecord(first), eventType: 'lease.released' }
    expect(refusal(new LeaseReducer(), odd)).toBe('DECODE_ERROR')
  })

  it('does not say that a lease ended later than it was told', async () => {
    const events = await storeEvents(5)
    const at = events.findIndex((event) => event.type === 'lease.expired')
    const end = events[at]
    if (end?.type !== 'lease.expired') throw new Error('the script let no lease expire')
    const late = { ...end, terminatedAtMs: end.atMs + 1 }
    expect(refusal(reduced(events.slice(0, at)), ledgerRecord(late))).toBe('INVALID_EXPIRATION')
  })

  it('is folded on whenever what has ended is pruned', async () => {
    const events = await storeEvents(1)
    expect(events.some(({ type }) => type === 'lease.unlocked')).toBe(true)
    const reducer = new LeaseReducer()
    for (const event of events) {
      reducer.apply(ledgerRecord(event))
      reducer.state.pruneTerminalLeases()
    }
    expect(reducer.state.activeCount()).toBe(reduced(events).state.activeCount())
  })

  it('has one digest, however independent realms are interleaved', async () => {
    const events = await storeEvents(6)
    const realms = byRealm(events)
    expect(realms.length).toBeGreaterThan(2)
    const digest = reduced(events).state.digest()
    fc.assert(
      fc.property(fc.infiniteStream(fc.nat()), (choices) => {
        const left = realms.map((realm) => [...realm])
        const order: LeaseEvent[] = []
        while (order.length < events.length) {
          const open = left.filter((realm) => realm.length > 0)
          const realm = open[choices.next().value % open.length]
          const event = realm?.shift()
          if (event !== undefined) order.push(event)
        }
        expect(reduced(order).state.digest()).toBe(digest)
      }),
      { numRuns: 20 },
    )
  })
})

function byRealm(events: readonly LeaseEvent[]): readonly (readonly LeaseEvent[])[] {
  const realms = new Map<string, LeaseEvent[]>()
  for (const event of events) {
    const realm = realmOf(event.resource)
    realms.set(realm, [...(realms.get(realm) ?? []), event])
  }
  return [...realms.values()]
}

describe('a checkpoint', () => {
  const events = [
    issued({ issuedAtTick: tick(1), expiresAtTick: tick(2n ** 60n) }),
    renewed({ newExpiresAtTick: tick(2n ** 61n) }),
    issued({ leaseId: 'b', workId: 'b', issuedAt: 1n, expiresAt: 2n ** 63n }),
    issued({ leaseId: 'c', workId: 'c' }),
    expired({ leaseId: 'c' }),
  ]

  it('brings everything back, and what follows is the same', () => {
    const reducer = applied(new LeaseReducer(), ...events)
    const restored = LeaseReducer.restore(reducer.checkpoint())
    expect(restored.state.digest()).toBe(reducer.state.digest())
    expect(restored.checkpoint()).toBe(reducer.checkpoint())
    expect(restored.state.get('b')).toEqual(reducer.state.get('b'))
    expect(restored.state.activeCount()).toBe(2)
    for (const one of [reducer, restored]) applied(one, released())
    expect(restored.state.digest()).toBe(reducer.state.digest())
  })

  it('of a store that has waiters brings them back as well', async () => {
    const reducer = reduced(await storeEvents(7))
    const restored = LeaseReducer.restore(reducer.checkpoint())
    expect(restored.state.digest()).toBe(reducer.state.digest())
    expect(canonicalJson([...restored.state.activeLeases()])).toBe(
      canonicalJson([...reducer.state.activeLeases()]),
    )
  })

  it('is refused when a single character of it was changed, or when it is none', () => {
    const text = applied(new LeaseReducer(), ...events).checkpoint()
    for (let at = 0; at < text.length; at += 7) {
      const other = text[at] === '1' ? '2' : '1'
      const changed = text.slice(0, at) + other + text.slice(at + 1)
      expect(() => LeaseReducer.restore(changed)).toThrow(
        expect.objectContaining({ code: 'DECODE_ERROR' }),
      )
    }
    for (const bad of ['', '{}', '{"version":1,"digest":"","state":{}}', text.slice(0, -1)]) {
      expect(() => LeaseReducer.restore(bad)).toThrow(
        expect.objectContaining({ code: 'DECODE_ERROR' }),
      )
    }
  })
})
