import { describe, expect, it } from 'vitest'
import type { LeaseError } from '../../src/core/errors.ts'
import {
  failWith,
  first,
  follow,
  hang,
  loseAnswer,
  newClient,
  newHolding,
  record,
  type FaultyApi,
} from './harness.ts'

describe('a lease handle', () => {
  it('says what was granted', async () => {
    const { lease, tenure } = await newHolding({ reason: 'renaming' })
    expect(lease).toMatchObject({ resource: 'work:W-1', holder: 'agent-1', renewals: 0 })
    expect(lease.info).toMatchObject({ id: lease.id, state: 'active', reason: 'renaming' })
    expect(lease.fence).toBe((await tenure.get(lease.id))?.fence)
    expect(lease.state).toBe('held')
    expect(lease.remainingMs).toBe(29_700)
    expect(lease.signal.aborted).toBe(false)
  })

  it('can be written to a log while it is held', async () => {
    const { lease } = await newHolding()
    const written: unknown = JSON.parse(JSON.stringify(lease))
    expect(written).toMatchObject({ id: lease.id, resource: 'work:W-1', holder: 'agent-1' })
  })

  it('renews itself at a third of its TTL, for as long as it is held', async () => {
    const { lease, faults, advance, world } = await newHolding()
    const told = record(lease)
    const startMs = world.runtime.monotonicMs()
    await advance(9_999)
    expect(faults.count('renew')).toBe(0)
    await advance(90_001)
    const renewals = faults.calls.filter(({ method }) => method === 'renew')
    expect(renewals.map(({ atMs }) => atMs - startMs)).toEqual(
      Array.from({ length: 10 }, (_, index) => (index + 1) * 10_000),
    )
    expect(lease.state).toBe('held')
    expect(lease.renewals).toBe(10)
    expect(new Set(told)).toEqual(new Set(['renewed']))
  })

  it('does not keep the process alive', async () => {
    const { world, advance } = await newHolding()
    await advance(100)
    expect(world.runtime.pendingTimers).toBeGreaterThan(0)
    expect(world.runtime.keepAliveTimers).toBe(0)
  })

  it('is not renewed, never uncertain, and lost at its deadline without automatic renewal', async () => {
    const { lease, faults, advance, world } = await newHolding({ autoRenew: false })
    const told = record(lease)
    await advance(14_000)
    world.runtime.suspend(1_000)
    await advance(14_689)
    expect(lease.state).toBe('held')
    await advance(11)
    expect(told).toEqual(['lost'])
    expect(lease.state).toBe('lost')
    expect(lease.remainingMs).toBe(0)
    expect(faults.count('renew')).toBe(0)
  })

  it('sends a request id with automatic renewals only when renewals are counted', async () => {
    const free = await newHolding()
    await free.advance(10_000)
    expect(free.faults.calls.at(-1)?.request).not.toHaveProperty('requestId')
    const counted = await newHolding({ maxRenewals: 5 })
    await counted.advance(10_000)
    const renewal = counted.faults.calls.find(({ method }) => method === 'renew')
    expect(renewal?.request).toHaveProperty('requestId')
  })

  it('counts a renewal whose answer was lost only once', async () => {
    const { lease, faults, advance, tenure } = await newHolding({ maxRenewals: 5 })
    const answers = [loseAnswer, failWith('STORE_UNAVAILABLE')]
    faults.when('renew', (send, input) => answers.shift()?.(send, input) ?? send())
    await advance(10_500)
    expect(faults.count('renew')).toBe(3)
    expect((await tenure.get(lease.id))?.renewals).toBe(1)
    expect(lease.renewals).toBe(1)
    expect(lease.state).toBe('held')
  })
})

