/**
 * Clients that wait for each other. Who says what it is under is refused at once where waiting would never end; of plain
 * calls that follows only from a standstill; and a wait that would end by itself is never refused where it was said.
 */
import { describe, expect, it } from 'vitest'
import type { Lease } from '../../src/client/contract.ts'
import type { CycleStep } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import { follow, newClient, newWorld, type TestClient, type World } from './harness.ts'

const WAIT = { waitMs: 60_000 } as const
/** One claim window until a client stands still, and one more keep-alive until the store has heard of it. */
const STANDSTILL_MS = 5_000 + 2_000

interface Ring {
  readonly world: World
  readonly leases: readonly Lease[]
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
  const leases: Lease[] = []
  for (const [index, { tenure }] of clients.entries()) {
    leases.push(await tenure.acquire(resourceAt(index, length)))
  }
  return { world, clients, leases, advance: (spanMs) => world.runtime.advance(spanMs) }
}

/** Under what it holds, as it says. */
function wantNext({ leases }: Ring, index: number): ReturnType<typeof follow<Lease>> {
  const lease = leases[index]
  if (lease === undefined) throw new Error(`nobody is at ${index}`)
  return follow(lease.acquire(resourceAt(index + 1, leases.length), WAIT))
}

function passed({ runtime }: World, spanMs: number): Promise<void> {
  return new Promise((resolve) => {
    runtime.setTimer(spanMs, resolve, { keepAlive: true })
  })
}

function isRefused(followed: ReturnType<typeof follow>): boolean {
  try {
    followed.value()
    return false
  } catch {
    return true
  }
}

describe('a cycle of clients that say what they wait under', () => {
  it.each([2, 3, 5])(
    'of %d is broken at once: whoever closed it is refused with the cycle named',
    async (length) => {
      const ring = await newRing(length)
      const waits = NAMES.slice(0, length - 1).map((_, index) => wantNext(ring, index))
      await ring.advance(100)
      expect(waits.every((wait) => wait.isPending())).toBe(true)
      const last = wantNext(ring, length - 1)
      await ring.advance(1)
      const error = last.error()
      expect(error.code).toBe('DEADLOCK')
      expect(error.details).not.toHaveProperty('implied')
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
    await ring.advance(1)
    expect(refused.error().code).toBe('DEADLOCK')
    await ring.clients[1]?.tenure.close()
    await ring.advance(1)
    expect(waiting.value().state).toBe('held')
  })

  it('that two close in the same moment refuses one of them', async () => {
    const ring = await newRing(2)
    const waits = [wantNext(ring, 0), wantNext(ring, 1)]
    await ring.advance(10)
    const refused = waits.filter((wait) => !wait.isPending())
    expect(refused).toHaveLength(1)
    expect(refused[0]?.error().code).toBe('DEADLOCK')
  })

  it('is found where one of them waits for several resources', async () => {
    const world = newWorld()
    const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
    const a = await ann.tenure.acquire('work:A')
    const b = await bob.tenure.acquire('work:B')
    const single = follow(a.acquire('work:B', WAIT))
    await world.runtime.advance(10)
    const wanted = bob.tenure.acquireAll(['work:A', 'work:C'], { ...WAIT, under: [b] })
    const group = follow(wanted)
    await world.runtime.advance(1)
    expect(group.error()).toMatchObject({ code: 'DEADLOCK' })
    expect(single.isPending()).toBe(true)
    const { leases } = await world.service.list({ holder: 'bob', state: 'pending' })
    expect(leases).toEqual([])
  })

  it('is found inside of withLease, where nobody has to say it', async () => {
    const world = newWorld()
    const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
    const nested = ({ tenure }: TestClient, outer: string, inner: string): Promise<string> => {
      return tenure.withLease(outer, WAIT, async () => {
        await passed(world, 5)
        return tenure.withLease(inner, WAIT, () => 'done')
      })
    }
    const first = follow(nested(ann, 'work:A', 'work:B'))
    const second = follow(nested(bob, 'work:B', 'work:A'))
    await world.runtime.advance(100)
    // One of them is refused, gives back what it had, and the other goes on.
    const [refused, served] = isRefused(first) ? [first, second] : [second, first]
    expect(refused.error()).toMatchObject({ code: 'DEADLOCK' })
    expect(served.value()).toBe('done')
  })

  it('is closed by a transfer to somebody who waits', async () => {
    const world = newWorld()
    const [ann, bob, cat] = ['ann', 'bob', 'cat'].map((name) => newClient(world, name))
    if (ann === undefined || bob === undefined || cat === undefined) throw new Error('nobody')
    const a = await ann.tenure.acquire('work:A')
    const c = await cat.tenure.acquire('work:C')
    const bobs = follow(bob.tenure.acquire('work:A', WAIT))
    const anns = follow(a.acquire('work:C', WAIT))
    await world.runtime.advance(10)
    await c.transfer('bob')
    await world.runtime.advance(10)
    expect([bobs, anns].filter((wait) => !wait.isPending())).toHaveLength(1)
    expect([bobs, anns].find((wait) => !wait.isPending())?.error().code).toBe('DEADLOCK')
  })
})

