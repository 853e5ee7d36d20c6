/** What an optimistic store must not believe: that an id means what it meant, that its clock is right, that it is full. */
import { describe, expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { Group, GroupReply } from '../../src/store/optimistic/backend.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { ReferenceBackend } from '../../src/testing/reference-backend.ts'
import { ownLease } from './own-lease.ts'
import { ServerTicks } from './server-ticks.ts'

const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`

function wish(n: number, resource: string) {
  return {
    id: idOf(n),
    resource: parseResource(resource),
    holder: `h${n}`,
    session: `s${n}`,
    ttlMs: 60_000,
    waitMs: 0,
  }
}

describe('an entry whose id was used before, where no history is kept', () => {
  it('is not taken for the one that another process remembers', async () => {
    const ticks = new ServerTicks()
    const backend = ticks.drive(new ReferenceBackend({ ticks }))
    const open = async (): Promise<LeaseService> => {
      const store = await OptimisticStore.open(backend, systemRuntime, ticks.time)
      return new LeaseService({ store, runtime: systemRuntime })
    }
    const [waiter, bystander, other] = [await open(), await open(), await open()]
    await other.configure({
      key: 'keep_history',
      value: 'false',
      scope: 'global',
      resourceId: null,
    })
    const [a, b] = ['work:A', 'work:B']

    // B is taken, so whoever wants A and B waits in both; A itself is free.
    expect((await other.acquire(wish(1, b))).kind).toBe('granted')
    const members = [
      { id: idOf(2), resource: parseResource(a) },
      { id: idOf(3), resource: parseResource(b) },
    ]
    const both = { group: idOf(9), members, holder: 'w', session: 'w', ttlMs: 60_000 }
    expect((await waiter.acquireAll({ ...both, waitMs: 60_000 })).kind).toBe('queued_all')
    // The bystander hears of the ticket in A, and remembers it.
    expect((await bystander.acquire(wish(4, a))).kind).toBe('held')
    // The waiter is not heard of for a window: its ticket is dropped, and nothing is kept of it.
    ticks.pass(6_000)
    expect((await other.acquire(wish(5, a))).kind).toBe('granted')
    expect((await other.release(ownLease(wish(5, a)))).kind).toBe('released')
    expect((await other.release(ownLease(wish(1, b)))).kind).toBe('released')
    // It comes back, asks anew under its ids, and gets both.
    const tickets = members.map((member) => ({ ...member, holder: both.holder, session: 'w' }))
    expect((await waiter.claimAll({ tickets })).kind).toBe('dropped')
    expect((await waiter.acquireAll({ ...both, waitMs: 60_000 })).kind).toBe('granted_all')
    // What the bystander remembers is a ticket that is over by now; what is there is a lease.
    expect((await bystander.acquire(wish(6, a))).kind).toBe('held')
    const own = {
      id: idOf(2),
      resource: parseResource(a),
      holder: both.holder,
      requestId: idOf(77),
    }
    expect((await waiter.renew(own)).kind).toBe('renewed')
  })
})

describe('a server that has stopped answering', () => {
  it('does not keep its store from closing, and gets nothing more to do', async () => {
    const ticks = new ServerTicks()
    const backend = new ReferenceBackend({ ticks })
    const runtime = new FakeRuntime()
    const store = await OptimisticStore.open(ticks.drive(backend), runtime, ticks.time)
    const api = new LeaseService({ store, runtime })
    let calls = 0
    backend.attempt = () => {
      calls += 1
      return new Promise(() => undefined)
    }
    void api.acquire(wish(1, 'work:A'))
    await runtime.settle()
    const unsent = api.acquire(wish(2, 'work:A')).catch((error: unknown) => error)
    await runtime.settle()
    let isClosed = false
    void store.close().then(() => (isClosed = true))
    await runtime.advance(999)
    expect(isClosed).toBe(false)
    await runtime.advance(1)
    expect(isClosed).toBe(true)
    expect(await unsent).toMatchObject({ code: 'CLOSED', effect: 'none' })
    expect(calls).toBe(1)
  })
})

describe('a driver that sends a call twice and hears the second answer only', () => {
  it('makes the end of the call unknown if the next one fails: something was written', async () => {
    const ticks = new ServerTicks()
    const backend = new ReferenceBackend({ ticks })
    const store = await OptimisticStore.open(ticks.drive(backend), systemRuntime, ticks.time)
    const api = new LeaseService({ store, runtime: systemRuntime })
    const attempt = backend.attempt.bind(backend)
    let calls = 0
    backend.attempt = async (group) => {
      calls += 1
      if (calls > 1) throw new LeaseError('STORE_UNAVAILABLE', 'the server is away')
      await attempt(group)
      return attempt(group)
    }
    const error: unknown = await api.acquire(wish(1, 'work:A')).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN', effect: 'unknown' })
    backend.attempt = attempt
    expect(await api.acquire(wish(1, 'work:A'))).toMatchObject({ kind: 'granted', repeated: true })
  })
})

describe('a holder that was idle', () => {
  it('is not told more than the store will give it', async () => {
    const ticks = new ServerTicks()
    const backend = new ReferenceBackend({ ticks })
    let ms = 1_000
    const runtime = { ...systemRuntime, monotonicMs: () => ms }
    const store = await OptimisticStore.open(ticks.drive(backend), runtime)
    const api = new LeaseService({ store, runtime: systemRuntime })
    ms += 3_600_000
    ticks.pass(3_600_000)
    const sentUs = ticks.nowUs()
    const outcome = await api.acquire({ ...wish(1, 'work:A'), maxHoldMs: 5_000 })
    if (outcome.kind !== 'granted') throw new Error(outcome.kind)
    const { remainingMs, deadline } = outcome.lease
    const leftMs = ((deadline?.us ?? 0) - sentUs) / 1_000
    expect(Math.min(remainingMs, 60_000)).toBeLessThanOrEqual(leftMs + 1)
  })

  it('does not hold on to a short lease for long after it died', async () => {
    const ticks = new ServerTicks()
    const backend = new ReferenceBackend({ ticks })
    let ms = 1_000
    const runtime = { ...systemRuntime, monotonicMs: () => ms }
    const store = await OptimisticStore.open(ticks.drive(backend), runtime)
    const api = new LeaseService({ store, runtime: systemRuntime })
    ms += 86_400_000
    ticks.pass(86_400_000)
    const outcome = await api.acquire({ ...wish(1, 'work:A'), ttlMs: 5_000 })
    if (outcome.kind !== 'granted') throw new Error(outcome.kind)
    const lastsMs = ((outcome.lease.deadline?.us ?? 0) - ticks.nowUs()) / 1_000
    expect(lastsMs).toBeLessThanOrEqual(5_000 + 1_000)
  })
})

describe('a renewal', () => {
  it('does not wait for somebody of the same process who keeps missing', async () => {
    const ticks = new ServerTicks()
    const kept = new ReferenceBackend({ ticks })
    // Others keep changing what lies below the root: whoever asks for all of it misses.
    const backend = new Proxy(ticks.drive(kept), {
      get: (target, name) => {
        if (name !== 'attempt') {
          const member: unknown = Reflect.get(target, name)
          return typeof member === 'function' ? member.bind(target) : member
        }
        return (group: Group): Promise<GroupReply> => {
          const attempts = group.attempts.map((attempt) => {
            const isWide = attempt.places[0]?.readSet.leaseId === idOf(2)
            return isWide ? { ...attempt, beforeUs: 0 } : attempt
          })
          return target.attempt({ ...group, attempts })
        }
      },
    })
    const store = await OptimisticStore.open(backend, systemRuntime, ticks.time)
    const api = new LeaseService({ store, runtime: systemRuntime })
    expect((await api.acquire(wish(1, 'file:/a'))).kind).toBe('granted')
    let hasGivenUp = false
    const wide = api
      .acquire({ ...wish(2, 'file:/'), extent: 'subtree' })
      .catch(() => null)
      .finally(() => (hasGivenUp = true))
    await new Promise((resolve) => setTimeout(resolve, 10))
    ticks.pass(1_000)
    expect((await api.renew(ownLease(wish(1, 'file:/a')))).kind).toBe('renewed')
    expect(hasGivenUp).toBe(false)
    await wide
  })
})

it('a full queue is told by the server, not from memory', async () => {
  const ticks = new ServerTicks()
  const driven = ticks.drive(new ReferenceBackend({ ticks }))
  let full = true
  const backend = new Proxy(driven, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name)
      if (name !== 'attempt') return typeof member === 'function' ? member.bind(target) : member
      return async (group: Group): Promise<GroupReply> => {
        const reply = await target.attempt(group)
        const replies = reply.replies.map((one) => {
          if (one.kind !== 'missed' || !full) return one
          return { ...one, views: one.views.map((view) => ({ ...view, ticketCount: 10_000 })) }
        })
        return { ...reply, replies }
      }
    },
  })
  const open = async (): Promise<LeaseService> => {
    const store = await OptimisticStore.open(backend, systemRuntime, ticks.time)
    return new LeaseService({ store, runtime: systemRuntime })
  }
  const [a, b] = [await open(), await open()]
  expect((await a.acquire(wish(1, 'file:/a'))).kind).toBe('granted')
  expect((await b.acquire({ ...wish(2, 'file:/a'), waitMs: 60_000 })).kind).toBe('queue_full')
  // The others have gone.
  full = false
  expect((await b.acquire({ ...wish(3, 'file:/a'), waitMs: 60_000 })).kind).toBe('queued')
})
