import { inspect } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { openRedisBackend, openRedisStore } from '../../src/store/redis/redis-store.ts'
import {
  direct,
  proxyTo,
  server,
  ShiftedClock,
  Subject,
  TTL_MS,
  until,
  WORK,
} from './redis-subject.ts'

const PASSWORD = 'p%:@/word'

describe('an uncontended command on Redis', () => {
  it('is one round trip, the first as every other', async () => {
    const { url } = await server()
    const proxy = await proxyTo(url)
    const subject = await Subject.openAtNoTime({ url: proxy.through(url) })
    for (const name of ['cold', 'warm', 'cold']) {
      const counts: number[] = []
      const count = async <Result>(work: Promise<Result>): Promise<Result> => {
        proxy.resetCounts()
        const result = await work
        counts.push(proxy.roundTrips)
        return result
      }
      const resource = parseResource(`work:${name}`)
      const place = { resource, holder: 'ada' }
      proxy.resetCounts()
      const { id: leaseId } = await count(subject.grant(name))
      const requestId = systemRuntime.uuid()
      await count(subject.api.renew({ id: leaseId, ...place, ttlMs: 2 * TTL_MS, requestId }))
      await count(subject.api.release({ id: leaseId, ...place, requestId: systemRuntime.uuid() }))
      expect(counts).toEqual([1, 1, 1])
    }
  })

  it('shares its round trip with others: a thousand renewals are at most ten', async () => {
    const { url } = await server()
    const proxy = await proxyTo(url)
    const subject = await Subject.openAtNoTime({ url: proxy.through(url) })
    const names = Array.from({ length: 1_000 }, (_, n) => `many-${n}`)
    const leases = await Promise.all(names.map((name) => subject.grant(name)))
    proxy.resetCounts()
    const renewed = await Promise.all(
      leases.map(({ id: leaseId }, n) => {
        const resource = parseResource(`work:${names[n]}`)
        const requestId = systemRuntime.uuid()
        return subject.api.renew({
          id: leaseId,
          resource,
          holder: 'ada',
          ttlMs: 2 * TTL_MS,
          requestId,
        })
      }),
    )
    expect(new Set(renewed.map(({ kind }) => kind))).toEqual(new Set(['renewed']))
    expect(proxy.roundTrips).toBeLessThanOrEqual(10)
  })

  it('does not notice that the scripts were flushed', async () => {
    const { url } = await server()
    const subject = await Subject.open({ url })
    await direct(url).script('FLUSH')
    const { id } = await subject.grant()
    expect((await subject.release(id)).kind).toBe('released')
  })
})

describe('a reply that is lost after the commit', () => {
  it('is told as unknown, and the same request gives the first answer', async () => {
    const { url } = await server()
    const proxy = await proxyTo(url)
    const subject = await Subject.open({ url: proxy.through(url) })
    const other = await Subject.open({ url })
    const unknown = { code: 'STORE_OUTCOME_UNKNOWN', effect: 'unknown' }
    const leaseId = systemRuntime.uuid()
    const told = async (): Promise<readonly string[]> => {
      return (await other.store.history({ leaseId, limit: 10 })).map(({ event }) => event.type)
    }
    // A command that came too late for the server is sent again: it is the reply to its commit that is lost.
    const lose = async (command: () => Promise<unknown>): Promise<void> => {
      const before = (await told()).length
      const lost = proxy.loseReply({ isDone: async () => (await told()).length > before })
      await expect(command()).rejects.toMatchObject(unknown)
      await lost
      proxy.clear()
      await until(async () => (await subject.store.end()) !== '')
    }
    await lose(() => subject.acquire({ leaseId }))
    const again = await subject.acquire({ leaseId })
    expect(again).toMatchObject({ kind: 'granted', repeated: true })
    const [renewal, release] = [systemRuntime.uuid(), systemRuntime.uuid()]
    await lose(() => subject.renew(leaseId, renewal))
    expect(await subject.renew(leaseId, renewal)).toMatchObject({
      kind: 'renewed',
      lease: { renewals: 1 },
    })
    await lose(() => subject.release(leaseId, release))
    expect((await subject.release(leaseId, release)).kind).toBe('released')
    expect(await told()).toEqual(['lease.issued', 'lease.renewed', 'lease.released'])
  })

  it.each([
    ['', false],
    [', also where the server has lost its scripts since', true],
  ])(
    'leaves a doubt where the client sends it again and that is refused%s',
    async (_, isFlushed) => {
      const { url } = await server()
      const proxy = await proxyTo(url)
      // As ioredis is by default.
      const subject = await Subject.open({ client: direct(proxy.through(url)) })
      const other = await Subject.open({ url })
      const isDone = async (): Promise<boolean> => {
        if ((await other.store.history({ limit: 1 })).length === 0) return false
        if (isFlushed) await direct(url).script('FLUSH')
        await direct(url).config('SET', 'min-replicas-to-write', '1')
        return true
      }
      const lost = proxy.loseReply({ isDone })
      const error: unknown = await subject.grant().catch((reason: unknown) => reason)
      await lost
      expect(error).toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN', effect: 'unknown' })
    },
  )
})