describe('a request that could never be granted', () => {
  it('is refused at once: it is under the lease that blocks it', async () => {
    const world = newWorld()
    const { tenure } = newClient(world, 'ann')
    const lease = await tenure.acquire('work:A')
    const refused = { code: 'RESOURCE_HELD', message: expect.stringContaining('release it first') }
    await expect(lease.acquire('work:A', WAIT)).rejects.toMatchObject(refused)
    const nested = tenure.withLease('work:B', WAIT, () => tenure.acquire('work:B', WAIT))
    await expect(nested).rejects.toMatchObject(refused)
  })

  it('is under everything that its lease was asked for under', async () => {
    const world = newWorld()
    const { tenure } = newClient(world, 'ann')
    const a = await tenure.acquire('work:A')
    const b = await a.acquire('work:B')
    await expect(b.acquire('work:A', WAIT)).rejects.toMatchObject({ code: 'RESOURCE_HELD' })
  })

  it('names a list of leases that is too long, or none of leases', async () => {
    const { tenure } = newClient(newWorld(), 'ann')
    const tooMany = Array.from({ length: 65 }, () => '00000000-0000-4000-8000-000000000001')
    for (const under of [tooMany, ['nonsense'], 'nonsense']) {
      const wanted = tenure.acquire('work:A', { under } as unknown as { under: readonly string[] })
      await expect(wanted).rejects.toMatchObject({
        ...{ code: 'INVALID_INPUT', details: { field: 'under' } },
      })
    }
  })
})

describe('tasks of one client', () => {
  it('are not taken for one: what another of them releases is waited for', async () => {
    const world = newWorld()
    const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
    // One task holds A and waits for B; the holder of B waits for C, which the other task is about to release.
    const b = await bob.tenure.acquire('work:B')
    const c = await ann.tenure.acquire('work:C')
    const first = follow(
      ann.tenure.withLease('work:A', WAIT, () => ann.tenure.acquire('work:B', WAIT)),
    )
    await world.runtime.advance(10)
    const second = follow(b.acquire('work:C', WAIT))
    await world.runtime.advance(4_000)
    expect([first.isPending(), second.isPending()]).toEqual([true, true])
    await c.release()
    await world.runtime.advance(1)
    await second.value().release()
    await b.release()
    await world.runtime.advance(1)
    expect(first.value().state).toBe('held')
  })

  it('in sibling branches of withLease are under their own lease only', async () => {
    const world = newWorld()
    const { tenure } = newClient(world, 'ann')
    const branch = (own: string, other: string): Promise<string> => {
      return tenure.withLease(own, WAIT, async () => {
        await passed(world, 5)
        return own.startsWith('work:A') ? tenure.withLease(other, WAIT, () => own) : own
      })
    }
    const both = follow(Promise.all([branch('work:A', 'work:B'), branch('work:B', 'work:A')]))
    await world.runtime.advance(100)
    expect(both.value()).toEqual(['work:A', 'work:B'])
  })
})

describe('what a listener asks for', () => {
  const LISTENING: readonly [string, (lease: Lease, listener: () => void) => void][] = [
    ['event', (lease, listener) => void lease.on('lost', listener)],
    ['signal', ({ signal }, listener) => signal.addEventListener('abort', listener)],
  ]

  it.each(LISTENING)('is inside of no work in which the %s was noticed', async (_, listen) => {
    const world = newWorld()
    const { tenure } = newClient(world, 'ann')
    const lost = await tenure.acquire('work:B', { ttlMs: 1_000, autoRenew: false })
    const next: ReturnType<typeof follow<Lease>>[] = []
    listen(lost, () => next.push(follow(tenure.acquire('work:A', WAIT))))
    const work = tenure.withLease('work:A', async () => {
      world.runtime.stall(1_000)
      expect(lost.state).toBe('lost')
      await passed(world, 500)
    })
    await world.runtime.advance(600)
    await work
    await world.runtime.advance(100)
    expect(next.map((one) => one.value().state)).toEqual(['held'])
  })
})

