/** What went wrong on Redis once, each as its users met it. */
import { describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { openRedisBackend, openRedisCheckup } from '../../src/store/redis/redis-store.ts'
import { direct, server, ShiftedClock, Subject, TTL_MS, WORK } from './redis-subject.ts'
import { ServerTicks } from './server-ticks.ts'

const DAY_MS = 86_400_000

describe('a namespace that was lost and made anew', () => {
  it('with other buckets is not used by a process that means the one before', async () => {
    const { url } = await server()
    const before = await Subject.open({ url, buckets: 8 })
    await before.grant('elsewhere')
    await direct(url).flushall()
    const after = await Subject.open({ url })
    const names = Array.from({ length: 8 }, (_, n) => `n-${n}`)
    for (const name of names) await after.grant(name)
    for (const name of names) {
      await expect(before.acquire({}, name)).rejects.toMatchObject({
        code: 'STORE_SCHEMA',
        message:
          'namespace default was made anew with 1 buckets, and this process opened it with 8: open it again',
      })
    }
    expect((await direct(url).keys('*')).filter((key) => key.includes('{default/'))).toEqual([])
  })

  it('with the same buckets is used by all, and leases of before are lost', async () => {
    const { url } = await server()
    const before = await Subject.open({ url })
    const { id, fence } = await before.grant()
    await direct(url).flushall()
    const other = await Subject.open({ url })
    const taken = await other.grant()
    expect(taken.fence).toBeGreaterThan(fence)
    expect((await before.renew(id)).kind).toBe('not_found')
    expect((await before.acquire({ holder: 'bob' })).kind).toBe('held')
  })
})

describe('a server that is out of memory', () => {
  it('can be cleaned up', async () => {
    const { url } = await server()
    const clock = new ShiftedClock()
    const subject = await Subject.open({ url, nowUs: clock.nowUs })
    await subject.release((await subject.grant()).id)
    clock.shiftMs += 31 * DAY_MS
    const admin = direct(url)
    await admin.config('SET', 'maxmemory', '1')
    expect(await subject.api.cleanup()).toMatchObject({ prunedLeases: 1, prunedEvents: 2 })
    expect(await admin.xlen('tenure:{default}:ledger')).toBe(0)
  })
})

describe('a clock that was ahead once', () => {
  it('is believed again when an operator says so, and no lease is given away early for it', async () => {
    const { url } = await server()
    const clock = new ShiftedClock()
    clock.shiftMs = 3_600_000
    const ahead = await Subject.open({ url, nowUs: clock.nowUs })
    const held = await ahead.grant()
    const subject = await Subject.open({ url })
    await expect(subject.acquire({}, 'W-2')).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    const checkup = await openRedisCheckup({ url })
    const [look] = checkup.looks
    await expect(look?.look()).rejects.toThrow(/ms behind the last commit.*--accept-clock/)
    expect(await checkup.acceptClock?.()).toMatch(/^the clock was 3\d{6} ms behind the last commit/)
    expect(await checkup.acceptClock?.()).toMatch(/nothing was changed$/)
    expect(await look?.look()).toBe('the clock is not behind the last commit')
    await checkup.close()
    expect((await subject.acquire({}, 'W-2')).kind).toBe('granted')
    expect((await subject.acquire({ holder: 'bob' })).kind).toBe('held')
    expect((await subject.release(held.id)).kind).toBe('released')
    expect((await subject.grant()).fence).toBeGreaterThan(held.fence)
  })

  it('leaves a ledger that is read on from its end', async () => {
    const { url } = await server()
    const clock = new ShiftedClock()
    clock.shiftMs = 3_600_000
    await (await Subject.open({ url, nowUs: clock.nowUs })).grant()
    const subject = await Subject.open({ url })
    const after = await subject.store.end()
    expect(await subject.store.history({ after, limit: 10 })).toEqual([])
    const checkup = await openRedisCheckup({ url })
    await checkup.acceptClock?.()
    await checkup.close()
    const { id } = await subject.grant('W-2')
    const later = await subject.store.history({ after, limit: 10 })
    expect(later.map(({ event }) => event.leaseId)).toEqual([id])
  })
})

describe('a realm that is forgotten', () => {
  it('leaves its fence behind, which no later one falls below', async () => {
    const { url } = await server()
    const clock = new ShiftedClock()
    clock.shiftMs = 3 * DAY_MS
    const ahead = await Subject.open({ url, nowUs: clock.nowUs })
    const before = await ahead.grant()
    await ahead.release(before.id)
    clock.shiftMs = 5 * DAY_MS
    await ahead.api.cleanup()
    expect(await direct(url).hexists('tenure:{default}:live', WORK)).toBe(0)
    const checkup = await openRedisCheckup({ url })
    await checkup.acceptClock?.()
    await checkup.close()
    const subject = await Subject.open({ url })
    expect((await subject.grant()).fence).toBeGreaterThan(before.fence)
  })

  it('is forgotten however many others are live', async () => {
    const { url } = await server()
    const subject = await Subject.open({ url })
    const admin = direct(url)
    // As in the head of redis-layout.ts: more realms than a cleanup looks at, and idle ones among them.
    const live = Array.from({ length: 120_000 }, (_, n) => [`live:${n}`, `1 1 0 ${WORK} 1e `])
    const idle = Array.from({ length: 400 }, (_, n) => [`idle:${n}`, '1 1 0 '])
    const fields = [...live, ...idle].flat()
    for (let at = 0; at < fields.length; at += 20_000) {
      await admin.hset('tenure:{default}:live', ...fields.slice(at, at + 20_000))
    }
    const nowMs = Date.now()
    const policy = { endedBeforeMs: nowMs - DAY_MS, nowMs, batch: 100 }
    await subject.store.prune(policy)
    await subject.store.prune(policy)
    const left = await admin.hmget('tenure:{default}:live', ...idle.map(([name = '']) => name))
    expect(left.filter((text) => text !== null)).toEqual([])
  })

  it('is not forgotten while its fence is ahead of the clock', async () => {
    const { url } = await server()
    const clock = new ShiftedClock()
    const ahead = await Subject.open({ url, nowUs: clock.nowUs })
    clock.shiftMs = 10 * DAY_MS
    const before = await ahead.grant()
    await ahead.release(before.id)
    const checkup = await openRedisCheckup({ url })
    await checkup.acceptClock?.()
    await checkup.close()
    clock.shiftMs = 2 * DAY_MS
    await ahead.api.cleanup()
    expect(await direct(url).hexists('tenure:{default}:live', WORK)).toBe(1)
  })
})

describe('a renewal in the ledger', () => {
  it('stays as long as no later one is recorded, though later ones were made', async () => {
    const { url } = await server()
    const clock = new ShiftedClock()
    const { api, store } = await Subject.open({ url, nowUs: clock.nowUs })
    const own = { id: systemRuntime.uuid(), resource: WORK, holder: 'ada' }
    const ttlMs = 20 * DAY_MS
    await api.acquire({ ...own, session: 'ada', ttlMs, waitMs: 0 })
    clock.shiftMs += 60_000
    await api.renew({ ...own, ttlMs })
    const key = { key: 'record_renewals', scope: 'global', resourceId: null } as const
    await store.configure({ ...key, value: 'false' })
    clock.shiftMs += 15 * DAY_MS
    await api.renew({ ...own, ttlMs })
    clock.shiftMs += 15 * DAY_MS
    await api.renew({ ...own, ttlMs })
    const nowMs = Math.floor(clock.nowUs() / 1_000)
    await store.prune({ endedBeforeMs: nowMs - DAY_MS, nowMs, batch: 100 })
    const told = await store.history({ leaseId: own.id, limit: 10 })
    expect(told.map(({ event }) => event.type)).toEqual(['lease.issued', 'lease.renewed'])
  })
})

describe('a request id that took over a transferred lease', () => {
  it('is known after that lease has ended', async () => {
    const { url } = await server()
    const { api } = await Subject.open({ url })
    const id = systemRuntime.uuid()
    const resource = parseResource('work:given')
    const span = { ttlMs: 60_000, waitMs: 0 }
    await api.acquire({ id, resource, holder: 'ada', session: 'ada', ...span })
    const newId = systemRuntime.uuid()
    await api.transfer({
      ...{ id, resource, holder: 'ada', requestId: systemRuntime.uuid() },
      ...{ to: 'bob', newId },
    })
    const request = { id: systemRuntime.uuid(), resource, holder: 'bob', session: 'bob' }
    expect(await api.acquire({ ...request, ...span })).toMatchObject({ kind: 'granted' })
    const [lease] = (await api.inspect({ resource })).leases
    await api.release({ id: lease?.id ?? '', resource, holder: 'bob', requestId: id })
    expect((await api.acquire({ ...request, ...span })).kind).toBe('terminal')
  })
})

describe('a waiter in a long queue', () => {
  it('is sent nothing of the others when it comes too late, or when its ticket was dropped', async () => {
    const { url } = await server()
    const client = direct(url)
    let bytes = 0
    const call = client.call.bind(client) as (...words: string[]) => Promise<unknown>
    // The search for deadlocks looks at the queue in the background, and is not what is measured here.
    const counting = async (...words: string[]): Promise<unknown> => {
      const reply = await call(...words)
      if (words.at(-1)?.includes('"attempts":') === true) bytes += JSON.stringify(reply).length
      return reply
    }
    Object.assign(client, { call: counting })
    const ticks = new ServerTicks()
    const backend = await openRedisBackend({ client, nowUs: ticks.nowUs })
    const driven = ticks.drive(backend)
    const api = new LeaseService({
      store: await OptimisticStore.open(driven, systemRuntime, ticks.time),
      runtime: systemRuntime,
    })
    const waits = Array.from({ length: 200 }, (_, n) => {
      const [id, name] = [systemRuntime.uuid(), `h${n}`]
      const who = { holder: name, session: name }
      return { id, resource: WORK, ...who, ttlMs: TTL_MS, waitMs: TTL_MS }
    })
    for (const one of waits) await api.acquire(one)
    const [own] = waits.slice(100) as [(typeof waits)[number]]
    const ticket = { id: own.id, resource: WORK, holder: own.holder, session: own.session }

    const told = async (
      asked: () => Promise<{ readonly kind: string }>,
    ): Promise<[string, number]> => {
      bytes = 0
      return [(await asked()).kind, bytes]
    }
    const { attempt } = backend
    backend.attempt = async (group) => {
      backend.attempt = attempt
      ticks.pass(1)
      return attempt.call(backend, group)
    }
    const [late, lateBytes] = await told(() => api.claim(ticket))
    expect(late).toBe('queued')
    expect(lateBytes).toBeLessThan(2_000)

    // Another process of its session gives it up, of which this one does not hear.
    const other = await Subject.openAtNoTime({ url })
    await other.api.withdraw({ ...ticket, why: 'aborted' })
    const [gone, goneBytes] = await told(() => api.claim(ticket))
    expect(gone).toBe('terminal')
    expect(goneBytes).toBeLessThan(2_000)
    await api.close()
  })
})
