/** What a store that decides before it asks asks of its server, and what it does when it was wrong. */
import { describe, expect, it, vi } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { parseResource } from '../../src/core/resource.ts'
import { setImmediate, systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { Store } from '../../src/store-port/store.ts'
import type { Backend, Group, GroupReply } from '../../src/store/optimistic/backend.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { ReferenceBackend } from '../../src/testing/reference-backend.ts'
import { ownLease } from './own-lease.ts'
import { ServerTicks } from './server-ticks.ts'

interface Server {
  readonly ticks: ServerTicks
  readonly backend: ReferenceBackend
  /** As stores see it, with the clock of the test. */
  readonly driven: Backend
  open(): Promise<LeaseService>
}

function startServer(): Server {
  const ticks = new ServerTicks()
  const backend = new ReferenceBackend({ ticks })
  const driven = ticks.drive(backend)
  return {
    ticks,
    backend,
    driven,
    open: async () => {
      const store = await OptimisticStore.open(driven, systemRuntime, ticks.time)
      return new LeaseService({ store, runtime: systemRuntime })
    },
  }
}

const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`

function wish(n: number, resource = 'work:W-1') {
  return {
    id: idOf(n),
    resource: parseResource(resource),
    holder: `h${n}`,
    session: `s${n}`,
    ttlMs: 10_000,
    waitMs: 0,
  }
}

describe('an uncontended command', () => {
  it.each(['work:W-1', 'file:/src/a.ts'])('costs one call each: %s', async (resource) => {
    const { backend, ticks, open } = startServer()
    const api = await open()
    const asked = wish(1, resource)
    const countOf = async (call: () => Promise<{ readonly kind: string }>): Promise<unknown> => {
      const before = backend.calls
      const { kind } = await call()
      return [kind, backend.calls - before]
    }
    expect(await countOf(() => api.acquire(asked))).toEqual(['granted', 1])
    ticks.pass(1_000)
    expect(await countOf(() => api.renew(ownLease(asked)))).toEqual(['renewed', 1])
    expect(await countOf(() => api.release(ownLease(asked)))).toEqual(['released', 1])
    const again = wish(2, resource)
    expect(await countOf(() => api.acquire(again))).toEqual(['granted', 1])
    expect(backend.misses).toBe(0)
  })

  it('costs one call where another process was before', async () => {
    const { backend, open } = startServer()
    const [one, other] = [await open(), await open()]
    await one.acquire(wish(1))
    await one.release(ownLease(wish(1)))
    const before = backend.calls
    expect(await other.acquire(wish(2))).toMatchObject({ kind: 'granted' })
    expect(backend.calls - before).toBe(1)
    expect(backend.misses).toBe(0)
  })
})

describe('a refused command', () => {
  it('costs one call; the refusals of a second are counted in one more, which nobody waits for', async () => {
    const { backend, driven, ticks } = startServer()
    const counted: number[] = []
    const counting = new Proxy(driven, {
      get(target, name) {
        if (name === 'countRefusals') {
          return async (refusals: readonly unknown[]) => void counted.push(refusals.length)
        }
        const member: unknown = Reflect.get(target, name)
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
    const runtime = new FakeRuntime()
    const store = await OptimisticStore.open(counting, runtime, ticks.time)
    const api = new LeaseService({ store, runtime })
    await api.acquire(wish(1))
    const before = backend.calls
    for (const n of [2, 3, 4]) expect(await api.acquire(wish(n))).toMatchObject({ kind: 'held' })
    const others = ownLease({ ...wish(1), holder: 'h5' })
    expect(await api.renew(others)).toMatchObject({ kind: 'not_holder' })
    expect(backend.calls - before).toBe(4)
    expect(counted).toEqual([1])
    await runtime.advance(1_000)
    expect(counted).toEqual([1, 3])
    expect(backend.misses).toBe(0)
  })
})

it('a thousand renewals of one process need at most ten calls', async () => {
  const { backend, ticks, open } = startServer()
  const api = await open()
  const wishes = Array.from({ length: 1_000 }, (_, n) => wish(n, `work:W-${n}`))
  await Promise.all(wishes.map((one) => api.acquire(one)))
  ticks.pass(1_000)
  const before = backend.calls
  const answers = await Promise.all(wishes.map((one) => api.renew(ownLease(one))))
  expect(answers.every(({ kind }) => kind === 'renewed')).toBe(true)
  expect(backend.calls - before).toBeLessThanOrEqual(10)
})

it('a renewal goes before two thousand requests that wait to be sent already', async () => {
  const { backend, ticks, open } = startServer()
  const api = await open()
  await api.acquire(wish(1))
  ticks.pass(1_000)
  const attempt = vi.spyOn(backend, 'attempt')
  const others = Array.from({ length: 2_000 }, (_, n) => api.acquire(wish(n + 2, `work:O-${n}`)))
  expect(await api.renew(ownLease(wish(1)))).toMatchObject({ kind: 'renewed' })
  const renewed = attempt.mock.calls.findIndex(([{ attempts }]) => {
    return attempts.some(({ places }) => places[0]?.readSet.leaseId === idOf(1))
  })
  expect(renewed).toBe(0)
  await Promise.all(others)
})

it('renewals of a thousand sharers of one resource need at most ten calls', async () => {
  const { backend, ticks, open } = startServer()
  const api = await open()
  const wishes = Array.from({ length: 1_000 }, (_, n) => ({ ...wish(n), mode: 'shared' as const }))
  for (const one of wishes) await api.acquire(one)
  ticks.pass(1_000)
  const before = backend.calls
  await Promise.all(wishes.map((one) => api.renew(ownLease(one))))
  expect(backend.calls - before).toBeLessThanOrEqual(10)
})

describe('a renewal', () => {
  it('lasts a whole TTL, whatever the time that it was decided at', async () => {
    const { driven, ticks, open } = startServer()
    let behindUs = 0
    const lowerUs = (): number => ticks.nowUs() - behindUs
    const store = await OptimisticStore.open(driven, systemRuntime, { ...ticks.time, lowerUs })
    const slept = new LeaseService({ store, runtime: systemRuntime })
    await slept.acquire(wish(1))
    ticks.pass(1_000)
    // Its host slept, and its clock with it: it believes that it is earlier than it is.
    behindUs = 500_000
    expect(await slept.renew(ownLease(wish(1)))).toMatchObject({ kind: 'renewed' })
    ticks.pass(9_900)
    const other = await open()
    expect(await other.acquire(wish(2))).toMatchObject({ kind: 'held' })
  })

  it('that leaves no event is not dated after those of other processes', async () => {
    const { backend, driven, ticks, open } = startServer()
    const off = {
      key: 'record_renewals',
      value: 'false',
      scope: 'global',
      resourceId: null,
    } as const
    await driven.configure(off)
    let behindUs = 0
    const lowerUs = (): number => ticks.nowUs() - behindUs
    const time = { ...ticks.time, lowerUs, toleranceUs: () => 1_000_000 }
    const store = await OptimisticStore.open(driven, systemRuntime, time)
    const [slow, quick] = [new LeaseService({ store, runtime: systemRuntime }), await open()]
    await slow.acquire({ ...wish(1), mode: 'shared' })
    await quick.acquire({ ...wish(2), mode: 'shared' })
    ticks.pass(1_000)
    await quick.release(ownLease(wish(2)))
    const before = backend.misses
    behindUs = 500_000
    expect(await slow.renew(ownLease(wish(1)))).toMatchObject({ kind: 'renewed' })
    expect(backend.misses).toBe(before)
  })
})

describe('a store that was wrong', () => {
  it('refuses by what is there, not by what it remembers', async () => {
    const { open } = startServer()
    const [one, other] = [await open(), await open()]
    await one.acquire(wish(1))
    expect(await other.acquire(wish(2))).toMatchObject({ kind: 'held' })
    await one.release(ownLease(wish(1)))
    expect(await other.acquire(wish(3))).toMatchObject({ kind: 'granted' })
    expect(await one.acquire(wish(4))).toMatchObject({ kind: 'held' })
  })

  it('does not miss because a stranger was renewed', async () => {
    const { backend, ticks, open } = startServer()
    const [one, other] = [await open(), await open()]
    await one.acquire({ ...wish(1), mode: 'shared' })
    await other.acquire({ ...wish(2), mode: 'shared' })
    await one.acquire({ ...wish(3), mode: 'shared' })
    const before = backend.misses
    ticks.pass(1_000)
    await other.renew(ownLease(wish(2)))
    await one.release(ownLease(wish(3)))
    expect(backend.misses).toBe(before)
  })

  it.each([
    ['before', 8_000],
    ['after', 1_000],
  ])(
    'leaves a derived lease no more time than its parent, renewed %s that is to finish',
    async (when, firstMs) => {
      const { ticks, open } = startServer()
      const [one, other] = [await open(), await open()]
      const parent = wish(1)
      const { waitMs: _, ...child } = { ...wish(2), ttlMs: 1_000 }
      await one.acquire({ ...parent, scope: {}, breakable: true })
      await one.derive({ ...child, parent: { id: parent.id }, by: parent.holder })
      expect(await other.acquire(wish(3))).toMatchObject({ kind: 'held' })
      ticks.pass(500)
      await one.renew({ ...ownLease(child), ttlMs: firstMs })
      await other.acquire({ ...wish(3), waitMs: 60_000, breakGraceMs: 2_000 })
      await one.renew({ ...ownLease(child), ttlMs: 8_000 })
      const before = await other.get({ id: parent.id })
      const after = await other.get({ id: child.id })
      expect(after?.expiresAtMs).toBe(before?.expiresAtMs)
      // One that had as much time as it wants is not asked to finish, and may go on until its parent ends.
      expect(after?.revoking?.by ?? null).toBe(when === 'before' ? 'h3' : null)
    },
  )

  it('does not compare the queue to say that a ticket is gone', async () => {
    const { backend, ticks, open } = startServer()
    const [one, other] = [await open(), await open()]
    await other.acquire(wish(1))
    await one.acquire({ ...wish(2), waitMs: 60_000 })
    const ticket = { ...ownLease(wish(2)), session: wish(2).session }
    // Nobody keeps it alive, and the one that would have drops it by what it asks for next.
    ticks.pass(8_000)
    expect(await one.acquire({ ...wish(3), waitMs: 60_000 })).toMatchObject({ kind: 'queued' })
    const attempt = vi.spyOn(backend, 'attempt')
    expect(await one.claim(ticket)).toMatchObject({ kind: 'dropped' })
    const sent = attempt.mock.calls.flatMap(([{ attempts }]) => attempts)
    expect(sent.map(({ places }) => places[0]?.claims)).toEqual([null, null])
    expect(await one.acquire({ ...wish(2), waitMs: 60_000 })).toMatchObject({ kind: 'queued' })
  })

  it('ends nothing that was renewed while it believed it to be over', async () => {
    const { ticks, open } = startServer()
    const [one, other] = [await open(), await open()]
    await one.acquire(wish(1))
    expect(await other.acquire(wish(2))).toMatchObject({ kind: 'held' })
    ticks.pass(9_000)
    await one.renew(ownLease(wish(1)))
    ticks.pass(2_000)
    expect(await other.acquire(wish(3))).toMatchObject({ kind: 'held' })
    expect(await one.renew(ownLease(wish(1)))).toMatchObject({ kind: 'renewed' })
  })

  it('gives the fences that the server gave', async () => {
    const { open } = startServer()
    const [one, other] = [await open(), await open()]
    const fenceOf = async (api: LeaseService, n: number): Promise<number> => {
      const answer = await api.acquire(wish(n))
      if (answer.kind !== 'granted') throw new Error(answer.kind)
      await api.release(ownLease(wish(n)))
      const kept = await api.get({ id: idOf(n) })
      expect(kept?.fence).toBe(answer.lease.fence)
      return answer.lease.fence ?? 0
    }
    const fences = [await fenceOf(one, 1), await fenceOf(other, 2), await fenceOf(one, 3)]
    expect(fences.toSorted((a, b) => a - b)).toEqual(fences)
    expect(new Set(fences).size).toBe(3)
  })

  it('decides again after an answer was lost, whatever it had believed', async () => {
    const { backend, open } = startServer()
    const api = await open()
    await api.acquire(wish(1))
    const attempt = backend.attempt.bind(backend)
    backend.attempt = async (group) => {
      await attempt(group)
      backend.attempt = attempt
      throw new LeaseError('STORE_OUTCOME_UNKNOWN', 'the answer was lost')
    }
    const request = { ...ownLease(wish(1)), requestId: idOf(99) }
    await expect(api.release(request)).rejects.toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN' })
    expect(await api.release(request)).toMatchObject({ kind: 'released' })
    expect(await api.acquire(wish(2))).toMatchObject({ kind: 'granted' })
  })
})

it('a mistake of ours after the commit surfaces as itself, not as an answer that was lost', async () => {
  const { driven, ticks, open } = startServer()
  // Another process takes fences of the same realm, so that the decision is made again with those that it was given.
  const other = await open()
  const store = await OptimisticStore.open(driven, systemRuntime, ticks.time)
  const mistaken = new Proxy(store, {
    get: (target, name) => {
      if (name !== 'transact') return Reflect.get(target, name)
      const transact: Store['transact'] = (readSets, decide) => {
        let decisions = 0
        return target.transact(readSets, (views, now) => {
          decisions += 1
          if (decisions > 1) throw new TypeError('our own mistake')
          return decide(views, now)
        })
      }
      return transact
    },
  })
  await other.acquire(wish(1, 'file:/src/a.ts'))
  const api = new LeaseService({ store: mistaken, runtime: systemRuntime })
  await expect(api.acquire(wish(2, 'file:/src/b.ts'))).rejects.toThrow(TypeError)
})

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

/** A backend at which somebody else files a ticket before every call but those that hold what they are about. */
async function disturbed(server: Server): Promise<[Backend, () => number]> {
  const other = await server.open()
  let [filed, held] = [100, 0]
  const attempt: Backend['attempt'] = async (group) => {
    if (group.attempts.length > 0) await other.acquire({ ...wish((filed += 1)), waitMs: 1_000 })
    return server.driven.attempt(group)
  }
  const holding: Backend['holding'] = async (work) => {
    held += 1
    return work((group) => server.driven.attempt(group))
  }
  const own = { attempt, holding }
  const backend = new Proxy(server.driven, {
    get: (target, name) => Reflect.get(own, name) ?? Reflect.get(target, name),
  })
  return [backend, () => held]
}

describe('whoever keeps missing', () => {
  it('decides while nobody else can change anything', async () => {
    const server = startServer()
    await (await server.open()).acquire(wish(1))
    const [backend, timesHeld] = await disturbed(server)
    // Without pauses between the tries.
    const hasty = { ...systemRuntime, random: () => 0 }
    const store = await OptimisticStore.open(backend, hasty, server.ticks.time)
    const api = new LeaseService({ store, runtime: systemRuntime })
    expect(await api.acquire({ ...wish(2), waitMs: 1_000 })).toMatchObject({ kind: 'queued' })
    expect(timesHeld()).toBe(1)
  })

  it('does so soon in a long queue, which each of its tries reads', async () => {
    const server = startServer()
    const other = await server.open()
    for (let n = 0; n < 70; n += 1) await other.acquire({ ...wish(200 + n), waitMs: 1_000 })
    const [backend, timesHeld] = await disturbed(server)
    const store = await OptimisticStore.open(backend, systemRuntime, server.ticks.time)
    const api = new LeaseService({ store, runtime: systemRuntime })
    const before = server.backend.misses
    expect(await api.acquire({ ...wish(2), waitMs: 1_000 })).toMatchObject({ kind: 'queued' })
    expect(timesHeld()).toBe(1)
    expect(server.backend.misses - before).toBeLessThanOrEqual(10)
  })

  it('takes those along that would be next', async () => {
    const server = startServer()
    await (await server.open()).acquire(wish(1))
    const [backend, timesHeld] = await disturbed(server)
    const hasty = { ...systemRuntime, random: () => 0 }
    // Each of them is decided at a time of its own, so that some has to pass.
    const lowerUs = (): number => {
      server.ticks.pass(1)
      return server.ticks.nowUs()
    }
    const time = { ...server.ticks.time, lowerUs, toleranceUs: () => 1_000_000 }
    const store = await OptimisticStore.open(backend, hasty, time)
    const api = new LeaseService({ store, runtime: systemRuntime })
    const wishes = Array.from({ length: 20 }, (_, n) => ({ ...wish(n + 2), waitMs: 1_000 }))
    const answers = await Promise.all(wishes.map((one) => api.acquire(one)))
    expect(answers).toMatchObject(wishes.map(() => ({ kind: 'queued' })))
    expect(timesHeld()).toBe(1)
  })

  it('does so after another of its process, so that a connection is left for every other call', async () => {
    const server = startServer()
    const other = await server.open()
    const resources = ['work:W-1', 'work:W-2', 'work:W-3']
    let [filed, holding, holdingMost] = [100, 0, 0]
    const own: Pick<Backend, 'attempt' | 'holding'> = {
      attempt: async (group) => {
        for (const resource of group.attempts.length > 0 ? resources : []) {
          await other.acquire({ ...wish((filed += 1), resource), waitMs: 1_000 })
        }
        return server.driven.attempt(group)
      },
      holding: async (work) => {
        holding += 1
        holdingMost = Math.max(holdingMost, holding)
        // Meanwhile the others go on missing.
        for (let turns = 0; turns < 20; turns += 1) await turn()
        const result = await work((group) => server.driven.attempt(group))
        holding -= 1
        return result
      },
    }
    const backend = new Proxy(server.driven, {
      get: (target, name) => Reflect.get(own, name) ?? Reflect.get(target, name),
    })
    const hasty = { ...systemRuntime, random: () => 0 }
    const store = await OptimisticStore.open(backend, hasty, server.ticks.time)
    const api = new LeaseService({ store, runtime: systemRuntime })
    const wishes = resources.map((resource, n) => ({ ...wish(n + 1, resource), waitMs: 1_000 }))
    const answers = await Promise.all(wishes.map((one) => api.acquire(one)))
    expect(answers).toMatchObject(wishes.map(() => ({ kind: 'queued' })))
    expect(holdingMost).toBe(1)
  })
})

it('a waiter for several resources that is woken sees what another process has released', async () => {
  const { ticks, open } = startServer()
  const [holder, waiting] = [await open(), await open()]
  await holder.acquire(wish(1))
  const { id, resource, ...common } = { ...wish(2), waitMs: 60_000 }
  const { holder: name, session } = common
  const asked = { ...common, group: idOf(9), members: [{ id, resource }] }
  expect(await waiting.acquireAll(asked)).toMatchObject({ kind: 'queued_all' })
  ticks.pass(1_000)
  await holder.release(ownLease(wish(1)))
  const tickets = [{ id, resource, holder: name, session }]
  expect(await waiting.claimAll({ tickets })).toMatchObject({ kind: 'granted_all' })
})

describe('a call that hangs while the server is well', () => {
  /** A service on a store whose calls hang from now on, as long as it is told to. */
  async function startHanging() {
    const { driven, ticks } = startServer()
    const hung: (() => void)[] = []
    const state = { hangs: false }
    const hanging = new Proxy(driven, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name)
        if (name === 'attempt' && state.hangs) {
          return (group: Group) => {
            return new Promise<GroupReply>((resolve, reject) => {
              hung.push(() => void target.attempt(group).then(resolve, reject))
            })
          }
        }
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
    const runtime = new FakeRuntime()
    const store = await OptimisticStore.open(hanging, runtime, ticks.time)
    const api = new LeaseService({ store, runtime })
    return { api, state, hung, runtime, ticks }
  }

  it('keeps no later renewal of the lease back', async () => {
    const { api, state, hung, runtime } = await startHanging()
    await api.acquire(wish(1))
    state.hangs = true
    const first = api.renew(ownLease(wish(1)))
    await runtime.settle()
    state.hangs = false
    await runtime.advance(1_000)
    expect(await api.renew(ownLease(wish(1)))).toMatchObject({ kind: 'renewed' })
    for (const arrive of hung) arrive()
    expect(await first).toMatchObject({ kind: 'renewed' })
  })

  it('keeps nothing back that was asked for while it was not overdue', async () => {
    const { api, state, runtime } = await startHanging()
    await api.acquire(wish(1))
    state.hangs = true
    void api.renew(ownLease(wish(1)))
    await runtime.settle()
    state.hangs = false
    const released = api.release(ownLease(wish(1)))
    await runtime.advance(1_000)
    expect(await released).toMatchObject({ kind: 'released' })
    expect(runtime.pendingTimers).toBe(0)
  })

  it('leaves the way free for other leases, however many such calls there are', async () => {
    const { api, state, runtime } = await startHanging()
    state.hangs = true
    for (const n of [1, 2, 3]) {
      void api.acquire(wish(n, `work:W-${n}`))
      await runtime.settle()
    }
    await runtime.advance(1_000)
    state.hangs = false
    expect(await api.acquire(wish(4, 'work:W-4'))).toMatchObject({ kind: 'granted' })
  })

  it('is not followed by more and more of them while the server answers none', async () => {
    const { api, state, hung, runtime } = await startHanging()
    state.hangs = true
    for (let n = 1; n <= 100; n += 1) {
      void api.acquire(wish(n, `work:W-${n}`))
      await runtime.advance(100)
    }
    expect(hung.length).toBeLessThanOrEqual(4)
    state.hangs = false
    while (hung.length > 0) {
      hung.shift()?.()
      await runtime.settle()
    }
    expect(await api.acquire(wish(101, 'work:W-101'))).toMatchObject({ kind: 'granted' })
  })
})
