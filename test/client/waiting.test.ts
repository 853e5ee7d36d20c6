import { describe, expect, it, vi } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import {
  failWith,
  first,
  follow,
  hang,
  loseAnswer,
  newClient,
  newStage,
  statesOf,
  type Fault,
  type World,
} from './harness.ts'

const RESOURCE = 'work:W-1'

/** The store tells that something happened but not what, as a store across processes does. */
function tellNoIds({ service }: World): Fault {
  return (_send, input) => {
    const [session, listener] = input as Parameters<LeaseApi['onWake']>
    return service.onWake(session, () => listener({ leaseIds: null }))
  }
}

describe('an acquire that need not wait', () => {
  it('is one request to the store and nothing else', async () => {
    const { alice } = newStage()
    const lease = await alice.tenure.acquire(RESOURCE, { waitMs: 10_000 })
    await lease.release()
    expect(alice.faults.calls.map(({ method }) => method)).toEqual(['acquire', 'release'])
  })

  it('is refused at once with the blockers when it may not wait', async () => {
    const { alice, bob } = newStage()
    await alice.tenure.acquire(RESOURCE, { reason: 'deploying' })
    await expect(bob.tenure.acquire(RESOURCE, { waitMs: 0 })).rejects.toMatchObject({
      code: 'RESOURCE_HELD',
      details: { blockers: [{ holder: 'alice', reason: 'deploying' }] },
    })
    const attempt = await bob.tenure.tryAcquire(RESOURCE)
    expect(attempt).toMatchObject({ kind: 'held', blockers: [{ holder: 'alice' }] })
    expect(attempt).toMatchObject({ retryAfterMs: 30_000 })
  })

  it('waits its turn behind other calls of the same client, in the one queue with everybody', async () => {
    const { alice, bob, advance } = newStage()
    const order: string[] = []
    const turn = async (who: string, { tenure }: typeof alice): Promise<void> => {
      await tenure.withLease(RESOURCE, { waitMs: 60_000 }, async () => {
        order.push(who)
        await advance(10)
      })
    }
    const turns = [turn('first', alice), turn('second', alice)]
    await advance(1)
    turns.push(turn('bob', bob))
    await advance(1)
    turns.push(turn('third', alice))
    await advance(1_000)
    await Promise.all(turns)
    expect(order).toEqual(['first', 'second', 'bob', 'third'])
  })

  it('is refused at once what its session has, if that does one thing after another', async () => {
    const { world } = newStage()
    const { tenure } = newClient(world, 'cli', { session: 'cli', sequential: true })
    await tenure.acquire(RESOURCE)
    await expect(tenure.acquire(RESOURCE, { waitMs: 5_000 })).rejects.toMatchObject({
      code: 'RESOURCE_HELD',
    })
  })

  it('is told at once that the store is away', async () => {
    const { alice, world } = newStage()
    alice.faults.when('acquire', failWith('STORE_UNAVAILABLE'))
    await expect(alice.tenure.acquire(RESOURCE)).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
    })
    expect(alice.faults.count('acquire')).toBe(1)
    expect(world.runtime.pendingTimers).toBe(0)
  })
})