describe('a server that cannot be used', () => {
  it('that is not there fails in bounded time', async () => {
    const gone = await server()
    await gone.close()
    await expect(openRedisStore({ url: gone.url, connectMs: 1_000 })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
    })
  })

  it('that does not answer fails in bounded time', async () => {
    const { url } = await server()
    const proxy = await proxyTo(url)
    const subject = await Subject.open({ url: proxy.through(url), callMs: 2_000 })
    proxy.blackHole()
    await expect(subject.acquire()).rejects.toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN' })
    await expect(subject.store.find({ limit: 1 })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
    })
  })

  it('that was killed says so, and serves again when it is back', async () => {
    const one = await server({ settings: { appendonly: 'yes', appendfsync: 'always' } })
    const subject = await Subject.open({ url: one.url })
    const { id, fence } = await subject.grant()
    await one.kill()
    await until(async () => {
      const error: unknown = await subject.acquire().catch((caught: unknown) => caught)
      return (error as { code?: unknown }).code === 'STORE_UNAVAILABLE'
    })
    await one.restart()
    await until(async () => (await subject.store.end()) !== '')
    expect((await subject.acquire({ holder: 'bob' })).kind).toBe('held')
    expect((await subject.release(id)).kind).toBe('released')
    expect((await subject.grant()).fence).toBeGreaterThan(fence)
  })

  it('with a password tells nobody what it is', async () => {
    const { url } = await server({ password: PASSWORD })
    const subject = await Subject.open({ url })
    expect((await subject.acquire()).kind).toBe('granted')
    expect(subject.store.description.url).not.toContain(encodeURIComponent(PASSWORD))
    for (const wrong of [url.replace('word', 'wort'), url.replace(/\/\/.*@/, '//')]) {
      const error: unknown = await openRedisStore({ url: wrong }).catch((caught: unknown) => caught)
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE' })
      expect(String(error)).toMatch(/password/)
      expect(inspect(error, { depth: 9 })).not.toMatch(/wort|p%/)
    }
  })

  it('a read-only replica where nothing is yet is refused with one clear line', async () => {
    const primary = await server()
    const { port } = new URL(primary.url)
    const replica = await server({ settings: { replicaof: `127.0.0.1 ${port}` } })
    await expect(openRedisStore({ url: replica.url })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: expect.stringContaining('read-only replica') as string,
    })
  })

  it('that is too old for the scripts is refused with its version', async () => {
    const { url } = await server()
    const client = direct(url)
    const call = client.call.bind(client) as (...words: string[]) => Promise<unknown>
    // As a server of version 6.2 answers, which does not know the first line of the scripts.
    const old = async (...words: string[]): Promise<unknown> => {
      if (words.join(' ') === 'INFO server') return '# Server\r\nredis_version:6.2.14\r\n'
      if (!/^(EVAL|SCRIPT LOAD #!)/.test(words.join(' '))) return call(...words)
      if (words[0] === 'EVALSHA') throw new Error('NOSCRIPT No matching script. Please use EVAL.')
      throw new Error(
        "ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'",
      )
    }
    Object.assign(client, { call: old })
    await expect(openRedisStore({ client })).rejects.toMatchObject({
      ...{ code: 'STORE_UNAVAILABLE', effect: 'none' },
      message: expect.stringMatching(/must be Redis 7\.0 or later, got 6\.2\.14$/),
    })
  })

  it('whose user may not publish refuses whole, with one clear line', async () => {
    const { url } = await server()
    const admin = direct(url)
    await admin.call('ACL', 'SETUSER', 'few', 'on', '>word', '~*', '+@all', 'resetchannels')
    const subject = await Subject.open({ url: url.replace('//', '//few:word@') })
    await expect(subject.grant()).rejects.toMatchObject({
      ...{ code: 'STORE_UNAVAILABLE', effect: 'none' },
      message: expect.stringMatching(
        /refused: the user may not publish on the channels tenure:\*$/,
      ),
    })
    expect(await subject.store.history({ limit: 1 })).toEqual([])
    await admin.call('ACL', 'SETUSER', 'few', '&tenure:*')
    const { id } = await subject.grant()
    expect((await subject.release(id)).kind).toBe('released')
  })

  it('that is out of memory refuses whole, and nothing is half written', async () => {
    const { url } = await server()
    const subject = await Subject.open({ url })
    const { id } = await subject.grant()
    const admin = direct(url)
    const before = await admin.dbsize()
    await admin.config('SET', 'maxmemory', '1')
    await expect(subject.acquire({}, 'W-2')).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: expect.stringContaining('out of memory') as string,
    })
    await expect(subject.release(id)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    expect(await admin.dbsize()).toBe(before)
    await admin.config('SET', 'maxmemory', '0')
    expect((await subject.release(id)).kind).toBe('released')
    expect((await subject.acquire({}, 'W-2')).kind).toBe('granted')
  })
})

