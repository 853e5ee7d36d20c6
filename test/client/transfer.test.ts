import { describe, expect, it } from 'vitest'
import type { Lease } from '../../src/client/contract.ts'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import {
  failWith,
  first,
  follow,
  hang,
  loseAnswer,
  newClient,
  newWorld,
  record,
  type Fault,
  type TestClient,
  type World,
} from './harness.ts'

const RESOURCE = parseResource('work:W-1')

interface Giving {
  readonly world: World
  readonly ann: TestClient
  readonly bob: TestClient
  readonly lease: Lease
  readonly advance: (spanMs: number) => Promise<void>
}

async function newGiving(): Promise<Giving> {
  const world = newWorld()
  const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
  const lease = await ann.tenure.acquire(RESOURCE, { ttlMs: 30_000 })
  return { world, ann, bob, lease, advance: (spanMs) => world.runtime.advance(spanMs) }
}

async function ownersOf({ world }: Giving): Promise<readonly LeaseInfo[]> {
  return (await world.service.inspect({ resource: RESOURCE })).leases
}

describe('a transfer to a named holder', () => {
  it('ends the old handle with the reason, and nothing of it is renewed any more', async () => {
    const { lease, ann, advance } = await newGiving()
    const told = record(lease)
    const { signal } = lease
    const newId = await lease.transfer('bob')
    expect(newId).not.toBe(lease.id)
    expect(signal.reason).toMatchObject({ code: 'LEASE_LOST', details: { reason: 'transferred' } })
    expect([lease.state, lease.remainingMs, told]).toEqual(['lost', 0, ['lost']])
    await advance(60_000)
    expect(ann.faults.count('renew')).toBe(0)
    await expect(lease.release()).rejects.toMatchObject({ code: 'LEASE_LOST' })
    await lease[Symbol.asyncDispose]()
  })

  it.each([
    ['by a wake-up, at once', true, 1_000],
    ['by the next renewal, if no wake-up comes', false, 11_000],
  ])('by another process is told as such, %s', async (_, hears, afterMs) => {
    const { lease, ann, world, advance } = await newGiving()
    if (!hears) ann.faults.when('onWake', failWith('STORE_UNAVAILABLE'))
    await advance(100)
    const { id: leaseId, extent, holder } = lease
    const target = { id: leaseId, resource: RESOURCE, extent, holder }
    await world.service.transfer({ ...target, to: 'bob', newId: world.runtime.uuid() })
    await advance(afterMs)
    expect(lease.signal.reason).toMatchObject({ details: { reason: 'transferred' } })
    expect(ann.faults.count('renew')).toBe(hears ? 0 : 1)
  })

  it('leaves no instant unowned, and the receiver owns it before it has heard of it', async () => {
    const giving = await newGiving()
    const { lease, world, bob } = giving
    const newId = await lease.transfer('bob')
    const [owner, ...others] = await ownersOf(giving)
    expect(others).toEqual([])
    expect(owner).toMatchObject({ id: newId, holder: 'bob', state: 'active' })
    expect(owner?.fence).toBeGreaterThan(lease.fence)
    const events = await world.service.history({ resource: RESOURCE })
    const ofTransfer = events.slice(-2).map(({ event }) => [event.type, event.atMs])
    const atMs = events.at(-1)?.event.atMs
    expect(ofTransfer).toEqual([
      ['lease.transferred', atMs],
      ['lease.issued', atMs],
    ])
    const stranger = await newClient(world, 'cat').tenure.tryAcquire(RESOURCE)
    expect(stranger).toMatchObject({ kind: 'held', blockers: [{ holder: 'bob' }] })
    expect((await bob.tenure.adopt(newId ?? '')).id).toBe(newId)
  })

  it('is taken over by its id, and its time runs from before that was sent', async () => {
    const { lease, bob, advance } = await newGiving()
    const newId = (await lease.transfer('bob')) ?? ''
    await advance(20_000)
    bob.faults.when('adopt', async (send) => {
      const answer = await send()
      await advance(1_000)
      return answer
    })
    const adopted = await bob.tenure.adopt(newId)
    expect(adopted.remainingMs).toBeLessThanOrEqual(29_700 - 1_000)
    expect(adopted.remainingMs).toBeGreaterThan(28_600)
    await advance(60_000)
    expect(adopted).toMatchObject({ id: newId, state: 'held', holder: 'bob' })
    expect(bob.faults.count('renew')).toBeGreaterThan(3)
    await adopted.release()
  })

  it('gives the same handle to the session that adopts it again, and nothing to another', async () => {
    const { lease, bob, world } = await newGiving()
    const newId = (await lease.transfer('bob')) ?? ''
    const adopted = await bob.tenure.adopt(newId)
    expect(await bob.tenure.adopt(newId)).toBe(adopted)
    const { tenure } = newClient(world, 'bob', { session: 'another' })
    await expect(tenure.adopt(newId)).rejects.toMatchObject({ code: 'LEASE_EXISTS' })
  })

  it('is taken over by acquiring the resource, under the id that the lease has', async () => {
    const { lease, bob, advance } = await newGiving()
    const newId = await lease.transfer('bob')
    const adopted = await bob.tenure.acquire(RESOURCE)
    expect(adopted.id).toBe(newId)
    await advance(60_000)
    expect(adopted.state).toBe('held')
    await adopted.release()
    expect(await bob.tenure.isHeld(RESOURCE)).toBe(false)
  })

  it('is accepted although the receiver has seen higher fences since', async () => {
    const world = newWorld()
    const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
    const [one, two] = [await ann.tenure.acquire('file:/a'), await ann.tenure.acquire('file:/b')]
    const twoId = (await two.transfer('bob')) ?? ''
    await one.transfer('bob')
    const later = await bob.tenure.acquire('file:/c')
    const byName = await bob.tenure.acquire('file:/a')
    const byId = await bob.tenure.adopt(twoId)
    expect(byName.fence).toBeLessThan(later.fence)
    expect(byId.fence).toBeLessThan(later.fence)
  })

  it('serves a receiver that waits for the resource already, in the same moment', async () => {
    const { lease, bob, world, advance } = await newGiving()
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(10)
    const newId = await lease.transfer('bob')
    await world.runtime.settle()
    expect(waiting.value()).toMatchObject({ id: newId, state: 'held' })
    expect((await world.service.inspect({ resource: RESOURCE })).queue).toEqual([])
  })

  it.each(['acquire', 'adopt'] as const)(
    'is taken over once although the answer to %s was lost',
    async (method) => {
      const giving = await newGiving()
      const { lease, bob, advance } = giving
      const newId = (await lease.transfer('bob')) ?? ''
      bob.faults.when(method, first(2, loseAnswer))
      const taking =
        method === 'adopt' ? bob.tenure.adopt(newId) : bob.tenure.acquire(RESOURCE, { waitMs: 0 })
      const adopted = follow(taking)
      await advance(1_000)
      expect(adopted.value()).toMatchObject({ id: newId, state: 'held' })
      expect(adopted.value().remainingMs).toBeLessThanOrEqual(29_700 - 250)
      expect(await ownersOf(giving)).toMatchObject([{ id: newId }])
    },
  )

  it('that is taken over by an acquire which was cancelled is given back', async () => {
    const giving = await newGiving()
    const { lease, bob, advance } = giving
    await lease.transfer('bob')
    let arrive = (): void => undefined
    bob.faults.when('acquire', async (send) => {
      await new Promise<void>((resolve) => (arrive = resolve))
      return send()
    })
    const controller = new AbortController()
    const acquiring = follow(bob.tenure.acquire(RESOURCE, { signal: controller.signal }))
    await advance(10)
    controller.abort()
    await advance(0)
    expect(acquiring.error().code).toBe('ABORTED')
    arrive()
    await advance(0)
    expect(await ownersOf(giving)).toEqual([])
  })

  it('can be taken over by nobody else, and by nobody twice', async () => {
    const { lease, bob, world } = await newGiving()
    const newId = (await lease.transfer('bob')) ?? ''
    const cat = newClient(world, 'cat')
    await expect(cat.tenure.adopt(newId)).rejects.toMatchObject({ code: 'NOT_HOLDER' })
    const adopted = await bob.tenure.adopt(newId)
    expect(await bob.tenure.adopt(newId)).toBe(adopted)
    const other = newClient(world, 'bob')
    await expect(other.tenure.adopt(newId)).rejects.toMatchObject({ code: 'LEASE_EXISTS' })
    const unknown = '00000000-0000-4000-8000-000000000009'
    await expect(bob.tenure.adopt(unknown)).rejects.toMatchObject({ code: 'LEASE_NOT_FOUND' })
    await expect(bob.tenure.adopt('x')).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  })

  it('that nobody takes over ends by itself', async () => {
    const giving = await newGiving()
    await giving.lease.transfer('bob')
    await giving.advance(30_001)
    expect(await ownersOf(giving)).toEqual([])
  })

  it('hands on no more than what is left of maxHoldMs, or of a grace', async () => {
    const world = newWorld()
    const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
    const limited = await ann.tenure.acquire('work:W-1', { ttlMs: 30_000, maxHoldMs: 40_000 })
    const asked = await ann.tenure.acquire('work:W-2', { ttlMs: 30_000 })
    await world.runtime.advance(35_000)
    await ann.tenure.revoke(asked.id, { graceMs: 8_000 })
    await limited.transfer('bob')
    await asked.transfer('bob')
    const first = await bob.tenure.acquire('work:W-1')
    const second = await bob.tenure.acquire('work:W-2')
    expect(first.remainingMs).toBeLessThanOrEqual(5_000)
    expect(second.remainingMs).toBeLessThanOrEqual(8_000)
    await world.runtime.advance(8_000)
    expect([first.state, second.state]).toEqual(['lost', 'lost'])
  })
})