describe('a waiter', () => {
  it('gets the lease in the same moment in which it is released, without polling', async () => {
    const { alice, bob, advance, world } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(100)
    const claims = bob.faults.count('claim')
    await held.release()
    await world.runtime.settle()
    expect(waiting.value().state).toBe('held')
    expect(bob.faults.count('claim')).toBe(claims + 1)
  })

  it('keeps its place by a claim every third of its window, and asks for nothing else', async () => {
    const { alice, bob, advance, world } = newStage()
    await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(30_000)
    expect(waiting.isPending()).toBe(true)
    expect(await statesOf(world, 'bob')).toEqual(['pending'])
    expect(bob.faults.count('claim')).toBe(18)
    const asked = new Set(bob.faults.calls.map(({ method }) => method))
    expect(asked).toEqual(new Set(['acquire', 'onWake', 'get', 'claim']))
    expect(bob.faults.count('get')).toBe(1)
  })

  it('keeps the process alive while it waits, and leaves no timer behind', async () => {
    const { alice, bob, advance, world } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(100)
    const [timeout, keepAlive] = [1, 1]
    expect(world.runtime.keepAliveTimers).toBe(timeout + keepAlive)
    await held.release()
    await advance(0)
    await waiting.value().release()
    expect(world.runtime.keepAliveTimers).toBe(0)
  })

  it('takes over when the holder dies, at the end of its lease', async () => {
    const { alice, bob, advance } = newStage()
    await alice.tenure.acquire(RESOURCE, { ttlMs: 7_000 })
    for (const method of ['renew', 'release'] as const) alice.faults.when(method, hang)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(6_999)
    expect(waiting.isPending()).toBe(true)
    await advance(1)
    expect(waiting.value().state).toBe('held')
  })

  it('counts its lease from before the claim that was granted, not from the acquire', async () => {
    const { alice, bob, advance } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000, ttlMs: 10_000 }))
    await advance(20_000)
    await held.release()
    await advance(0)
    expect(waiting.value().remainingMs).toBe(9_900)
  })

  it('waits as long as the configuration says when it names no wait', async () => {
    const { alice, bob, advance } = newStage()
    await alice.tenure.config.set('acquisition_timeout_ms', 2_500)
    await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE))
    await advance(2_499)
    expect(waiting.isPending()).toBe(true)
    await advance(1)
    expect(waiting.error()).toMatchObject({ code: 'WAIT_TIMEOUT', details: { waitedMs: 2_500 } })
  })

  it('is told who was in the way when its time is over', async () => {
    const { alice, bob, advance } = newStage()
    await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 3_000 }))
    await advance(3_000)
    expect(waiting.error()).toMatchObject({
      code: 'WAIT_TIMEOUT',
      details: { resource: RESOURCE, waitedMs: 3_000, blockers: [{ holder: 'alice' }] },
    })
  })

  it('files again under the same id when its ticket was dropped, for the rest of its wait', async () => {
    const { alice, bob, advance, world } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(1_000)
    world.runtime.stall(6_000)
    expect(await statesOf(world, 'bob')).toEqual([])
    await advance(0)
    expect(await statesOf(world, 'bob')).toEqual(['pending'])
    await held.release()
    await advance(0)
    const { id } = waiting.value()
    const filed = bob.faults.calls.filter(({ method }) => method === 'acquire')
    expect(filed.map(({ request }) => request)).toMatchObject([
      { id, waitMs: 60_000 },
      { id, waitMs: 53_000 },
    ])
  })

  it('goes on trying while the store is away, and takes its turn when it is back', async () => {
    const { alice, bob, advance } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(100)
    bob.faults.when('claim', failWith('STORE_UNAVAILABLE'))
    await advance(3_000)
    await held.release()
    await advance(1_000)
    expect(waiting.isPending()).toBe(true)
    bob.faults.heal('claim')
    await advance(1_000)
    expect(waiting.value().state).toBe('held')
  })

  it('says why when the store stayed away until the wait was over', async () => {
    const { alice, bob, advance } = newStage()
    await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 5_000 }))
    await advance(100)
    for (const method of ['claim', 'withdraw'] as const) {
      bob.faults.when(method, failWith('STORE_UNAVAILABLE'))
    }
    await advance(4_900)
    const { message, cause, ...error } = waiting.error()
    expect(error).toMatchObject({ code: 'WAIT_TIMEOUT', effect: 'unknown' })
    expect(error.details['store']).toMatchObject({ code: 'STORE_UNAVAILABLE' })
    expect(message).toBe(
      'waited 5000 ms for work:W-1, but the store did not answer: a fault of the test',
    )
    expect(cause).toMatchObject({ code: 'STORE_UNAVAILABLE' })
  })

  it('ends when an operator takes it out of the queue', async () => {
    const { alice, bob, advance, world } = newStage()
    await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(100)
    await alice.tenure.releaseAll('bob')
    await world.runtime.settle()
    expect(waiting.error().code).toBe('LEASE_TERMINAL')
  })

  it('is not let in twice under one id', async () => {
    const { alice, bob } = newStage()
    await alice.tenure.acquire(RESOURCE)
    const leaseId = '00000000-0000-4000-8000-000000000001'
    void follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000, leaseId }))
    await expect(bob.tenure.acquire(RESOURCE, { waitMs: 1, leaseId })).rejects.toMatchObject({
      code: 'LEASE_EXISTS',
    })
  })
})

