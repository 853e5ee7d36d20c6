import { randomUUID } from 'node:crypto'
import { describe, expect, it, onTestFinished } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import type { LeaseEvent } from '../../src/core/event.ts'
import { parseResource } from '../../src/core/resource.ts'
import { importLedger, openApi } from '../../src/index.ts'
import { LeaseReducer } from '../../src/registrar/lease-reducer.ts'
import { ledgerRecord } from '../../src/registrar/payloads.ts'
import { readLedger } from '../../src/ledger/read-ledger.ts'
import { LedgerChain } from '../../src/ledger/sealed-ledger.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { restoreLedger } from '../../src/service/restore-ledger.ts'
import type { LedgerEntry } from '../../src/store-port/store.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime, ManualTicks } from '../../src/testing/fake-runtime.ts'
import { Family } from '../delegation/family.ts'
import { EVERY_STORE, freshStoreOf } from '../servers/every-store.ts'
import { livedWorld, wholeHistory } from './ledger-world.ts'

function exported(entries: readonly LedgerEntry[]): string {
  const chain = new LedgerChain()
  return entries.map((entry) => `${chain.append(entry)}\n`).join('')
}

function digestOf(entries: readonly LedgerEntry[]): string {
  const reducer = new LeaseReducer()
  for (const { event } of entries) reducer.apply(ledgerRecord(event))
  return reducer.state.digest()
}

function lineId(number: number): string {
  return `${String(number).padStart(8, '0')}-0000-4000-8000-00000000000a`
}

function delegated(number: number) {
  const resource = parseResource('work:line')
  const who = { id: lineId(number), resource, holder: 'boss', session: 'boss' }
  const budget = { tokens: 100, toolCalls: 10, episodes: 5, durationMs: 1_000 }
  return { ...who, waitMs: 0, ttlMs: 60_000, budget }
}