describe('a transfer to the next in the queue', () => {
  it('goes to whoever waits first, and returns no id', async () => {
    const { lease, bob, world, advance } = await newGiving()
    const waiting = follow(bob.tenure.acquire(RESOURCE, { waitMs: 60_000 }))
    await advance(10)
    expect(await lease.transfer('next')).toBeNull()
    await world.runtime.settle()
    expect(waiting.value().fence).toBeGreaterThan(lease.fence)
    expect(lease.state).toBe('lost')
  })

  it('is refused when nobody waits, and changes nothing', async () => {
    const giving = await newGiving()
    await expect(giving.lease.transfer('next')).rejects.toMatchObject({ code: 'WAIT_TIMEOUT' })
    expect(giving.lease.state).toBe('held')
    expect(await ownersOf(giving)).toMatchObject([{ id: giving.lease.id }])
  })

  it('is refused when only somebody waits who may not be able to take it', async () => {
    const giving = await newGiving()
    const { lease, bob, world, advance } = giving
    await newClient(world, 'cat').tenure.acquire('work:W-2')
    void follow(bob.tenure.acquireAll([RESOURCE, 'work:W-2'], { waitMs: 60_000 }))
    await advance(10)
    await expect(lease.transfer('next')).rejects.toMatchObject({ code: 'WAIT_TIMEOUT' })
    expect(await ownersOf(giving)).toMatchObject([{ id: lease.id }])
  })

  it('is not a transfer to a holder of that name', async () => {
    const { lease, world } = await newGiving()
    const newId = await lease.transfer({ holder: 'next' })
    const next = newClient(world, 'next')
    expect((await next.tenure.acquire(RESOURCE)).id).toBe(newId)
  })
})

