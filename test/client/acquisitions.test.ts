import { describe, expect, it } from 'vitest'
import {
  answerAfter,
  failWith,
  first,
  follow,
  hang,
  newClient,
  newHolding,
  newWorld,
  statesOf,
} from './harness.ts'

describe('a grant that must not be handed out', () => {
  it('with a fence lower than one seen before is refused and given back', async () => {
    const world = newWorld()
    const alice = newClient(world, 'alice')
    const lease = await alice.tenure.acquire('work:W-1')
    await lease.release()
    alice.faults.when('acquire', async (send) => {
      const answer = (await send()) as { lease: object }
      return { ...answer, lease: { ...answer.lease, fence: lease.fence - 1 } }
    })
    const acquiring = follow(alice.tenure.acquire('work:W-1'))
    await world.runtime.advance(0)
    expect(acquiring.error()).toMatchObject({ code: 'STORE_UNAVAILABLE' })
    expect((await world.service.list({ holder: 'alice' })).leases).toEqual([])
  })

  it('is not one whose fence is lower only because its answer was slower', async () => {
    const world = newWorld()
    const alice = newClient(world, 'alice')
    let arrive = (): void => undefined
    alice.faults.when(
      'acquire',
      first(1, async (send) => {
        const answer = await send()
        await new Promise<void>((resolve) => (arrive = resolve))
        return answer
      }),
    )
    const slow = follow(alice.tenure.acquire('file:/a'))
    await world.runtime.advance(0)
    const quick = await alice.tenure.acquire('file:/b')
    arrive()
    await world.runtime.advance(0)
    expect(slow.value().fence).toBeLessThan(quick.fence)
  })

  it('is not an offer whose fence is older than a lease taken meanwhile', async () => {
    const world = newWorld()
    const [alice, bob] = [newClient(world, 'alice'), newClient(world, 'bob')]
    const held = await alice.tenure.acquire('file:/a')
    const waiting = follow(bob.tenure.acquire('file:/a', { waitMs: 60_000 }))
    await world.runtime.advance(100)
    bob.faults.when('claim', first(1, failWith('STORE_UNAVAILABLE')))
    await held.release()
    const other = await bob.tenure.acquire('file:/b')
    await world.runtime.advance(100)
    expect(waiting.value().fence).toBeLessThan(other.fence)
  })
})

describe('a lease that is asked for once more by the client that holds it', () => {
  it('in doubt is the same handle, and a wait for the store does not put it at risk', async () => {
    const { world, tenure, lease, faults, advance } = await newHolding()
    faults.when('renew', failWith('STORE_UNAVAILABLE'))
    faults.when('acquire', hang)
    await advance(11_000)
    expect(lease.state).toBe('uncertain')
    const again = follow(tenure.acquire('work:W-1', { leaseId: lease.id, waitMs: 1_000 }))
    await advance(2_000)
    expect(again.value()).toBe(lease)
    expect([lease.state, await statesOf(world, 'agent-1')]).toEqual(['uncertain', ['active']])
  })

  it('as another resource is refused at once, and is held on', async () => {
    const { world, tenure, lease, faults, advance } = await newHolding()
    faults.when('acquire', hang)
    const other = follow(tenure.acquire('work:W-2', { leaseId: lease.id, waitMs: 1_000 }))
    await advance(2_000)
    expect(other.error()).toMatchObject({ code: 'LEASE_EXISTS', details: { leaseId: lease.id } })
    expect([lease.state, await statesOf(world, 'agent-1')]).toEqual(['held', ['active']])
  })

  it('by an adoption whose answer is as old as its TTL is the same handle, and is held on', async () => {
    const { world, tenure, lease, faults, advance } = await newHolding({ ttlMs: 3_000 })
    faults.when('adopt', answerAfter(world, 4_000))
    const adopting = follow(tenure.adopt(lease.id))
    await advance(4_000)
    expect(adopting.value()).toBe(lease)
    await advance(1_000)
    expect([lease.state, await statesOf(world, 'agent-1')]).toEqual(['held', ['active']])
  })
})
