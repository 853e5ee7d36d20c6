import { describe, expect, it } from 'vitest'
import type { AcquireAllOptions, LeaseSet } from '../../src/client/contract.ts'
import {
  answerAfter,
  first,
  follow,
  hang,
  loseAnswer,
  newClient,
  newWorld,
  statesOf,
  type Fault,
  type TestClient,
  type World,
} from './harness.ts'

const BOTH = ['work:A', 'work:B']

interface Stage {
  readonly world: World
  readonly ann: TestClient
  readonly bob: TestClient
  readonly advance: (spanMs: number) => Promise<void>
}

function newStage(): Stage {
  const world = newWorld()
  const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
  return { world, ann, bob, advance: (spanMs) => world.runtime.advance(spanMs) }
}

/** What the store has of a holder, leases and tickets. */
async function kept({ world }: Stage, holder: string): Promise<readonly string[]> {
  const { leases } = await world.service.list({ holder })
  return leases.map(({ state, resource }) => `${state} ${resource}`).toSorted()
}

/** Ann holds B; Bob waits for A and B. */
async function newWaiting(options: AcquireAllOptions = { waitMs: 60_000 }): Promise<
  Stage & {
    readonly waiting: ReturnType<typeof follow<LeaseSet>>
    readonly freeB: () => Promise<void>
  }
> {
  const stage = newStage()
  const held = await stage.ann.tenure.acquire('work:B')
  const waiting = follow(stage.bob.tenure.acquireAll(BOTH, options))
  await stage.advance(100)
  return { ...stage, waiting, freeB: () => held.release() }
}

