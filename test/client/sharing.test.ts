import { describe, expect, it } from 'vitest'
import type { Lease } from '../../src/client/contract.ts'
import { follow, newClient, newWorld, type TestClient, type World } from './harness.ts'

interface Stage {
  readonly world: World
  readonly client: (holder: string) => TestClient
  readonly advance: (spanMs: number) => Promise<void>
}

function newStage(): Stage {
  const world = newWorld()
  return {
    world,
    client: (holder) => newClient(world, holder),
    advance: (spanMs) => world.runtime.advance(spanMs),
  }
}

describe('options of an acquire', () => {
  it('say how a lease is held, and the handle shows it', async () => {
    const { client } = newStage()
    const lease = await client('ann').tenure.acquire('file:/src', {
      ...{ mode: 'shared', extent: 'subtree', lockDelayMs: 500, breakable: true },
    })
    expect(lease).toMatchObject({ mode: 'shared', extent: 'subtree' })
    expect(lease.info).toMatchObject({ lockDelayMs: 500, breakable: true, upgrading: false })
  })

  it.each([
    ['mode', { mode: 'write' }],
    ['extent', { extent: 'tree' }],
    ['extent', { extent: 'subtree' }],
    ['slots', { slots: 0 }],
    ['slots', { slots: 2, mode: 'exclusive' }],
    ['priority', { priority: 101 }],
    ['priority', { priority: 0.5 }],
    ['lockDelayMs', { lockDelayMs: -1 }],
    ['breakable', { breakable: 'yes' }],
    ['breakGraceMs', { breakGraceMs: '5s' }],
    ['options', { prioritty: 1 }],
  ])('are refused by name when they make no sense: %s', async (field, options) => {
    const { client, world } = newStage()
    const acquiring = client('ann').tenure.acquire('work:W-1', options as object)
    await expect(acquiring).rejects.toMatchObject({ code: 'INVALID_INPUT', details: { field } })
    expect((await world.service.list({})).leases).toEqual([])
  })

  it('read a trailing slash as part of the spelling, not as a subtree', async () => {
    const { client } = newStage()
    const lease = await client('ann').tenure.acquire('file:/src/')
    expect(lease).toMatchObject({ resource: 'file:/src', extent: 'exact' })
    await expect(client('bob').tenure.tryAcquire('file:/src/a')).resolves.toMatchObject({
      kind: 'granted',
    })
  })
})

describe('readers and writers', () => {
  it('share with each other, and with no writer', async () => {
    const { client } = newStage()
    await client('ann').tenure.acquire('work:W-1', { mode: 'shared' })
    await client('bob').tenure.acquire('work:W-1', { mode: 'shared' })
    const attempt = await client('cat').tenure.tryAcquire('work:W-1')
    expect(attempt).toMatchObject({ kind: 'held', blockers: [{ mode: 'shared' }, {}] })
  })

  it('take turns: a waiting writer is not starved by readers that come later', async () => {
    const { client, advance } = newStage()
    const reading = await client('ann').tenure.acquire('work:W-1', { mode: 'shared' })
    const writer = follow(client('bob').tenure.acquire('work:W-1', { waitMs: 60_000 }))
    await advance(10)
    const late = follow(
      client('cat').tenure.acquire('work:W-1', { mode: 'shared', waitMs: 60_000 }),
    )
    await advance(10)
    expect([writer.isPending(), late.isPending()]).toEqual([true, true])
    await reading.release()
    await advance(0)
    expect(late.isPending()).toBe(true)
    await writer.value().release()
    await advance(0)
    expect(late.value().fence).toBeGreaterThan(writer.value().fence)
  })

  it('all come in at once when the writer leaves', async () => {
    const { client, advance } = newStage()
    const writing = await client('ann').tenure.acquire('work:W-1')
    const readers = ['bob', 'cat', 'dan'].map((name) =>
      follow(client(name).tenure.acquire('work:W-1', { mode: 'shared', waitMs: 60_000 })),
    )
    await advance(10)
    await writing.release()
    await advance(0)
    expect(readers.map((reader) => reader.value().state)).toEqual(['held', 'held', 'held'])
  })

  it('are served in the order of their priority, ten seconds a point', async () => {
    const { client, advance } = newStage()
    const held = await client('ann').tenure.acquire('work:W-1')
    const served: string[] = []
    const wait = async (name: string, priority: number): Promise<void> => {
      const lease = await client(name).tenure.acquire('work:W-1', { priority, waitMs: 600_000 })
      served.push(name)
      await lease.release()
    }
    const waits = [wait('usual', 0)]
    await advance(15_000)
    waits.push(wait('a-point-is-not-enough', 1), wait('two-points-are', 2), wait('patient', -1))
    await advance(100)
    await held.release()
    await advance(1_000)
    await Promise.all(waits)
    expect(served).toEqual(['two-points-are', 'usual', 'a-point-is-not-enough', 'patient'])
  })
})

