/** What is in Redis, byte for byte: foreign instances read and write the same keys. */
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { openLeaseManager, type LeaseManager } from '../../src/fleet.ts'
import type { FleetLayout, FleetNode } from '../../src/fleet/fleet-layout.ts'
import { openLayout } from '../../src/open-fleet.ts'
import type { OpenManagerOptions } from '../../src/fleet.ts'
import { Proxy } from '../servers/proxy.ts'
import { startRedis } from '../servers/redis-server.ts'
import { type Place, freshRedis } from '../servers/shared-servers.ts'

const ID = '3f2504e0-4f89-41d3-9a0c-0305e82c3301'
const LEASE = `poll:lease:${ID}`
const FENCE = `poll:fence:{poll:lease:${ID}}`
const RENEW = `if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end`
const RELEASE = `if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1]) else return 0 end`

/** Renews often, and is patient with a busy machine. */
const QUICK = {
  ...{ leaseTtlMs: 9_000, heartbeatTtlMs: 9_000, refreshMs: 500, callMs: 4_000 },
  discoverMs: 8_000,
}

let place: Place
let redis: Redis
const managers: LeaseManager[] = []

beforeEach(async () => {
  place = await freshRedis()
  redis = new Redis(place.url)
})

afterEach(async () => {
  await Promise.all(managers.splice(0).map(async (manager) => manager.stop()))
  redis.disconnect()
  await place.remove()
})

async function start(options: OpenManagerOptions = {}, url = place.url): Promise<LeaseManager> {
  const manager = await openLeaseManager(url, options)
  await manager.start()
  managers.push(manager)
  return manager
}

