/** Defects that others shipped on the holder's side (DESIGN section 12); each has its test here. */
import { afterEach, describe, expect, it } from 'vitest'
import {
  answerAfter,
  failWith,
  follow,
  hang,
  newClient,
  newHolding,
  newWorld,
  record,
  statesOf,
} from './harness.ts'

const RESOURCE = 'work:W-1'

describe('defect: expiry counted from after the reply', () => {
  it('a slow acquire leaves its holder only what is left since before it was sent', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    const reply = new Promise<void>((resolve) => {
      faults.when('acquire', async (send) => {
        const answer = await send()
        await reply
        return answer
      })
      world.runtime.setTimer(4_000, resolve, { keepAlive: true })
    })
    const acquiring = follow(tenure.acquire(RESOURCE, { ttlMs: 10_000 }))
    await world.runtime.advance(4_000)
    const lease = acquiring.value()
    expect(lease.remainingMs).toBe(5_900)
    const atStore = (await world.service.get({ id: lease.id }))?.remainingMs ?? 0
    expect(lease.remainingMs).toBeLessThanOrEqual(atStore)
  })

  it('a slow renewal gives its holder a term that began before it was sent', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    const lease = await tenure.acquire(RESOURCE, { ttlMs: 30_000 })
    faults.when('renew', async (send) => {
      const answer = await send()
      await new Promise<void>((resolve) => {
        world.runtime.setTimer(6_000, resolve, { keepAlive: true })
      })
      return answer
    })
    await world.runtime.advance(16_000)
    expect(lease.renewals).toBe(1)
    expect(lease.remainingMs).toBe(29_700 - 6_000)
  })
})

describe('defect: loss noticed only when a hung renew call returns', () => {
  it('the signal aborts at the deadline although the call never returns', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    const lease = await tenure.acquire(RESOURCE, { ttlMs: 30_000 })
    const told = record(lease)
    for (const method of ['renew', 'release'] as const) faults.when(method, hang)
    await world.runtime.advance(29_699)
    expect(told).toEqual(['uncertain'])
    await world.runtime.advance(1)
    expect(told).toEqual(['uncertain', 'lost'])
    expect(lease.signal.aborted).toBe(true)
    expect((await world.service.get({ id: lease.id }))?.state).toBe('active')
  })

  it('a call that hangs does not end a lease while the store itself answers', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    const lease = await tenure.acquire(RESOURCE, { ttlMs: 30_000 })
    let calls = 0
    faults.when('renew', (send, input) => {
      calls += 1
      return calls % 2 === 1 ? hang(send, input) : send()
    })
    await world.runtime.advance(300_000)
    expect(lease.state).not.toBe('lost')
  })
})

describe('defect: owned with no local deadline', () => {
  it('a holder that is cut off from the store stops by its own clock', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    const lease = await tenure.acquire(RESOURCE, { ttlMs: 5_000 })
    for (const method of ['renew', 'get', 'list', 'onWake'] as const) {
      faults.when(method, failWith('STORE_UNAVAILABLE'))
    }
    world.runtime.stall(4_950)
    expect(lease.state).toBe('lost')
    expect(lease.remainingMs).toBe(0)
    expect(lease.signal.aborted).toBe(true)
  })

  it('a holder whose host slept does not wake up as the holder', async () => {
    const world = newWorld()
    const { tenure } = newClient(world, 'alice')
    const lease = await tenure.acquire(RESOURCE, { ttlMs: 30_000 })
    world.runtime.suspend(30_000)
    expect(lease.state).toBe('lost')
  })
})

describe('defect: renewals one by one behind a slow call', () => {
  it('one lease whose renewal hangs delays no other', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    const slow = await tenure.acquire('work:slow', { ttlMs: 30_000 })
    faults.when('renew', (send, [request]) => {
      const isSlow = (request as { id: string }).id === slow.id
      return isSlow ? hang(send, [request]) : send()
    })
    const names = Array.from({ length: 50 }, (_, index) => `work:W-${index}`)
    const others = await Promise.all(names.map((name) => tenure.acquire(name, { ttlMs: 30_000 })))
    await world.runtime.advance(60_000)
    expect(slow.state).toBe('lost')
    expect(others.every((lease) => lease.state === 'held' && lease.renewals === 6)).toBe(true)
  })

  it('leases that are due close together are sent in one macrotask', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    for (let index = 0; index < 30; index += 1) {
      await tenure.acquire(`work:W-${index}`, { ttlMs: 30_000 })
      await world.runtime.advance(100)
    }
    await world.runtime.advance(7_000)
    const moments = faults.calls.filter(({ method }) => method === 'renew').map(({ atMs }) => atMs)
    expect(moments).toHaveLength(30)
    expect(new Set(moments).size).toBe(1)
  })
})

describe('defect: auto-renew with no ceiling (an orphan renewed for a week)', () => {
  it('a handle that everybody forgot is renewed no further than maxHoldMs', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    await tenure.acquire(RESOURCE, { ttlMs: 10_000, maxHoldMs: 60_000 })
    await world.runtime.advance(60_000)
    const renewals = faults.count('renew')
    expect(await tenure.isHeld(RESOURCE)).toBe(false)
    await world.runtime.advance(600_000)
    expect(faults.count('renew')).toBe(renewals)
    const { tenure: next } = newClient(world, 'bob')
    expect(await next.tryAcquire(RESOURCE)).toMatchObject({ kind: 'granted' })
  })
})

