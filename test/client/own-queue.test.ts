/** Many waits of one client for one resource: the first of them are kept alive for all. */
import { describe, expect, it } from 'vitest'
import type { Lease } from '../../src/client/contract.ts'
import type { AcquireOptions } from '../../src/client/options.ts'
import { LeaseError } from '../../src/core/errors.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { follow, hang, newClient, newWorld, type ClientOptions } from './harness.ts'

const RESOURCE = 'work:W-1'
const WINDOW_MS = 5_000
/** Of the keep-alives of a ticket that is kept alive for itself. */
const SHORT_MS = 1_666

/** Bob waits five times for what Alice holds. */
async function newCrowd(
  options: ClientOptions = {},
  asked: AcquireOptions = {},
  pausesMs: readonly number[] = [],
) {
  const world = newWorld(new FakeRuntime())
  const advance = (ms: number) => world.runtime.advance(ms)
  const alice = newClient(world, 'alice')
  const bob = newClient(world, 'bob', options)
  const held = await alice.tenure.acquire(RESOURCE)
  const waits: {
    readonly id: string
    readonly lease: ReturnType<typeof follow<Lease>>
    readonly end: AbortController
  }[] = []
  for (const n of [1, 2, 3, 4, 5]) {
    const end = new AbortController()
    const id = `00000000-0000-4000-8000-00000000000${n}`
    const { signal } = end
    const wanted = { leaseId: id, waitMs: 3_600_000, signal, ...asked }
    waits.push({ id, lease: follow(bob.tenure.acquire(RESOURCE, wanted)), end })
    await advance(pausesMs[n - 1] ?? 0)
  }
  await advance(100)
  /** How often each is heard of in a minute from now. */
  const heardInAMinute = async (): Promise<readonly number[]> => {
    const from = bob.faults.calls.length
    await advance(60_000)
    const claims = bob.faults.calls.slice(from).filter(({ method }) => method === 'claim')
    return waits.map(({ id }) => claims.filter(({ request }) => idOf(request) === id).length)
  }
  const queue = async (): Promise<readonly string[]> => {
    return (await alice.tenure.inspect(RESOURCE)).queue.map(({ id }) => id)
  }
  return { world, bob, held, waits, advance, heardInAMinute, queue }
}

const idOf = (request: unknown): unknown => (request as { readonly id: string }).id

/** Nothing is heard of the first waiters for so long that the store drops all of them. */
async function dropAll({ world, bob, advance, queue }: Awaited<ReturnType<typeof newCrowd>>) {
  bob.faults.when('claim', () => {
    return Promise.reject(new LeaseError('STORE_UNAVAILABLE', 'away'))
  })
  await advance(8_000)
  await world.service.cleanup()
  expect(await queue()).toEqual([])
}