describe('plain calls', () => {
  async function plainRing(): Promise<{
    readonly world: World
    readonly clients: readonly [TestClient, TestClient]
    readonly leases: readonly [Lease, Lease]
    readonly waits: readonly ReturnType<typeof follow<Lease>>[]
  }> {
    const world = newWorld()
    const clients = [newClient(world, 'ann'), newClient(world, 'bob')] as const
    const leases = [
      await clients[0].tenure.acquire('work:A'),
      await clients[1].tenure.acquire('work:B'),
    ] as const
    const waits = [
      follow(clients[0].tenure.acquire('work:B', WAIT)),
      follow(clients[1].tenure.acquire('work:A', WAIT)),
    ]
    return { world, clients, leases, waits }
  }

  it('that wait for each other are found once their clients stand still', async () => {
    const { world, waits } = await plainRing()
    await world.runtime.advance(4_000)
    expect(waits.map((wait) => wait.isPending())).toEqual([true, true])
    await world.runtime.advance(STANDSTILL_MS)
    const refused = waits.filter((wait) => !wait.isPending())
    expect(refused).toHaveLength(1)
    expect(refused[0]?.error()).toMatchObject({ code: 'DEADLOCK', details: { implied: true } })
  })

  it('of what goes on after the work that began it are plain', async () => {
    const world = newWorld()
    const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
    await ann.tenure.acquire('work:A')
    await bob.tenure.acquire('work:B')
    let begin = (): void => undefined
    const begun = new Promise<void>((resolve) => (begin = resolve))
    const waits: ReturnType<typeof follow<Lease>>[] = []
    await ann.tenure.withLease('work:C', () => {
      void begun.then(() => waits.push(follow(ann.tenure.acquire('work:B', WAIT))))
    })
    begin()
    waits.push(follow(bob.tenure.acquire('work:A', WAIT)))
    await world.runtime.advance(4_000 + STANDSTILL_MS)
    const refused = waits.filter((wait) => !wait.isPending())
    expect(refused.map((wait) => wait.error().code)).toEqual(['DEADLOCK'])
  })

  it('are let be while a client still makes calls', async () => {
    const { world, clients, waits } = await plainRing()
    for (let second = 0; second < 30; second += 1) {
      await clients[0].tenure.isHeld('work:elsewhere')
      await world.runtime.advance(1_000)
    }
    expect(waits.map((wait) => wait.isPending())).toEqual([true, true])
  })

  it('of a client that moves again are under nothing any more', async () => {
    const world = newWorld()
    const [ann, bob] = [newClient(world, 'ann'), newClient(world, 'bob')]
    const a = await ann.tenure.acquire('work:A')
    const b = await bob.tenure.acquire('work:B')
    const waiting = follow(ann.tenure.acquire('work:B', WAIT))
    await world.runtime.advance(STANDSTILL_MS)
    const [ticket] = await world.service
      .list({ holder: 'ann', state: 'pending' })
      .then((list) => list.leases)
    const underOf = async (): Promise<unknown> => {
      return (await world.store.find({ ids: [ticket?.id ?? ''], limit: 1 })).entries[0]?.under
    }
    expect(await underOf()).toEqual({ leaseIds: [a.id], implied: true })
    await ann.tenure.isHeld('work:elsewhere')
    await world.runtime.advance(1)
    expect(await underOf()).toBeUndefined()
    const bobs = follow(b.acquire('work:A', WAIT))
    await world.runtime.advance(10)
    expect([waiting.isPending(), bobs.isPending()]).toEqual([true, true])
  })

  it('share one look at what their client holds, however many they are', async () => {
    const world = newWorld()
    const [ann, bob] = [newClient(world, 'ann', { sequential: true }), newClient(world, 'bob')]
    const names = ['work:A', 'work:B', 'work:C', 'work:D']
    for (const name of names) await bob.tenure.acquire(name)
    const held = await ann.tenure.acquire('work:E')
    const waits = names.map((name) => follow(ann.tenure.acquire(name, WAIT)))
    await world.runtime.advance(STANDSTILL_MS)
    const { leases } = await world.service.list({ holder: 'ann', state: 'pending' })
    const { entries } = await world.store.find({ ids: leases.map(({ id }) => id), limit: 4 })
    const implied = { leaseIds: [held.id], implied: true }
    expect(entries.map(({ under }) => under)).toEqual(names.map(() => implied))
    expect(waits.every((wait) => wait.isPending())).toBe(true)
    expect(ann.faults.count('list')).toBe(1)
  })

  it('for what another task of the same client holds are no cycle: that task may only be busy', async () => {
    const world = newWorld()
    const { tenure } = newClient(world, 'ann')
    const held = await tenure.acquire('work:A')
    const waiting = follow(tenure.acquire('work:A', WAIT))
    await world.runtime.advance(3 * STANDSTILL_MS)
    expect(waiting.isPending()).toBe(true)
    await held.release()
    await world.runtime.advance(1)
    expect(waiting.value().state).toBe('held')
  })

  it('for a busy resource are no cycle', async () => {
    const world = newWorld()
    await newClient(world, 'ann').tenure.acquire('work:A')
    const waits = ['bob', 'cat', 'dan'].map((name) =>
      follow(newClient(world, name).tenure.acquire('work:A', WAIT)),
    )
    await world.runtime.advance(20_000)
    expect(waits.every((wait) => wait.isPending())).toBe(true)
    const { cycles } = await world.service.inspect({ resource: parseResource('work:A') })
    expect(cycles).toEqual([])
  })
})