describe('a transfer that cannot be', () => {
  it.each([
    ['to oneself', 'ann'],
    ['to oneself by name', { holder: 'ann' }],
    ['to nobody', ''],
    ['to something else', 7],
    ['with a word that nobody knows', { next: true }],
  ])('%s is refused, and nothing changes', async (_, to) => {
    const giving = await newGiving()
    const transferring = giving.lease.transfer(to as string)
    await expect(transferring).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    expect(giving.lease.state).toBe('held')
    expect(await ownersOf(giving)).toMatchObject([{ id: giving.lease.id, holder: 'ann' }])
    expect(giving.ann.faults.count('transfer')).toBe(0)
  })

  it('of a lease that is not held any more says so', async () => {
    const { lease, world, advance } = await newGiving()
    await world.service.revoke({ id: lease.id, by: 'operator' })
    await expect(lease.transfer('bob')).rejects.toMatchObject({ code: 'LEASE_LOST' })
    const other = await newGiving()
    await other.lease.release()
    await expect(other.lease.transfer('bob')).rejects.toMatchObject({ code: 'LEASE_TERMINAL' })
    await advance(0)
  })

  it('because the store is away leaves the lease as it was', async () => {
    const { lease, ann, advance } = await newGiving()
    ann.faults.when('transfer', failWith('STORE_UNAVAILABLE'))
    const transferring = follow(lease.transfer('bob'))
    await advance(10_000)
    expect(transferring.error()).toMatchObject({ code: 'STORE_UNAVAILABLE', effect: 'none' })
    await advance(60_000)
    expect(lease.state).toBe('held')
  })
})