describe('a wake-up', () => {
  it('makes only the ticket it names claim', async () => {
    const { alice, bob, advance, world } = newStage()
    const held = await alice.tenure.acquire('work:W-1')
    await alice.tenure.acquire('work:W-2')
    const [one, two] = ['work:W-1', 'work:W-2'].map((resource) =>
      follow(bob.tenure.acquire(resource, { waitMs: 60_000 })),
    )
    await advance(100)
    const claims = bob.faults.count('claim')
    await held.release()
    await world.runtime.settle()
    expect(one?.value().resource).toBe('work:W-1')
    expect(two?.isPending()).toBe(true)
    expect(bob.faults.count('claim')).toBe(claims + 1)
  })

  it('by name makes a claim that depends on its own ticket alone', async () => {
    const { alice, bob, advance, world } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(100)
    const depths = watchDepths(world)
    await held.release()
    await world.runtime.settle()
    expect([waiting.value().state, depths]).toEqual(['held', ['claims', 'entry']])
  })

  it('by name makes whoever has no offer look at everything', async () => {
    const { alice, bob, advance, world } = newStage()
    await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(100)
    const [ticket] = (await world.service.list({ holder: 'bob' })).leases
    const depths = watchDepths(world)
    await world.service.revoke({ id: ticket?.id ?? '', by: 'operator' })
    await world.runtime.settle()
    expect(waiting.error().code).toBe('LEASE_TERMINAL')
    expect(depths).toEqual(['claims', 'entry', 'claims'])
  })

  it('without ids makes all tickets look, and only the one whose turn it is claim', async () => {
    const { alice, bob, advance, world } = newStage()
    bob.faults.when('onWake', tellNoIds(world))
    const held = await alice.tenure.acquire('work:W-1')
    await alice.tenure.acquire('work:W-2')
    const [one, two] = ['work:W-1', 'work:W-2'].map((resource) =>
      follow(bob.tenure.acquire(resource, { waitMs: 60_000 })),
    )
    await advance(100)
    const claims = bob.faults.count('claim')
    await held.release()
    await world.runtime.settle()
    expect(one?.value().state).toBe('held')
    expect(two?.isPending()).toBe(true)
    expect(bob.faults.count('claim')).toBe(claims + 1)
  })

  it('without ids finds a revoked lease among those that are held', async () => {
    const { bob, advance, world } = newStage()
    bob.faults.when('onWake', tellNoIds(world))
    const kept = await bob.tenure.acquire('work:W-1')
    const revoked = await bob.tenure.acquire('work:W-2')
    await advance(100)
    await world.service.revoke({ id: revoked.id, by: 'operator' })
    await world.runtime.settle()
    expect(revoked.signal.reason).toMatchObject({ details: { reason: 'revoked' } })
    expect(kept.state).toBe('held')
  })

  it('without ids finds it among hundreds by one list', async () => {
    const { bob, advance, world } = newStage()
    bob.faults.when('onWake', tellNoIds(world))
    const names = Array.from({ length: 300 }, (_, index) => `work:W-${index}`)
    const leases = await Promise.all(names.map((name) => bob.tenure.acquire(name)))
    await advance(100)
    const lists = bob.faults.count('list')
    const gets = bob.faults.count('get')
    await world.service.revoke({ id: leases[7]?.id ?? '', by: 'operator' })
    await world.runtime.settle()
    expect(leases.map((lease) => lease.state).filter((state) => state === 'lost')).toHaveLength(1)
    expect(leases[7]?.state).toBe('lost')
    expect(bob.faults.count('list') - lists).toBe(1)
    expect(bob.faults.count('get') - gets).toBe(1)
  })

  it('that is lost costs no more than the keep-alive', async () => {
    const { alice, bob, advance } = newStage()
    bob.faults.when('onWake', failWith('STORE_UNAVAILABLE'))
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(100)
    await held.release()
    await advance(1_666)
    expect(waiting.value().state).toBe('held')
  })

  it('from before the subscription stood is made up for by a look', async () => {
    const { alice, bob, advance, world } = newStage()
    let open = (): void => undefined
    bob.faults.when('onWake', async (send) => {
      await new Promise<void>((resolve) => (open = resolve))
      return send()
    })
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(10)
    await held.release()
    await advance(10)
    expect(waiting.isPending()).toBe(true)
    open()
    await world.runtime.settle()
    expect(waiting.value().state).toBe('held')
  })
})

