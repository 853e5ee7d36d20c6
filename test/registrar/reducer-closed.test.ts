/** What the reducer must not be talked into: doubtful evidence, strange bytes, and events of another ledger. */
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { LeaseEvent } from '../../src/core/event.ts'
import {
  isExpiredAt,
  isExpiredAtTick,
  LeaseReducer,
  parseLeaseState,
  parseReleaseReason,
  ticksRemaining,
  timeRemaining,
  type EventRecord,
  type RegisteredLease,
} from '../../src/ledger/index.ts'
import { ledgerRecord } from '../../src/registrar/payloads.ts'
import { readLedger } from '../../src/ledger/read-ledger.ts'
import { LedgerChain } from '../../src/ledger/sealed-ledger.ts'
import { Family } from '../delegation/family.ts'
import {
  applied,
  expired,
  issued,
  refusal,
  refusalError,
  released,
  renewed,
  tick,
} from './registrar-events.ts'

const withTicks = { issuedAtTick: tick(1_000), expiresAtTick: tick(2_000) }

function fresh(...events: readonly EventRecord[]): LeaseReducer {
  return applied(new LeaseReducer(), ...events)
}

function leaseOf(reducer: LeaseReducer, leaseId = 'lease-001'): RegisteredLease {
  const lease = reducer.state.get(leaseId)
  if (lease === undefined) throw new Error(`no lease ${leaseId}`)
  return lease
}

async function storeEvents(family: Family): Promise<readonly LeaseEvent[]> {
  return (await family.store.history({ limit: 1_000 })).map(({ event }) => event)
}

async function issuedByStore(resource: string): Promise<LeaseEvent> {
  const family = new Family()
  await family.root(resource)
  const [event] = await storeEvents(family)
  if (event === undefined) throw new Error('nothing was issued')
  return event
}

describe('the end of a lease', () => {
  it('INV-0304: is no later than it was to end, whenever a release is told', () => {
    const reducer = fresh(issued())
    for (const atMs of [2_000, 2_001, Number.MAX_SAFE_INTEGER]) {
      expect(refusal(reducer, released({ atMs }))).toBe('LEASE_EXPIRED')
    }
    for (const atMs of [999, 0]) expect(refusal(reducer, released({ atMs }))).toBe('INVALID_INPUT')
    expect(refusal(reducer, renewed({}, { atMs: 999 }))).toBe('INVALID_INPUT')
    applied(reducer, released({ atMs: 1_000 }))
    expect(leaseOf(reducer).terminatedAt).toBe(1_000)
  })

  it('INV-0304: is within the term where ticks decide, wherever the wall clock was set', () => {
    for (const [atMs, terminatedAt] of [
      [99_000, 2_000],
      [1_500, 1_500],
      [3, 1_000],
    ] as const) {
      const reducer = fresh(issued(withTicks), released({ atMs }))
      expect(leaseOf(reducer)).toMatchObject({ state: 'RELEASED', terminatedAt })
      expect(leaseOf(reducer).entry.terminatedAtMs).toBe(terminatedAt)
      expect(reducer.state.pruneTerminalLeasesBefore(2_001)).toBe(1)
    }
  })

  it('INV-0305: is proven by a tick where the lease has ticks, and by nothing else', () => {
    const reducer = fresh(issued(withTicks))
    const byTheWall = expired({ expiredAt: 9_000_000 })
    expect(refusalError(reducer, byTheWall)).toMatchObject({
      code: 'INVALID_INPUT',
      details: { field: 'expiredAtTick' },
    })
    const early = expired({ expiredAt: 9_000_000, expiredAtTick: tick(1_999) })
    expect(refusal(reducer, early)).toBe('INVALID_EXPIRATION')
    // The wall clock was set back; the lease is over all the same.
    applied(reducer, expired({ expiredAt: 5, expiredAtTick: tick(2_000) }))
    expect(leaseOf(reducer)).toMatchObject({ state: 'EXPIRED', terminatedAt: 2_000 })
    const walled = fresh(issued())
    const odd = expired({ expiredAtTick: tick(2_000) })
    expect(refusal(walled, odd)).toBe('INVALID_INPUT')
  })

  it('can be kept and brought back, however far off the time of its event is', () => {
    const nanoseconds = { issuedAt: 1_000_000_000n, expiresAt: 2_000_000_000n }
    const late = { atMs: Number.MAX_SAFE_INTEGER }
    const newExpiresAtTick = tick(3_000)
    const renewal = renewed({ newExpiresAt: 3_000_000_000n, newExpiresAtTick }, late)
    const reducer = fresh(issued({ ...nanoseconds, ...withTicks }), renewal, released(late))
    expect(leaseOf(reducer)).toMatchObject({
      lastRenewedAt: 2n ** 64n - 1n,
      terminatedAt: 3_000_000_000n,
    })
    const restored = LeaseReducer.restore(reducer.checkpoint())
    expect(restored.state.digest()).toBe(reducer.state.digest())
  })
})