describe('a ledger that is imported', () => {
  it.each(EVERY_STORE)('makes %s the store that it was exported from', async (name) => {
    const world = await livedWorld(5, 300)
    const history = await wholeHistory(world.store)
    const url = await freshStoreOf(name)
    const api = await openApi(url)
    onTestFinished(() => api.close())
    const { events, digest } = await importLedger(url, exported(history))
    const rebuilt = await api.history({ limit: 10_000 })
    expect(rebuilt.map(({ event }) => event)).toEqual(history.map(({ event }) => event))
    expect([events, digest]).toEqual([history.length, digestOf(history)])
    expect(digestOf(rebuilt)).toBe(digest)
    const again = importLedger(url, exported(history))
    await expect(again).rejects.toMatchObject({ code: 'LEASE_EXISTS' })
    expect(await api.history({ limit: 10_000 })).toEqual(rebuilt)
    // What was live on a clock that this store does not know is over here, and can be asked for.
    const free = parseResource('work:free')
    const request = { resource: free, holder: 'new', session: 'new', waitMs: 0 } as const
    const leaseId = 'ffffffff-0000-4000-8000-000000000001'
    expect((await api.acquire({ ...request, id: leaseId })).kind).toBe('granted')
  })

  it.each(EVERY_STORE)('may tell of scopes and budgets, as %s exports them', async (name) => {
    const url = await freshStoreOf(name)
    const api = await openApi(url)
    onTestFinished(() => api.close())
    await api.acquire({ ...delegated(1), scope: { tools: ['edit', 'read'], namespaces: ['src'] } })
    const budget = { tokens: 40, toolCalls: 4, episodes: 2, durationMs: 9 }
    const who = { id: lineId(2), holder: 'kid' }
    const scope = { tools: ['read'] }
    const parent = { id: lineId(1) }
    await api.derive({
      ...who,
      session: 'kid',
      parent,
      by: 'boss',
      scope,
      budget,
      audience: 'editor',
    })
    await api.spend({ ...who, amounts: { toolCalls: 1, tokens: 3 } })
    const history = await api.history({ limit: 100 })
    expect(history).toHaveLength(4)
    const other = `memory:delegated-${randomUUID()}`
    const rebuilt = await openApi(other)
    onTestFinished(() => rebuilt.close())
    const { digest } = await importLedger(other, exported(history))
    expect(digestOf(await rebuilt.history({ limit: 100 }))).toBe(digest)
    expect((await rebuilt.get({ id: lineId(2) }))?.delegation).toMatchObject({
      used: { toolCalls: 1, tokens: 3 },
      audience: 'editor',
    })
  })

  it('is refused at the first line that is not the next, and nothing is written', async () => {
    const world = await livedWorld(6, 100)
    const lines = exported(await wholeHistory(world.store))
      .split('\n')
      .slice(0, -1)
    const text = (change: (line: string, at: number) => readonly string[]): string => {
      return lines
        .flatMap(change)
        .map((line) => `${line}\n`)
        .join('')
    }
    for (const [damaged, line, said] of [
      [text((each, at) => [at === 4 ? each.replace('"atMs":1', '"atMs":2') : each]), 5, 'hash'],
      [text((each, at) => (at === 3 ? [] : [each])), 4, 'numbered 5 instead of 4'],
      [text((each, at) => (at === 2 ? [each, each] : [each])), 4, 'numbered 3'],
      [text((each, at) => [at === 6 ? 'nonsense' : each]), 7, 'is no event'],
      [text((each) => [each]).slice(0, -9), lines.length, 'is cut off'],
    ] as const) {
      expect(() => readLedger(damaged)).toThrow(
        expect.objectContaining({
          code: 'DECODE_ERROR',
          message: expect.stringMatching(`^line ${line} cannot be taken: .*${said}`) as string,
        }),
      )
      const url = `memory:damaged-${process.pid}`
      const api = await openApi(url)
      await expect(importLedger(url, damaged)).rejects.toMatchObject({ code: 'DECODE_ERROR' })
      expect(await api.history({ limit: 10 })).toEqual([])
      await api.close()
    }
  })

  it('is refused where a chain that fits holds what no store has written', async () => {
    const world = await livedWorld(6, 100)
    const history = await wholeHistory(world.store)
    const at = history.findIndex(({ event }) => event.type === 'lease.issued')
    const forge = (change: (event: LeaseEvent) => unknown): string => {
      const entries = history.map((entry, index) => {
        if (index !== at) return entry
        return { ...entry, event: change(entry.event) as LeaseEvent }
      })
      return exported(entries)
    }
    const first = history[at]?.event
    if (first?.type !== 'lease.issued') throw new Error('nothing was issued')
    for (const [change, said] of [
      [{ fence: -1 }, 'lease.issued has no such lease'],
      [{ gold: 1 }, 'lease.issued has no such lease'],
      [{ deadline: { domain: 'x', us: 'y' } }, 'lease.issued has no such lease'],
      [{ delegation: { line: [] } }, 'lease.issued has no such lease'],
      [{ id: 'ffffffff-0000-4000-8000-000000000001' }, 'is about another than what it holds'],
    ] as const) {
      const text = forge((event) => ({ ...event, lease: { ...first.lease, ...change } }))
      expect(() => readLedger(text)).toThrow(`line ${at + 1} cannot be taken`)
      expect(() => readLedger(text)).toThrow(said)
    }
    expect(() => readLedger(forge((event) => ({ ...event, more: 1 })))).toThrow('no such more')
    const twice = history.flatMap((entry, index) => (index === at ? [entry, entry] : [entry]))
    expect(() => readLedger(exported(twice))).toThrow(`line ${at + 2} cannot be taken`)
  })
})

describe('a store that is rebuilt', () => {
  it.each(EVERY_STORE)(
    'goes on after the last fence that is taken, and reads what it then wrote (%s)',
    async (name) => {
      const one = new Family()
      await one.release(await one.root('work:w'))
      const last = 2 ** 52
      const told = structuredClone(await wholeHistory(one.store)).map(({ position, event }) => {
        if (event.type !== 'lease.issued') return { position, event }
        return { position, event: { ...event, lease: { ...event.lease, fence: last } } }
      })
      const url = await freshStoreOf(name)
      const api = await openApi(url)
      onTestFinished(() => api.close())
      await importLedger(url, exported(told))
      const wish = { resource: parseResource('work:w'), holder: 'new', session: 'new', waitMs: 0 }
      const answer = await api.acquire({ ...wish, id: lineId(7), ttlMs: 60_000 })
      expect(answer).toMatchObject({ kind: 'granted', lease: { fence: last + 1 } })
      // The store reads what it has written; another takes only what leaves it room to go on.
      const history = await api.history({ limit: 100 })
      expect(digestOf(history)).toMatch(/^[0-9a-f]+$/)
      expect(() => readLedger(exported(history))).toThrow(
        `line ${history.length} cannot be taken: lease.issued: lease.fence must be at most ${last}, got ${last + 1}`,
      )
    },
  )

  it('takes no lease that has more left than its TTL, where it knows its clock', async () => {
    const family = new Family()
    await family.root('work:w')
    const events = (await wholeHistory(family.store)).map(({ event }) => event)
    const longer = structuredClone(events) as { lease?: { deadline: { us: number } } }[]
    for (const { lease } of longer) if (lease !== undefined) lease.deadline.us += 1e12
    const store = new MemoryStore({ ticks: family.ticks })
    const restoring = restoreLedger(store, longer as unknown as LeaseEvent[], { resume: false })
    await expect(restoring).rejects.toMatchObject({
      code: 'DECODE_ERROR',
      message: expect.stringMatching(/^deadline of lease \S+ must be at most \d+, got/) as string,
    })
    expect(await store.history({ limit: 10 })).toEqual([])
    await restoreLedger(store, events, { resume: false })
  })

  it('goes on with the epoch that a lease began with, though the one before it was pruned', async () => {
    const family = new Family()
    const first = await family.root('workflow:f')
    await family.api.advance({ id: first.id, holder: first.holder, from: 0, count: 7 })
    await family.release(first)
    const second = await family.root('workflow:f')
    const entries = await wholeHistory(family.store)
    const kept = entries.filter(({ event }) => event.leaseId === second.id)
    const { events } = readLedger(exported(kept))
    const rebuilt = new Family(() => new MemoryStore({ ticks: family.ticks }))
    await restoreLedger(rebuilt.store, events, { resume: false })
    await rebuilt.release(second)
    expect((await rebuilt.root('workflow:f')).epoch).toBe(7)
  })
})

