/** A waiter of the same process as the holder: the release takes its claim along, in the same commit. */
import { describe, expect, it, vi } from 'vitest'
import type { Tenure } from '../../src/client/contract.ts'
import { CLAIM_WINDOW_MS_DEFAULT } from '../../src/core/limits.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
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

const RESOURCE = 'work:W-17'
const WAIT = { waitMs: 60_000 }

interface Stage {
  readonly world: World
  /** In one process. */
  readonly alice: TestClient
  readonly bob: TestClient
  readonly carol: TestClient
  /** In another one. */
  readonly eve: TestClient
  readonly advance: (ms: number) => Promise<void>
}

function newStage(): Stage {
  const world = newWorld(new FakeRuntime())
  const { service } = world
  return {
    world,
    alice: newClient(world, 'alice', { service }),
    bob: newClient(world, 'bob', { service }),
    carol: newClient(world, 'carol', { service }),
    eve: newClient(world, 'eve'),
    advance: (ms) => world.runtime.advance(ms),
  }
}

/** Counts commits from now on. */
function countCommits(store: MemoryStore): () => number {
  let commits = 0
  store.follow(() => (commits += 1))
  return () => commits
}

async function typesOf(tenure: Tenure): Promise<readonly string[]> {
  const entries = await tenure.history({ resource: RESOURCE })
  return entries.map(({ event }) => event.type)
}

describe('a waiter in the process of the holder', () => {
  it('has the lease with the commit that released it, and claims nothing by itself', async () => {
    const { alice, bob, world, advance } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, WAIT))
    await advance(100)
    const commits = countCommits(world.store)
    await held.release()
    await world.runtime.settle()
    const lease = waiting.value()
    expect(lease).toMatchObject({ state: 'held', holder: 'bob' })
    expect(lease.fence).toBeGreaterThan(held.fence)
    expect([commits(), bob.faults.count('claim')]).toEqual([1, 0])
    const told = await typesOf(alice.tenure)
    expect(told.slice(-3)).toEqual(['lease.released', 'lease.offered', 'lease.issued'])
  })

  it('has it with that commit, too, if it is a task of the same client', async () => {
    const { alice, world, advance } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(alice.tenure.acquire(RESOURCE, WAIT))
    await advance(100)
    const commits = countCommits(world.store)
    await held.release()
    await world.runtime.settle()
    expect(waiting.value().fence).toBeGreaterThan(held.fence)
    expect([commits(), alice.faults.count('claim')]).toEqual([1, 0])
  })

  it('counts its lease from before the release was sent', async () => {
    const { alice, bob, world, advance } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { ...WAIT, ttlMs: 10_000 }))
    await advance(20_000)
    between(world.store, (send) => {
      world.runtime.stall(500)
      return send()
    })
    await held.release()
    await world.runtime.settle()
    expect(waiting.value().remainingMs).toBe(9_400)
  })

  it('is passed over when somebody of another process is before it, and keeps its place', async () => {
    const { alice, bob, eve, world, advance } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const other = follow(eve.tenure.acquire(RESOURCE, WAIT))
    await advance(10)
    const own = follow(bob.tenure.acquire(RESOURCE, WAIT))
    await advance(100)
    await held.release()
    await world.runtime.settle()
    expect([other.value().holder, own.isPending()]).toEqual(['eve', true])
    await advance(4_000)
    await other.value().release()
    await world.runtime.settle()
    expect(own.value().holder).toBe('bob')
  })

  it('keeps its place by its own claim, on time, however many releases pass it over', async () => {
    const { alice, bob, eve, world, advance } = newStage()
    const held = await alice.tenure.acquire(RESOURCE, { mode: 'shared' })
    await eve.tenure.acquire(RESOURCE, { mode: 'shared' })
    const waiting = follow(bob.tenure.acquire(RESOURCE, WAIT))
    await advance(1_000)
    await held.release()
    await advance(600)
    expect(bob.faults.count('claim')).toBe(0)
    await advance(100)
    expect(bob.faults.count('claim')).toBe(1)
    await advance(20_000)
    const [ticket] = (await world.service.list({ holder: 'bob' })).leases
    expect([ticket?.state, waiting.isPending()]).toEqual(['pending', true])
  })

  it('goes before those who asked before it if its priority says so', async () => {
    const { alice, bob, carol, world, advance } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const patient = follow(bob.tenure.acquire(RESOURCE, WAIT))
    await advance(10)
    const urgent = follow(carol.tenure.acquire(RESOURCE, { ...WAIT, priority: 5 }))
    await advance(10)
    const commits = countCommits(world.store)
    await held.release()
    await world.runtime.settle()
    expect([urgent.value().holder, patient.isPending(), commits()]).toEqual(['carol', true, 1])
  })

  it('hears of its lease although the answer to the release was lost', async () => {
    const { alice, bob, world, advance } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, { ...WAIT, ttlMs: 10_000 }))
    await advance(100)
    loseCommits(world.store, 1)
    const released = follow(held.release())
    await advance(200)
    expect(waiting.value()).toMatchObject({ state: 'held', holder: 'bob' })
    expect(waiting.value().remainingMs).toBeLessThanOrEqual(9_900 - 50)
    expect(released.isPending()).toBe(false)
  })

  it('gives back what it is given while it is called off', async () => {
    const { alice, bob, carol, world, advance } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const controller = new AbortController()
    const { signal } = controller
    const waiting = follow(bob.tenure.acquire(RESOURCE, { ...WAIT, signal }))
    await advance(100)
    between(world.store, (send) => {
      controller.abort()
      return send()
    })
    await held.release()
    await advance(0)
    expect(waiting.error()).toMatchObject({ code: 'ABORTED', effect: 'unknown' })
    expect((await world.service.list({ holder: 'bob' })).leases).toEqual([])
    expect((await carol.tenure.acquire(RESOURCE)).holder).toBe('carol')
  })

  it('does not rely on a release that comes after its service was closed', async () => {
    const { alice, bob, world, advance } = newStage()
    const { runtime, store, service } = world
    const leave = (): Promise<void> => Promise.resolve()
    const own = new LeaseService({ store, runtime, sharing: service, leave })
    const dave = newClient(world, 'dave', { service: own })
    const held = await dave.tenure.acquire(RESOURCE, { ttlMs: 3_000, autoRenew: false })
    const waiting = follow(bob.tenure.acquire(RESOURCE, WAIT))
    const behind = follow(alice.tenure.acquire(RESOURCE, WAIT))
    await advance(100)
    await own.close()
    await expect(held.release()).rejects.toMatchObject({ code: 'CLOSED' })
    await advance(3_000 + CLAIM_WINDOW_MS_DEFAULT)
    expect([waiting.value().holder, behind.isPending()]).toEqual(['bob', true])
  })

  it('that was called off is not concerned with a release that fails', async () => {
    const { alice, bob, world, advance } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const controller = new AbortController()
    const { signal } = controller
    const waiting = follow(bob.tenure.acquire(RESOURCE, { ...WAIT, signal }))
    await advance(100)
    bob.faults.when('withdraw', async (send) => {
      await new Promise<void>((resolve) => void setImmediate(resolve))
      return send()
    })
    const fail = first(1, failWith('STORE_UNAVAILABLE'))
    between(world.store, (send) => {
      controller.abort()
      return fail(send, [])
    })
    follow(held.release())
    await advance(1_000)
    expect([waiting.error().code, held.state]).toEqual(['ABORTED', 'released'])
  })

  it('is left alone while its own claim is under way', async () => {
    const { alice, bob, world, advance } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const waiting = follow(bob.tenure.acquire(RESOURCE, WAIT))
    bob.faults.when('claim', first(1, hang))
    await advance(2_000)
    const commits = countCommits(world.store)
    await held.release()
    await world.runtime.settle()
    expect([waiting.isPending(), commits()]).toEqual([true, 1])
    const [ticket] = (await world.service.list({ holder: 'bob' })).leases
    expect([ticket?.state, ticket?.fence !== null]).toEqual(['pending', true])
  })

  it('is one of several in one client, and they are served in order', async () => {
    const { alice, world, advance } = newStage()
    const held = await alice.tenure.acquire(RESOURCE)
    const waits = [1, 2, 3].map(() => follow(newClientOf(world).acquire(RESOURCE, WAIT)))
    await advance(100)
    const commits = countCommits(world.store)
    let lease = held
    for (const wait of waits) {
      await lease.release()
      await world.runtime.settle()
      lease = wait.value()
    }
    expect(commits()).toBe(waits.length)
  })
})

