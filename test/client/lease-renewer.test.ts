import { describe, expect, it } from 'vitest'
import type { LeaseError } from '../../src/core/errors.ts'
import { failWith, first, follow, hang, loseAnswer, newHolding, record } from './harness.ts'

describe('a limit on renewals', () => {
  it('ends automatic renewal at maxRenewals: uncertain, then lost at the deadline', async () => {
    const { lease, faults, advance } = await newHolding({ maxRenewals: 1 })
    const told = record(lease)
    const causes: (LeaseError | null)[] = []
    lease.on('uncertain', ({ cause }) => causes.push(cause))
    await advance(20_000)
    expect(faults.count('renew')).toBe(2)
    expect(lease.state).toBe('held')
    await advance(9_700)
    expect(lease.state).toBe('uncertain')
    expect(causes[0]).toMatchObject({ code: 'RENEWAL_LIMIT' })
    await advance(10_000)
    expect(told).toEqual(['renewed', 'uncertain', 'lost'])
    expect(faults.count('renew')).toBe(2)
  })

  it('ends automatic renewal at maxHoldMs, and no lease outlives it', async () => {
    const { lease, advance, world } = await newHolding({ ttlMs: 3_000, maxHoldMs: 10_000 })
    const startMs = world.runtime.monotonicMs()
    await advance(9_000)
    expect(lease.state).not.toBe('lost')
    await advance(1_000)
    expect(lease.state).toBe('lost')
    const { message } = lease.signal.reason as Error
    expect(message).toContain('was lost: it has reached its maxHoldMs of 10000')
    expect(world.runtime.monotonicMs() - startMs).toBe(10_000)
    expect((await world.service.get({ id: lease.id }))?.state).toBe('released')
  })

  it('counts a maxHoldMs that is shorter than the TTL from the start', async () => {
    const { lease, advance } = await newHolding({ ttlMs: 30_000, maxHoldMs: 3_000 })
    expect(lease.remainingMs).toBe(2_970)
    expect(lease.state).toBe('held')
    await advance(2_970)
    expect(lease.state).toBe('lost')
    const { message } = lease.signal.reason as Error
    expect(message).toContain('was lost: it has reached its maxHoldMs of 3000')
  })

  it('refuses a manual renewal with RENEWAL_LIMIT and keeps the lease', async () => {
    const { lease } = await newHolding({ maxRenewals: 0 })
    await expect(lease.renew()).rejects.toMatchObject({ code: 'RENEWAL_LIMIT' })
    expect(lease.state).toBe('held')
  })
})

describe('a manual renewal', () => {
  it('extends the lease, with another TTL if one is given', async () => {
    const { lease, advance } = await newHolding()
    await advance(5_000)
    await lease.renew()
    expect(lease.remainingMs).toBe(29_700)
    await lease.renew({ ttlMs: 60_000 })
    expect(lease.remainingMs).toBe(59_400)
    expect(lease.info.ttlMs).toBe(60_000)
    expect(lease.renewals).toBe(2)
  })

  it('moves the next automatic one', async () => {
    const { lease, faults, advance } = await newHolding()
    await advance(5_000)
    await lease.renew()
    await advance(9_999)
    expect(faults.count('renew')).toBe(1)
    await advance(1)
    expect(faults.count('renew')).toBe(2)
  })

  it('joins one that is under way instead of counting twice', async () => {
    const { lease, faults, advance } = await newHolding({ maxRenewals: 9 })
    let answer = (): void => undefined
    faults.when('renew', async (send) => {
      await new Promise<void>((resolve) => (answer = resolve))
      return send()
    })
    await advance(10_000)
    const manual = follow(lease.renew())
    const second = follow(lease.renew())
    await advance(100)
    expect(manual.isPending()).toBe(true)
    answer()
    await advance(0)
    expect(manual.value()).toBeUndefined()
    expect(second.value()).toBeUndefined()
    expect(lease.renewals).toBe(1)
    expect(faults.count('renew')).toBe(1)
  })

  it('is not overtaken by an automatic one while it is under way', async () => {
    const { lease, faults, advance } = await newHolding()
    faults.when('renew', first(1, hang))
    await advance(9_000)
    const manual = follow(lease.renew())
    await advance(5_000)
    expect(faults.count('renew')).toBe(1)
    expect(manual.isPending()).toBe(true)
  })

  it('is not undone by the late answer of an earlier one', async () => {
    const { lease, faults, advance } = await newHolding()
    let answer = (): void => undefined
    faults.when(
      'renew',
      first(1, async (send) => {
        const result = await send()
        await new Promise<void>((resolve) => (answer = resolve))
        return result
      }),
    )
    await advance(12_000)
    await lease.renew({ ttlMs: 60_000 })
    answer()
    await advance(0)
    expect(lease.remainingMs).toBe(59_400)
    expect(lease.info).toMatchObject({ ttlMs: 60_000, renewals: 2 })
  })

  it('is refused a deadline that is no later than the one there is', async () => {
    const { lease } = await newHolding()
    const refused = lease.renew({ ttlMs: 1_000 })
    await expect(refused).rejects.toMatchObject({ code: 'RENEWAL_DOES_NOT_EXTEND' })
    expect(lease.state).toBe('held')
    expect(lease.remainingMs).toBe(29_700)
  })

  it('repeats itself under one id when its answer is lost', async () => {
    const { lease, faults, advance } = await newHolding()
    faults.when('renew', first(2, loseAnswer))
    const renewal = follow(lease.renew())
    await advance(1_000)
    renewal.value()
    const ids = faults.calls
      .filter(({ method }) => method === 'renew')
      .map(({ request }) => (request as { requestId: string }).requestId)
    expect(new Set(ids).size).toBe(1)
    expect(ids).toHaveLength(3)
    expect(lease.renewals).toBe(1)
  })

  it('ends with the loss of the lease, although its call never returns', async () => {
    const { lease, faults, advance } = await newHolding({ autoRenew: false })
    faults.when('renew', hang)
    const renewal = follow(lease.renew())
    await advance(29_699)
    expect(renewal.isPending()).toBe(true)
    await advance(1)
    expect(renewal.error()).toBe(lease.signal.reason)
  })

  it('makes an automatically renewed lease uncertain when it fails', async () => {
    const { lease, faults, advance } = await newHolding()
    faults.when('renew', failWith('STORE_UNAVAILABLE'))
    const renewal = follow(lease.renew())
    await advance(300)
    expect(renewal.error().code).toBe('STORE_UNAVAILABLE')
    expect(lease.state).toBe('uncertain')
    faults.heal('renew')
    await advance(200)
    expect(lease.state).toBe('held')
  })

  it('throws once the lease is over', async () => {
    const released = await newHolding()
    await released.lease.release()
    await expect(released.lease.renew()).rejects.toMatchObject({ code: 'LEASE_TERMINAL' })
    const lost = await newHolding({ autoRenew: false })
    await lost.advance(30_000)
    await expect(lost.lease.renew()).rejects.toMatchObject({ code: 'LEASE_LOST' })
  })

  it.each([0, -1, 1.5, Number.NaN, 1e99, '5'])('refuses a TTL of %s', async (ttlMs) => {
    const { lease } = await newHolding()
    const refused = lease.renew({ ttlMs: ttlMs as number })
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  })
})
