import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterEach, describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { Store } from '../../src/store-port/store.ts'
import { openRedisStore, type RedisStoreOptions } from '../../src/store/redis/redis-store.ts'
import { Proxy } from '../servers/proxy.ts'
import { startRedis, type RedisOptions } from '../servers/redis-server.ts'
import type { TestServer } from '../servers/test-server.ts'

const WORK = parseResource('work:W-1')
const TTL_MS = 60_000
const PASSWORD = 'p%:@/word'

/** What a test opened, to be closed in the opposite order. */
const opened: (() => unknown)[] = []

afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close()
})

async function server(options: RedisOptions = {}): Promise<TestServer> {
  const started = await startRedis(options)
  opened.push(() => started.close())
  return started
}

async function proxyTo(url: string): Promise<Proxy> {
  const proxy = await Proxy.start(url)
  opened.push(() => proxy.close())
  return proxy
}

function direct(url: string): Redis {
  const client = new Redis(url)
  client.on('error', () => undefined)
  opened.push(() => client.disconnect())
  return client
}

class Subject {
  readonly store: Store
  readonly api: LeaseService

  static async open(options: RedisStoreOptions): Promise<Subject> {
    const subject = new Subject(await openRedisStore(options))
    opened.push(() => subject.api.close())
    return subject
  }

  private constructor(store: Store) {
    this.store = store
    this.api = new LeaseService({ store, runtime: systemRuntime })
  }

  acquire(change: { readonly leaseId?: string; readonly holder?: string } = {}, name = 'W-1') {
    const { leaseId = systemRuntime.uuid(), holder = 'ada' } = change
    const resource = parseResource(`work:${name}`)
    return this.api.acquire({
      leaseId,
      resource,
      holder,
      session: holder,
      ttlMs: TTL_MS,
      waitMs: 0,
    })
  }

  async grant(name = 'W-1'): Promise<{ readonly id: string; readonly fence: number }> {
    const outcome = await this.acquire({}, name)
    if (outcome.kind !== 'granted') throw new Error(`acquire came to ${outcome.kind}`)
    return { id: outcome.lease.id, fence: outcome.lease.fence ?? 0 }
  }

  release(leaseId: string, requestId = systemRuntime.uuid()) {
    return this.api.release({ leaseId, resource: WORK, holder: 'ada', requestId })
  }