describe('uncertainty', () => {
  it('begins when a third of the TTL is left without confirmation, and ends with a confirmation', async () => {
    const { lease, faults, advance } = await newHolding()
    const told = record(lease)
    faults.when('renew', first(1, hang))
    await advance(19_699)
    expect(lease.state).toBe('held')
    await advance(1)
    expect(told).toEqual(['uncertain', 'recovered', 'renewed'])
    expect(lease.state).toBe('held')
    expect(lease.remainingMs).toBe(29_700)
  })

  it.each(['STORE_UNAVAILABLE', 'STORE_OUTCOME_UNKNOWN', 'STORE_CONFLICT'] as const)(
    'begins at once when a renewal comes back with %s',
    async (code) => {
      const { lease, faults, advance } = await newHolding()
      const causes: (LeaseError | null)[] = []
      lease.on('uncertain', ({ cause }) => causes.push(cause))
      faults.when('renew', failWith(code))
      await advance(10_000)
      expect(lease.state).toBe('uncertain')
      expect(causes.map((cause) => cause?.code)).toEqual([code])
      faults.heal('renew')
      await advance(2_000)
      expect(lease.state).toBe('held')
    },
  )

  it('tries again with growing pauses, and is lost at the deadline when nothing helps', async () => {
    const { lease, faults, advance, world } = await newHolding()
    const told = record(lease)
    const startMs = world.runtime.monotonicMs()
    faults.when('renew', failWith('STORE_UNAVAILABLE'))
    await advance(29_699)
    expect(lease.state).toBe('uncertain')
    const times = faults.calls
      .filter(({ method }) => method === 'renew')
      .map(({ atMs }) => atMs - startMs)
    expect(times.slice(0, 5)).toEqual([10_000, 10_100, 10_300, 10_700, 11_500])
    await advance(1)
    expect(lease.state).toBe('lost')
    expect(told).toEqual(['uncertain', 'lost'])
    expect(lease.signal.reason).toMatchObject({ code: 'LEASE_LOST' })
    expect((lease.signal.reason as LeaseError).cause).toMatchObject({ code: 'STORE_UNAVAILABLE' })
  })

  it('is seen by a read although no timer has run', async () => {
    const { lease, world } = await newHolding()
    const told = record(lease)
    world.runtime.stall(20_000)
    expect(lease.state).toBe('uncertain')
    world.runtime.stall(10_000)
    expect(lease.signal.aborted).toBe(true)
    expect(lease.state).toBe('lost')
    expect(told).toEqual(['uncertain', 'lost'])
  })
})

