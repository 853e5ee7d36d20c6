/** What fails without a caller is reported with its source; what fails with one is thrown as what it is. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { onOwnFault } from '../runtime/hear-faults.ts'
import { failWith, follow, hang, newClient, newHolding, newStage, statesOf } from './harness.ts'

const RESOURCE = 'work:W-1'
const MISTAKE = new TypeError('a mistake of the program')
const mistaken = (): Promise<never> => Promise.reject(MISTAKE)

const reported: (readonly [string, unknown])[] = []
let stop = (): void => undefined

beforeEach(() => {
  reported.length = 0
  stop = onOwnFault(({ source, error }) => reported.push([source, error]))
})

afterEach(() => stop())

describe('a fault in the background of a client is reported', () => {
  it('client/listener: a listener of the user that throws, and the others are still told', async () => {
    const { lease, faults, advance } = await newHolding()
    const told: string[] = []
    lease.on('lost', () => {
      throw MISTAKE
    })
    lease.on('lost', () => told.push('lost'))
    faults.when('renew', async () => ({ kind: 'not_found', leaseId: lease.id }))
    await advance(10_000)
    expect(told).toEqual(['lost'])
    expect(reported).toEqual([['client/listener', MISTAKE]])
  })

  it('client/renewal: an automatic renewal, the first of many in a row', async () => {
    const { lease, faults, advance } = await newHolding()
    const causes: unknown[] = []
    lease.on('uncertain', ({ cause }) => causes.push(cause))
    faults.when('renew', mistaken)
    await advance(15_000)
    expect(faults.count('renew')).toBeGreaterThan(2)
    expect(reported).toEqual([['client/renewal', MISTAKE]])
    expect(causes).toEqual([null])
    faults.heal('renew')
    await advance(5_000)
    expect(lease.state).toBe('held')
  })

  it('client/wake-ups: a subscription that cannot be had', async () => {
    const { faults, advance } = await newHolding()
    faults.when('onWake', failWith('STORE_UNAVAILABLE'))
    await advance(100)
    expect(reported).toMatchObject([['client/wake-ups', { code: 'STORE_UNAVAILABLE' }]])
  })

  it('client/look: a look at a lease that this client has revoked itself', async () => {
    const { tenure, lease, faults } = await newHolding()
    faults.when('get', failWith('STORE_UNAVAILABLE'))
    await tenure.revoke(lease.id)
    expect(reported).toMatchObject([['client/look', { code: 'STORE_UNAVAILABLE' }]])
  })

  it('client/look: a look of a holder at what somebody else may have changed', async () => {
    const { world, lease, faults, advance } = await newHolding()
    await advance(100)
    faults.when('get', failWith('STORE_UNAVAILABLE'))
    await world.service.revoke({ id: lease.id, by: 'operator' })
    await advance(10)
    expect(reported).toMatchObject([['client/look', { code: 'STORE_UNAVAILABLE' }]])
  })

  it('client/look: a look of a waiter, which then asks to be sure', async () => {
    const { alice, bob, advance } = newStage()
    await alice.tenure.acquire(RESOURCE)
    let hint = (_signal: { leaseIds: null }): void => undefined
    bob.faults.when('onWake', async (send, [, listener]) => {
      hint = listener as typeof hint
      return send()
    })
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(100)
    bob.faults.when('get', mistaken)
    hint({ leaseIds: null })
    await advance(1)
    expect(reported).toEqual([['client/look', MISTAKE]])
    expect(waiting.isPending()).toBe(true)
  })

  it('client/wait: a question that failed after its caller had gone', async () => {
    const { world, alice, bob, advance } = newStage()
    await alice.tenure.acquire(RESOURCE)
    bob.faults.when('acquire', async (send) => {
      await send()
      await new Promise<void>((resolve) => {
        world.runtime.setTimer(3_000, resolve, { keepAlive: true })
      })
      throw MISTAKE
    })
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 2_000 }))
    await advance(2_000)
    expect(waiting.error()).toMatchObject({ code: 'WAIT_TIMEOUT', effect: 'unknown' })
    await advance(1_000)
    expect(reported).toEqual([['client/wait', MISTAKE]])
    expect(await statesOf(world, 'bob')).toEqual([])
  })

  it('client/discard: what was granted to a client that is closed, and cannot be given back', async () => {
    const { world, bob, advance } = newStage()
    let answer = (): void => undefined
    bob.faults.when('adopt', async () => {
      await new Promise<void>((resolve) => (answer = resolve))
      const { leases } = await world.service.list({ holder: 'alice' })
      return { kind: 'granted', lease: leases[0], repeated: false }
    })
    bob.faults.when('withdraw', mistaken)
    const lent = await newClient(world, 'alice').tenure.acquire(RESOURCE)
    const adopting = follow(bob.tenure.adopt(lent.id))
    await advance(10)
    void bob.tenure.close()
    answer()
    await advance(10)
    expect(adopting.error().code).toBe('CLOSED')
    expect(reported).toEqual([['client/discard', MISTAKE]])
  })

  it('client/close: a lease that could not be released when the client was closed', async () => {
    const { tenure, faults, advance } = await newHolding()
    faults.when('release', mistaken)
    const closing = follow(tenure.close())
    await advance(10_000)
    closing.value()
    expect(reported).toEqual([['client/close', MISTAKE]])
  })

  it('client/release: the lease of work that failed, whose own error its caller hears', async () => {
    const { alice, advance } = newStage()
    alice.faults.when('release', mistaken)
    const working = follow(
      alice.tenure.withLease(RESOURCE, {}, () => Promise.reject(new Error('the work failed'))),
    )
    await advance(10)
    expect(() => working.value()).toThrow('the work failed')
    expect(reported).toEqual([['client/release', MISTAKE]])
  })

  it('client/release: the lease of work that is done, while the store is away', async () => {
    const { alice, advance } = newStage()
    alice.faults.when('release', hang)
    const working = follow(alice.tenure.withLease(RESOURCE, {}, () => 'done'))
    await advance(1_000)
    expect(working.value()).toBe('done')
    await advance(10_000)
    expect(reported).toMatchObject([['client/release', { code: 'STORE_OUTCOME_UNKNOWN' }]])
  })
})

describe('a mistake of the program', () => {
  it.each(['acquire', 'claim'] as const)(
    'is what an acquire throws when %s meets it, and nothing is left behind',
    async (method) => {
      const { world, alice, bob, advance } = newStage()
      await alice.tenure.acquire(RESOURCE)
      bob.faults.when(method, async (send) => {
        await send()
        throw MISTAKE
      })
      const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
      await advance(5_000)
      expect(() => waiting.value()).toThrow(MISTAKE)
      expect(bob.faults.count(method)).toBe(1)
      expect(await statesOf(world, 'bob')).toEqual([])
    },
  )

  it.each(['release', 'renew', 'transfer'] as const)(
    'is what %s throws, and is not sent again',
    async (method) => {
      const { lease, faults, advance } = await newHolding()
      faults.when(method, mistaken)
      const call = follow<unknown>(method === 'transfer' ? lease.transfer('bob') : lease[method]())
      await advance(1)
      expect(() => call.value()).toThrow(MISTAKE)
      expect(faults.count(method)).toBe(1)
    },
  )
})