  renew(leaseId: string, requestId = systemRuntime.uuid(), ttlMs = 2 * TTL_MS) {
    return this.api.renew({ leaseId, resource: WORK, holder: 'ada', requestId, ttlMs })
  }
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo().catch(() => false))) {
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** The real time, moved. */
class ShiftedClock {
  shiftMs = 0
  readonly nowUs = (): number => {
    return Math.floor((performance.timeOrigin + performance.now() + this.shiftMs) * 1000)
  }
}

describe('an uncontended command on Redis', () => {
  it('is one round trip, the first as every other', async () => {
    const { url } = await server()
    const proxy = await proxyTo(url)
    const subject = await Subject.open({ url: proxy.through(url) })
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
      await count(subject.api.renew({ leaseId, ...place, ttlMs: 2 * TTL_MS, requestId }))
      await count(subject.api.release({ leaseId, ...place, requestId: systemRuntime.uuid() }))
      expect(counts).toEqual([1, 1, 1])
    }
  })

  it('shares its round trip with others: a thousand renewals are at most ten', async () => {
    const { url } = await server()
    const proxy = await proxyTo(url)
    const subject = await Subject.open({ url: proxy.through(url) })
    const names = Array.from({ length: 1_000 }, (_, n) => `many-${n}`)
    const leases = await Promise.all(names.map((name) => subject.grant(name)))
    proxy.resetCounts()
    const renewed = await Promise.all(
      leases.map(({ id: leaseId }, n) => {
        const resource = parseResource(`work:${names[n]}`)
        const requestId = systemRuntime.uuid()
        return subject.api.renew({ leaseId, resource, holder: 'ada', ttlMs: 2 * TTL_MS, requestId })
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
    const lose = async (command: () => Promise<unknown>): Promise<void> => {
      const lost = proxy.loseReply()
      await expect(command()).rejects.toMatchObject(unknown)
      await lost
      proxy.clear()
      await until(async () => (await subject.store.end()) !== '')
    }
    const leaseId = systemRuntime.uuid()
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
    const told = await other.store.history({ leaseId, limit: 10 })
    expect(told.map(({ event }) => event.type)).toEqual([
      'lease.issued',
      'lease.renewed',
      'lease.released',
    ])
  })
})

describe('a server that cannot be used', () => {
  it('that is not there fails in bounded time', async () => {
    const gone = await server()
    await gone.close()
    await expect(openRedisStore({ url: gone.url, connectTimeoutMs: 1_000 })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
    })
  })

  it('that does not answer fails in bounded time', async () => {
    const { url } = await server()
    const proxy = await proxyTo(url)
    const subject = await Subject.open({ url: proxy.through(url), callTimeoutMs: 300 })
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
      expect(JSON.stringify(error) + String((error as Error).cause)).not.toMatch(/wort|p%/)
    }
  })

  it('a read-only replica is refused with one clear line', async () => {
    const primary = await server()
    const { port } = new URL(primary.url)
    const replica = await server({ settings: { replicaof: `127.0.0.1 ${port}` } })
    await expect(openRedisStore({ url: replica.url })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: expect.stringContaining('read-only replica') as string,
    })
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
    await until(async () => (await admin.exists(`tenure:{default}:e:${first.id}`)) === 1)
    await admin.replicaof('NO', 'ONE')
    await subject.release(first.id)
    const lost = await subject.grant()
    const other = await Subject.open({ url: replica.url })
    await other.api.revoke({ leaseId: first.id, by: 'operator' })
    expect((await other.grant()).fence).toBeGreaterThan(lost.fence)
  })

  it('go on growing after an idle realm was forgotten', async () => {
    const { url } = await server()
    const subject = await Subject.open({ url })
    const before = await subject.grant()
    const admin = direct(url)
    expect(await admin.pttl('tenure:{default}:m:work:W-1')).toBe(-1)
    await subject.release(before.id)
    const leftMs = await admin.pttl('tenure:{default}:m:work:W-1')
    expect(leftMs).toBeGreaterThan(86_000_000)
    await admin.del('tenure:{default}:m:work:W-1')
    expect((await subject.grant()).fence).toBeGreaterThan(before.fence)
  })
})

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
    clock.shiftMs += 6_000
    expect((await subject.acquire({}, 'W-2')).kind).toBe('granted')
  })
})

describe('a client of the caller', () => {
  it('of ioredis is used, and left open', async () => {
    const { url } = await server()
    const client = direct(url)
    const store = await openRedisStore({ client })
    const subject = new LeaseService({ store, runtime: systemRuntime })
    const { kind } = await subject.acquire({
      ...{ leaseId: systemRuntime.uuid(), resource: WORK, holder: 'ada', session: 'ada' },
      ...{ ttlMs: TTL_MS, waitMs: 0 },
    })
    expect(kind).toBe('granted')
    await subject.close()
    expect(await client.ping()).toBe('PONG')
  })

  it('of node-redis is used, woken and left open', async () => {
    const { url } = await server()
    const client = createClient({ url })
    client.on('error', () => undefined)
    await client.connect()
    opened.push(() => client.destroy())
    const subject = await Subject.open({ client })
    const other = await Subject.open({ url })
    const { id } = await subject.grant()
    const heard = new Promise<void>((resolve) => {
      void other.store
        .subscribe('ada', () => resolve())
        .then(async () => {
          await subject.api.revoke({ leaseId: id, by: 'operator' })
        })
    })
    await heard
    const heardBack = new Promise<void>((resolve) => {
      void subject.store
        .subscribe('ada', () => resolve())
        .then(async () => {
          const next = await other.grant()
          await other.api.revoke({ leaseId: next.id, by: 'operator' })
        })
    })
    await heardBack
    const followed = new Promise<void>((resolve) => {
      subject.store.follow(resolve)
    })
    await other.grant('W-3')
    await followed
    await subject.api.close()
    expect(await client.ping()).toBe('PONG')
  })

  it('that is none is refused', async () => {
    await expect(openRedisStore({ client: {} as never })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    })
  })
})