describe('an answer that was lost', () => {
  it('of an acquire is asked for again under the same id, and the lease counts from the first', async () => {
    const { alice, advance, world } = newStage()
    alice.faults.when('acquire', first(2, loseAnswer))
    const acquiring = follow(alice.tenure.acquire(RESOURCE, { ttlMs: 10_000 }))
    await advance(150)
    const lease = acquiring.value()
    expect(alice.faults.count('acquire')).toBe(3)
    expect(lease.remainingMs).toBe(9_900 - 150)
    expect(await statesOf(world, 'alice')).toEqual(['active'])
  })

  it('of an acquire that never arrived makes no difference to that', async () => {
    const { alice, advance } = newStage()
    alice.faults.when('acquire', first(1, failWith('STORE_OUTCOME_UNKNOWN')))
    const acquiring = follow(alice.tenure.acquire(RESOURCE, { ttlMs: 10_000 }))
    await advance(50)
    expect(acquiring.value().remainingMs).toBe(9_900 - 50)
  })

  it('of an acquire is given up after three tries, and what it left is withdrawn', async () => {
    const { alice, advance, world } = newStage()
    alice.faults.when('acquire', loseAnswer)
    const acquiring = follow(alice.tenure.acquire(RESOURCE))
    await advance(150)
    expect(acquiring.error()).toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN', effect: 'unknown' })
    expect(await statesOf(world, 'alice')).toEqual([])
  })

  it('of one that does not wait is not asked for again once a second is over', async () => {
    const { alice, advance, world } = newStage()
    const silentFor = (callMs: number): Fault => {
      return async () => {
        await new Promise<void>((resolve) => {
          world.runtime.setTimer(callMs, resolve, { keepAlive: true })
        })
        throw new LeaseError('STORE_OUTCOME_UNKNOWN', 'no answer')
      }
    }
    alice.faults.when('acquire', silentFor(5_000))
    const trying = follow(alice.tenure.tryAcquire(RESOURCE))
    const acquiring = follow(alice.tenure.acquire(RESOURCE, { waitMs: 0 }))
    await advance(5_000)
    const unknown = { code: 'STORE_OUTCOME_UNKNOWN', effect: 'unknown' }
    expect(trying.error()).toMatchObject(unknown)
    expect(acquiring.error()).toMatchObject(unknown)
    expect(alice.faults.count('acquire')).toBe(2)
    alice.faults.when('acquire', silentFor(500))
    const quick = follow(alice.tenure.tryAcquire(RESOURCE))
    await advance(1_050)
    expect(quick.error()).toMatchObject(unknown)
    expect(alice.faults.count('acquire')).toBe(4)
  })

  it('of an acquire stays lost when the store is away afterwards, and what it left is withdrawn', async () => {
    const { alice, advance, world } = newStage()
    const answers = [loseAnswer, failWith('STORE_UNAVAILABLE'), failWith('STORE_UNAVAILABLE')]
    alice.faults.when('acquire', (send, input) => answers.shift()?.(send, input) ?? send())
    const acquiring = follow(alice.tenure.acquire(RESOURCE))
    await advance(150)
    expect(acquiring.error()).toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN', effect: 'unknown' })
    expect(await statesOf(world, 'alice')).toEqual([])
  })

  it('of a claim is asked for again, and the lease counts from the claim that was granted', async () => {
    const { alice, bob, advance } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000, ttlMs: 10_000 }))
    await advance(5_000)
    bob.faults.when('claim', first(1, loseAnswer))
    await held.release()
    await advance(50)
    expect(waiting.value().remainingMs).toBeLessThanOrEqual(9_850)
    expect(waiting.value().remainingMs).toBeGreaterThan(9_700)
  })

  it('of a whole acquire finds the lease again by its id, with no more than what is left of it', async () => {
    const { alice, advance } = newStage()
    const leaseId = '00000000-0000-4000-8000-000000000001'
    const options = { leaseId, ttlMs: 10_000, autoRenew: false }
    const lost = await alice.tenure.acquire(RESOURCE, options)
    await advance(4_000)
    const again = await alice.tenure.acquire(RESOURCE, options)
    expect(again).toBe(lost)
  })

  it('of a whole acquire in another process gives no more than what is left of the lease', async () => {
    const { world, advance } = newStage()
    const leaseId = '00000000-0000-4000-8000-000000000001'
    const options = { leaseId, ttlMs: 10_000, autoRenew: false }
    const [before, after] = [0, 1].map(() => newClient(world, 'alice', { session: 'alice' }))
    await before?.tenure.acquire(RESOURCE, options)
    await advance(4_000)
    const again = await after?.tenure.acquire(RESOURCE, options)
    expect(again?.remainingMs).toBeLessThanOrEqual(6_000)
    expect(again?.remainingMs).toBeGreaterThan(5_900)
  })
})