describe('the keys', () => {
  it('are the plain instance id and a plain 1, with the TTLs of the seed', async () => {
    const manager = await start()
    await manager.tryAcquire(ID)
    expect(await redis.get(LEASE)).toBe(manager.instanceId)
    expect(await redis.get(`poll:node:${manager.instanceId}`)).toBe('1')
    for (const key of [LEASE, `poll:node:${manager.instanceId}`]) {
      const leftMs = await redis.pttl(key)
      expect(leftMs).toBeGreaterThan(20_000)
      expect(leftMs).toBeLessThanOrEqual(30_000)
    }
    const fence = manager.leaseInfo(ID).fence ?? 0
    expect(await redis.get(FENCE)).toBe(String(fence))
    expect(Math.abs(fence / 1000 - Date.now())).toBeLessThan(60_000)
    const keys = (await redis.keys('*')).toSorted()
    const { instanceId } = manager
    const own = ['node', 'ttl', 'weight'].map((kind) => `poll:${kind}:${instanceId}`)
    expect(keys).toEqual([FENCE, LEASE, ...own, 'poll:nodes', 'poll:run'].toSorted())
  })

  it('begin with the prefix that is configured, and two prefixes know nothing of each other', async () => {
    const [a, b] = [await start({ prefix: 'my:app' }), await start({ prefix: 'mine' })]
    expect(await a.tryAcquire(ID)).toBe(true)
    expect(await b.tryAcquire(ID)).toBe(true)
    expect(await redis.get(`my:app:lease:${ID}`)).toBe(a.instanceId)
    expect(await a.getLiveNodes()).toEqual([a.instanceId])
  })

  it('spell a session as it was given: to a foreign instance another spelling is another key', async () => {
    const manager = await start()
    const upper = ID.toUpperCase()
    await redis.set(`poll:lease:${upper}`, 'foreign', 'PX', 30_000)
    expect(await manager.tryAcquire(upper)).toBe(false)
    expect(await manager.tryAcquire(ID)).toBe(true)
    expect(manager.ownedSessions()).toEqual([ID])
  })

  it('are gone when the manager has stopped, all but the fence and the run of the server', async () => {
    const manager = await openLeaseManager(place.url, { name: 'blue' })
    await manager.start()
    await manager.tryAcquire(ID)
    expect(await redis.get(`poll:name:${manager.instanceId}`)).toBe('blue')
    await manager.stop()
    expect((await redis.keys('*')).toSorted()).toEqual([FENCE, 'poll:run'])
  })

  it('are not written by somebody who only looks', async () => {
    const { layout } = await openLayout(place.url, {})
    await layout.open(null)
    expect((await layout.nodes()).nodes).toEqual([])
    expect((await layout.survey()).owned).toEqual([])
    expect(await redis.keys('*')).toEqual([])
    await layout.close()
  })

  it('give a greater fence each time, though the clock of the server is behind the last', async () => {
    const manager = await start()
    await manager.tryAcquire(ID)
    await manager.release(ID)
    const ahead = Date.now() * 1000 + 3_600_000_000
    await redis.set(FENCE, String(ahead))
    await manager.tryAcquire(ID)
    expect(manager.leaseInfo(ID).fence).toBe(ahead + 1)
    expect(await redis.get(LEASE)).toBe(manager.instanceId)
  })

  it('refuse a fence below one that was seen: the store has lost data', async () => {
    const manager = await start()
    const ahead = Date.now() * 1000 + 3_600_000_000
    await redis.set(FENCE, String(ahead))
    await manager.tryAcquire(ID)
    await manager.release(ID)
    await redis.del(FENCE)
    await expect(manager.tryAcquire(ID)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    expect(manager.isOwned(ID)).toBe(false)
  })
})

describe('a foreign instance', () => {
  it('excludes ours by SET NX PX, and is excluded by it', async () => {
    const manager = await start()
    expect(await redis.set(LEASE, 'foreign', 'PX', 30_000, 'NX')).toBe('OK')
    expect(await manager.tryAcquire(ID)).toBe(false)
    expect(manager.leaseInfo(ID)).toMatchObject({ state: 'other', ownerId: 'foreign' })
    expect(await redis.eval(RELEASE, 1, LEASE, 'foreign')).toBe(1)
    expect(await manager.tryAcquire(ID)).toBe(true)
    expect(await redis.set(LEASE, 'foreign', 'PX', 30_000, 'NX')).toBeNull()
    expect(await redis.eval(RENEW, 1, LEASE, 'foreign', 30_000)).toBe(0)
    expect(await redis.eval(RELEASE, 1, LEASE, 'foreign')).toBe(0)
    expect(await redis.eval(RENEW, 1, LEASE, manager.instanceId, 30_000)).toBe(1)
  })

  it('that has taken a session is not disturbed by our renewal or our release', async () => {
    const manager = await start(QUICK)
    const lost = new Promise((resolve) => manager.on('lost', resolve))
    await manager.tryAcquire(ID)
    await redis.set(LEASE, 'foreign', 'PX', 60_000)
    expect(await lost).toEqual({ sessionId: ID, reason: 'not_owner' })
    await manager.release(ID)
    expect(await redis.get(LEASE)).toBe('foreign')
    expect(await redis.pttl(LEASE)).toBeGreaterThan(QUICK.leaseTtlMs)
  })

  it('that took a session before we heard of it keeps it when we release', async () => {
    const manager = await start()
    await manager.tryAcquire(ID)
    await redis.set(LEASE, 'foreign', 'PX', 60_000)
    expect(manager.isOwned(ID)).toBe(true)
    await manager.release(ID)
    expect(await redis.get(LEASE)).toBe('foreign')
  })

  it('is seen by its heartbeat, and left a session by a conditional release', async () => {
    await redis.set('poll:node:foreign-1-00000000', '1', 'PX', 30_000)
    const manager = await start()
    expect(await manager.getLiveNodes()).toContain('foreign-1-00000000')
    await manager.tryAcquire(ID)
    expect(await manager.handOver(ID, 'foreign-1-00000000')).toBe(true)
    expect(await redis.exists(LEASE)).toBe(0)
  })
})

describe('nodes', () => {
  it('that died are gone from the list of ours as well', async () => {
    await redis.sadd('poll:nodes', 'dead-1-00000000')
    const manager = await start()
    expect(await manager.getLiveNodes()).toEqual([manager.instanceId])
    expect(await redis.smembers('poll:nodes')).toEqual([manager.instanceId])
  })

  it('that are foreign are found among many keys: all at the first look, later ones by and by', async () => {
    const others = Array.from({ length: 20_000 }, (_, index) => [`other:${index}`, '1']).flat()
    await redis.mset(others)
    await redis.set('poll:node:early-1-00000000', '1', 'PX', 30_000)
    const manager = await start()
    expect(await manager.getLiveNodes()).toContain('early-1-00000000')
    await redis.set('poll:node:late-1-00000000', '1', 'PX', 30_000)
    const late = async (): Promise<boolean> =>
      (await manager.getLiveNodes()).includes('late-1-00000000')
    let looks = 1
    while (!(await late())) looks += 1
    expect(looks).toBeLessThanOrEqual(4)
    await redis.del('poll:node:early-1-00000000')
    expect(await manager.getLiveNodes()).not.toContain('early-1-00000000')
  })
})

describe('a handover', () => {
  it('names the receiver in the lease at once, and the receiver renews it', async () => {
    const [a, b] = [await start(), await start()]
    await a.getLiveNodes()
    await a.tryAcquire(ID)
    const acquired = new Promise((resolve) => b.on('acquired', resolve))
    expect(await a.handOver(ID, b.instanceId)).toBe(true)
    expect(await redis.get(LEASE)).toBe(b.instanceId)
    expect(await acquired).toMatchObject({ sessionId: ID, isGiven: true, from: a.instanceId })
    expect(b.isOwned(ID)).toBe(true)
    expect(await redis.pttl(LEASE)).toBeGreaterThan(20_000)
  })

  it('that somebody makes up does no harm', async () => {
    const manager = await start()
    const channel = `poll:given:${manager.instanceId}`
    for (const text of ['', 'nonsense', `${ID} ${'x'.repeat(10_000)}`]) {
      expect(await redis.publish(channel, text)).toBe(1)
    }
    const acquired = new Promise((resolve) => manager.on('acquired', resolve))
    // Nobody owns it, so it is ours for the asking, as it would be without the message.
    await redis.publish(channel, ID)
    expect(await manager.tryAcquire(ID)).toBe(true)
    expect(await acquired).toMatchObject({ sessionId: ID })
  })

  const dead = 'dead-1-00000000'

  async function pretendToLive(): Promise<void> {
    await redis.set(`poll:node:${dead}`, '1', 'PX', 30_000)
    await redis.set(`poll:weight:${dead}`, '1', 'PX', 30_000)
  }

  it('to an instance that does not listen any more frees the session, and tells all', async () => {
    await pretendToLive()
    const manager = await start()
    await manager.tryAcquire(ID)
    const listener = redis.duplicate()
    const heard = new Promise((resolve) => listener.on('message', resolve))
    await listener.subscribe('poll:changed')
    await manager.handOver(ID, dead)
    expect(await redis.exists(LEASE)).toBe(0)
    expect(await heard).toBe('poll:changed')
    listener.disconnect()
  })

  it('to an instance that dies as it hears of it does not last longer than one refresh', async () => {
    await pretendToLive()
    const manager = await start()
    await manager.tryAcquire(ID)
    const listener = redis.duplicate()
    await listener.subscribe(`poll:given:${dead}`)
    await manager.handOver(ID, dead)
    expect(await redis.get(LEASE)).toBe(dead)
    expect(await redis.pttl(LEASE)).toBeLessThanOrEqual(10_000)
    listener.disconnect()
  })
})

/** An instance that hands over whenever it is told to, and looks at nobody before. */
async function openGiver(instanceId: string): Promise<FleetLayout> {
  const { layout } = await openLayout(place.url, { instanceId })
  const nothing = (): void => undefined
  await layout.open({
    ...{ transferred: nothing, nodesChanged: nothing, disconnected: nothing, dataLost: nothing },
  })
  onTestFinished(async () => layout.close())
  return layout
}

async function nodeOf(layout: FleetLayout, { instanceId }: LeaseManager): Promise<FleetNode> {
  const { nodes } = await layout.nodes()
  const found = nodes.find((node) => node.instanceId === instanceId)
  if (found === undefined) throw new Error(`no node has the id ${instanceId}`)
  return found
}

describe('an instance that stops', () => {
  const SESSIONS = Array.from({ length: 20 }, () => crypto.randomUUID())

  it.each(['begins to stop', 'has released its own', 'leaves'])(
    'has nothing of what another hands to it as it %s',
    async (moment) => {
      await using proxy = await Proxy.start(place.url)
      const giver = await openGiver('giver-1-00000000')
      const receiver = await start({}, proxy.through(place.url))
      await receiver.tryAcquire(ID)
      const to = await nodeOf(giver, receiver)
      const grants = (await giver.acquire(SESSIONS)).filter((reply) => reply.kind === 'acquired')
      const listener = redis.duplicate()
      onTestFinished(() => listener.disconnect())
      await listener.subscribe('poll:changed')
      const begun = new Promise((resolve) => {
        if (moment === 'begins to stop') resolve(null)
        else if (moment === 'leaves') listener.once('message', resolve)
        else receiver.on('released', resolve)
      })
      const give = async (): Promise<unknown> =>
        Promise.all(grants.map(async (grant) => giver.transfer(grant, to)))
      const given = begun.then(give)
      // What the receiver hears and asks takes a while; the giver is answered at once.
      proxy.delay(20)
      await receiver.stop()
      expect(await given).toEqual(SESSIONS.map(() => ({ kind: 'done' })))
      expect(await redis.keys('poll:lease:*')).toEqual([])
    },
  )
})

describe('a request whose answer was lost', () => {
  it('and that is carried out late does not end what the same instance has again', async () => {
    const instanceId = 'api-1-0000000a'
    const layout = await openGiver(instanceId)
    const to = await nodeOf(layout, await start())
    const [first] = await layout.acquire([ID])
    const [second] = await layout.acquire([ID])
    if (first?.kind !== 'acquired' || second?.kind !== 'acquired') throw new Error('not acquired')
    expect(await layout.release([first])).toEqual([{ kind: 'gone' }])
    expect(await layout.transfer(first, to)).toEqual({ kind: 'gone' })
    expect(await redis.get(LEASE)).toBe(instanceId)
    expect(await layout.release([second])).toEqual([{ kind: 'done' }])
  })
})

describe('a server', () => {
  it('is asked once for all renewals, and SCANs for nodes only', async () => {
    // A server of its own, because it counts its commands.
    await using server = await startRedis()
    const admin = new Redis(server.url)
    onTestFinished(() => admin.disconnect())
    await using proxy = await Proxy.start(server.url)
    // Whoever counts has this long between two renewals, and all the time until nodes are looked for.
    const spans = { ...QUICK, refreshMs: 2_000, heartbeatTtlMs: 60_000, discoverMs: 50_000 }
    const manager = await openLeaseManager(proxy.through(server.url), spans)
    await manager.start()
    const ids = Array.from({ length: 500 }, (_, index) => {
      return `00000000-0000-4000-8000-${index.toString(16).padStart(12, '0')}`
    })
    await Promise.all(ids.map(async (id) => manager.tryAcquire(id)))
    expect(manager.ownedSessions().length).toBe(500)
    const allRenewed = async (): Promise<void> => {
      const renewed = new Set<string>()
      await new Promise<void>((resolve) => {
        const unlisten = manager.on('renewed', ({ sessionId }) => {
          renewed.add(sessionId)
          if (renewed.size < 500) return
          unlisten()
          resolve()
        })
      })
    }
    await allRenewed()
    proxy.resetCounts()
    await admin.config('RESETSTAT')
    await allRenewed()
    expect(proxy.roundTrips).toBeLessThanOrEqual(5)
    const stats = String(await admin.info('commandstats'))
    const calls = (command: string): number =>
      Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0)
    // Nodes are not looked for meanwhile, so the one script is the renewal of all.
    expect(calls('evalsha')).toBe(1)
    expect(calls('keys')).toBe(0)
    await manager.stop()
  })

  it('that forgot the scripts gets them again', async () => {
    const manager = await start()
    await redis.script('FLUSH')
    expect(await manager.tryAcquire(ID)).toBe(true)
    await redis.script('FLUSH')
    await manager.release(ID)
    expect(await redis.exists(LEASE)).toBe(0)
  })
})
