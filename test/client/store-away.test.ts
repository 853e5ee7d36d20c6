/** What is left of a lease or a ticket when its client is done with it, and the store is away at that moment. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Fault } from '../../src/runtime/diagnostics.ts'
import { onOwnFault } from '../runtime/hear-faults.ts'
import {
  failWith,
  follow,
  loseAnswer,
  newHolding,
  newStage,
  newClient,
  statesOf,
  type TestClient,
  type World,
} from './harness.ts'

const RESOURCE = 'work:W-1'

const reported: Fault[] = []
let stop = (): void => undefined

beforeEach(() => {
  reported.length = 0
  stop = onOwnFault((fault) => reported.push(fault))
})

afterEach(() => stop())

function sources(): readonly string[] {
  return reported.map(({ source }) => source)
}

/** From now on, for so long, the store refuses what this client asks. */
function goAway(
  { runtime }: World,
  { faults }: TestClient,
  options: {
    readonly methods: readonly ('acquire' | 'withdraw' | 'release')[]
    readonly forMs: number
  },
): void {
  const backAtMs = runtime.monotonicMs() + options.forMs
  const away = failWith('STORE_UNAVAILABLE')
  for (const method of options.methods) {
    faults.when(method, (send, input) => {
      return runtime.monotonicMs() < backAtMs ? away(send, input) : send()
    })
  }
}

describe('a wait that begins while the store is away', () => {
  it('goes on when the store is back, if the caller said how long to wait', async () => {
    const { world, alice, advance } = newStage()
    goAway(world, alice, { methods: ['acquire'], forMs: 1_200 })
    const waiting = follow(alice.tenure.acquire(RESOURCE, { waitMs: 10_000 }))
    await advance(1_200)
    expect(waiting.isPending()).toBe(true)
    await advance(1_000)
    expect(waiting.value().state).toBe('held')
  })

  it('goes on although the first answer was lost, and holds one lease', async () => {
    const { world, alice, advance } = newStage()
    alice.faults.when('acquire', async (send) => {
      const away = failWith('STORE_UNAVAILABLE')
      if (alice.faults.count('acquire') === 1) return loseAnswer(send, [])
      return alice.faults.count('acquire') < 6 ? away(send, []) : send()
    })
    const waiting = follow(alice.tenure.acquire(RESOURCE, { waitMs: 10_000, ttlMs: 60_000 }))
    await advance(9_000)
    expect(waiting.value().state).toBe('held')
    expect(await statesOf(world, 'alice')).toEqual(['active'])
  })

  it.each([100, 10_000])('says after %i ms that the store is away', async (waitMs) => {
    const { world, alice, advance } = newStage()
    goAway(world, alice, { methods: ['acquire'], forMs: 60_000 })
    const waiting = follow(alice.tenure.acquire(RESOURCE, { waitMs }))
    await advance(waitMs - 1)
    expect(waiting.isPending()).toBe(true)
    await advance(1)
    const error = waiting.error()
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', effect: 'none' })
    expect(error.details).toMatchObject({ resource: RESOURCE, waitedMs: waitMs })
    expect(alice.faults.count('withdraw')).toBe(0)
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('says that the wait timed out if the store came back and another holds it', async () => {
    const { world, alice, bob, advance } = newStage()
    await alice.tenure.acquire(RESOURCE)
    goAway(world, bob, { methods: ['acquire'], forMs: 1_200 })
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 10_000 }))
    await advance(10_000)
    expect(waiting.error()).toMatchObject({ code: 'WAIT_TIMEOUT', effect: 'none' })
  })

  it.each([{}, { waitMs: 0 }])('ends at once if the caller did not say: %j', async (options) => {
    const { world, alice, advance } = newStage()
    goAway(world, alice, { methods: ['acquire'], forMs: 1_200 })
    const waiting = follow(alice.tenure.acquire(RESOURCE, options))
    await advance(1)
    expect(waiting.error()).toMatchObject({ code: 'STORE_UNAVAILABLE', effect: 'none' })
  })
})

