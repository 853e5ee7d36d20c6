/** Defects that others shipped in waiting (DESIGN section 12); each has its test here. */
import { describe, expect, it } from 'vitest'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { follow, hang, newClient, newWorld } from './harness.ts'

const RESOURCE = 'work:W-1'

describe('defect: fixed 100–250 ms polling', () => {
  it('a waiter asks nothing between two keep-alives, and is woken by the release itself', async () => {
    const world = newWorld()
    const alice = newClient(world, 'alice')
    const bob = newClient(world, 'bob')
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 600_000 }))
    await world.runtime.advance(10)
    const asked = bob.faults.calls.length
    await world.runtime.advance(1_600)
    expect(bob.faults.calls.length).toBe(asked)
    const releasedAtMs = world.runtime.monotonicMs()
    await held.release()
    await world.runtime.settle()
    expect(waiting.value().state).toBe('held')
    expect(bob.faults.calls.at(-1)).toMatchObject({ method: 'claim', atMs: releasedAtMs })
  })

  it('a hundred waiters of one process keep their places in a few commits', async () => {
    const world = newWorld()
    const alice = newClient(world, 'alice')
    const bob = newClient(world, 'bob')
    for (let index = 0; index < 100; index += 1) {
      await alice.tenure.acquire(`work:W-${index}`)
      void follow(bob.tenure.acquire(`work:W-${index}`, { waitMs: 600_000 }))
      await world.runtime.advance(7)
    }
    await world.runtime.advance(60_000)
    const before = bob.faults.calls.length
    await world.runtime.advance(1_667)
    const claims = bob.faults.calls.slice(before)
    expect(claims).toHaveLength(100)
    expect(new Set(claims.map(({ atMs }) => atMs)).size).toBeLessThanOrEqual(5)
  })
})

describe('defect: a dead waiter at the head blocks all', () => {
  it('the next waiter is served one claim window later at most', async () => {
    const world = newWorld()
    const alice = newClient(world, 'alice')
    const dead = newClient(world, 'dead')
    const bob = newClient(world, 'bob')
    const held = await alice.tenure.acquire(RESOURCE)
    void follow(dead.tenure.acquire(RESOURCE, { waitMs: 600_000 }))
    await world.runtime.advance(10)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 600_000 }))
    await world.runtime.advance(10)
    dead.faults.when('claim', hang)
    await held.release()
    await world.runtime.advance(4_900)
    expect(waiting.isPending()).toBe(true)
    await world.runtime.advance(200)
    expect(waiting.value().state).toBe('held')
  })
})

describe('defect: timeout overshoot', () => {
  it.each([1_000, 1_500, 4_999, 5_001, 33_333])(
    'a wait of %i ms ends to the millisecond, whatever the keep-alive is doing',
    async (waitMs) => {
      const world = newWorld()
      const alice = newClient(world, 'alice')
      const bob = newClient(world, 'bob')
      await alice.tenure.acquire(RESOURCE)
      const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs }))
      await world.runtime.advance(waitMs - 1)
      expect(waiting.isPending()).toBe(true)
      await world.runtime.advance(1)
      expect(waiting.error()).toMatchObject({ code: 'WAIT_TIMEOUT', details: { waitedMs: waitMs } })
    },
  )

  it('a wait ends on time although the store does not answer any more', async () => {
    const world = newWorld()
    const alice = newClient(world, 'alice')
    const bob = newClient(world, 'bob')
    await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 5_000 }))
    await world.runtime.advance(100)
    for (const method of ['claim', 'withdraw', 'inspect'] as const) bob.faults.when(method, hang)
    await world.runtime.advance(4_899)
    expect(waiting.isPending()).toBe(true)
    await world.runtime.advance(1)
    expect(waiting.error().code).toBe('WAIT_TIMEOUT')
  })

  it('a short wait for something held is as exact as a long one', async () => {
    const world = newWorld()
    const alice = newClient(world, 'alice')
    const bob = newClient(world, 'bob')
    await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 7 }))
    await world.runtime.advance(6)
    expect(waiting.isPending()).toBe(true)
    await world.runtime.advance(1)
    expect(waiting.error().code).toBe('WAIT_TIMEOUT')
  })
})

