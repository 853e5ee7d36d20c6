import { describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { failWith, hang, loseAnswer, type Fault } from '../client/harness.ts'
import { CALL_TIMEOUT_MS, fleetWorld, REFRESH_MS, TTL_MS } from './harness.ts'

const names = (events: readonly (readonly [string, unknown])[]): readonly string[] =>
  events.map(([name]) => name)

describe('a session', () => {
  it('has one owner, and the others know who', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance()]
    await Promise.all([a.manager.start(), b.manager.start()])
    expect(a.manager.state('s')).toBe('unknown')
    expect(await a.manager.tryAcquire('s')).toBe(true)
    expect(await a.manager.tryAcquire('s')).toBe(true)
    expect(await b.manager.tryAcquire('s')).toBe(false)
    expect(a.manager.isOwned('s')).toBe(true)
    expect(a.manager.ownedSessions()).toEqual(['s'])
    expect(b.manager.isOwned('s')).toBe(false)
    expect(b.manager.state('s')).toBe('other')
    expect(b.manager.leaseInfo('s')).toMatchObject({ ownerId: a.manager.instanceId, fence: null })
    const info = a.manager.leaseInfo('s')
    expect(info).toMatchObject({ state: 'owned', ownerId: a.manager.instanceId })
    expect(info.remainingMs).toBeGreaterThan(0)
    await a.manager.release('s')
    await a.manager.release('s')
    expect(a.manager.state('s')).toBe('unknown')
    expect(await b.manager.tryAcquire('s')).toBe(true)
    expect(b.manager.leaseInfo('s').fence).toBeGreaterThan(info.fence ?? Infinity)
    expect(names(b.events)).toEqual(['acquired', 'taken_over'])
    await Promise.all([a.manager.stop(), b.manager.stop()])
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('stays with its owner for as long as that renews, all of them in one moment', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance()
    await manager.start()
    for (let index = 0; index < 50; index += 1) await manager.tryAcquire(`s-${index}`)
    await world.runtime.advance(10 * TTL_MS)
    expect(manager.ownedSessions().length).toBe(50)
    const renewals = faults.calls.filter(({ method }) => method === 'renew')
    expect(renewals.length).toBeGreaterThan(50 * 25)
    // One moment for each round: fifty sessions and the heartbeat.
    expect(new Set(renewals.map(({ atMs }) => atMs)).size).toBe(renewals.length / 51)
    await manager.stop()
  })

  it('is uncertain at once when a renewal fails, and recovers by itself', async () => {
    const world = fleetWorld()
    const { manager, faults, events } = world.instance()
    await manager.start()
    await manager.tryAcquire('s')
    await world.runtime.advance(REFRESH_MS / 2)
    faults.when('renew', failWith('STORE_UNAVAILABLE'))
    await world.runtime.advance(REFRESH_MS / 2)
    expect(manager.state('s')).toBe('uncertain')
    expect(manager.isOwned('s')).toBe(false)
    expect(manager.ownedSessions()).toEqual(['s'])
    faults.heal('renew')
    await world.runtime.advance(REFRESH_MS)
    expect(manager.state('s')).toBe('owned')
    expect(names(events).filter((name) => name !== 'renew_failed')).toEqual([
      'acquired',
      'uncertain',
      'recovered',
    ])
    await manager.stop()
  })

  it('is uncertain when a renewal hangs, and lost at its deadline although no call returns', async () => {
    const world = fleetWorld()
    const { manager, faults, events } = world.instance()
    await manager.start()
    await manager.tryAcquire('s')
    const renewals: (() => Promise<unknown>)[] = []
    faults.when('renew', (send) => {
      renewals.push(send)
      return hang(send, [])
    })
    await world.runtime.advance(REFRESH_MS + CALL_TIMEOUT_MS)
    expect(manager.state('s')).toBe('uncertain')
    const deadlineMs = TTL_MS * 0.99
    await world.runtime.advance(deadlineMs - REFRESH_MS - CALL_TIMEOUT_MS - 1)
    expect(manager.state('s')).toBe('uncertain')
    await world.runtime.advance(1)
    expect(manager.state('s')).toBe('unknown')
    expect(events.at(-1)).toEqual(['lost', { sessionId: 's', reason: 'deadline_passed' }])
    // The store hears of a renewal after all, in time by its own clock; there is no way back.
    await renewals[0]?.()
    expect(manager.isOwned('s')).toBe(false)
    faults.heal('renew')
    await manager.stop()
  })

  it('counts from before the renewal was sent, not from its answer', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance()
    await manager.start()
    await manager.tryAcquire('s')
    const slowMs = CALL_TIMEOUT_MS - 1
    faults.when('renew', async (send) => {
      const answer = await send()
      await new Promise<void>((resolve) => {
        world.runtime.setTimer(slowMs, resolve, { keepAlive: true })
      })
      return answer
    })
    await world.runtime.advance(REFRESH_MS + slowMs)
    expect(manager.leaseInfo('s').remainingMs).toBe(Math.floor(TTL_MS * 0.99 - slowMs))
    faults.when('renew', hang)
    await world.runtime.advance(TTL_MS * 0.99 - slowMs - 1)
    expect(manager.state('s')).toBe('uncertain')
    await world.runtime.advance(1)
    expect(manager.state('s')).toBe('unknown')
    faults.heal('renew')
    await manager.stop()
  })

  it('is lost at its deadline in a process that was stopped, at the first look', async () => {
    const world = fleetWorld()
    const { manager } = world.instance()
    await manager.start()
    await manager.tryAcquire('s')
    world.runtime.stall(TTL_MS)
    expect(manager.isOwned('s')).toBe(false)
    expect(manager.ownedSessions()).toEqual([])
    await manager.stop()
  })

  it('is lost before it is acquired anew, or released, in a process that was stopped', async () => {
    const world = fleetWorld()
    const { manager, events } = world.instance()
    await manager.start()
    await manager.tryAcquire('s')
    world.runtime.stall(TTL_MS)
    expect(await manager.tryAcquire('s')).toBe(true)
    expect(names(events)).toEqual(['acquired', 'lost', 'acquired'])
    world.runtime.stall(TTL_MS)
    await manager.release('s')
    expect(names(events)).toEqual(['acquired', 'lost', 'acquired', 'lost'])
    await manager.stop()
  })

  it('is lost on a host that slept, although its monotonic clock stood still', async () => {
    const world = fleetWorld()
    const { manager } = world.instance()
    await manager.start()
    await manager.tryAcquire('s')
    world.runtime.suspend(TTL_MS)
    expect(manager.isOwned('s')).toBe(false)
    await manager.stop()
  })

  it('is renewed soon after its host slept, while that is in time', async () => {
    const world = fleetWorld()
    const [leaseTtlMs, refreshMs] = [30_000, 10_000]
    const { manager } = world.instance({ leaseTtlMs, heartbeatTtlMs: leaseTtlMs, refreshMs })
    await manager.start()
    await manager.tryAcquire('s')
    world.runtime.suspend(0.9 * leaseTtlMs)
    expect(manager.state('s')).toBe('uncertain')
    await world.runtime.advance(1_500)
    expect(manager.state('s')).toBe('owned')
    await manager.stop()
  })

  it('is lost at once when the store says that it is not ours', async () => {
    const world = fleetWorld()
    const { manager, events } = world.instance()
    await manager.start()
    await manager.tryAcquire('s')
    await world.service.revokeAll({ holder: manager.instanceId, by: 'operator' })
    await world.runtime.advance(REFRESH_MS)
    expect(events.at(-1)).toEqual(['lost', { sessionId: 's', reason: 'not_owner' }])
    await manager.stop()
  })

  it('is handed over by a wake-up of the store, also while the ledger cannot be read', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance()]
    // A watch is no promise; that it gets one makes it fail.
    b.faults.when('watch' as 'list', hang)
    await Promise.all([a.manager.start(), b.manager.start()])
    await a.manager.getLiveNodes()
    await a.manager.tryAcquire('s')
    expect(await a.manager.handOver('s', b.manager.instanceId)).toBe(true)
    await world.runtime.settle()
    expect(b.manager.isOwned('s')).toBe(true)
    b.faults.heal('watch' as 'list')
    await b.manager.release('s')
    // The ledger tells of the same gift once more, which is not taken once more.
    await world.runtime.advance(TTL_MS)
    expect(b.manager.state('s')).toBe('unknown')
    await Promise.all([a.manager.stop(), b.manager.stop()])
  })

  it('of another is forgotten in time, also by an instance that owns nothing', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance()]
    await Promise.all([a.manager.start(), b.manager.start()])
    await a.manager.tryAcquire('s')
    expect(await b.manager.tryAcquire('s')).toBe(false)
    expect(b.manager.freeInMs('s')).toBeGreaterThan(0)
    await a.manager.stop()
    await world.runtime.advance(10 * TTL_MS)
    expect(b.manager.freeInMs('s')).toBe(null)
    await b.manager.stop()
  })

  it('is acquired in parts, and renewed in parts, so that each is answered in time', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance()
    const many = Array.from({ length: 12_000 }, (_, index) => `s-${index}`)
    await manager.start()
    let underWay = 0
    let most = 0
    const counted: Parameters<typeof faults.when>[1] = async (send) => {
      underWay += 1
      most = Math.max(most, underWay)
      const answer = await send()
      underWay -= 1
      return answer
    }
    faults.when('acquire', counted)
    await manager.acquireMany(many)
    expect(manager.ownedSessions().length).toBe(12_000)
    expect(most).toBe(1_000)
    most = 0
    faults.when('renew', counted)
    await world.runtime.advance(REFRESH_MS)
    expect(most).toBe(10_001)
    await manager.stop()
  })

  it('that turns out to be another’s when it is released is said to be lost', async () => {
    const world = fleetWorld()
    const { manager, events } = world.instance()
    await manager.start()
    await manager.tryAcquire('s')
    await world.service.revokeAll({ holder: manager.instanceId, by: 'operator' })
    await manager.release('s')
    expect(events.at(-1)).toEqual(['lost', { sessionId: 's', reason: 'not_owner' }])
    await manager.stop()
  })

  it('is looked for at a pace while the nodes cannot be read, however soon a heartbeat was to end', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance()]
    await Promise.all([a.manager.start(), b.manager.start()])
    for (const method of ['renew', 'acquire'] as const) b.faults.when(method, hang)
    await world.runtime.advance(TTL_MS - 50)
    await a.manager.getLiveNodes()
    a.faults.when('list', failWith('STORE_UNAVAILABLE'))
    a.faults.calls.length = 0
    await world.runtime.advance(10 * REFRESH_MS)
    expect(a.faults.count('list')).toBeLessThan(2 * 25)
    a.faults.heal('list')
    for (const method of ['renew', 'acquire'] as const) b.faults.heal(method)
    await Promise.all([a.manager.stop(), b.manager.stop()])
  })

  it('is handed over without a moment free, and begins with the receiver at once', async () => {
    const world = fleetWorld()
    const [a, b, thief] = [world.instance(), world.instance(), world.instance()]
    for (const { manager } of [a, b, thief]) await manager.start()
    await a.manager.getLiveNodes()
    await a.manager.tryAcquire('s')
    const { fence } = a.manager.leaseInfo('s')
    const handover = a.manager.handOver('s', b.manager.instanceId)
    expect(a.manager.isOwned('s')).toBe(false)
    const [given, stolen] = await Promise.all([handover, thief.manager.tryAcquire('s')])
    expect({ given, stolen }).toEqual({ given: true, stolen: false })
    await world.runtime.settle()
    expect(b.manager.isOwned('s')).toBe(true)
    expect(b.manager.leaseInfo('s').fence).toBeGreaterThan(fence ?? Infinity)
    expect(names(a.events)).toEqual(['acquired', 'rebalanced'])
    expect(b.events).toMatchObject([['acquired', { isGiven: true }]])
    for (const { manager } of [a, b, thief]) await manager.stop()
  })

  it('is not acquired by an answer that comes when it is over', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance()
    await manager.start()
    faults.when('acquire', async (send) => {
      const answer = await send()
      world.runtime.stall(TTL_MS)
      return answer
    })
    await expect(manager.tryAcquire('s')).rejects.toMatchObject({ code: 'LEASE_EXPIRED' })
    expect(manager.isOwned('s')).toBe(false)
    faults.heal('acquire')
    await manager.stop()
  })

  it('that an answer left behind in our name is granted anew, with a greater fence', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance()
    await manager.start()
    faults.when('acquire', async (send) => {
      await send()
      return failWith('STORE_OUTCOME_UNKNOWN')(send, [])
    })
    await expect(manager.tryAcquire('s')).rejects.toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN' })
    expect(manager.isOwned('s')).toBe(false)
    faults.heal('acquire')
    expect(await manager.tryAcquire('s')).toBe(true)
    await manager.stop()
  })
})