describe('of the waits of one client for one resource', () => {
  it('the first two are heard of each third of the claim window, the others every twelve times as long', async () => {
    const { heardInAMinute, queue, waits } = await newCrowd()
    await heardInAMinute()
    expect(await heardInAMinute()).toEqual([36, 36, 3, 3, 3])
    expect(await queue()).toEqual(waits.map(({ id }) => id))
  })

  it('all are filed with that, although none has had an answer when the next is sent', async () => {
    const { bob } = await newCrowd()
    const filed = bob.faults.calls.filter(({ method }) => method === 'acquire')
    const places = filed.map(({ request }) => 'behindOwn' in (request as object))
    expect(places).toEqual([false, false, true, true, true])
  })

  it('the next becomes one of the first when one of these ends, and says so at once', async () => {
    const { heardInAMinute, bob, waits, advance } = await newCrowd()
    await advance(30_000)
    const from = bob.faults.calls.length
    waits[0]?.end.abort()
    await advance(SHORT_MS + 1)
    const claims = bob.faults.calls.slice(from).filter(({ method }) => method === 'claim')
    const third = claims.filter(({ request }) => idOf(request) === waits[2]?.id)
    expect(third.map(({ request }) => request)).toMatchObject([{ id: waits[2]?.id }])
    expect(third[0]?.request).not.toHaveProperty('behindOwn')
    expect((await heardInAMinute()).slice(0, 3)).toEqual([0, 36, 36])
  })

  it('the next is kept alive in time although it became one of the first while its claim was on its way', async () => {
    const { heardInAMinute, bob, waits, advance, world } = await newCrowd()
    await advance(SHORT_MS - 200)
    bob.faults.when('claim', async (send, [request]) => {
      if (idOf(request) === waits[2]?.id)
        await new Promise<void>(
          (resolve) => void world.runtime.setTimer(500, resolve, { keepAlive: true }),
        )
      return send()
    })
    await advance(300)
    waits[1]?.end.abort()
    await advance(1_000)
    bob.faults.heal('claim')
    const [, , third] = await heardInAMinute()
    expect(third).toBeGreaterThanOrEqual(36)
  })

  it('each is served in its turn', async () => {
    const { held, waits, advance, world } = await newCrowd()
    await advance(10_000)
    await held.release()
    for (const { lease } of waits) {
      await world.runtime.settle()
      await advance(WINDOW_MS)
      await lease.value().release()
    }
  })

  it('none loses its place because the keep-alives of one come to nothing', async () => {
    const { bob, waits, advance, queue } = await newCrowd()
    bob.faults.when('claim', (send, input) => {
      return idOf(input[0]) === waits[0]?.id ? hang(send, input) : send()
    })
    await advance(12_000)
    expect(await queue()).toEqual(waits.slice(1).map(({ id }) => id))
  })

  it.each([3_400, 4_000, 5_000])(
    'only the first two lose theirs when one call with the keep-alives of both hangs for %d ms',
    async (hangMs) => {
      const { world, bob, waits, advance, queue } = await newCrowd({}, {}, [50, 1_950, 300, 300])
      const { runtime } = world
      await advance(9_000)
      let hungAtMs: number | null = null
      bob.faults.when('claim', (send, [request]) => {
        const nowMs = runtime.monotonicMs()
        if (idOf(request) === waits[0]?.id) hungAtMs ??= nowMs
        if (hungAtMs !== nowMs) return send()
        return new Promise((_, reject) => {
          const lost = (): void => reject(new LeaseError('STORE_OUTCOME_UNKNOWN', 'lost'))
          runtime.setTimer(hangMs, lost, { keepAlive: true })
        })
      })
      await advance(40_000)
      const order = [2, 3, 4, 0, 1].map((index) => waits[index]?.id)
      expect(await queue()).toEqual(order)
    },
  )

  it('the one that closes a cycle by standing still says so within a claim window, however far back', async () => {
    const world = newWorld(new FakeRuntime())
    const alice = newClient(world, 'alice')
    const bob = newClient(world, 'bob')
    await alice.tenure.acquire('work:A')
    await bob.tenure.acquire('work:B')
    for (const _ of [1, 2]) follow(bob.tenure.acquire('work:A', { waitMs: 600_000, under: [] }))
    await world.runtime.advance(1)
    const ends = [
      follow(alice.tenure.acquire('work:B', { waitMs: 600_000 })),
      follow(bob.tenure.acquire('work:A', { waitMs: 600_000 })),
    ]
    await world.runtime.advance(2 * WINDOW_MS)
    const refused = ends.filter((end) => !end.isPending())
    expect(refused.map((end) => end.error())).toMatchObject([{ code: 'DEADLOCK' }])
  })

  it('all count with one claim window for when to ask again', async () => {
    const { world } = await newCrowd()
    const attempt = await newClient(world, 'carol').tenure.tryAcquire(RESOURCE, { ttlMs: 1_000 })
    expect(attempt).toMatchObject({
      kind: 'held',
      blockers: [{ kind: 'lease' }, {}, {}, {}, {}, {}],
    })
    const tickets = attempt.kind === 'held' ? attempt.blockers.slice(1) : []
    expect(Math.max(...tickets.map(({ remainingMs }) => remainingMs))).toBeGreaterThan(50_000)
    expect(attempt.kind === 'held' && attempt.retryAfterMs).toBeLessThanOrEqual(30_000)
  })

  it('none is behind others where the session has a name, under which others may wait as well', async () => {
    const { heardInAMinute } = await newCrowd({ session: 'shared' })
    expect(await heardInAMinute()).toEqual([36, 36, 36, 36, 36])
  })

  it('none is behind others that share: several may be served at once', async () => {
    const { heardInAMinute } = await newCrowd({}, { mode: 'shared' })
    expect(await heardInAMinute()).toEqual([36, 36, 36, 36, 36])
  })

  it('all are filed again soon after the first were silent for so long that all were dropped', async () => {
    const crowd = await newCrowd()
    const { bob, advance, queue } = crowd
    for (let more = 0; more < 35; more += 1)
      follow(bob.tenure.acquire(RESOURCE, { waitMs: 3_600_000 }))
    await advance(6_000)
    await dropAll(crowd)
    bob.faults.heal('claim')
    await advance(2 * SHORT_MS)
    expect(await queue()).toHaveLength(40)
  })

  it('those behind speak for themselves while the first two wait for an answer to being filed again', async () => {
    const crowd = await newCrowd()
    const { world, bob, held, waits, advance, queue } = crowd
    await advance(6_000)
    await dropAll(crowd)
    const dead = newClient(world, 'dave')
    follow(dead.tenure.acquire(RESOURCE, { waitMs: 3_600_000 }))
    await advance(100)
    for (const method of ['acquire', 'claim'] as const) dead.faults.when(method, hang)
    const first = waits.slice(0, 2).map(({ id }): unknown => id)
    bob.faults.when('acquire', (send, input) => {
      return first.includes(idOf(input[0])) ? hang(send, input) : send()
    })
    bob.faults.heal('claim')
    await advance(2_000)
    expect((await queue()).slice(1)).toEqual(waits.slice(2).map(({ id }) => id))
    await held.release()
    await advance(WINDOW_MS)
    await world.service.cleanup()
    await advance(100)
    expect(waits[2]?.lease.value().state).toBe('held')
  })
})

describe('one that waits alone', () => {
  it('is not held up for long by sixty before it that died, although no sweep tells of them', async () => {
    const { world, bob, held, advance } = await newCrowd()
    for (let more = 0; more < 55; more += 1)
      follow(bob.tenure.acquire(RESOURCE, { waitMs: 3_600_000 }))
    await advance(100)
    const carol = follow(newClient(world, 'carol').tenure.acquire(RESOURCE, { waitMs: 3_600_000 }))
    await advance(1_000)
    for (const method of ['acquire', 'claim', 'withdraw'] as const) bob.faults.when(method, hang)
    await held.release()
    await advance(4 * WINDOW_MS + SHORT_MS)
    expect(carol.value().resource).toBe(RESOURCE)
  })
})