function newClientOf(world: World): Tenure {
  return newClient(world, 'dave', { service: world.service }).tenure
}

/** The next commits are made, but nobody hears of them. */
function loseCommits(store: MemoryStore, times: number): void {
  const lose = first(times, loseAnswer)
  between(store, (send) => lose(send, []))
}

/** Puts itself between whoever asks and the store. */
function between(
  store: MemoryStore,
  meddle: (send: () => Promise<unknown>) => Promise<unknown>,
): void {
  const transact: MemoryStore['transact'] = store.transact.bind(store)
  vi.spyOn(store, 'transact').mockImplementation((readSets, decide) => {
    return meddle(() => transact(readSets, decide))
  })
}

it('waiters behind a quick queue look soon once the resource is left to its end', async () => {
  const { alice, advance } = newStage()
  const options = { ttlMs: 1_000, waitMs: 600_000, autoRenew: false }
  const tasks = Array.from({ length: 40 }, () => follow(alice.tenure.acquire(RESOURCE, options)))
  await advance(10)
  for (const task of tasks.slice(0, 30)) {
    await task.value().release()
    await advance(10)
  }
  tasks[30]?.value().abandon()
  expect(tasks[31]?.isPending()).toBe(true)
  await advance(options.ttlMs + CLAIM_WINDOW_MS_DEFAULT)
  expect(tasks[31]?.isPending()).toBe(false)
  await alice.tenure.close()
})