describe('questions that are asked with nonsense', () => {
  const nonsense = [Number.NaN, -1, 1.5, 'abc', undefined, null, {}] as const

  it('CTR-0301, CTR-0302: about ticks have the closed answer', () => {
    const reducer = fresh(issued(withTicks))
    const lease = leaseOf(reducer)
    const odd = nonsense.flatMap((value) => [value, { ...tick(0), value }, { ...tick(0), ...[] }])
    for (const now of odd.filter((each) => JSON.stringify(each) !== JSON.stringify(tick(0)))) {
      const asked = now as ReturnType<typeof tick>
      expect([now, isExpiredAtTick(lease, asked)]).toEqual([now, true])
      expect(ticksRemaining(lease, asked)).toBe(0)
      expect(reducer.state.getExpiredButActiveAtTick(asked)).toEqual([lease])
    }
  })

  it('CTR-0304, CTR-0305: about wall time are refused', () => {
    const reducer = fresh(issued())
    for (const value of nonsense) {
      const now = value as number
      for (const ask of [
        () => isExpiredAt(leaseOf(reducer), now),
        () => timeRemaining(leaseOf(reducer), now),
        () => reducer.state.getExpiredButActive(now),
      ]) {
        expect(ask).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }))
        expect(ask).toThrow('now must be milliseconds')
      }
    }
    expect(isExpiredAt(leaseOf(reducer), 2_000)).toBe(true)
  })

  it('CTR-0101, CTR-0201: words are read letter by letter', () => {
    for (const word of ['actıve', 'releaſed', 'actİve']) {
      expect(() => parseLeaseState(word)).toThrow(
        expect.objectContaining({ code: 'INVALID_STATE' }),
      )
    }
    expect(() => parseReleaseReason('voluntarʏ')).toThrow('releaseReason must be one of')
  })
})

describe('what a reducer is given', () => {
  it('DecodeError: is refused in one line where it is no event, or no checkpoint', () => {
    const reducer = fresh()
    for (const event of [null, undefined, 7, 'lease.issued']) {
      const apply = () => reducer.apply(event as unknown as EventRecord)
      expect(apply).toThrow(expect.objectContaining({ code: 'DECODE_ERROR' }))
    }
    const state = 'no JSON at all'
    const digest = createHash('sha256').update(`tenure-reducer-state/1\n${state}`).digest('hex')
    const forged = `{"version":1,"digest":"${digest}","state":${state}}`
    for (const text of [undefined, null, 7, forged]) {
      const restore = () => LeaseReducer.restore(text as string)
      expect(restore).toThrow(expect.objectContaining({ code: 'DECODE_ERROR' }))
    }
  })

  it('InvalidInput: names an actor of 1..128 bytes', () => {
    const reducer = fresh(issued())
    for (const actorId of ['', 'x'.repeat(129), 'ü'.repeat(65), '\ud800', 7]) {
      const { code, details } = refusalError(reducer, issued({}, actorId as string))
      expect([code, details['field']]).toEqual(['INVALID_INPUT', 'actorId'])
    }
  })

  it('is kept as it was, whatever becomes of the bytes of its signature', () => {
    const registrarSignature = new Uint8Array([1, 2, 3])
    const reducer = fresh(issued({ registrarSignature }))
    const digest = reducer.state.digest()
    registrarSignature[0] = 9
    leaseOf(reducer).registrarSignature[1] = 9
    expect(reducer.state.digest()).toBe(digest)
    expect([...leaseOf(reducer).registrarSignature]).toEqual([1, 2, 3])
  })

  it('can be written as JSON, in nanoseconds as well', () => {
    const times = { issuedAt: 1n, expiresAt: 2n ** 63n }
    const ticks = { issuedAtTick: tick(1n), expiresAtTick: tick(2n ** 62n) }
    const text = JSON.stringify(leaseOf(fresh(issued({ ...times, ...ticks }))))
    expect(JSON.parse(text)).toMatchObject({
      leaseId: 'lease-001',
      issuedAt: '1',
      expiresAt: String(2n ** 63n),
      expiresAtTick: { value: String(2n ** 62n), rateHz: 1_000 },
      terminatedAt: null,
    })
  })
})

