import { describe, expect, it } from 'vitest'
import type { Lease } from '../../src/client/contract.ts'
import type { AcquireOptions } from '../../src/client/options.ts'
import {
  failWith,
  first,
  follow,
  hang,
  loseAnswer,
  newClient,
  newWorld,
  type TestClient,
  type World,
} from './harness.ts'

interface Sharing {
  readonly world: World
  readonly ann: TestClient
  readonly bob: TestClient
  /** Ann's and Bob's shared leases of one resource. */
  readonly annLease: Lease
  readonly bobLease: Lease
  readonly advance: (spanMs: number) => Promise<void>
}

async function newSharing(resource = 'work:W-1', options: AcquireOptions = {}): Promise<Sharing> {
  const world = newWorld()
  const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
  const annLease = await ann.tenure.acquire(resource, { mode: 'shared', ...options })
  const bobLease = await bob.tenure.acquire(resource, { mode: 'shared', ...options })
  const advance = (spanMs: number): Promise<void> => world.runtime.advance(spanMs)
  return { world, ann, bob, annLease, bobLease, advance }
}

async function storedMode({ world, annLease }: Sharing): Promise<unknown> {
  const info = await world.service.get({ id: annLease.id })
  return { mode: info?.mode, upgrading: info?.upgrading }
}