/** Calls reach the store, and no answer arrives before `arrive`. */
function late(): { readonly fault: Fault; readonly arrive: () => void } {
  const waiting: (() => void)[] = []
  return {
    fault: async (send) => {
      const answer = await send()
      await new Promise<void>((resolve) => waiting.push(resolve))
      return answer
    },
    arrive: () => waiting.forEach((resolve) => resolve()),
  }
}

describe('a node', () => {
  it('that joins while the nodes are being read is there soon, and not with the next read', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance()]
    await a.manager.start()
    const { fault, arrive } = late()
    a.faults.when('list', fault)
    const read = a.manager.getLiveNodes()
    await world.runtime.settle()
    await b.manager.start()
    await world.runtime.settle()
    a.faults.heal('list')
    arrive()
    expect(await read).toEqual([a.manager.instanceId])
    await world.runtime.advance(REFRESH_MS / 10)
    expect(a.manager.candidates.length).toBe(2)
    await Promise.all([a.manager.stop(), b.manager.stop()])
  })

  it.each([true, false])(
    'that is told whether it is ready (%s) while it reads the nodes sees itself so',
    async (isReady) => {
      const world = fleetWorld()
      const { manager, faults } = world.instance({ ready: !isReady })
      await manager.start()
      const { fault, arrive } = late()
      faults.when('list', fault)
      const read = manager.getLiveNodes()
      await world.runtime.settle()
      const told = manager.setReady(isReady)
      await world.runtime.settle()
      faults.heal('list')
      arrive()
      await Promise.all([read, told])
      expect(manager.candidates.length).toBe(isReady ? 1 : 0)
      await manager.stop()
    },
  )

  it('that becomes ready during a round of renewals is there at once', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance({ ready: false })]
    await a.manager.start()
    await b.manager.start()
    const { fault, arrive } = late()
    b.faults.when('renew', fault)
    await world.runtime.advance(REFRESH_MS)
    const ready = b.manager.setReady(true)
    b.faults.heal('renew')
    arrive()
    await ready
    expect(await a.manager.getLiveNodes()).toContain(b.manager.instanceId)
    await Promise.all([a.manager.stop(), b.manager.stop()])
  })

  it('that is drained no longer during a round of renewals is there at once', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance()]
    await a.manager.start()
    await b.manager.start()
    const { instanceId } = b.manager
    const drain = { id: world.runtime.uuid(), holder: instanceId, session: 'fleet:drains' }
    const resource = parseResource(`drain:${instanceId}`)
    await world.service.acquire({ ...drain, resource, ttlMs: 100 * TTL_MS, waitMs: 0 })
    await world.runtime.advance(2 * REFRESH_MS)
    expect(await a.manager.getLiveNodes()).toEqual([a.manager.instanceId])
    const { fault, arrive } = late()
    b.faults.when('renew', fault)
    const renewals = b.faults.count('renew')
    while (b.faults.count('renew') === renewals) await world.runtime.advance(1)
    await world.service.release({ id: drain.id, holder: instanceId })
    await world.runtime.advance(REFRESH_MS / 10)
    expect(b.manager.isDraining).toBe(false)
    b.faults.heal('renew')
    arrive()
    await world.runtime.settle()
    expect(await a.manager.getLiveNodes()).toContain(instanceId)
    await Promise.all([a.manager.stop(), b.manager.stop()])
  })

  it('that is not ready is not there for anybody, and nobody prefers it', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance({ ready: false })]
    await a.manager.start()
    await b.manager.start()
    await world.runtime.advance(5 * TTL_MS)
    expect(await a.manager.getLiveNodes()).toEqual([a.manager.instanceId])
    const preferred = async (): Promise<readonly string[]> =>
      Promise.all(Array.from({ length: 50 }, (_, index) => a.manager.preferredOwner(`s-${index}`)))
    expect(new Set(await preferred())).toEqual(new Set([a.manager.instanceId]))
    await b.manager.setReady(true)
    await a.manager.getLiveNodes()
    expect(new Set(await preferred()).size).toBe(2)
    await b.manager.setReady(false)
    expect(await a.manager.getLiveNodes()).toEqual([a.manager.instanceId])
    await Promise.all([a.manager.stop(), b.manager.stop()])
  })

  it.each([true, false])(
    'is there for others as it is told to (%s), although it never heard of its heartbeat before',
    async (isReady) => {
      const world = fleetWorld()
      const [a, b] = [world.instance(), world.instance({ ready: !isReady })]
      await a.manager.start()
      b.faults.when('acquire', loseAnswer)
      await b.manager.start()
      await b.manager.setReady(isReady)
      b.faults.heal('acquire')
      await world.runtime.advance(2 * REFRESH_MS)
      const nodes = await a.manager.getLiveNodes()
      expect(nodes.includes(b.manager.instanceId)).toBe(isReady)
      await Promise.all([a.manager.stop(), b.manager.stop()])
    },
  )

  it('shows no heartbeat after it has stopped, though one was under way', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance()]
    await a.manager.start()
    await b.manager.start()
    b.faults.when('renew', async (send) => {
      await new Promise<void>((resolve) => {
        world.runtime.setTimer(CALL_TIMEOUT_MS / 2, resolve, { keepAlive: true })
      })
      return send()
    })
    await world.runtime.advance(REFRESH_MS)
    const stopped = b.manager.stop()
    await world.runtime.advance(CALL_TIMEOUT_MS)
    await stopped
    expect(await a.manager.getLiveNodes()).toEqual([a.manager.instanceId])
    await world.runtime.advance(10 * TTL_MS)
    expect(await a.manager.getLiveNodes()).toEqual([a.manager.instanceId])
    await a.manager.stop()
  })

  it('that died is gone when its heartbeat is over, and not before', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance()]
    await a.manager.start()
    await b.manager.start()
    b.faults.when('renew', hang)
    await world.runtime.advance(TTL_MS - 1)
    expect((await a.manager.getLiveNodes()).length).toBe(2)
    await world.runtime.advance(1)
    expect(await a.manager.getLiveNodes()).toEqual([a.manager.instanceId])
    b.faults.heal('renew')
    await Promise.all([a.manager.stop(), b.manager.stop()])
  })

  it('that could not be taken out of the fleet is when it is told so again', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance()]
    await a.manager.start()
    await b.manager.start()
    b.faults.when('release', failWith('STORE_UNAVAILABLE'))
    await expect(b.manager.setReady(false)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    b.faults.heal('release')
    await b.manager.setReady(false)
    expect(await a.manager.getLiveNodes()).toEqual([a.manager.instanceId])
    await Promise.all([a.manager.stop(), b.manager.stop()])
  })

  it('has a name for people beside its id', async () => {
    const world = fleetWorld()
    const { manager } = world.instance({ name: 'blue', weight: 2 })
    await manager.start()
    const { instanceId } = manager
    expect(instanceId).toMatch(/^test-\d{18,19}-[0-9a-f]{8}$/)
    expect(manager.candidates).toMatchObject([{ instanceId, name: 'blue', weight: 2 }])
    await manager.stop()
  })
})