describe('questions on Redis', () => {
  const asks = async (subject: Subject, held: string): Promise<void> => {
    const { leases } = await subject.api.list({ holder: 'ada' })
    expect(leases.map(({ id }) => id)).toContain(held)
    expect((await subject.api.get({ id: held }))?.state).toBe('active')
    expect((await subject.api.inspect({ resource: WORK })).leases.map(({ id }) => id)).toEqual([
      held,
    ])
    expect(await subject.api.history({ id: held })).toHaveLength(1)
    const { entries } = await subject.store.find({ deadline: 'passed', limit: 10 })
    expect(entries).toEqual([])
  }

  it('are answered by a server that is out of memory, also to whoever comes then', async () => {
    const { url } = await server()
    const subject = await Subject.open({ url })
    const { id } = await subject.grant()
    await direct(url).config('SET', 'maxmemory', '1')
    await asks(subject, id)
    await asks(await Subject.open({ url }), id)
  })

  it('are answered by one that is out of memory where the namespace is divided', async () => {
    const { url } = await server()
    const { id } = await (await Subject.open({ url, buckets: 2 })).grant()
    await direct(url).config('SET', 'maxmemory', '1')
    await asks(await Subject.open({ url }), id)
  })

  it('are answered by a read-only replica', async () => {
    const primary = await server()
    const { port } = new URL(primary.url)
    const { id } = await (await Subject.open({ url: primary.url })).grant()
    const replica = await server({ settings: { replicaof: `127.0.0.1 ${port}` } })
    await until(async () => (await direct(replica.url).hexists('tenure:{default}:live', id)) === 1)
    const subject = await Subject.open({ url: replica.url })
    await asks(subject, id)
    await expect(subject.acquire({}, 'W-2')).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  })
})

describe('a renewal on Redis', () => {
  it('that is repeated within a day counts once, whatever came between', async () => {
    const { url } = await server()
    const clock = new ShiftedClock()
    const subject = await Subject.open({ url, nowUs: clock.nowUs })
    const { id } = await subject.grant()
    const [first, second] = [systemRuntime.uuid(), systemRuntime.uuid()]
    await subject.renew(id, first, DAY_MS)
    await subject.renew(id, second, DAY_MS + 60_000)
    clock.shiftMs += DAY_MS - 60_000
    await subject.renew(id, first, DAY_MS)
    const renewals = (await subject.api.history({ id })).filter(({ event }) => {
      return event.type === 'lease.renewed'
    })
    expect(renewals.map(({ event }) => event.requestId)).toEqual([first, second])
  })
})