describe('several resources at once', () => {
  it('are granted in the order in which they were asked for, in one request', async () => {
    const { ann } = newStage()
    const wanted = [
      'work:B',
      { resource: 'file:/src', extent: 'subtree', mode: 'shared' },
      'work:A',
    ] as const
    const set = await ann.tenure.acquireAll(wanted, { ttlMs: 30_000, reason: 'merge' })
    expect(set.leases.map(({ resource }) => resource)).toEqual(['work:B', 'file:/src', 'work:A'])
    expect(set.leases[1]).toMatchObject({ extent: 'subtree', mode: 'shared' })
    expect(set).toMatchObject({ state: 'held', remainingMs: 29_700 })
    expect(ann.faults.calls.map(({ method }) => method)).toEqual(['acquireAll'])
  })

  it('are renewed, and released together', async () => {
    const stage = newStage()
    const set = await stage.ann.tenure.acquireAll(BOTH, { ttlMs: 3_000 })
    await stage.advance(20_000)
    expect(set.state).toBe('held')
    await set.release({ reason: 'completed' })
    expect(set.state).toBe('released')
    expect(set.signal.aborted).toBe(false)
    expect(await kept(stage, 'ann')).toEqual([])
    expect(stage.ann.faults.count('releaseAll')).toBe(1)
    expect(stage.ann.faults.count('release')).toBe(0)
  })

  it('are released in one commit: whoever waits for both never sees a part of them', async () => {
    const stage = newStage()
    const set = await stage.ann.tenure.acquireAll(BOTH)
    const seen: string[][] = []
    const unfollow = stage.world.store.follow(() => {
      void kept(stage, 'ann').then((names) => seen.push([...names]))
    })
    await set.release()
    await stage.advance(10)
    unfollow()
    expect(seen).toEqual([[]])
    const events = await stage.world.service.history({ types: ['lease.released'] })
    const positions = events.map(({ position }) => Number(position))
    expect(positions[1]).toBe((positions[0] ?? 0) + 1)
  })

  it('are released once although the answer was lost', async () => {
    const stage = newStage()
    const set = await stage.ann.tenure.acquireAll(BOTH)
    stage.ann.faults.when('releaseAll', async (send) => {
      stage.ann.faults.heal('releaseAll')
      return loseAnswer(send, [])
    })
    const released = follow(set.release())
    await stage.advance(1_000)
    expect(released.value()).toBeUndefined()
    expect(set.state).toBe('released')
    expect(await stage.world.service.history({ types: ['lease.released'] })).toHaveLength(2)
  })

  it('take over what was transferred to their holder, while it waits or before', async () => {
    const { world, ann, bob, advance, waiting, freeB } = await newWaiting()
    const a = await ann.tenure.acquire('work:C')
    const early = await a.transfer('bob')
    const more = await bob.tenure.acquireAll(['work:C', 'work:D'])
    expect(more.leases[0]?.id).toBe(early)
    expect(more.state).toBe('held')
    const eve = newClient(world, 'eve')
    await freeB()
    await advance(10)
    expect(waiting.value().state).toBe('held')
    const lease = await eve.tenure.acquire('work:E')
    const last = await eve.tenure.acquire('work:F')
    const both = follow(bob.tenure.acquireAll(['work:E', 'work:F'], { waitMs: 60_000 }))
    await advance(100)
    const id = await lease.transfer('bob')
    await advance(10)
    expect(both.isPending()).toBe(true)
    await last.release()
    await advance(10)
    expect(both.value().leases[0]?.id).toBe(id)
    expect(both.value().state).toBe('held')
    await both.value().release()
    expect((await world.service.get({ id: id ?? '' }))?.state).toBe('released')
  })

  it('are not handed out in part when one that was taken over has been released since', async () => {
    const { world, ann, bob, advance } = newStage()
    const given = await ann.tenure.acquire('work:B')
    const id = (await given.transfer('bob')) ?? ''
    bob.faults.when('acquireAll', answerAfter(world, 1_000))
    const both = follow(bob.tenure.acquireAll(['work:A', 'work:B']))
    await advance(100)
    await (await bob.tenure.adopt(id)).release()
    await advance(1_000)
    expect(both.error()).toMatchObject({ code: 'LEASE_TERMINAL', details: { leaseId: id } })
    expect(await statesOf(world, 'bob')).toEqual([])
  })

  it('are all released at disposal, whatever became of one of them', async () => {
    const stage = newStage()
    const set = await stage.ann.tenure.acquireAll(BOTH)
    await stage.advance(100)
    await stage.world.service.revoke({ id: set.leases[0]?.id ?? '', by: 'ops' })
    await set[Symbol.asyncDispose]()
    expect(await kept(stage, 'ann')).toEqual([])
  })

  it('are lost when one of them is, and the signal says which', async () => {
    const stage = newStage()
    const set = await stage.ann.tenure.acquireAll(BOTH)
    const { signal } = set
    await stage.advance(100)
    await stage.world.service.revoke({ id: set.leases[1]?.id ?? '', by: 'ops' })
    await stage.advance(0)
    expect(set.state).toBe('lost')
    expect(signal.reason).toMatchObject({ code: 'LEASE_LOST', details: { resource: 'work:B' } })
    await expect(set.release()).rejects.toMatchObject({ code: 'LEASE_LOST' })
    expect(await kept(stage, 'ann')).toEqual([])
  })

  it('are refused together, naming who is in the way', async () => {
    const stage = newStage()
    await stage.ann.tenure.acquire('work:B')
    await expect(stage.bob.tenure.acquireAll(BOTH, { waitMs: 0 })).rejects.toMatchObject({
      code: 'RESOURCE_HELD',
      details: { blockers: [{ holder: 'ann', resource: 'work:B' }] },
    })
    expect(await kept(stage, 'bob')).toEqual([])
  })

  it.each([
    ['none', []],
    ['more than 64', Array.from({ length: 65 }, (_, index) => `work:${index}`)],
    ['the same twice', ['work:A', 'work:A']],
    ['a file in a subtree', [{ resource: 'file:/src', extent: 'subtree' }, 'file:/src/a']],
    ['an unknown word', [{ resource: 'work:A', priority: 1 }]],
    ['no list', 'work:A'],
    ['no resource', [7]],
  ])('are refused when they make no sense: %s', async (_, resources) => {
    const stage = newStage()
    const acquiring = stage.ann.tenure.acquireAll(resources as string[])
    await expect(acquiring).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    expect(await kept(stage, 'ann')).toEqual([])
  })

  it('refuse options that concern one resource', async () => {
    const { ann } = newStage()
    const acquiring = ann.tenure.acquireAll(BOTH, { mode: 'shared' } as object)
    await expect(acquiring).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  })
})