describe('loss', () => {
  it('aborts the signal with the error and is announced once', async () => {
    const { lease, world, advance } = await newHolding({ autoRenew: false })
    const errors: LeaseError[] = []
    lease.on('lost', ({ error }) => errors.push(error))
    world.runtime.stall(40_000)
    await advance(10_000)
    expect(errors).toHaveLength(1)
    expect(lease.signal.reason).toBe(errors[0])
    expect(errors[0]).toMatchObject({
      code: 'LEASE_LOST',
      details: { leaseId: lease.id, fence: lease.fence, reason: 'deadline_passed' },
    })
  })

  it('is noticed within a second after a sleeping host woke up', async () => {
    const { lease, world, advance } = await newHolding()
    await advance(1_500)
    world.runtime.suspend(60_000)
    expect(world.runtime.monotonicMs()).toBeLessThan(lease.info.ttlMs)
    const signal = follow(
      new Promise((resolve) => lease.on('lost', ({ error }) => resolve(error.code))),
    )
    await advance(1_000)
    expect(signal.value()).toBe('LEASE_LOST')
    expect(lease.state).toBe('lost')
  })

  it.each([
    ['released by somebody else', 'released'],
    ['revoked', 'revoked'],
  ] as const)('comes at once with a renewal that says %s', async (_what, reason) => {
    const { lease, world, faults, advance } = await newHolding()
    faults.when('onWake', hang)
    const { id: leaseId, resource, holder } = lease.info
    if (reason === 'released') await world.service.release({ id: leaseId, resource, holder })
    else await world.service.revoke({ id: leaseId, resource, by: 'operator' })
    expect(lease.state).toBe('held')
    await advance(10_000)
    expect(lease.state).toBe('lost')
    expect(lease.signal.reason).toMatchObject({ details: { reason } })
    expect((lease.signal.reason as LeaseError).cause).toMatchObject({ code: 'LEASE_TERMINAL' })
    await advance(60_000)
    expect(faults.count('renew')).toBe(1)
  })

  it('comes at once with a renewal that says expired', async () => {
    const { lease, faults, advance } = await newHolding()
    const expired = { kind: 'expired', leaseId: lease.id, terminatedAtMs: 1 }
    faults.when('renew', () => Promise.resolve(expired))
    await advance(10_000)
    expect(lease.signal.reason).toMatchObject({ details: { reason: 'expired' } })
  })

  it('is told at once when an operator revokes the lease', async () => {
    const { lease, world, advance } = await newHolding()
    const told = record(lease)
    await advance(50)
    const operator = newClient(world, 'operator')
    await operator.tenure.revoke(lease.id, { reason: 'maintenance' })
    await world.runtime.settle()
    expect(told).toEqual(['lost'])
    expect(lease.signal.reason).toMatchObject({
      code: 'LEASE_LOST',
      details: { reason: 'revoked' },
    })
    expect(lease.info.state).toBe('revoked')
  })

  it('is found out about a revocation from before anybody listened', async () => {
    const { lease, world, advance } = await newHolding()
    await world.service.revoke({ id: lease.id, by: 'operator' })
    await advance(49)
    expect(lease.state).toBe('held')
    await advance(1)
    expect(lease.signal.reason).toMatchObject({ details: { reason: 'revoked' } })
  })

  it('gives a renewal back that was confirmed too late', async () => {
    const { lease, faults, advance, tenure } = await newHolding()
    let answer = (): void => undefined
    faults.when('renew', async (send) => {
      const result = await send()
      await new Promise<void>((resolve) => (answer = resolve))
      return result
    })
    await advance(29_700)
    expect(lease.state).toBe('lost')
    answer()
    await advance(0)
    expect(lease.state).toBe('lost')
    expect((await tenure.get(lease.id))?.state).toBe('released')
  })
})

function releaseIds(faults: FaultyApi): readonly string[] {
  const requests = faults.calls.filter(({ method }) => method === 'release')
  return requests.map(({ request }) => (request as { requestId: string }).requestId)
}

describe('a release', () => {
  it('ends the lease in the store, with its reason, and aborts no signal', async () => {
    const { lease, tenure } = await newHolding()
    await lease.release({ reason: 'completed' })
    expect(lease.state).toBe('released')
    expect(lease.remainingMs).toBe(0)
    expect(lease.signal.aborted).toBe(false)
    expect(await tenure.get(lease.id)).toMatchObject({
      state: 'released',
      releaseReason: 'completed',
    })
  })

  it('is idempotent', async () => {
    const { lease, faults } = await newHolding()
    await Promise.all([lease.release(), lease.release()])
    await lease.release()
    expect(faults.count('release')).toBe(1)
  })

  it('repeats itself under one id when its answer is lost', async () => {
    const { lease, faults, advance, tenure } = await newHolding()
    faults.when('release', first(2, loseAnswer))
    const release = follow(lease.release())
    await advance(300)
    release.value()
    expect(releaseIds(faults)).toHaveLength(3)
    expect(new Set(releaseIds(faults)).size).toBe(1)
    expect((await tenure.get(lease.id))?.state).toBe('released')
  })

  it('has happened when its answer was lost and the store keeps no history', async () => {
    const { lease, faults, advance, tenure } = await newHolding()
    await tenure.config.set('keep_history', false)
    faults.when('release', first(1, loseAnswer))
    const release = follow(lease.release())
    await advance(300)
    release.value()
    expect(lease.state).toBe('released')
  })

  it('gives up after a bounded time, and can be tried again', async () => {
    const { lease, faults, advance, tenure } = await newHolding()
    faults.when('release', hang)
    const release = follow(lease.release())
    await advance(10_000)
    expect(release.error().code).toBe('STORE_OUTCOME_UNKNOWN')
    expect(lease.state).toBe('released')
    faults.heal('release')
    await lease.release()
    expect((await tenure.get(lease.id))?.state).toBe('released')
    expect(new Set(releaseIds(faults)).size).toBe(1)
  })

  it('throws LEASE_LOST when there was nothing left to release', async () => {
    const { lease, advance } = await newHolding({ autoRenew: false })
    await advance(30_000)
    await expect(lease.release()).rejects.toBe(lease.signal.reason)
  })

  it('throws LEASE_LOST and tells the holder when the lease was revoked meanwhile', async () => {
    const { lease, world } = await newHolding()
    const told = record(lease)
    await world.service.revoke({ id: lease.id, by: 'operator' })
    await expect(lease.release()).rejects.toMatchObject({
      code: 'LEASE_LOST',
      details: { reason: 'revoked' },
    })
    expect(lease.state).toBe('lost')
    expect(told).toEqual(['lost'])
  })

  it('frees in the store what a holder gave up after its host had slept', async () => {
    const { lease, world, tenure } = await newHolding()
    world.runtime.suspend(60_000)
    await expect(lease.release()).rejects.toMatchObject({ code: 'LEASE_LOST' })
    await world.runtime.settle()
    expect((await tenure.get(lease.id))?.state).toBe('released')
  })

  it('refuses a reason that nobody knows', async () => {
    const { lease } = await newHolding()
    const refused = lease.release({ reason: 'bored' as 'completed' })
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_REASON' })
    expect(lease.state).toBe('held')
  })
})

