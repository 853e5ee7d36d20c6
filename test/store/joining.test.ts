/** Whoever keeps missing on a busy queue gets in line behind the youngest, and nobody else is held up for it. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import type { Runtime } from '../../src/runtime/runtime.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { AcquireRequest, LeaseApi, TicketRef } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { openPostgresBackend } from '../../src/store/postgres/postgres-store.ts'
import { openRedisBackend } from '../../src/store/redis/redis-store.ts'
import type { Backend, Reply } from '../../src/store/optimistic/backend.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { freshDatabase, freshRedis, type Place } from '../servers/shared-servers.ts'
import { ownLease } from './own-lease.ts'
import { ServerTicks } from './server-ticks.ts'

const RESOURCE = parseResource('work:W-1')

function wish(): AcquireRequest {
  const leaseId = systemRuntime.uuid()
  const who = { holder: leaseId, session: leaseId }
  return { id: leaseId, resource: RESOURCE, ...who, ttlMs: 60_000, waitMs: 60_000 }
}

function ticketOf({ id, resource, holder, session }: AcquireRequest): TicketRef {
  return { id, resource, holder, session }
}

interface Options {
  readonly url: string
  readonly nowUs: () => number
}

const SERVERS = [
  ['postgres', freshDatabase, (options: Options) => openPostgresBackend(options)],
  ['redis', freshRedis, (options: Options) => openRedisBackend(options)],
] as const

/**
 * Without pauses between the tries: nobody here has to get out of step. And without a clock that goes on: it is the
 * number of tries that counts, however long they take.
 */
const HASTY: Runtime = { ...systemRuntime, random: () => 0, monotonicMs: () => 0 }
/** More than others do between a decision and its call. */
const TOLERANCE_US = 1_000_000

describe.each(SERVERS)('on %s', (_name, freshPlace, openBackend) => {
  let place: Place
  let other: LeaseApi
  let backend: Backend
  let api: LeaseApi
  let ticks: ServerTicks

  beforeEach(async () => {
    place = await freshPlace()
    ticks = new ServerTicks()
    const options = { url: place.url, nowUs: ticks.nowUs }
    const time = { ...ticks.time, toleranceUs: () => TOLERANCE_US }
    const serve = async (server: Backend, runtime: Runtime): Promise<LeaseApi> => {
      const store = await OptimisticStore.open(ticks.drive(server), runtime, time)
      return new LeaseService({ store, runtime: systemRuntime })
    }
    other = await serve(await openBackend(options), systemRuntime)
    backend = await openBackend(options)
    api = await serve(backend, HASTY)
  })

  afterEach(async () => {
    await api.close()
    await other.close()
    await place.remove()
  })

  /** Somebody else does this before each call that reaches the server. */
  function beforeEachCall(disturb: () => Promise<unknown>): void {
    const { attempt } = backend
    backend.attempt = async (group) => {
      if (group.attempts.length > 0) await disturb()
      return attempt.call(backend, group)
    }
  }

  async function waiting(): Promise<readonly string[]> {
    return (await other.inspect({ resource: RESOURCE })).queue.map(({ id }) => id)
  }

  it('a lease is shown as it is to a process that takes it for over, because it was renewed since', async () => {
    const held = wish()
    await other.acquire(held)
    const refused = async (): Promise<string> => (await api.acquire({ ...wish(), waitMs: 0 })).kind
    expect(await refused()).toBe('held')
    ticks.pass(50_000)
    expect(await other.renew({ ...ownLease(held), requestId: wish().id })).toMatchObject({
      kind: 'renewed',
    })
    ticks.pass(20_000)
    let calls = 0
    beforeEachCall(async () => void (calls += 1))
    expect(await refused()).toBe('held')
    expect(calls).toBe(2)
  })

  it('while those before it come and go', async () => {
    const queue = Array.from({ length: 60 }, wish)
    for (const one of queue) await other.acquire(one)
    const leaving = queue.slice(1)
    beforeEachCall(async () => {
      const first = leaving.shift()
      if (first !== undefined) await other.withdraw({ ...ticketOf(first), why: 'aborted' })
    })
    const holding = 'holding' in backend ? vi.spyOn(backend, 'holding') : null
    const asked = wish()
    expect(await api.acquire(asked)).toMatchObject({ kind: 'queued' })
    expect(leaving.length).toBeGreaterThan(30)
    if (holding !== null) expect(holding).not.toHaveBeenCalled()
    expect((await waiting()).at(-1)).toBe(asked.id)
  })

  it('but not before others who came after that one', async () => {
    for (const one of [wish(), wish()]) await other.acquire(one)
    let coming = 20
    beforeEachCall(async () => {
      coming -= 1
      if (coming >= 0) await other.acquire(wish())
    })
    const asked = wish()
    expect(await api.acquire(asked)).toMatchObject({ kind: 'queued' })
    expect(coming).toBeLessThan(0)
    expect((await waiting()).at(-1)).toBe(asked.id)
  })

  describe('in a long queue', () => {
    const queue = Array.from({ length: 70 }, wish)

    beforeEach(async () => {
      for (const one of queue) await other.acquire(one)
    })

    it('as soon as it knows who is the last, whoever leaves before that one', async () => {
      const leaving = queue.slice(1)
      let calls = 0
      beforeEachCall(async () => {
        calls += 1
        const first = leaving.shift()
        if (first !== undefined) await other.withdraw({ ...ticketOf(first), why: 'aborted' })
      })
      expect(await api.acquire(wish())).toMatchObject({ kind: 'queued' })
      expect(calls).toBe(2)
    })

    it('also when a lease was made after the last ticket, as a transfer does', async () => {
      const [{ id: leaseId, holder }] = queue as [AcquireRequest]
      const requestId = systemRuntime.uuid()
      const given = { newId: systemRuntime.uuid(), to: 'eve' }
      await other.transfer({ id: leaseId, holder, requestId, ...given })
      const asked = wish()
      let calls = 0
      beforeEachCall(async () => void (calls += 1))
      expect(await api.acquire(asked)).toMatchObject({ kind: 'queued', position: 69 })
      expect(calls).toBeLessThanOrEqual(3)
      expect((await waiting()).at(-1)).toBe(asked.id)
    })

    it('and is told of those who came meanwhile, which is all that it compares', async () => {
      const told: Extract<Reply, { kind: 'missed' }>[] = []
      let coming = 4
      const { attempt } = backend
      // Else PostgreSQL keeps the others out after the first of these.
      Object.assign(backend, { holding: undefined })
      backend.attempt = async (group) => {
        if (group.attempts.length > 0 && (coming -= 1) >= 0) await other.acquire(wish())
        const reply = await attempt.call(backend, group)
        told.push(...reply.replies.filter((one) => one.kind === 'missed'))
        return reply
      }
      const asked = wish()
      expect(await api.acquire(asked)).toMatchObject({ kind: 'queued', position: 73 })
      expect(told.map(({ views }) => views[0]?.entries.length)).toEqual([71, 72, 73, 74])
      const parts = told.map(({ views }) => views[0]?.isPartial === true)
      expect(parts).toEqual([false, true, true, true])
      expect((await waiting()).at(-1)).toBe(asked.id)
    })
  })
})