describe('what is kept on Redis', () => {
  it('is gone when it is pruned, down to what expires by itself', async () => {
    const { url } = await server()
    const clock = new ShiftedClock()
    const subject = await Subject.open({ url, nowUs: clock.nowUs })
    for (const name of ['a', 'b']) {
      const { id: leaseId } = await subject.grant(name)
      const resource = parseResource(`work:${name}`)
      await subject.api.release({ leaseId, resource, holder: 'ada', requestId: leaseId })
    }
    clock.shiftMs += 200_000_000
    const nowMs = Math.floor(clock.nowUs() / 1000)
    await subject.store.prune({ endedBeforeMs: nowMs - 1_000, nowMs, batch: 100 })
    const admin = direct(url)
    const left: string[] = []
    for (const key of await admin.keys('*')) {
      if ((await admin.pttl(key)) === -1) left.push(key)
    }
    expect(await admin.xlen('tenure:{default}:l')).toBe(0)
    expect(left.toSorted()).toEqual([
      'tenure:{default}:b',
      'tenure:{default}:l',
      'tenure:{default}:meta',
    ])
  })

  it('is data, whatever it is called', async () => {
    const { url } = await server()
    const subject = await Subject.open({ url })
    const names = [
      '{a}',
      '}{',
      '%s%d()',
      '"\'\\',
      ' a  b ',
      'ü😀\u{10ffff}',
      '*?[a]',
      'a:b:c',
      '-',
      '*',
    ]
    const leases = await Promise.all(names.map((name) => subject.grant(name)))
    for (const [n, name] of names.entries()) {
      const resource = parseResource(`work:${name}`)
      const { entries } = await subject.store.find({ resource, limit: 10 })
      expect(entries.map(({ id }) => id)).toEqual([leases[n]?.id])
    }
  })
})

describe('Redis Cluster', () => {
  it('serves a namespace that is divided into buckets, and one that is not', async () => {
    const node = await server({
      settings: {
        'cluster-enabled': 'yes',
        'cluster-announce-ip': '127.0.0.1',
        databases: '1',
      },
    })
    const admin = direct(node.url)
    await admin.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383')
    await until(async () => String(await admin.cluster('INFO')).includes('cluster_state:ok'))
    const subject = await Subject.open({ url: node.url })
    const names = ['a', 'b', 'c', 'd']
    const leases = await Promise.all(names.map((name) => subject.grant(name)))
    const { entries } = await subject.store.find({ limit: 10 })
    expect(entries.map(({ id }) => id).toSorted()).toEqual(leases.map(({ id }) => id).toSorted())
    const ledger = await subject.store.history({ limit: 3 })
    const rest = await subject.store.history({ limit: 3, after: ledger.at(-1)?.position ?? '' })
    expect(ledger.length + rest.length).toBe(4)
    const members = names.map((name) => ({
      ...{ leaseId: systemRuntime.uuid(), resource: parseResource(`all:${name}`) },
    }))
    const wish = { holder: 'ada', session: 'ada', ttlMs: TTL_MS, waitMs: 0 } as const
    const several = { group: systemRuntime.uuid(), members, ...wish }
    await expect(subject.api.acquireAll(several)).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    const whole = await Subject.open({ url: node.url, namespace: 'whole', buckets: 1 })
    expect((await whole.api.acquireAll(several)).kind).toBe('granted_all')
    await expect(openRedisStore({ url: node.url, namespace: 'whole', buckets: 2 })).rejects.toThrow(
      /buckets must be 1/,
    )
  })
})