describe('disposal and abandonment', () => {
  it('releases at the end of the scope, and is silent about a lease that is already gone', async () => {
    const { lease, tenure } = await newHolding()
    await lease[Symbol.asyncDispose]()
    expect((await tenure.get(lease.id))?.state).toBe('released')
    await lease[Symbol.asyncDispose]()
    const lost = await newHolding({ autoRenew: false })
    await lost.advance(30_000)
    await lost.lease[Symbol.asyncDispose]()
  })

  it('says that a store is away', async () => {
    const { lease, faults, advance } = await newHolding()
    faults.when('release', failWith('STORE_UNAVAILABLE'))
    const disposal = follow(lease[Symbol.asyncDispose]())
    await advance(10_000)
    expect(disposal.error().code).toBe('STORE_OUTCOME_UNKNOWN')
  })

  it('leaves an abandoned lease to its deadline, neither renewed nor released', async () => {
    const { lease, faults, advance, world, tenure } = await newHolding()
    lease.abandon()
    await lease[Symbol.asyncDispose]()
    await advance(20_000)
    expect(faults.count('renew')).toBe(0)
    expect(faults.count('release')).toBe(0)
    expect(lease.state).toBe('held')
    await tenure.close()
    const { id: leaseId, resource, holder } = lease.info
    expect(await world.service.renew({ id: leaseId, resource, holder })).toMatchObject({
      kind: 'renewed',
    })
  })

  it('tells the holder of an abandoned lease when its time is over', async () => {
    const { lease, advance } = await newHolding()
    lease.abandon()
    await advance(29_700)
    expect(lease.state).toBe('lost')
  })
})

describe('listeners', () => {
  it('can throw without harm to the lease or to others', async () => {
    const { lease, advance } = await newHolding()
    let heard = 0
    lease.on('renewed', () => {
      throw new Error('a fault of the listener')
    })
    lease.on('renewed', () => (heard += 1))
    await advance(20_000)
    expect(heard).toBe(2)
    expect(lease.state).toBe('held')
  })

  it('can be taken off again', async () => {
    const { lease, advance } = await newHolding()
    let heard = 0
    const off = lease.on('renewed', () => (heard += 1))
    await advance(10_000)
    off()
    await advance(20_000)
    expect(heard).toBe(1)
  })

  it('may release the lease they are told about', async () => {
    const { lease, faults, advance, tenure } = await newHolding()
    lease.on('uncertain', () => void lease.release())
    faults.when('renew', failWith('STORE_UNAVAILABLE'))
    await advance(60_000)
    expect(lease.state).toBe('released')
    expect((await tenure.get(lease.id))?.state).toBe('released')
    expect(faults.count('renew')).toBe(1)
  })
})