describe('fences on Redis', () => {
  it('go on growing after FLUSHALL, for whoever remembers and for whoever does not', async () => {
    const { url } = await server()
    const subject = await Subject.open({ url })
    const before = await subject.grant()
    await direct(url).flushall()
    const other = await Subject.open({ url })
    const after = await other.grant()
    expect(after.fence).toBeGreaterThan(before.fence)
    await other.release(after.id)
    expect((await subject.grant()).fence).toBeGreaterThan(after.fence)
  })

  it('go on growing after FLUSHALL, also for a process that decides at an earlier time', async () => {
    const { url } = await server()
    const clock = new ShiftedClock()
    const backend = await openRedisBackend({ url, nowUs: clock.nowUs })
    const late = await OptimisticStore.open(backend, systemRuntime, {
      ...{ lowerUs: () => clock.nowUs() - 1_000_000, toleranceUs: () => 5_000_000 },
      ...{ note: () => undefined, reset: () => undefined },
    })
    const api = new LeaseService({ store: late, runtime: systemRuntime })
    onTestFinished(() => api.close())
    const before = await (await Subject.open({ url, nowUs: clock.nowUs })).grant()
    await direct(url).flushall()
    const place = { id: systemRuntime.uuid(), resource: WORK, holder: 'bob', session: 'bob' }
    const after = await api.acquire({ ...place, ttlMs: TTL_MS, waitMs: 0 })
    expect(after.kind === 'granted' && after.lease.fence).toBeGreaterThan(before.fence)
  })

  it('go on growing after a restart without persistence', async () => {
    const one = await server()
    const subject = await Subject.open({ url: one.url })
    const before = await subject.grant()
    await one.kill()
    await one.restart()
    await until(async () => (await subject.store.end()) !== '')
    expect((await subject.grant()).fence).toBeGreaterThan(before.fence)
  })

  it('go on growing after a failover to a replica that is behind', async () => {
    const primary = await server()
    const { port } = new URL(primary.url)
    const replica = await server({ settings: { replicaof: `127.0.0.1 ${port}` } })
    const admin = direct(replica.url)
    const subject = await Subject.open({ url: primary.url })
    const first = await subject.grant()
    await until(async () => (await admin.hexists('tenure:{default}:live', first.id)) === 1)
    await admin.replicaof('NO', 'ONE')
    await subject.release(first.id)
    const lost = await subject.grant()
    const other = await Subject.open({ url: replica.url })
    await other.api.revoke({ id: first.id, by: 'operator' })
    expect((await other.grant()).fence).toBeGreaterThan(lost.fence)
  })

  it('go on growing after an idle realm was forgotten', async () => {
    const { url } = await server()
    const clock = new ShiftedClock()
    const subject = await Subject.open({ url, nowUs: clock.nowUs })
    const before = await subject.grant()
    await subject.grant('held')
    await subject.release(before.id)
    const realms = async (): Promise<string[]> => {
      const fields = await direct(url).hkeys('tenure:{default}:live')
      return fields.filter((field) => field.includes(':'))
    }
    clock.shiftMs += 2 * DAY_MS
    await subject.grant('other')
    await subject.api.cleanup()
    // That of a lease that has just been settled is not idle.
    expect((await realms()).toSorted()).toEqual(['work:held', 'work:other'])
    expect((await subject.grant()).fence).toBeGreaterThan(before.fence)
  })

  it('are remembered by an idle realm for a day', async () => {
    const { url } = await server()
    const clock = new ShiftedClock()
    const subject = await Subject.open({ url, nowUs: clock.nowUs })
    await subject.release((await subject.grant()).id)
    clock.shiftMs += DAY_MS - 60_000
    await subject.api.cleanup()
    expect(await direct(url).hkeys('tenure:{default}:live')).toContain('work:W-1')
  })
})

const DAY_MS = 86_400_000

describe('the clock of the server', () => {
  it('is not believed when it is more than 5 s behind the last commit', async () => {
    const { url } = await server()
    const clock = new ShiftedClock()
    const subject = await Subject.open({ url, nowUs: clock.nowUs })
    await subject.grant()
    clock.shiftMs -= 6_000
    await expect(subject.acquire({}, 'W-2')).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: expect.stringContaining('behind') as string,
    })
    const overlapping = { resource: parseResource('work:W-2'), extent: 'exact' } as const
    await expect(subject.store.find({ overlapping, limit: 1 })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
    })
    clock.shiftMs += 6_000
    expect((await subject.acquire({}, 'W-2')).kind).toBe('granted')
  })
})