describe('an upgrade', () => {
  it('of the only sharer is done at once: same id, new fence, nobody beside it', async () => {
    const { annLease, bobLease, bob } = await newSharing()
    await bobLease.release()
    const { id, fence } = annLease
    expect(await annLease.upgrade()).toEqual({ changed: true })
    expect(annLease).toMatchObject({ id, mode: 'exclusive', state: 'held' })
    expect(annLease.fence).toBeGreaterThan(fence)
    expect(annLease.info).toMatchObject({ mode: 'exclusive', fence: annLease.fence })
    const attempt = await bob.tenure.tryAcquire('work:W-1', { mode: 'shared' })
    expect(attempt).toMatchObject({ kind: 'held' })
  })

  it('of an exclusive lease changes nothing and says so, without a request', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'ann')
    const lease = await tenure.acquire('work:W-1')
    const calls = faults.calls.length
    expect(await lease.upgrade()).toEqual({ changed: false })
    expect(faults.calls).toHaveLength(calls)
  })

  it('waits for the others, lets nobody new in, and is done in the moment the last one leaves', async () => {
    const sharing = await newSharing()
    const { annLease, bobLease, advance, world } = sharing
    const upgrading = follow(annLease.upgrade({ waitMs: 60_000 }))
    await advance(100)
    expect(await storedMode(sharing)).toEqual({ mode: 'shared', upgrading: true })
    const late = follow(
      newClient(world, 'cat').tenure.acquire('work:W-1', { mode: 'shared', waitMs: 60_000 }),
    )
    await advance(100)
    expect(late.isPending()).toBe(true)
    await bobLease.release()
    await world.runtime.settle()
    expect(upgrading.value()).toEqual({ changed: true })
    expect(annLease.fence).toBeGreaterThan(bobLease.fence)
    expect(late.isPending()).toBe(true)
  })

  it('of a subtree is done when the last one below leaves', async () => {
    const world = newWorld()
    const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
    const tree = await ann.tenure.acquire('file:/src', { mode: 'shared', extent: 'subtree' })
    const below = await bob.tenure.acquire('file:/src/a', { mode: 'shared' })
    const upgrading = follow(tree.upgrade({ waitMs: 60_000 }))
    await world.runtime.advance(100)
    await below.release()
    await world.runtime.settle()
    expect(upgrading.value()).toEqual({ changed: true })
  })

  it('is found without a wake-up too', async () => {
    const { ann, annLease, bobLease, advance } = await newSharing()
    ann.faults.when('onWake', failWith('STORE_UNAVAILABLE'))
    const upgrading = follow(annLease.upgrade({ waitMs: 60_000 }))
    await advance(100)
    await bobLease.release()
    await advance(1_500)
    expect(upgrading.value()).toEqual({ changed: true })
  })

  it('ends exactly on time, takes the wish back, and the lease is shared as before', async () => {
    const sharing = await newSharing()
    const { annLease, advance, ann } = sharing
    const upgrading = follow(annLease.upgrade({ waitMs: 2_500 }))
    await advance(2_499)
    expect(upgrading.isPending()).toBe(true)
    await advance(1)
    expect(upgrading.error()).toMatchObject({
      code: 'WAIT_TIMEOUT',
      details: { waitedMs: 2_500, blockers: [{ holder: 'bob' }] },
    })
    expect(ann.faults.count('withdrawUpgrade')).toBe(1)
    expect(await storedMode(sharing)).toEqual({ mode: 'shared', upgrading: false })
    expect(annLease).toMatchObject({ mode: 'shared', state: 'held' })
  })

  it('waits as long as the configuration says when it names no wait', async () => {
    const { annLease, ann, advance } = await newSharing()
    await ann.tenure.config.set('acquisition_timeout_ms', 1_200)
    const upgrading = follow(annLease.upgrade())
    await advance(1_200)
    expect(upgrading.error()).toMatchObject({ code: 'WAIT_TIMEOUT', details: { waitedMs: 1_200 } })
  })

  it('is refused at once when it may not wait, or nobody may', async () => {
    const { annLease, ann } = await newSharing()
    await expect(annLease.upgrade({ waitMs: 0 })).rejects.toMatchObject({ code: 'RESOURCE_HELD' })
    await ann.tenure.config.set('blocking_mode_enabled', false)
    await expect(annLease.upgrade({ waitMs: 50 })).rejects.toMatchObject({
      code: 'RESOURCE_HELD',
      details: { notWaiting: 'waiting_disabled' },
    })
  })

  it('can be cancelled', async () => {
    const sharing = await newSharing()
    const controller = new AbortController()
    const upgrading = follow(sharing.annLease.upgrade({ signal: controller.signal }))
    await sharing.advance(100)
    controller.abort()
    await sharing.advance(0)
    expect(upgrading.error().code).toBe('ABORTED')
    expect(await storedMode(sharing)).toEqual({ mode: 'shared', upgrading: false })
  })

  it('that another sharer has asked for already is refused as a deadlock, and the first goes on', async () => {
    const { annLease, bobLease, advance } = await newSharing()
    const upgrading = follow(annLease.upgrade({ waitMs: 60_000 }))
    await advance(10)
    await expect(bobLease.upgrade({ waitMs: 60_000 })).rejects.toMatchObject({
      code: 'DEADLOCK',
      details: { cycle: [{ holder: 'bob' }, { holder: 'ann' }] },
    })
    await bobLease.release()
    await advance(0)
    expect(upgrading.value()).toEqual({ changed: true })
  })

  it('joins one that is under way', async () => {
    const { annLease, bobLease, advance, ann } = await newSharing()
    const [one, two] = [follow(annLease.upgrade()), follow(annLease.upgrade())]
    await advance(10)
    expect(ann.faults.count('upgrade')).toBeLessThanOrEqual(2)
    await bobLease.release()
    await advance(0)
    expect([one.value(), two.value()]).toEqual([{ changed: true }, { changed: true }])
  })

  it('whose answer was lost is asked for again', async () => {
    const { annLease, bobLease, advance, ann } = await newSharing()
    await bobLease.release()
    ann.faults.when('upgrade', first(1, loseAnswer))
    const upgrading = follow(annLease.upgrade())
    await advance(100)
    expect(upgrading.value()).toEqual({ changed: true })
    expect(annLease.mode).toBe('exclusive')
  })

  it('that was completed after it was given up is undone, and the lease is shared again', async () => {
    const sharing = await newSharing()
    const { annLease, bobLease, ann, advance } = sharing
    let arrive = (): void => undefined
    ann.faults.when('upgrade', async (send) => {
      await new Promise<void>((resolve) => (arrive = resolve))
      return send()
    })
    const upgrading = follow(annLease.upgrade({ waitMs: 1_500 }))
    await advance(1_500)
    expect(upgrading.error().code).toBe('WAIT_TIMEOUT')
    await bobLease.release()
    arrive()
    await advance(0)
    expect(await storedMode(sharing)).toEqual({ mode: 'shared', upgrading: false })
    expect(annLease.mode).toBe('shared')
    expect(annLease.fence).toBe((await sharing.world.service.get({ id: annLease.id }))?.fence)
  })

  it('that was given up counts as shared at once, whatever was heard of it before', async () => {
    const { annLease, bobLease, ann, advance } = await newSharing()
    const controller = new AbortController()
    const upgrading = follow(annLease.upgrade({ waitMs: 60_000, signal: controller.signal }))
    await advance(100)
    ann.faults.when('upgrade', hang)
    await bobLease.release()
    await advance(0)
    expect(annLease.mode).toBe('exclusive')
    ann.faults.when('downgrade', async (send) => {
      await send()
      return new Promise(() => undefined)
    })
    controller.abort()
    await advance(0)
    expect(upgrading.error().code).toBe('ABORTED')
    expect(ann.faults.count('downgrade')).toBe(1)
    expect(annLease.mode).toBe('shared')
  })

  it('that is asked for again is not touched by the undoing of the first', async () => {
    const sharing = await newSharing()
    const { annLease, bobLease, ann, advance } = sharing
    let arrive = (): void => undefined
    ann.faults.when(
      'upgrade',
      first(1, async (send) => {
        await new Promise<void>((resolve) => (arrive = resolve))
        return send()
      }),
    )
    const given = follow(annLease.upgrade({ waitMs: 1_500 }))
    await advance(1_500)
    expect(given.error().code).toBe('WAIT_TIMEOUT')
    const again = follow(annLease.upgrade({ waitMs: 60_000 }))
    await advance(10)
    await bobLease.release()
    arrive()
    await advance(0)
    expect(again.value()).toEqual({ changed: true })
    expect(annLease.mode).toBe('exclusive')
    expect(await storedMode(sharing)).toEqual({ mode: 'exclusive', upgrading: false })
  })

  it('ends with the lease, whether it is lost or released', async () => {
    const { annLease, bobLease, advance, world } = await newSharing()
    const lost = follow(annLease.upgrade())
    await advance(10)
    await world.service.revoke({ id: annLease.id, by: 'operator' })
    await advance(0)
    expect(lost.error()).toMatchObject({ code: 'LEASE_LOST', details: { reason: 'revoked' } })
    const cat = await newClient(world, 'cat').tenure.acquire('work:W-1', { mode: 'shared' })
    const released = follow(bobLease.upgrade())
    await advance(10)
    await bobLease.release()
    await advance(0)
    expect(released.error().code).toBe('LEASE_TERMINAL')
    expect(cat.state).toBe('held')
  })

  it('ends with its client, also that of a lease that is left to its deadline', async () => {
    const sharing = await newSharing()
    const { ann, annLease, advance } = sharing
    const upgrade = follow(annLease.upgrade({ waitMs: Infinity }))
    await advance(100)
    expect(await storedMode(sharing)).toEqual({ mode: 'shared', upgrading: true })
    annLease.abandon()
    await ann.tenure.close()
    expect(upgrade.error().code).toBe('CLOSED')
    expect(await storedMode(sharing)).toEqual({ mode: 'shared', upgrading: false })
  })

  it('keeps its new fence and mode although an older answer arrives afterwards', async () => {
    const { annLease, bobLease, ann, advance } = await newSharing('work:W-1', { ttlMs: 9_000 })
    await bobLease.release()
    let arrive = (): void => undefined
    ann.faults.when(
      'renew',
      first(1, async (send) => {
        const answer = await send()
        await new Promise<void>((resolve) => (arrive = resolve))
        return answer
      }),
    )
    await advance(3_000)
    await annLease.upgrade()
    const { fence } = annLease
    arrive()
    await advance(0)
    expect(annLease).toMatchObject({ mode: 'exclusive', fence, renewals: 1 })
    expect(annLease.info).toMatchObject({ mode: 'exclusive', fence })
  })

  it('refuses options that nobody knows', async () => {
    const { annLease } = await newSharing()
    const options = { timeoutMs: 5 } as object
    await expect(annLease.upgrade(options)).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  })
})

