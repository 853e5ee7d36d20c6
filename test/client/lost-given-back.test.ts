/** What a client has lost by its own clock, while the store still keeps it for the rest of its term. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { onOwnFault } from '../runtime/hear-faults.ts'
import {
  failWith,
  first,
  follow,
  hang,
  newClient,
  newHolding,
  statesOf,
  type Fault,
  type Holding,
} from './harness.ts'

const RESOURCE = 'work:W-1'
/** One percent is given away, so here the holder stops and the store does not. */
const OWN_DEADLINE_MS = 29_700

const reported: string[] = []
let stop = (): void => undefined

beforeEach(() => {
  reported.length = 0
  stop = onOwnFault(({ source }) => reported.push(source))
})

afterEach(() => stop())

/** A holder whose renewals have come to nothing. */
async function newLost(options = {}): Promise<Holding> {
  const holding = await newHolding(options)
  holding.faults.when('renew', hang)
  await holding.advance(OWN_DEADLINE_MS)
  expect(holding.lease.state).toBe('lost')
  return holding
}

describe('a lease that its holder has lost by its own clock', () => {
  it('is given back at once, so that the next waiter gets it', async () => {
    const { world, lease, faults, advance } = await newHolding()
    faults.when('renew', hang)
    const bob = newClient(world, 'bob')
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(OWN_DEADLINE_MS - 1)
    expect(waiting.isPending()).toBe(true)
    await advance(1)
    expect(lease.state).toBe('lost')
    expect(waiting.value().state).toBe('held')
    expect(await bob.tenure.get(lease.id)).toMatchObject({
      state: 'released',
      releaseReason: 'aborted',
    })
    expect(reported).toEqual([])
  })

  it('does not stand in the way of its own client', async () => {
    const { tenure, lease } = await newLost()
    const again = await tenure.acquire(RESOURCE, { waitMs: 5_000 })
    expect(again.state).toBe('held')
    expect(again.fence).toBeGreaterThan(lease.fence)
  })

  it('is given back once, and a release of its handle only says that it was lost', async () => {
    const { lease, faults, advance } = await newLost()
    await expect(lease.release()).rejects.toBe(lease.signal.reason)
    await advance(100_000)
    expect(faults.count('release')).toBe(1)
  })

  it('is given back when the store is there again', async () => {
    const { world, faults, advance } = await newHolding({ ttlMs: 600_000 })
    faults.when('renew', hang)
    faults.when('release', first(4, failWith('STORE_UNAVAILABLE')))
    await advance(594_000)
    expect(await statesOf(world, 'agent-1')).toEqual(['active'])
    await advance(3_000)
    expect(await statesOf(world, 'agent-1')).toEqual([])
    expect(reported).not.toContain('client/give-back')
  })

  it('is reported when it could not be given back', async () => {
    const { world, faults, advance } = await newHolding()
    faults.when('renew', hang)
    faults.when('release', failWith('STORE_UNAVAILABLE'))
    await advance(OWN_DEADLINE_MS + 120_000)
    expect(reported).toContain('client/give-back')
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('is not handed out again under its id while it is being given back', async () => {
    const { tenure, lease, faults, advance } = await newHolding()
    faults.when('renew', hang)
    faults.when('release', first(1, failWith('STORE_UNAVAILABLE')))
    await advance(OWN_DEADLINE_MS)
    const repeated = tenure.acquire(RESOURCE, { leaseId: lease.id, waitMs: 0 })
    await expect(repeated).rejects.toMatchObject({ code: 'LEASE_TERMINAL' })
  })
})

describe('a lost lease is left to its deadline', () => {
  const notReleased = async ({ world, lease, faults, advance }: Holding): Promise<void> => {
    expect(lease.state).toBe('lost')
    expect(await statesOf(world, 'agent-1')).toEqual(['active'])
    await advance(60_000)
    expect(faults.count('release')).toBe(0)
  }

  it('when others are to be kept out for a while after a loss', async () => {
    await notReleased(await newLost({ lockDelayMs: 5_000 }))
  })

  it('when the grace of a revocation is used up, so that the revocation is what ends it', async () => {
    const holding = await newHolding()
    const { world, lease, advance } = holding
    await advance(1_000)
    await world.service.revoke({ id: lease.id, by: 'operator', graceMs: 10_000 })
    await advance(9_950)
    await notReleased(holding)
    await world.service.cleanup()
    expect(await world.service.get({ id: lease.id })).toMatchObject({ state: 'revoked' })
  })

  it('when it was abandoned to whoever else has its id', async () => {
    const holding = await newHolding()
    holding.lease.abandon()
    await holding.advance(OWN_DEADLINE_MS)
    await notReleased(holding)
  })
})

describe('a lease that the store itself says has ended', () => {
  const ends: readonly [string, Fault][] = [
    ['revoked', async (send) => send()],
    ['not found', async () => ({ kind: 'not_found', leaseId: 'gone' })],
  ]
  it.each(ends)('is not given back: %s', async (_how, fault) => {
    const { world, lease, faults, advance } = await newHolding()
    faults.when('renew', fault)
    await world.service.revoke({ id: lease.id, by: 'operator' })
    await advance(OWN_DEADLINE_MS)
    expect(lease.state).toBe('lost')
    expect(faults.count('release')).toBe(0)
  })
})