describe('stopping', () => {
  it('releases everything, although a listener throws', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance()]
    await a.manager.start()
    await b.manager.start()
    a.manager.on('released', () => {
      throw new Error('a listener of the test')
    })
    await a.manager.tryAcquire('s')
    await a.manager.stop()
    await a.manager.stop()
    expect(await b.manager.tryAcquire('s')).toBe(true)
    await b.manager.stop()
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('is preceded and followed by answers that say that nothing is known', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance()]
    const nothing = {
      ...{ sessionId: 's', ownerId: null, state: 'unknown', fence: null, remainingMs: 0 },
      ...{ acquiredAtMs: null, lastRenewedAtMs: null },
    }
    expect(a.manager.leaseInfo('s')).toEqual(nothing)
    await a.manager.start()
    await b.manager.start()
    await a.manager.tryAcquire('s')
    await b.manager.tryAcquire('s')
    expect(b.manager.leaseInfo('s').ownerId).toBe(a.manager.instanceId)
    const stopped = Promise.all([a.manager.stop(), b.manager.stop()])
    const infos = (): readonly unknown[] => [a.manager.leaseInfo('s'), b.manager.leaseInfo('s')]
    expect(infos()).toEqual([nothing, nothing])
    await stopped
    expect(infos()).toEqual([nothing, nothing])
    expect(() => a.manager.leaseInfo('')).toThrow('sessionId must be 1..1024 bytes')
  })

  it('leaves nothing of what another hands over as it has released its own', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance()]
    await a.manager.start()
    await b.manager.start()
    await a.manager.getLiveNodes()
    const { instanceId: holder } = b.manager
    await a.manager.tryAcquire('s')
    await b.manager.tryAcquire('t')
    const released = new Promise((resolve) => b.manager.on('released', resolve))
    const given = released.then(() => a.manager.handOver('s', holder))
    // So that it could not take what it is told of in order to give it back.
    b.faults.when('acquire', hang)
    await b.manager.stop()
    expect(await given).toBe(true)
    expect((await world.service.list({ holder })).leases).toEqual([])
    await a.manager.stop()
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('ends in bounded time although the store is away', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance()
    await manager.start()
    await manager.tryAcquire('s')
    for (const method of ['renew', 'release', 'list'] as const) faults.when(method, hang)
    const stopped = manager.stop()
    await world.runtime.advance(4 * CALL_TIMEOUT_MS)
    await stopped
    expect(world.runtime.pendingTimers).toBe(0)
  })
})