describe('a transfer whose answer was lost', () => {
  it.each([true, false])(
    'is sent again under the same ids and has one effect (history kept: %s)',
    async (isKept) => {
      const giving = await newGiving()
      const { lease, ann, advance } = giving
      await ann.tenure.config.set('keep_history', isKept)
      ann.faults.when('transfer', first(2, loseAnswer))
      const transferring = follow(lease.transfer('bob'))
      await advance(1_000)
      const sent = ann.faults.calls.filter(({ method }) => method === 'transfer')
      expect(sent).toHaveLength(3)
      expect(new Set(sent.map(({ request }) => JSON.stringify(request))).size).toBe(1)
      expect(await ownersOf(giving)).toMatchObject([{ id: transferring.value(), holder: 'bob' }])
    },
  )

  it('for good can be asked for again, and the handle does not count on it any longer', async () => {
    const giving = await newGiving()
    const { lease, ann, advance } = giving
    ann.faults.when('transfer', loseAnswer)
    const transferring = follow(lease.transfer('bob'))
    await advance(10_000)
    expect(transferring.error()).toMatchObject({ effect: 'unknown' })
    ann.faults.heal('transfer')
    const again = await lease.transfer('bob')
    expect(await ownersOf(giving)).toMatchObject([{ id: again, holder: 'bob' }])
  })

  it.each([true, false])(
    'for good is noticed for what it is (history kept: %s)',
    async (isKept) => {
      const { lease, ann, advance } = await newGiving()
      await ann.tenure.config.set('keep_history', isKept)
      ann.faults.when('transfer', loseAnswer)
      void follow(lease.transfer('bob'))
      await advance(11_000)
      expect(lease.signal.reason).toMatchObject({ details: { reason: 'transferred' } })
    },
  )
})

describe('a crash during a transfer', () => {
  /** What the giver's process lives to see of its request. */
  const crashes: readonly [string, Fault, string][] = [
    ['before the request is sent', hang, 'ann'],
    ['before the answer is heard', (send) => send().then(() => hang(send, [])), 'bob'],
    ['while it asks again', first(1, loseAnswer), 'bob'],
  ]

  it.each(crashes)('%s leaves exactly one owner', async (_, fault, owner) => {
    const giving = await newGiving()
    const { lease, ann, advance } = giving
    ann.faults.when('transfer', fault)
    void follow(lease.transfer('bob'))
    await giving.world.runtime.settle()
    lease.abandon()
    expect(await ownersOf(giving)).toMatchObject([{ holder: owner }])
    await advance(20_000)
    expect(await ownersOf(giving)).toMatchObject([{ holder: owner }])
    await advance(10_001)
    expect(await ownersOf(giving)).toEqual([])
  })
})

describe('work under a lease', () => {
  it('that gives its lease away on purpose has not failed', async () => {
    const { world } = await newGiving()
    const { tenure } = newClient(world, 'cat')
    const result = await tenure.withLease('work:W-2', {}, async (lease) => lease.transfer('dan'))
    expect(await tenure.get(result ?? '')).toMatchObject({ holder: 'dan' })
  })
})

describe('an adoption whose answer comes after its own client has let go of the lease', () => {
  it.each(['while the release is under way', 'when it is released'])('%s', async (when) => {
    const { lease, bob, advance } = await newGiving()
    const newId = (await lease.transfer('bob')) ?? ''
    const held = await bob.tenure.acquire(RESOURCE)
    let arrive = (): void => undefined
    bob.faults.when('adopt', async (send) => {
      const answer = await send()
      await new Promise<void>((resolve) => (arrive = resolve))
      return answer
    })
    const adopting = follow(bob.tenure.adopt(newId))
    await advance(0)
    if (when.startsWith('while')) bob.faults.when('release', hang)
    const releasing = follow(held.release())
    await advance(0)
    expect(releasing.isPending()).toBe(when.startsWith('while'))
    arrive()
    await advance(0)
    expect(adopting.error()).toMatchObject({ code: 'LEASE_TERMINAL' })
  })
})