describe('slots', () => {
  it('are told to whoever is blocked by those who have them', async () => {
    const { client } = newStage()
    for (const name of ['ann', 'bob']) await client(name).tenure.acquire('pool:gpu', { slots: 2 })
    const attempt = await client('cy').tenure.tryAcquire('pool:gpu', { slots: 3 })
    const told = attempt.kind === 'held' ? attempt.blockers.map(({ slots }) => slots) : null
    expect(told).toEqual([2, 2])
  })

  it('are never exceeded, however many want one', async () => {
    const { client, advance, world } = newStage()
    let most = 0
    const work = Array.from({ length: 12 }, async (_, index) => {
      const lease = await client(`agent-${index}`).tenure.acquire('pool:gpu', {
        ...{ slots: 3, waitMs: 600_000 },
      })
      const { leases } = await world.service.inspect({ resource: lease.info.resource })
      most = Math.max(most, leases.length)
      await new Promise<void>(
        (resolve) => void world.runtime.setTimer(100 + index, resolve, { keepAlive: false }),
      )
      await lease.release()
    })
    await advance(10_000)
    await Promise.all(work)
    expect(most).toBe(3)
  })

  it('are changed from two to three while old and new holders share', async () => {
    const { client, advance } = newStage()
    const acquire = (name: string, slots: number): Promise<Lease> => {
      return client(name).tenure.acquire('pool:gpu', { slots, waitMs: 60_000 })
    }
    const old = [await acquire('old-1', 2), await acquire('old-2', 2)]
    const held: string[] = []
    const fresh = ['new-1', 'new-2', 'new-3'].map(async (name) => {
      await acquire(name, 3)
      held.push(name)
    })
    await advance(100)
    expect(held).toEqual([])
    await old[0]?.release()
    await advance(100)
    expect(held).toEqual(['new-1'])
    await old[1]?.release()
    await advance(100)
    await Promise.all(fresh)
    expect(held).toEqual(['new-1', 'new-2', 'new-3'])
  })
})

describe('a subtree', () => {
  async function subtree({ client }: Stage, name = 'ann'): Promise<Lease> {
    return client(name).tenure.acquire('file:/src', { extent: 'subtree' })
  }

  it('blocks what lies below it, and nothing beside it', async () => {
    const stage = newStage()
    await subtree(stage)
    const { tenure } = stage.client('bob')
    expect(await tenure.tryAcquire('file:/src/deep/down')).toMatchObject({ kind: 'held' })
    expect(await tenure.tryAcquire('file:/src_backup')).toMatchObject({ kind: 'granted' })
  })

  it('is renewed and released for what it is', async () => {
    const stage = newStage()
    const { tenure } = stage.client('ann')
    const lease = await tenure.acquire('file:/src', { extent: 'subtree', ttlMs: 3_000 })
    await stage.advance(10_000)
    expect(lease.state).toBe('held')
    const below = follow(stage.client('bob').tenure.acquire('file:/src/a', { waitMs: 60_000 }))
    await stage.advance(10)
    await lease.release()
    await stage.advance(0)
    expect(below.value().state).toBe('held')
  })

  it.each(['file:/src/a', 'file:/src/a/b/c', 'file:/src'])(
    'is woken by a release of %s below it in the same moment, not by its keep-alive',
    async (below) => {
      const stage = newStage()
      const held = await stage.client('bob').tenure.acquire(below)
      const waiter = stage.client('ann')
      const options = { extent: 'subtree', waitMs: 60_000 } as const
      const waiting = follow(waiter.tenure.acquire('file:/src', options))
      await stage.advance(100)
      const claims = waiter.faults.count('claim')
      await held.release()
      await stage.world.runtime.settle()
      expect(waiting.value().state).toBe('held')
      expect(waiter.faults.count('claim')).toBe(claims + 1)
    },
  )

  it('that shares with waiters below it does not keep them and itself awake for nothing', async () => {
    const stage = newStage()
    await stage.client('bob').tenure.acquire('file:/src/busy')
    await stage.client('cat').tenure.acquire('file:/other')
    const tree = stage.client('ann')
    void follow(
      tree.tenure.acquire('file:/src', { mode: 'shared', extent: 'subtree', waitMs: 60_000 }),
    )
    const group = stage.client('dan')
    const wanted = ['file:/src/free', 'file:/other'].map((resource) => {
      return { resource, mode: 'shared' } as const
    })
    void follow(group.tenure.acquireAll(wanted, { waitMs: 60_000 }))
    await stage.advance(3_000)
    expect(tree.faults.count('claim')).toBeLessThanOrEqual(3)
    expect(group.faults.count('claimAll')).toBeLessThanOrEqual(3)
  })
})