describe('a wait without end', () => {
  it('lasts until the lease is free, however long that takes', async () => {
    const { world, alice, advance } = newStage()
    const bob = newClient(world, 'bob', { claimWindowMs: 60_000 })
    const held = await alice.tenure.acquire(RESOURCE, { ttlMs: 2_592_000_000, autoRenew: false })
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: Infinity }))
    await advance(90_000_000)
    expect(waiting.isPending()).toBe(true)
    const requests = bob.faults.calls.map(({ request }) => request)
    expect(JSON.parse(JSON.stringify(requests))).toEqual(requests)
    await held.release()
    await world.runtime.settle()
    expect(waiting.value().state).toBe('held')
  })

  it('ends when it is cancelled', async () => {
    const { world, alice, bob, advance } = newStage()
    await alice.tenure.acquire(RESOURCE)
    const stop = new AbortController()
    const { signal } = stop
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: Infinity, signal }))
    await advance(100_000)
    stop.abort()
    await advance(0)
    expect(waiting.error().code).toBe('ABORTED')
    expect(await statesOf(world, 'bob')).toEqual([])
  })
})

describe('the ticket of a wait that timed out while the store was away for a moment', () => {
  it('is withdrawn when the store is back, so that the next waiter is served at once', async () => {
    const { world, alice, bob, advance } = newStage()
    const carol = newClient(world, 'carol')
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 4_000 }))
    await advance(10)
    const next = follow(carol.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(3_980)
    goAway(world, bob, { methods: ['withdraw'], forMs: 1_500 })
    await advance(10)
    expect(waiting.error()).toMatchObject({ code: 'WAIT_TIMEOUT', effect: 'none' })
    await advance(2_500)
    expect(await statesOf(world, 'bob')).toEqual([])
    await held.release()
    await world.runtime.settle()
    expect(next.value().state).toBe('held')
    expect(sources()).toEqual([])
  })

  it('is reported when it could not be withdrawn at all', async () => {
    const { world, alice, bob, advance } = newStage()
    await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 4_000 }))
    await advance(3_999)
    goAway(world, bob, { methods: ['withdraw'], forMs: 600_000 })
    await advance(1)
    expect(waiting.error().code).toBe('WAIT_TIMEOUT')
    await advance(120_000)
    expect(sources()).toEqual(['client/withdraw'])
    expect(reported[0]?.error).toMatchObject({ code: 'STORE_UNAVAILABLE' })
  })
})

describe('a release while the store is away', () => {
  it('is sent again for as long as it may be', async () => {
    const { world, lease, advance, ...client } = await newHolding()
    goAway(world, client, { methods: ['release'], forMs: 5_000 })
    const release = follow(lease.release())
    await advance(4_900)
    expect(release.isPending()).toBe(true)
    await advance(1_500)
    release.value()
    expect(await statesOf(world, 'agent-1')).toEqual([])
  })

  it('goes on in the background after its caller was told that nobody knows', async () => {
    const { world, lease, advance, ...client } = await newHolding({ ttlMs: 3_600_000 })
    goAway(world, client, { methods: ['release'], forMs: 15_000 })
    const release = follow(lease.release())
    await advance(10_000)
    expect(release.error()).toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN', effect: 'unknown' })
    expect(release.error().message).toMatch(/released in the background.*a fault of the test$/)
    expect(lease.state).toBe('released')
    await advance(7_000)
    expect(await statesOf(world, 'agent-1')).toEqual([])
    expect(sources()).toEqual([])
  })

  it('goes on in the background for each of several leases that are released together', async () => {
    const { world, alice, advance } = newStage()
    const set = await alice.tenure.acquireAll(['work:W-1', 'work:W-2'], { ttlMs: 3_600_000 })
    const backAtMs = world.runtime.monotonicMs() + 15_000
    for (const method of ['release', 'releaseAll'] as const) {
      alice.faults.when(method, (send, input) => {
        const isAway = world.runtime.monotonicMs() < backAtMs
        return isAway ? failWith('STORE_UNAVAILABLE')(send, input) : send()
      })
    }
    const release = follow(set.release())
    await advance(10_000)
    expect(release.error()).toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN', effect: 'unknown' })
    await advance(7_000)
    expect(await statesOf(world, 'alice')).toEqual([])
  })

  it('is reported when it never arrived, and keeps no process alive', async () => {
    const { world, lease, advance, ...client } = await newHolding({ ttlMs: 3_600_000 })
    goAway(world, client, { methods: ['release'], forMs: 600_000 })
    const release = follow(lease.release())
    await advance(10_000)
    expect(release.error().effect).toBe('unknown')
    await advance(1)
    expect(world.runtime.keepAliveTimers).toBe(0)
    await advance(120_000)
    expect(sources()).toEqual(['client/release'])
    expect(world.runtime.pendingTimers).toBe(0)
  })
})