describe('the end of a wait', () => {
  it('cancels an acquire that was aborted before it began, without a request', async () => {
    const { alice } = newStage()
    const reason = new Error('no longer needed')
    const acquiring = alice.tenure.acquire(RESOURCE, { signal: AbortSignal.abort(reason) })
    await expect(acquiring).rejects.toMatchObject({ code: 'ABORTED', cause: reason })
    expect(alice.faults.calls).toEqual([])
  })

  it('does not take a lease away that was granted before the abort', async () => {
    const { alice, advance } = newStage()
    const controller = new AbortController()
    const lease = await alice.tenure.acquire(RESOURCE, { signal: controller.signal })
    controller.abort()
    await advance(100)
    expect(lease.state).toBe('held')
  })

  it('leaves nothing behind when an acquire reaches the store after it was given up', async () => {
    const { alice, advance, world } = newStage()
    let arrive = (): void => undefined
    alice.faults.when('acquire', async (send) => {
      await new Promise<void>((resolve) => (arrive = resolve))
      return send()
    })
    const controller = new AbortController()
    const acquiring = follow(alice.tenure.acquire(RESOURCE, { signal: controller.signal }))
    await advance(10)
    controller.abort()
    await advance(0)
    expect(acquiring.error().code).toBe('ABORTED')
    arrive()
    await advance(0)
    expect(await statesOf(world, 'alice')).toEqual([])
    expect(alice.faults.count('withdraw')).toBe(2)
  })

  it('lets the store answer once, however short the wait, but does not wait for ever', async () => {
    const { alice, advance } = newStage()
    let arrive = (): void => undefined
    alice.faults.when('acquire', async (send) => {
      await new Promise<void>((resolve) => (arrive = resolve))
      return send()
    })
    const slow = follow(alice.tenure.acquire(RESOURCE, { waitMs: 5 }))
    await advance(100)
    arrive()
    await advance(0)
    await slow.value().release()
    const hung = follow(alice.tenure.acquire(RESOURCE, { waitMs: 5 }))
    await advance(999)
    expect(hung.isPending()).toBe(true)
    await advance(1)
    expect(hung.error().code).toBe('WAIT_TIMEOUT')
  })
})

/** How far each commit looks, from now on. */
function watchDepths({ store }: World): readonly string[] {
  const depths: string[] = []
  const transact: typeof store.transact = store.transact.bind(store)
  vi.spyOn(store, 'transact').mockImplementation((readSets, decide) => {
    depths.push(...readSets.map(({ depth }) => depth))
    return transact(readSets, decide)
  })
  return depths
}