describe('defect: renewal continuing after release', () => {
  it('nothing is sent for a lease that was released, abandoned or lost', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    const released = await tenure.acquire('work:released', { ttlMs: 30_000 })
    const abandoned = await tenure.acquire('work:abandoned', { ttlMs: 30_000 })
    const lost = await tenure.acquire('work:lost', { ttlMs: 30_000 })
    await released.release()
    abandoned.abandon()
    await world.service.revoke({ id: lost.id, by: 'operator' })
    await world.runtime.advance(50)
    expect(lost.state).toBe('lost')
    await world.runtime.advance(300_000)
    expect(faults.count('renew')).toBe(0)
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('a renewal under way when the lease is released does not bring it back', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    const lease = await tenure.acquire(RESOURCE, { ttlMs: 30_000 })
    const told = record(lease)
    let arrive = (): void => undefined
    faults.when('renew', async (send) => {
      await new Promise<void>((resolve) => (arrive = resolve))
      return send()
    })
    await world.runtime.advance(10_000)
    await lease.release()
    arrive()
    await world.runtime.advance(60_000)
    expect(lease.state).toBe('released')
    expect(told).toEqual([])
    expect(faults.count('renew')).toBe(1)
    expect(await tenure.isHeld(RESOURCE)).toBe(false)
  })
})

describe('defect: a lease leaked when the work is paused, deleted or fails to start', () => {
  it.each([
    [
      'throws at once',
      () => {
        throw new Error('does not start')
      },
    ],
    ['rejects', () => Promise.reject(new Error('fails'))],
  ])('work that %s gives its lease back as aborted', async (_how, work) => {
    const world = newWorld()
    const { tenure } = newClient(world, 'alice')
    await expect(tenure.withLease(RESOURCE, {}, work)).rejects.toThrow()
    expect(await tenure.isHeld(RESOURCE)).toBe(false)
    const [released] = await tenure.history({ types: ['lease.released'] })
    expect(released?.event).toMatchObject({ releaseReason: 'aborted' })
  })

  it('work that is paused beyond its TTL loses its lease, and is told so when it ends', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    faults.when('renew', hang)
    const working = follow(
      tenure.withLease(RESOURCE, { ttlMs: 30_000 }, async () => {
        await new Promise<void>((resolve) => {
          world.runtime.setTimer(60_000, resolve, { keepAlive: true })
        })
      }),
    )
    await world.runtime.advance(60_000)
    expect(working.error().code).toBe('LEASE_LOST')
    expect(await tenure.isHeld(RESOURCE)).toBe(false)
  })

  it('a client that is closed leaves no lease behind, not even one that was just being granted', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    await tenure.acquire('work:held')
    let arrive = (): void => undefined
    faults.when('acquire', async (send) => {
      const answer = await send()
      await new Promise<void>((resolve) => (arrive = resolve))
      return answer
    })
    const acquiring = follow(tenure.acquire('work:coming'))
    await world.runtime.settle()
    const closing = tenure.close()
    arrive()
    await closing
    expect(acquiring.error().code).toBe('CLOSED')
    expect((await world.service.list({})).leases).toEqual([])
    expect(world.runtime.pendingTimers).toBe(0)
  })
})

describe('defect: an unhandled rejection from a background renewal kills the process', () => {
  const rejections: unknown[] = []
  const note = (reason: unknown): void => void rejections.push(reason)
  afterEach(() => {
    process.off('unhandledRejection', note)
    rejections.length = 0
  })

  it('nothing that fails in the background rejects into the void', async () => {
    process.on('unhandledRejection', note)
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    const lease = await tenure.acquire(RESOURCE, { ttlMs: 30_000 })
    lease.on('uncertain', () => {
      throw new Error('a listener that throws')
    })
    for (const method of ['renew', 'release', 'get', 'onWake', 'withdraw', 'claim'] as const) {
      faults.when(method, () => Promise.reject(new TypeError('not even a LeaseError')))
    }
    const blocked = newClient(world, 'bob')
    for (const method of ['onWake', 'withdraw', 'claim', 'inspect'] as const) {
      blocked.faults.when(method, () => Promise.reject(new TypeError('not even a LeaseError')))
    }
    const waiting = follow(blocked.tenure.acquire(RESOURCE, { waitMs: 20_000 }))
    await world.runtime.advance(60_000)
    expect(lease.state).toBe('lost')
    expect(() => waiting.value()).toThrow(new TypeError('not even a LeaseError'))
    await world.runtime.settle()
    expect(rejections).toEqual([])
  })
})

describe('defect: acquire returning an already expired lease', () => {
  it('a grant that was over before its answer came is refused and given back', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'alice')
    faults.when('acquire', answerAfter(world, 990))
    const acquiring = follow(tenure.acquire(RESOURCE, { ttlMs: 1_000 }))
    await world.runtime.advance(989)
    expect(acquiring.isPending()).toBe(true)
    await world.runtime.advance(1)
    expect(acquiring.error().code).toBe('LEASE_EXPIRED')
    expect((await world.service.list({})).leases).toEqual([])
  })

  it('a derived lease that was over before its answer came is refused and given back', async () => {
    const { world, lease, faults, advance } = await newHolding()
    faults.when('derive', answerAfter(world, 990))
    const deriving = follow(lease.derive({ holder: 'sub', ttlMs: 1_000 }))
    await advance(990)
    expect(deriving.error().code).toBe('LEASE_EXPIRED')
    expect([lease.state, await statesOf(world, 'sub')]).toEqual(['held', []])
  })

  it('a claim that was granted and lost, and found again after its end, is refused', async () => {
    const world = newWorld()
    const alice = newClient(world, 'alice')
    const bob = newClient(world, 'bob')
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000, ttlMs: 1_000 }))
    await world.runtime.advance(100)
    bob.faults.when('claim', async (send) => {
      const answer = await send()
      world.runtime.stall(1_500)
      return answer
    })
    await held.release()
    await world.runtime.advance(0)
    expect(waiting.error().code).toBe('LEASE_EXPIRED')
  })
})
