import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { openTenure } from '../../src/index.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import { SENTINEL_NAME, SentinelGroup } from '../servers/sentinel-group.ts'
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
import { sessionDigest } from '../../src/service/session-digest.ts'

describe('a client of the caller', () => {
  it('of ioredis is used, and left open', async () => {
    const { url } = await server()
    const client = direct(url)
    const store = await openRedisStore({ client })
    const subject = new LeaseService({ store, runtime: systemRuntime })
    const { kind } = await subject.acquire({
      ...{ id: systemRuntime.uuid(), resource: WORK, holder: 'ada', session: 'ada' },
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
    onTestFinished(() => client.destroy())
    const subject = await Subject.open({ client })
    const other = await Subject.open({ url })
    const { id } = await subject.grant()
    const heard = new Promise<void>((resolve) => {
      void other.store
        .subscribe(sessionDigest('ada'), () => resolve())
        .then(async () => {
          await subject.api.revoke({ id: id, by: 'operator' })
        })
    })
    await heard
    const heardBack = new Promise<void>((resolve) => {
      void subject.store
        .subscribe(sessionDigest('ada'), () => resolve())
        .then(async () => {
          const next = await other.grant()
          await other.api.revoke({ id: next.id, by: 'operator' })
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

  it('of ioredis behind Sentinels goes on with the replica that is promoted', async () => {
    const group = await SentinelGroup.start()
    onTestFinished(() => group.close())
    const redis = new Redis({
      ...{ sentinels: [...group.places], name: SENTINEL_NAME, failoverDetector: true },
      ...{ enableOfflineQueue: false, maxRetriesPerRequest: 0 },
      autoResendUnfulfilledCommands: false,
    })
    redis.on('error', () => undefined)
    onTestFinished(() => redis.disconnect())
    const tenure = await openTenure({ redis }, { holder: 'ada' })
    onTestFinished(() => tenure.close())
    const first = await tenure.acquire('work:W-1', { ttlMs: 60_000 })
    // Replication is asynchronous: what the replicas have must not be left to chance here.
    await redis.wait(2, 5_000)
    await group.losePrimary()
    await until(async () => (await tenure.get(first.id).catch(() => null)) !== null)
    await first.renew()
    await first.release()
    const second = await tenure.acquire('work:W-1', { ttlMs: 60_000 })
    expect(second.fence).toBeGreaterThan(first.fence)
    await second.release()
  })

  it('that is none is refused', async () => {
    await expect(openRedisStore({ client: {} as never })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    })
  })
})

describe('a database', () => {
  it('that the server does not have is refused, and database 0 is not used instead', async () => {
    const { url } = await server({ settings: { databases: '4' } })
    const opening = openRedisStore({ url: `${url}/4` })
    await expect(opening).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    await expect(opening).rejects.toThrow(/\/4 cannot be used: ERR DB index is out of range/)
    expect(await direct(url).dbsize()).toBe(0)
    await Subject.open({ url: `${url}/3` })
    expect(await direct(url).dbsize()).toBe(0)
    expect(await direct(`${url}/3`).dbsize()).toBeGreaterThan(0)
  })
})

describe('a waiter on Redis', () => {
  it('is told to look for itself while nothing can be heard, and again when it can', async () => {
    const { url } = await server()
    const proxy = await proxyTo(url)
    const subject = await Subject.open({ url: proxy.through(url) })
    let told = 0
    await subject.store.subscribe(sessionDigest('ada'), () => {
      told += 1
    })
    expect(told).toBe(0)
    proxy.refuse()
    await until(async () => told > 1)
    proxy.clear()
    await until(async () => (await subject.store.end()) !== '')
    const { id } = await (await Subject.open({ url })).grant()
    const before = told
    await subject.api.revoke({ id: id, by: 'operator' })
    await until(async () => told > before)
  })
})

describe('what is kept on Redis', () => {
  it.each(['3', '7'])('in layout %s is refused by name and left as it is', async (version) => {
    const { url } = await server()
    const admin = direct(url)
    await admin.hset('tenure:{default}:meta', { version, buckets: '1' })
    await expect(Subject.open({ url })).rejects.toMatchObject({
      code: 'STORE_SCHEMA',
      message: `schema version must be 6 for this version of Tenure, got ${version}`,
    })
    expect(await admin.keys('*')).toEqual(['tenure:{default}:meta'])
  })

  it('is gone when it is pruned, down to what expires by itself', async () => {
    const { url } = await server()
    const clock = new ShiftedClock()
    const subject = await Subject.open({ url, nowUs: clock.nowUs })
    for (const name of ['a', 'b']) {
      const { id: leaseId } = await subject.grant(name)
      const resource = parseResource(`work:${name}`)
      await subject.api.release({ id: leaseId, resource, holder: 'ada', requestId: leaseId })
    }
    clock.shiftMs += 200_000_000
    const nowMs = Math.floor(clock.nowUs() / 1000)
    await subject.store.prune({ endedBeforeMs: nowMs - 1_000, nowMs, batch: 100 })
    const admin = direct(url)
    const left: string[] = []
    for (const key of await admin.keys('*')) {
      if ((await admin.pttl(key)) === -1) left.push(key)
    }
    expect(await admin.xlen('tenure:{default}:ledger')).toBe(0)
    expect(left.toSorted()).toEqual([
      'tenure:{default}:e',
      'tenure:{default}:ledger',
      'tenure:{default}:live',
      'tenure:{default}:meta',
      'tenure:{default}:pruned',
    ])
    expect((await admin.hkeys('tenure:{default}:live')).toSorted()).toEqual(['pruned', 'state'])
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

describe('words beyond ASCII on Redis', () => {
  it('come back in leases and in their history as they were given', async () => {
    const { url } = await server()
    const subject = await Subject.open({ url })
    const resource = parseResource('work:Zürich 東京 😀')
    const holder = 'Ærø "x" \\ 😀'
    const request = { id: systemRuntime.uuid(), resource, holder, session: 'sitzung-é' }
    const words = { reason: 'größer\u2028', metadata: { schlüssel: 'wért' } }
    await subject.api.acquire({ ...request, ...words, ttlMs: TTL_MS, waitMs: 0 })
    await subject.api.revoke({ id: request.id, by: 'opérateur', reason: 'weil „ja“' })
    expect(await subject.api.get({ id: request.id })).toMatchObject({ resource, holder, ...words })
    const events = await subject.api.history({ resource })
    const session = sessionDigest(request.session)
    expect(events.map(({ event }) => event)).toMatchObject([
      { resource, holder, session, reason: words.reason, lease: words },
      { resource, holder, session, reason: 'weil „ja“', by: 'opérateur' },
    ])
  })
})

const CLUSTER = { 'cluster-enabled': 'yes', 'cluster-announce-ip': '127.0.0.1', databases: '1' }

describe('Redis Cluster', () => {
  it('that was down at the first look is used as soon as it is up', async () => {
    const node = await server({ settings: CLUSTER })
    const admin = direct(node.url)
    await admin.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16382')
    const opening = openRedisStore({ url: node.url, connectMs: 60_000 })
    onTestFinished(async () => void (await opening.catch(() => null))?.close())
    // Nobody else asks for it here: the driver has looked, and has found that a slot is served by no server.
    await until(async () => {
      return String(await admin.info('commandstats')).includes('cmdstat_cluster|info')
    })
    await admin.call('CLUSTER', 'ADDSLOTS', '16383')
    expect((await opening).description.url).toBe(`${node.url}/0`)
  })

  it('serves a namespace that is divided into buckets, and one that is not', async () => {
    const node = await server({ settings: CLUSTER })
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
    const setting = { key: 'default_ttl_seconds', scope: 'global', resourceId: null } as const
    await subject.store.configure({ ...setting, value: '7' })
    for (const name of ['e', 'f', 'g']) {
      const resource = parseResource(`work:${name}`)
      const place = { id: systemRuntime.uuid(), resource, holder: 'ada', session: 'ada' }
      expect(await subject.api.acquire({ ...place, waitMs: 0 })).toMatchObject({
        lease: { ttlMs: 7_000 },
      })
    }
    const members = names.map((name) => ({
      ...{ id: systemRuntime.uuid(), resource: parseResource(`all:${name}`) },
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

  it('grants nothing from a part of its keys while they move to another server', async () => {
    const { nodes, subject } = await twoNodes()
    const held = await subject.acquire({}, 'held')
    expect(held.kind).toBe('granted')
    const move = await slotMove(nodes, 'tenure:{default}')
    await move.begin()
    await move.takeAlong(['tenure:{default}:live'])
    // The rest is where it was: what the ledger and the deadlines tell is not to be had where the leases are.
    await expect(subject.acquire({}, 'other')).rejects.toThrow(/Too many Cluster redirections/)
    await move.takeAlong(await move.left())
    await move.end()
    expect((await subject.acquire({ holder: 'bob' }, 'held')).kind).toBe('held')
    expect((await subject.acquire({}, 'other')).kind).toBe('granted')
    const events = await subject.store.history({ limit: 10 })
    expect(events.map(({ event }) => event.resource)).toEqual(['work:held', 'work:other'])
  })
})

/** A Cluster of two, each with one half of the slots, and a store of one bucket on it. */
async function twoNodes() {
  const urls = [await server({ settings: CLUSTER }), await server({ settings: CLUSTER })]
  const nodes = urls.map(({ url }) => direct(url)) as [Redis, Redis]
  const [first, second] = nodes
  await first.call('CLUSTER', 'ADDSLOTSRANGE', '0', '8191')
  await second.call('CLUSTER', 'ADDSLOTSRANGE', '8192', '16383')
  await second.call('CLUSTER', 'SET-CONFIG-EPOCH', '2')
  await first.call('CLUSTER', 'MEET', '127.0.0.1', String(second.options.port))
  for (const node of nodes) {
    await until(async () => String(await node.cluster('INFO')).includes('cluster_state:ok'))
  }
  return { nodes, subject: await Subject.open({ url: urls[0]?.url ?? '', buckets: 1 }) }
}

/** The slot of a key goes to the other node, as \`redis-cli --cluster reshard\` has it, and as slowly as is wanted. */
async function slotMove([first, second]: readonly [Redis, Redis], key: string) {
  const slot = String(await first.cluster('KEYSLOT', key))
  const [from, to] = Number(slot) < 8192 ? [first, second] : [second, first]
  const [source, target] = [String(await from.cluster('MYID')), String(await to.cluster('MYID'))]
  const port = String(to.options.port)
  return {
    begin: async () => {
      await to.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', source)
      await from.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', target)
    },
    left: async () => (await from.call('CLUSTER', 'GETKEYSINSLOT', slot, '100')) as string[],
    takeAlong: async (keys: readonly string[]) => {
      await from.call('MIGRATE', '127.0.0.1', port, '', '0', '5000', 'KEYS', ...keys)
    },
    end: async () => {
      for (const node of [to, from]) await node.call('CLUSTER', 'SETSLOT', slot, 'NODE', target)
    },
  }
}
