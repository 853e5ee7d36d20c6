import { describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { follow, newStage, statesOf } from './harness.ts'

const RESOURCE = 'work:W-1'

describe.each([true, false])(
  'with keep_history %s, a waiter whom an operator sends away',
  (kept) => {
    it('hears so, and does not come back', async () => {
      const { world, alice, bob, advance } = newStage()
      await alice.tenure.config.set('keep_history', kept)
      const held = await alice.tenure.acquire(RESOURCE)
      const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
      await advance(100)
      const { leases } = await world.service.list({ state: 'pending' })
      await world.service.revoke({ id: leases[0]?.id ?? '', by: 'operator' })
      await advance(100)
      expect(waiting.error().code).toBe('LEASE_TERMINAL')
      await held.release()
      await advance(10_000)
      expect(await statesOf(world, 'bob')).toEqual([])
    })

    it('hears so when it waits for several resources', async () => {
      const { world, alice, bob, advance } = newStage()
      await alice.tenure.config.set('keep_history', kept)
      await alice.tenure.acquire(RESOURCE)
      const waiting = follow(bob.tenure.acquireAll([RESOURCE, 'work:W-2'], { waitMs: 60_000 }))
      await advance(100)
      const { leases } = await world.service.list({
        state: 'pending',
        resource: parseResource(RESOURCE),
      })
      await world.service.revoke({ id: leases[0]?.id ?? '', by: 'operator' })
      await advance(100)
      expect(waiting.error().code).toBe('LEASE_TERMINAL')
      await advance(10_000)
      expect(await statesOf(world, 'bob')).toEqual([])
    })

    it('may ask again under the same id', async () => {
      const { world, alice, bob, advance } = newStage()
      await alice.tenure.config.set('keep_history', kept)
      const held = await alice.tenure.acquire(RESOURCE)
      const leaseId = world.runtime.uuid()
      const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000, leaseId }))
      await advance(100)
      await world.service.revoke({ id: leaseId, by: 'operator' })
      await advance(100)
      expect(waiting.error().code).toBe('LEASE_TERMINAL')
      await held.release()
      expect((await bob.tenure.acquire(RESOURCE, { leaseId })).id).toBe(leaseId)
    })
  },
)