describe('defect: no cancel', () => {
  it('an aborted wait ends at once, leaves the queue, and says why', async () => {
    const world = newWorld()
    const alice = newClient(world, 'alice')
    const bob = newClient(world, 'bob')
    const carol = newClient(world, 'carol')
    const held = await alice.tenure.acquire(RESOURCE)
    const controller = new AbortController()
    const { signal } = controller
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 600_000, signal }))
    await world.runtime.advance(10)
    const next = follow(carol.tenure.acquire(RESOURCE, { waitMs: 600_000 }))
    await world.runtime.advance(10)
    const reason = new Error('the user pressed Ctrl-C')
    controller.abort(reason)
    await world.runtime.settle()
    expect(waiting.error()).toMatchObject({ code: 'ABORTED', cause: reason })
    expect((await world.service.list({ holder: 'bob' })).leases).toEqual([])
    await held.release()
    await world.runtime.settle()
    expect(next.value().state).toBe('held')
    const [failed] = await alice.tenure.history({ holder: 'bob', types: ['lease.failed'] })
    expect(failed?.event).toMatchObject({ failure: 'aborted' })
  })

  it('closing the client cancels its waits', async () => {
    const world = newWorld()
    const alice = newClient(world, 'alice')
    const bob = newClient(world, 'bob')
    await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 600_000 }))
    await world.runtime.advance(10)
    await bob.tenure.close()
    expect(waiting.error().code).toBe('CLOSED')
    expect((await world.service.list({ holder: 'bob' })).leases).toEqual([])
    expect(world.runtime.keepAliveTimers).toBe(0)
  })
})

describe('defect: a timeout that leaves a grant behind', () => {
  it('a claim that is granted while the wait times out is released at once', async () => {
    const world = newWorld()
    const alice = newClient(world, 'alice')
    const bob = newClient(world, 'bob')
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 5_000 }))
    await world.runtime.advance(4_000)
    bob.faults.when('claim', async (send) => {
      const answer = await send()
      await new Promise<void>((resolve) => {
        world.runtime.setTimer(2_000, resolve, { keepAlive: true })
      })
      return answer
    })
    await held.release()
    await world.runtime.settle()
    expect((await world.service.list({ holder: 'bob' })).leases).toMatchObject([
      { state: 'active' },
    ])
    await world.runtime.advance(1_000)
    expect(waiting.error().code).toBe('WAIT_TIMEOUT')
    expect((await world.service.list({ holder: 'bob' })).leases).toEqual([])
    expect(await alice.tenure.tryAcquire(RESOURCE)).toMatchObject({ kind: 'granted' })
  })

  it('a claim that reaches the store only after the timeout is granted nothing', async () => {
    const world = newWorld()
    const alice = newClient(world, 'alice')
    const bob = newClient(world, 'bob')
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 5_000 }))
    await world.runtime.advance(4_000)
    bob.faults.when('claim', async (send) => {
      await new Promise<void>((resolve) => {
        world.runtime.setTimer(2_000, resolve, { keepAlive: true })
      })
      return send()
    })
    await held.release()
    await world.runtime.advance(3_000)
    expect(waiting.error().code).toBe('WAIT_TIMEOUT')
    expect((await world.service.list({ holder: 'bob' })).leases).toEqual([])
    const [failed] = await alice.tenure.history({ holder: 'bob', types: ['lease.failed'] })
    expect(failed?.event).toMatchObject({ failure: 'timed_out' })
  })
})

describe('defect: a timer of Node taken for a clock', () => {
  it('a wait is not over before its time, although its timer is almost a millisecond early', async () => {
    const runtime = new FakeRuntime()
    const setTimer = runtime.setTimer.bind(runtime)
    const early = (delayMs: number): number => (delayMs > 1 ? delayMs - 0.7 : delayMs)
    runtime.setTimer = (delayMs, ...rest) => setTimer(early(delayMs), ...rest)
    const world = newWorld(runtime)
    await newClient(world, 'alice').tenure.acquire(RESOURCE)
    const waiting = follow(newClient(world, 'bob').tenure.acquire(RESOURCE, { waitMs: 50 }))
    await runtime.advance(49.9)
    expect(waiting.isPending()).toBe(true)
    await runtime.advance(0.1)
    expect(waiting.error()).toMatchObject({ code: 'WAIT_TIMEOUT', details: { waitedMs: 50 } })
  })
})
