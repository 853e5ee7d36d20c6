/** Many waits of one client for one resource: the first of them are kept alive for all. */
import { describe, expect, it } from 'vitest'
import type { AcquireOptions } from '../../src/client/options.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { follow, hang, newClient, newWorld, type ClientOptions } from './harness.ts'

const RESOURCE = 'work:W-1'
const WINDOW_MS = 5_000
/** Of the keep-alives of a ticket that is kept alive for itself. */
const SHORT_MS = 1_666

/** Bob waits five times for what Alice holds. */
async function newCrowd(options: ClientOptions = {}, asked: AcquireOptions = {}) {
  const world = newWorld(new FakeRuntime())
  const advance = (ms: number) => world.runtime.advance(ms)
  const alice = newClient(world, 'alice')
  const bob = newClient(world, 'bob', options)
  const held = await alice.tenure.acquire(RESOURCE)
  const waits = [1, 2, 3, 4, 5].map((n) => {
    const end = new AbortController()
    const id = `00000000-0000-4000-8000-00000000000${n}`
    const { signal } = end
    const lease = follow(
      bob.tenure.acquire(RESOURCE, { leaseId: id, waitMs: 3_600_000, signal, ...asked }),
    )
    return { id, lease, end }
  })
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

  it('none is behind others where the session has a name, under which others may wait as well', async () => {
    const { heardInAMinute } = await newCrowd({ session: 'shared' })
    expect(await heardInAMinute()).toEqual([36, 36, 36, 36, 36])
  })

  it('none is behind others that share: several may be served at once', async () => {
    const { heardInAMinute } = await newCrowd({}, { mode: 'shared' })
    expect(await heardInAMinute()).toEqual([36, 36, 36, 36, 36])
  })
})