describe('an event of a store', () => {
  it('says nothing about the lease of a registrar', async () => {
    const event = await issuedByStore('work:work-001')
    const reducer = fresh(issued({ leaseId: event.leaseId, actorId: 'boss' }))
    const common = { ...event, leaseId: event.leaseId }
    const { lease: _lease, ...rest } = common as Extract<LeaseEvent, { type: 'lease.issued' }>
    const end = { ...rest, type: 'lease.released', before: 'active', after: 'released' } as const
    const release = ledgerRecord({ ...end, releaseReason: 'completed' })
    expect(refusal(reducer, release)).toBe('DECODE_ERROR')
    expect(refusal(reducer, { ...release, actorId: 'mallory' })).toBe('DECODE_ERROR')
    expect(leaseOf(reducer, event.leaseId).state).toBe('ACTIVE')
  })

  it('leads to a lease that a registrar says nothing about', async () => {
    const event = await issuedByStore('work:w')
    const { leaseId } = event
    const reducer = fresh(ledgerRecord(event))
    const release = released({ leaseId, actorId: 'boss', atMs: event.atMs })
    expect(refusal(reducer, release)).toBe('DECODE_ERROR')
    expect(refusal(reducer, issued({ leaseId }))).toBe('LEASE_EXISTS')
    expect(refusal(reducer, issued({ workId: 'w' }))).toBe('RESOURCE_HELD')
  })

  it('is refused where record and event do not agree, or where it is not whole', async () => {
    const event = await issuedByStore('work:w')
    const record = ledgerRecord(event)
    const reducer = fresh()
    expect(refusal(reducer, { ...record, actorId: 'mallory' })).toBe('DECODE_ERROR')
    expect(refusal(reducer, { ...record, atMs: event.atMs + 1 })).toBe('DECODE_ERROR')
    const { lease: _lease, ...bare } = event as Extract<LeaseEvent, { type: 'lease.issued' }>
    for (const odd of [
      bare,
      { ...bare, lease: {} },
      { ...bare, lease: null },
      { type: bare.type },
    ]) {
      const payload = { kind: 'ledger_event', event: odd }
      expect(refusal(reducer, { ...record, payload })).toBe('DECODE_ERROR')
    }
    applied(reducer, record)
    const moved = { ...bare, type: 'lease.downgraded', resource: 'work:other', before: 'active' }
    expect(refusal(reducer, ledgerRecord(moved as LeaseEvent))).toBe('DECODE_ERROR')
  })

  it('CTR-0401: tells of the first of those in one line, also after a checkpoint', async () => {
    const family = new Family()
    const root = await family.root('work:w')
    const child = await family.derive(root, { mode: 'exclusive' })
    const grandchild = await family.derive(child, { mode: 'exclusive' })
    // Restored in order of id, in which the root comes last.
    const ids = new Map([
      [root.id, 'ffffffff-0000-4000-8000-000000000000'],
      [grandchild.id, '00000000-0000-4000-8000-000000000000'],
    ])
    let text = JSON.stringify(await storeEvents(family))
    for (const [id, other] of ids) text = text.replaceAll(id, other)
    const events = JSON.parse(text) as readonly LeaseEvent[]
    const reducer = fresh(...events.map(ledgerRecord))
    const restored = LeaseReducer.restore(reducer.checkpoint())
    for (const { state } of [reducer, restored]) {
      expect(state.getActiveLeaseForWork('w')?.leaseId).toBe(ids.get(root.id))
      expect([...state.activeLeasesByWork]).toEqual([['work:w', ids.get(root.id)]])
      expect(state.activeLeases()).toHaveLength(3)
    }
  })

  it('keeps apart the resources of a store whose names are alike', async () => {
    const family = new Family()
    const leases = [await family.root('deploy:prod'), await family.root('work:deploy:prod')]
    const events = await storeEvents(family)
    const { state } = fresh(...events.map(ledgerRecord))
    expect(state.activeCount()).toBe(2)
    const chain = new LedgerChain()
    const lines = events.map(
      (event, at) => `${chain.append({ position: String(at + 1), event })}\n`,
    )
    expect(readLedger(lines.join('')).digest).toBe(state.digest())
    for (const { id, resource } of leases) {
      expect(state.getActiveLeaseForWork(resource)?.leaseId).toBe(id)
      expect(state.activeLeasesByWork.get(resource)).toBe(id)
    }
    expect(state.getActiveLeaseForWork('deploy:prod')?.leaseId).toBe(leases[0]?.id)
    expect(state.getActiveLeaseForWork('prod')).toBeUndefined()
  })
})