/** 5,200 events: two commits. */
async function longLedger(): Promise<readonly LeaseEvent[]> {
  const api = await openApi('memory:')
  onTestFinished(() => api.close())
  for (let number = 0; number < 2_600; number += 1) {
    const leaseId = `${String(number).padStart(8, '0')}-0000-4000-8000-000000000000`
    const resource = parseResource(`work:${number % 300}`)
    const who = { id: leaseId, resource, holder: 'ann' }
    await api.acquire({ ...who, session: 'ann', waitMs: 0, ttlMs: 60_000 })
    await api.release(who)
  }
  return readLedger(exported(await api.history({ limit: 10_000 }))).events
}

describe('a long ledger', () => {
  it('takes several commits, and goes on after the last one that was made', async () => {
    const events = await longLedger()
    const store = new MemoryStore({ ticks: new ManualTicks() })
    const transact = store.transact.bind(store)
    let commits = 0
    store.transact = async (readSets, decide) => {
      commits += 1
      if (commits > 1) throw new Error('the power is gone')
      return transact(readSets, decide)
    }
    const started = restoreLedger(store, events, { resume: false })
    await expect(started).rejects.toThrow('the power is gone')
    expect(await store.history({ limit: 10_000 })).toHaveLength(5_000)
    store.transact = async () => {
      throw new LeaseError('STORE_UNAVAILABLE', 'the server took too long')
    }
    await expect(restoreLedger(store, events, { resume: true })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: expect.stringMatching(
        /^the server took too long; 5000 of 5200 events are there, .*--continue/,
      ) as string,
      details: { events: 5_000 },
    })
    store.transact = transact
    const anew = restoreLedger(store, events, { resume: false })
    await expect(anew).rejects.toMatchObject({ code: 'LEASE_EXISTS' })
    const other = restoreLedger(store, events.slice(1), { resume: true })
    await expect(other).rejects.toMatchObject({ code: 'LEASE_EXISTS' })
    await restoreLedger(store, events, { resume: true })
    const kept = await store.history({ limit: 10_000 })
    expect(kept.map(({ event }) => event)).toEqual(events)
    await restoreLedger(store, events, { resume: true })
  })

  it.each([1, 2])('is refused when somebody comes before commit %i is made', async (nth) => {
    const events = await longLedger()
    const store = new MemoryStore({ ticks: new ManualTicks() })
    const transact = store.transact.bind(store)
    const stranger = new LeaseService({ store, runtime: new FakeRuntime() })
    const come = async (): Promise<void> => {
      store.transact = transact
      const resource = parseResource(nth === 1 ? 'work:elsewhere' : 'work:299')
      const who = {
        id: '00000000-0000-4000-8000-000000000009',
        resource,
        holder: 'eve',
        session: 'eve',
      }
      const answer = await stranger.acquire({ ...who, waitMs: 0, ttlMs: 60_000 })
      expect(answer.kind).toBe('granted')
    }
    let commits = 0
    store.transact = async (readSets, decide) => {
      commits += 1
      if (commits === nth) await come()
      return transact(readSets, decide)
    }
    const restoring = restoreLedger(store, events, { resume: false })
    await expect(restoring).rejects.toThrow('must be used by nobody else')
    const again = restoreLedger(store, events, { resume: true })
    await expect(again).rejects.toMatchObject({ code: 'LEASE_EXISTS' })
  })
})