describe('a wait for several resources', () => {
  it('holds none of them until it has all, and then takes all in the same moment', async () => {
    const stage = await newWaiting()
    expect(await kept(stage, 'bob')).toEqual(['pending work:A', 'pending work:B'])
    const claims = stage.bob.faults.count('claimAll')
    await stage.freeB()
    await stage.world.runtime.settle()
    expect(stage.waiting.value().state).toBe('held')
    expect(stage.bob.faults.count('claimAll')).toBe(claims + 1)
    expect(await kept(stage, 'bob')).toEqual(['active work:A', 'active work:B'])
  })

  it('keeps its place by one claim for all, every third of its window', async () => {
    const stage = await newWaiting()
    await stage.advance(29_900)
    expect(stage.waiting.isPending()).toBe(true)
    expect(stage.bob.faults.count('claimAll')).toBe(18)
    const asked = new Set(stage.bob.faults.calls.map(({ method }) => method))
    expect(asked).toEqual(new Set(['acquireAll', 'onWake', 'inspect', 'claimAll']))
  })

  it('does not keep readers of one resource out who can share it', async () => {
    const { bob, world, advance, ann } = newStage()
    const writing = await ann.tenure.acquire('work:A')
    await newClient(world, 'cat').tenure.acquire('work:B')
    const shared = BOTH.map((resource) => ({ resource, mode: 'shared' }) as const)
    const group = follow(bob.tenure.acquireAll(shared, { waitMs: 60_000 }))
    await advance(10)
    const options = { mode: 'shared', waitMs: 60_000 } as const
    const reader = follow(newClient(world, 'dan').tenure.acquire('work:A', options))
    await advance(10)
    await writing.release()
    await world.runtime.settle()
    expect(reader.value().state).toBe('held')
    expect(group.isPending()).toBe(true)
  })

  it('counts all leases from before the claim that was granted', async () => {
    const stage = await newWaiting({ waitMs: 60_000, ttlMs: 10_000 })
    await stage.advance(20_000)
    await stage.freeB()
    await stage.advance(0)
    const remaining = stage.waiting.value().leases.map(({ remainingMs }) => remainingMs)
    expect(remaining).toEqual([9_900, 9_900])
  })

  it('ends exactly on time, and leaves nothing', async () => {
    const stage = await newWaiting({ waitMs: 3_000 })
    await stage.advance(2_899)
    expect(stage.waiting.isPending()).toBe(true)
    await stage.advance(1)
    expect(stage.waiting.error()).toMatchObject({
      code: 'WAIT_TIMEOUT',
      details: { waitedMs: 3_000, blockers: [{ holder: 'ann' }] },
    })
    expect(await kept(stage, 'bob')).toEqual([])
    expect(stage.world.runtime.keepAliveTimers).toBe(0)
  })

  it('leaves nothing although its claim reaches the store after the timeout', async () => {
    const stage = await newWaiting({ waitMs: 3_000 })
    let arrive = (): void => undefined
    stage.bob.faults.when('claimAll', async (send) => {
      await new Promise<void>((resolve) => (arrive = resolve))
      return send()
    })
    await stage.advance(2_900)
    expect(stage.waiting.error().code).toBe('WAIT_TIMEOUT')
    await stage.freeB()
    arrive()
    await stage.advance(0)
    expect(await kept(stage, 'bob')).toEqual([])
  })

  it('leaves nothing although its claim was granted and nobody heard of it', async () => {
    const stage = await newWaiting({ waitMs: 3_000 })
    const unheard: Fault = async (send) => {
      await send()
      return hang(send, [])
    }
    stage.bob.faults.when('claimAll', unheard)
    await stage.freeB()
    await stage.advance(10)
    expect(await kept(stage, 'bob')).toEqual(['active work:A', 'active work:B'])
    await stage.advance(2_900)
    expect(stage.waiting.error().code).toBe('WAIT_TIMEOUT')
    expect(await kept(stage, 'bob')).toEqual([])
  })

  it('can be cancelled, and by closing the client too', async () => {
    const controller = new AbortController()
    const stage = await newWaiting({ waitMs: 60_000, signal: controller.signal })
    controller.abort()
    await stage.advance(0)
    expect(stage.waiting.error().code).toBe('ABORTED')
    expect(await kept(stage, 'bob')).toEqual([])
    const closing = await newWaiting()
    await closing.bob.tenure.close()
    expect(closing.waiting.error().code).toBe('CLOSED')
    expect(await kept(closing, 'bob')).toEqual([])
  })

  it('files again under the same ids when its tickets were dropped', async () => {
    const stage = await newWaiting()
    stage.world.runtime.stall(6_000)
    expect(await kept(stage, 'bob')).toEqual([])
    await stage.advance(0)
    expect(await kept(stage, 'bob')).toEqual(['pending work:A', 'pending work:B'])
    const filed = stage.bob.faults.calls.filter(({ method }) => method === 'acquireAll')
    const [before, after] = filed.map(({ request }) => request as { members: unknown })
    expect(after?.members).toEqual(before?.members)
    await stage.freeB()
    await stage.advance(0)
    expect(stage.waiting.value().state).toBe('held')
  })

  it('keeps its place in the queue when the answer to its request was lost', async () => {
    const { ann, bob, world, advance } = newStage()
    const held = await ann.tenure.acquire('work:B')
    bob.faults.when('acquireAll', first(1, loseAnswer))
    const group = follow(bob.tenure.acquireAll(BOTH, { waitMs: 60_000 }))
    await advance(10)
    const late = follow(newClient(world, 'cat').tenure.acquire('work:B', { waitMs: 60_000 }))
    await advance(1_000)
    expect(bob.faults.count('acquireAll')).toBe(2)
    await held.release()
    await advance(0)
    expect(group.value().state).toBe('held')
    expect(late.isPending()).toBe(true)
  })

  it('is found although the store tells no ids, without a commit for every rumour', async () => {
    const { ann, bob, advance } = newStage()
    let rumour = (): void => undefined
    const held = await ann.tenure.acquire('work:B')
    bob.faults.when('onWake', async (_send, input) => {
      const listener = input[1] as (signal: { leaseIds: null }) => void
      rumour = () => listener({ leaseIds: null })
      return () => undefined
    })
    const group = follow(bob.tenure.acquireAll(BOTH, { waitMs: 60_000 }))
    await advance(100)
    const claims = bob.faults.count('claimAll')
    for (let round = 0; round < 5; round += 1) {
      rumour()
      await advance(1)
    }
    expect(bob.faults.count('claimAll')).toBe(claims)
    await held.release()
    rumour()
    await advance(0)
    expect(group.value().state).toBe('held')
  })

  it('leaves nothing when an operator takes one of its tickets out of the queue', async () => {
    const stage = await newWaiting()
    const { leases } = await stage.world.service.list({ holder: 'bob', state: 'pending' })
    await stage.world.service.revoke({ id: leases[0]?.id ?? '', by: 'ops' })
    await stage.advance(0)
    expect(stage.waiting.error().code).toBe('LEASE_TERMINAL')
    expect(await kept(stage, 'bob')).toEqual([])
  })

  it('does not deadlock with others who ask for the same in another order', async () => {
    const { world, advance } = newStage()
    const order = [BOTH, BOTH.toReversed()]
    const work = Array.from({ length: 8 }, async (_, index) => {
      const { tenure } = newClient(world, `agent-${index}`)
      const set = await tenure.acquireAll(order[index % 2] ?? BOTH, { waitMs: 600_000 })
      await new Promise<void>((resolve) => {
        world.runtime.setTimer(50, resolve, { keepAlive: false })
      })
      await set.release()
    })
    const done = follow(Promise.all(work))
    await advance(5_000)
    expect(done.value()).toHaveLength(8)
  })
})
