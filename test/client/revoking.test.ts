import { describe, expect, it } from 'vitest'
import type { LeaseEvents } from '../../src/client/contract.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { failWith, first, follow, newClient, newHolding, record, type Holding } from './harness.ts'

type Told = LeaseEvents['revoking'][]

function requests({ lease }: Holding): Told {
  const told: Told = []
  lease.on('revoking', (event) => told.push(event))
  return told
}

async function endOf(holding: Holding): Promise<unknown> {
  const info = await holding.world.service.get({ id: holding.lease.id })
  return info?.state
}

describe('a holder that is asked to finish', () => {
  it('hears who asks, why, and how long it has', async () => {
    const holding = await newHolding()
    const told = requests(holding)
    await holding.advance(1_000)
    const operator = newClient(holding.world, 'ops')
    await operator.tenure.revoke(holding.lease.id, { reason: 'deploy', graceMs: 10_000 })
    await holding.world.runtime.settle()
    expect(told).toMatchObject([{ by: 'ops', reason: 'deploy' }])
    expect(told[0]?.remainingMs).toBeLessThanOrEqual(9_900)
    expect(told[0]?.remainingMs).toBeGreaterThan(9_800)
    expect(holding.lease.remainingMs).toBe(told[0]?.remainingMs)
    expect(holding.lease.info.revoking).toEqual({ by: 'ops', reason: 'deploy' })
    expect(holding.lease.state).toBe('held')
  })

  it('stops renewing, is warned, and its signal aborts before the grace is over', async () => {
    const holding = await newHolding()
    const { lease, faults, advance, world } = holding
    await advance(1_000)
    const told = record(lease)
    await world.service.revoke({ id: lease.id, by: 'ops', graceMs: 12_000 })
    await advance(11_880)
    expect(faults.count('renew')).toBe(0)
    expect(told).toEqual(['uncertain', 'lost'])
    expect(lease.signal.reason).toMatchObject({
      code: 'LEASE_LOST',
      details: { reason: 'revoked' },
      cause: { code: 'RENEWAL_LIMIT' },
    })
    expect(await endOf(holding)).toBe('active')
    await advance(120)
    await world.service.cleanup()
    expect(await endOf(holding)).toBe('revoked')
  })

  it('hears at once although the store was away when it first wanted to be woken', async () => {
    const holding = await newHolding()
    const { lease, faults, advance, world } = holding
    faults.when('onWake', first(2, failWith('STORE_UNAVAILABLE')))
    const told = requests(holding)
    await advance(4_000)
    await world.service.revoke({ id: lease.id, by: 'ops', graceMs: 5_000 })
    await advance(10)
    expect(told).toMatchObject([{ by: 'ops' }])
    await lease.release()
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('may release sooner, and whoever waits is served at once', async () => {
    const holding = await newHolding()
    const { lease, advance, world } = holding
    const waiting = follow(newClient(world, 'ben').tenure.acquire('work:W-1', { waitMs: 60_000 }))
    await advance(100)
    await world.service.revoke({ id: lease.id, by: 'ops', graceMs: 10_000 })
    await advance(2_000)
    await lease.release()
    await advance(0)
    expect(waiting.value().state).toBe('held')
    expect(await endOf(holding)).toBe('released')
  })

  it('may not renew by hand either', async () => {
    const { lease, advance, world } = await newHolding()
    await advance(100)
    await world.service.revoke({ id: lease.id, by: 'ops', graceMs: 10_000 })
    await advance(0)
    await expect(lease.renew()).rejects.toMatchObject({ code: 'RENEWAL_LIMIT' })
    expect(lease.remainingMs).toBeLessThan(10_000)
  })

  it('is not given more time by a grace that is longer than its lease', async () => {
    const { lease, advance, world } = await newHolding()
    await advance(100)
    const before = lease.remainingMs
    await world.service.revoke({ id: lease.id, by: 'ops', graceMs: 600_000 })
    await advance(0)
    expect(lease.remainingMs).toBeLessThanOrEqual(before)
  })

  it('counts the grace from before it looked, however late the answer', async () => {
    const holding = await newHolding()
    const { lease, advance, world, faults } = holding
    await advance(100)
    let arrive = (): void => undefined
    faults.when('get', async (send) => {
      const answer = await send()
      await new Promise<void>((resolve) => (arrive = resolve))
      return answer
    })
    await world.service.revoke({ id: lease.id, by: 'ops', graceMs: 5_000 })
    await advance(3_000)
    arrive()
    await advance(0)
    expect(lease.remainingMs).toBeLessThanOrEqual(2_000)
    expect(lease.remainingMs).toBeGreaterThan(1_900)
  })

  it('is not misled by a renewal that was confirmed before and is heard of after', async () => {
    const { lease, advance, world, faults } = await newHolding()
    let arrive = (): void => undefined
    faults.when(
      'renew',
      first(1, async (send) => {
        const answer = await send()
        await new Promise<void>((resolve) => (arrive = resolve))
        return answer
      }),
    )
    await advance(10_000)
    await world.service.revoke({ id: lease.id, by: 'ops', graceMs: 5_000 })
    await advance(0)
    arrive()
    await advance(0)
    expect(lease.remainingMs).toBeLessThanOrEqual(4_950)
    await advance(5_000)
    expect(lease.state).toBe('lost')
  })

  it('finds out by its next renewal when no wake-up came', async () => {
    const holding = await newHolding()
    const { lease, advance, world, faults } = holding
    const told = requests(holding)
    faults.when('onWake', failWith('STORE_UNAVAILABLE'))
    await world.service.revoke({ id: lease.id, by: 'ops', graceMs: 15_000 })
    await advance(10_000)
    expect(told).toMatchObject([{ by: 'ops' }])
    expect(lease.remainingMs).toBeLessThanOrEqual(5_000)
  })

  it('is found among hundreds by one list, when the store tells no ids', async () => {
    const { world, tenure, faults, advance, lease } = await newHolding()
    faults.when('onWake', (_send, input) => {
      const [session, listener] = input as Parameters<LeaseApi['onWake']>
      return world.service.onWake(session, () => listener({ leaseIds: null }))
    })
    const names = Array.from({ length: 150 }, (_, index) => `work:many-${index}`)
    await Promise.all(names.map((name) => tenure.acquire(name)))
    await advance(100)
    const gets = faults.count('get')
    await world.service.revoke({ id: lease.id, by: 'ops', graceMs: 5_000 })
    await world.runtime.settle()
    expect(lease.remainingMs).toBeLessThanOrEqual(5_000)
    expect(faults.count('get') - gets).toBe(1)
  })

  it('hears of a second, shorter grace, and not of the same twice', async () => {
    const holding = await newHolding()
    const told = requests(holding)
    const { lease, advance, world } = holding
    await advance(100)
    await world.service.revoke({ id: lease.id, by: 'ops', graceMs: 20_000 })
    await advance(0)
    await world.service.revoke({ id: lease.id, by: 'boss', graceMs: 2_000 })
    await advance(0)
    expect(told.map(({ by }) => by)).toEqual(['ops', 'boss'])
    expect(lease.remainingMs).toBeLessThanOrEqual(2_000)
  })
})

describe('a waiter that asks the holder to finish', () => {
  it('is heard if the holder allowed it', async () => {
    const holding = await newHolding({ breakable: true })
    const told = requests(holding)
    const { advance, world, lease } = holding
    await advance(100)
    const options = { waitMs: 60_000, breakGraceMs: 3_000, reason: 'urgent' }
    const waiting = follow(newClient(world, 'ben').tenure.acquire('work:W-1', options))
    await advance(10)
    expect(told).toMatchObject([{ by: 'ben', reason: 'urgent' }])
    await advance(3_000)
    expect(lease.state).toBe('lost')
    expect(waiting.value().state).toBe('held')
  })

  it('is heard if it waits for several resources', async () => {
    const holding = await newHolding({ breakable: true })
    const told = requests(holding)
    await holding.advance(100)
    const { tenure } = newClient(holding.world, 'ben')
    const options = { waitMs: 60_000, breakGraceMs: 3_000 }
    const waiting = follow(tenure.acquireAll(['work:W-0', 'work:W-1'], options))
    await holding.advance(3_010)
    expect(told).toMatchObject([{ by: 'ben' }])
    expect(waiting.value().state).toBe('held')
  })

  it('is not heard otherwise', async () => {
    const holding = await newHolding()
    const told = requests(holding)
    await holding.advance(100)
    const { tenure } = newClient(holding.world, 'ben')
    void follow(tenure.acquire('work:W-1', { waitMs: 60_000, breakGraceMs: 3_000 }))
    await holding.advance(5_000)
    expect(told).toEqual([])
    expect(holding.lease.state).toBe('held')
  })
})

describe('a revocation', () => {
  it('without a grace ends the lease at once', async () => {
    const { lease, world, advance } = await newHolding()
    await advance(100)
    await newClient(world, 'ops').tenure.revoke(lease.id)
    await advance(0)
    expect(lease.signal.reason).toMatchObject({ details: { reason: 'revoked' } })
  })

  it('refuses a grace that makes no sense, and options that nobody knows', async () => {
    const { lease, tenure } = await newHolding()
    await expect(tenure.revoke(lease.id, { graceMs: -1 })).rejects.toMatchObject({
      details: { field: 'graceMs' },
    })
    const misspelt = { grace: 5 } as object
    await expect(tenure.revoke(lease.id, misspelt)).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  })
})
