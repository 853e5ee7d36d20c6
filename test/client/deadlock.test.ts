import { describe, expect, it } from 'vitest'
import type { Lease } from '../../src/client/contract.ts'
import type { CycleStep } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import { follow, newClient, newWorld, type TestClient, type World } from './harness.ts'

interface Ring {
  readonly world: World
  readonly clients: readonly TestClient[]
  readonly advance: (spanMs: number) => Promise<void>
}

const NAMES = ['ann', 'bob', 'cat', 'dan', 'eve'] as const

function resourceAt(index: number, length: number): string {
  return `work:${index % length}`
}

/** Everybody holds one resource; the one at `index` will want the next one's. */
async function newRing(length: number): Promise<Ring> {
  const world = newWorld()
  const clients = NAMES.slice(0, length).map((name) => newClient(world, name))
  for (const [index, { tenure }] of clients.entries()) {
    await tenure.acquire(resourceAt(index, length))
  }
  return { world, clients, advance: (spanMs) => world.runtime.advance(spanMs) }
}

function wantNext({ clients }: Ring, index: number): ReturnType<typeof follow<Lease>> {
  const tenure = clients[index]?.tenure
  if (tenure === undefined) throw new Error(`nobody is at ${index}`)
  return follow(tenure.acquire(resourceAt(index + 1, clients.length), { waitMs: 60_000 }))
}

describe('a circle of clients that wait for each other', () => {
  it.each([2, 3, 5])(
    'of %d is broken at once: whoever closed it is refused with the circle named',
    async (length) => {
      const ring = await newRing(length)
      const waits = NAMES.slice(0, length - 1).map((_, index) => wantNext(ring, index))
      await ring.advance(100)
      expect(waits.every((wait) => wait.isPending())).toBe(true)
      const last = wantNext(ring, length - 1)
      await ring.advance(0)
      const error = last.error()
      expect(error.code).toBe('DEADLOCK')
      const cycle = error.details['cycle'] as readonly CycleStep[]
      expect(new Set(cycle.map(({ holder }) => holder))).toEqual(new Set(NAMES.slice(0, length)))
      for (const name of NAMES.slice(0, length)) expect(error.message).toContain(name)
      expect(error.message).toContain('→')
      expect(waits.every((wait) => wait.isPending())).toBe(true)
    },
  )

  it('is gone when the refused one gives up what it holds', async () => {
    const ring = await newRing(2)
    const waiting = wantNext(ring, 0)
    await ring.advance(10)
    const refused = wantNext(ring, 1)
    await ring.advance(0)
    expect(refused.error().code).toBe('DEADLOCK')
    await ring.clients[1]?.tenure.close()
    await ring.advance(0)
    expect(waiting.value().state).toBe('held')
  })

  it('that two close in the same moment refuses one of them within a second', async () => {
    const ring = await newRing(2)
    const waits = [wantNext(ring, 0), wantNext(ring, 1)]
    await ring.advance(1_000)
    const refused = waits.filter((wait) => !wait.isPending())
    expect(refused).toHaveLength(1)
    expect(refused[0]?.error().code).toBe('DEADLOCK')
  })

  it('is found where one of them waits for several resources', async () => {
    const world = newWorld()
    const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
    await ann.tenure.acquire('work:A')
    await bob.tenure.acquire('work:B')
    const single = follow(ann.tenure.acquire('work:B', { waitMs: 60_000 }))
    await world.runtime.advance(10)
    const group = follow(bob.tenure.acquireAll(['work:A', 'work:C'], { waitMs: 60_000 }))
    await world.runtime.advance(0)
    expect(group.error()).toMatchObject({ code: 'DEADLOCK' })
    expect(single.isPending()).toBe(true)
    const { leases } = await world.service.list({ holder: 'bob', state: 'pending' })
    expect(leases).toEqual([])
  })

  it('is no circle when somebody only waits for a busy resource', async () => {
    const world = newWorld()
    await newClient(world, 'ann').tenure.acquire('work:A')
    const waits = ['bob', 'cat', 'dan'].map((name) =>
      follow(newClient(world, name).tenure.acquire('work:A', { waitMs: 60_000 })),
    )
    await world.runtime.advance(20_000)
    expect(waits.every((wait) => wait.isPending())).toBe(true)
    const { cycles } = await world.service.inspect(parseResource('work:A'))
    expect(cycles).toEqual([])
  })

  it('is found although the first to wait had nothing else at that time', async () => {
    const world = newWorld()
    const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
    await bob.tenure.acquire('work:B')
    const waiting = follow(ann.tenure.acquire('work:B', { waitMs: 60_000 }))
    await world.runtime.advance(10)
    await ann.tenure.acquire('work:A')
    const closing = follow(bob.tenure.acquire('work:A', { waitMs: 60_000 }))
    await world.runtime.advance(0)
    expect(closing.error()).toMatchObject({ code: 'DEADLOCK' })
    expect(waiting.isPending()).toBe(true)
  })

  it('is broken at once when somebody who waits elsewhere gets in past a ticket', async () => {
    const world = newWorld()
    const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
    await ann.tenure.acquire('work:A')
    await newClient(world, 'cat').tenure.acquire('work:C', { mode: 'shared' })
    const bobs = follow(bob.tenure.acquire('work:A', { waitMs: 60_000 }))
    await world.runtime.advance(10)
    const anns = follow(ann.tenure.acquire('work:C', { waitMs: 60_000 }))
    await world.runtime.advance(10)
    await bob.tenure.acquire('work:C', { mode: 'shared', priority: 100 })
    await world.runtime.advance(0)
    expect(anns.error()).toMatchObject({ code: 'DEADLOCK' })
    expect(bobs.isPending()).toBe(true)
  })
})

describe('what a client says that it has besides', () => {
  it('is nothing, leases, or tickets, and is told with every question', async () => {
    const world = newWorld()
    const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
    await bob.tenure.acquire('work:B')
    await bob.tenure.acquire('work:C')
    const told = (): readonly unknown[] => {
      const questions = ann.faults.calls.filter(({ method }) => /acquire|claim/.test(method))
      return questions.map(({ request }) => (request as { besides?: unknown }).besides)
    }
    const first = follow(ann.tenure.acquire('work:B', { waitMs: 60_000 }))
    await world.runtime.advance(1_700)
    expect(told()).toEqual(['nothing', 'nothing'])
    const second = follow(ann.tenure.acquire('work:C', { waitMs: 1_000 }))
    await world.runtime.advance(1_100)
    expect(told().slice(2)).toEqual(['tickets'])
    await ann.tenure.acquire('work:A')
    await world.runtime.advance(1_000)
    expect(told().slice(3)).toEqual(['tickets', 'leases'])
    expect([first.isPending(), second.isPending()]).toEqual([true, false])
  })

  it('is not known of a session that others may share', async () => {
    const world = newWorld()
    await newClient(world, 'bob').tenure.acquire('work:B')
    const ann = newClient(world, 'ann', { session: 'shared' })
    void follow(ann.tenure.acquire('work:B', { waitMs: 60_000 }))
    await world.runtime.advance(10)
    expect(ann.faults.calls[0]?.request).not.toHaveProperty('besides')
  })
})