describe('a downgrade', () => {
  it('takes back an upgrade that was asked for in the same moment, before it was sent', async () => {
    const sharing = await newSharing()
    const upgrading = follow(sharing.annLease.upgrade({ waitMs: 60_000 }))
    const downgrading = follow(sharing.annLease.downgrade())
    await sharing.advance(10)
    expect(upgrading.error().code).toBe('ABORTED')
    expect(downgrading.value()).toEqual({ changed: false })
    await sharing.bobLease.release()
    await sharing.advance(1_000)
    expect(sharing.annLease.mode).toBe('shared')
    expect(await storedMode(sharing)).toEqual({ mode: 'shared', upgrading: false })
  })

  it('keeps id and fence, and lets waiting readers in at once', async () => {
    const world = newWorld()
    const lease = await newClient(world, 'ann').tenure.acquire('work:W-1')
    const options = { mode: 'shared', waitMs: 60_000 } as const
    const reader = follow(newClient(world, 'bob').tenure.acquire('work:W-1', options))
    await world.runtime.advance(10)
    const { id, fence } = lease
    expect(await lease.downgrade()).toEqual({ changed: true })
    await world.runtime.settle()
    expect(lease).toMatchObject({ id, fence, mode: 'shared', state: 'held' })
    expect(reader.value().mode).toBe('shared')
    expect(await lease.downgrade()).toEqual({ changed: false })
  })

  it('counts from the call on, and can be tried again when the store was away', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'ann')
    const lease = await tenure.acquire('work:W-1')
    faults.when('downgrade', hang)
    const trying = follow(lease.downgrade())
    expect(lease.mode).toBe('shared')
    await world.runtime.advance(10_000)
    expect(trying.error().code).toBe('STORE_OUTCOME_UNKNOWN')
    faults.heal('downgrade')
    expect(await lease.upgrade()).toEqual({ changed: true })
    expect(lease.mode).toBe('exclusive')
    expect(await lease.downgrade()).toEqual({ changed: true })
  })

  it('whose answer was lost is sent again, and says that it changed the mode', async () => {
    const world = newWorld()
    const { tenure, faults } = newClient(world, 'ann')
    const lease = await tenure.acquire('work:W-1')
    faults.when('downgrade', first(1, loseAnswer))
    const downgrading = follow(lease.downgrade())
    await world.runtime.advance(1_000)
    expect(downgrading.value()).toEqual({ changed: true })
    expect(faults.count('downgrade')).toBe(2)
  })

  it('takes back an upgrade that is under way', async () => {
    const sharing = await newSharing()
    const upgrading = follow(sharing.annLease.upgrade())
    await sharing.advance(10)
    const downgrading = follow(sharing.annLease.downgrade())
    await sharing.advance(0)
    expect(downgrading.value()).toEqual({ changed: false })
    expect(upgrading.error().code).toBe('ABORTED')
    expect(await storedMode(sharing)).toEqual({ mode: 'shared', upgrading: false })
  })
})
