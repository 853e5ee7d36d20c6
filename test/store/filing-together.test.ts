/** Requests of one process that wait for the same resource are filed together, in their order, in few calls. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { AcquireRequest, LeaseApi } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { Store } from '../../src/store-port/store.ts'
import type { Backend } from '../../src/store/optimistic/backend.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { openPostgresBackend } from '../../src/store/postgres/postgres-store.ts'
import { openRedisBackend } from '../../src/store/redis/redis-store.ts'
import { ReferenceBackend } from '../../src/testing/reference-backend.ts'
import { freshDatabase, freshRedis } from '../servers/shared-servers.ts'
import { ownLease } from './own-lease.ts'
import { ServerTicks } from './server-ticks.ts'

const RESOURCE = parseResource('work:W-1')
const WAITERS = 200

interface Server {
  connect(): Promise<Backend>
  remove(): Promise<void>
}

const SERVERS: readonly (readonly [string, (ticks: ServerTicks) => Promise<Server>])[] = [
  [
    'the reference server',
    async (ticks) => {
      const backend = new ReferenceBackend({ ticks })
      return { connect: async () => backend, remove: async () => undefined }
    },
  ],
  [
    'postgres',
    async ({ nowUs }) => {
      const { url, remove } = await freshDatabase()
      return { connect: () => openPostgresBackend({ url, nowUs }), remove }
    },
  ],
  [
    'redis',
    async ({ nowUs }) => {
      const { url, remove } = await freshRedis()
      return { connect: () => openRedisBackend({ url, nowUs }), remove }
    },
  ],
]

function wish(waitMs = 60_000): AcquireRequest {
  const id = systemRuntime.uuid()
  return { id, resource: RESOURCE, holder: id, session: id, ttlMs: 60_000, waitMs }
}

describe.each(SERVERS)('on %s', (_name, start) => {
  let server: Server
  let ticks: ServerTicks
  let other: LeaseApi
  let api: LeaseApi
  let stores: Store[]
  let calls: number
  /** Happens before each call that has something to be carried out. */
  let beforeCall: () => Promise<void>

  beforeEach(async () => {
    ticks = new ServerTicks()
    server = await start(ticks)
    stores = []
    calls = 0
    beforeCall = async () => undefined
    const time = { ...ticks.time, toleranceUs: () => 1_000_000 }
    const serve = async (backend: Backend): Promise<LeaseApi> => {
      const store = await OptimisticStore.open(backend, systemRuntime, time)
      stores.push(store)
      return new LeaseService({ store, runtime: systemRuntime })
    }
    const driven = async (): Promise<Backend> => ticks.drive(await server.connect())
    other = await serve(await driven())
    const backend = await driven()
    const attempt: Backend['attempt'] = async (group) => {
      ticks.pass(1)
      if (group.attempts.length > 0) {
        calls += 1
        await beforeCall()
      }
      return backend.attempt(group)
    }
    api = await serve(
      new Proxy(backend, {
        get: (target, name) => (name === 'attempt' ? attempt : Reflect.get(target, name)),
      }),
    )
    await other.acquire({ ...wish(), ttlMs: 600_000 })
    // From then on it knows what is there.
    await api.acquire(wish(0))
    calls = 0
  })

  afterEach(async () => {
    await api.close()
    await other.close()
    await server.remove()
  })

  async function waiting(): Promise<readonly string[]> {
    return (await other.inspect({ resource: RESOURCE })).queue.map(({ id }) => id)
  }

  it('needs a small part of the calls that one by one would need', async () => {
    const wishes = Array.from({ length: WAITERS }, () => wish())
    const answers = await Promise.all(wishes.map((one) => api.acquire(one)))
    const queued = wishes.map((_, position) => ({ kind: 'queued', position }))
    expect(answers).toMatchObject(queued)
    expect(await waiting()).toEqual(wishes.map(({ id }) => id))
    expect(calls).toBeLessThanOrEqual(WAITERS / 20)
  })

  it('so do those that were dropped: they hear of it and are filed again in a small part of the calls', async () => {
    const wishes = Array.from({ length: WAITERS }, () => wish())
    await Promise.all(wishes.map((one) => api.acquire(one)))
    ticks.pass(8_000)
    const stranger = wish()
    await other.acquire(stranger)
    expect(await waiting()).toEqual([stranger.id])
    calls = 0
    const expects = 'nothing' as const
    const claims = wishes.map((one) => {
      return api.claim({ ...ownLease(one), session: one.session, expects })
    })
    expect(new Set((await Promise.all(claims)).map(({ kind }) => kind))).toEqual(
      new Set(['dropped']),
    )
    expect(calls).toBeLessThanOrEqual(WAITERS / 20)
    await Promise.all(wishes.map((one) => api.acquire(one)))
    expect(await waiting()).toEqual([stranger, ...wishes].map(({ id }) => id))
    expect(calls).toBeLessThanOrEqual(WAITERS / 10)
  })

  it('also when the server has forgotten meanwhile that they were ever filed', async () => {
    const wishes = Array.from({ length: WAITERS }, () => wish())
    await Promise.all(wishes.map((one) => api.acquire(one)))
    ticks.pass(8_000)
    await other.acquire(wish())
    const expects = 'nothing' as const
    await Promise.all(
      wishes.map((one) => api.claim({ ...ownLease(one), session: one.session, expects })),
    )
    const nowMs = Math.floor(ticks.nowUs() / 1_000) + 86_400_000
    const cut = { endedBeforeMs: nowMs, nowMs, batch: 1_000 }
    for (const store of stores) await store.prune(cut)
    calls = 0
    await Promise.all(wishes.map((one) => api.acquire(one)))
    expect((await waiting()).slice(-WAITERS)).toEqual(wishes.map(({ id }) => id))
    expect(calls).toBeLessThanOrEqual(WAITERS / 10)
  })

  it('does not let a session that does one thing after another wait behind itself, however far back', async () => {
    const twice = { session: 'once', sequential: true }
    const wishes = Array.from({ length: 60 }, (_, n) => ({ ...wish(), ...(n === 30 ? twice : {}) }))
    await Promise.all(wishes.map((one) => api.acquire(one)))
    const more = Array.from({ length: 20 }, (_, n) => ({ ...wish(), ...(n === 10 ? twice : {}) }))
    const answers = await Promise.all(more.map((one) => api.acquire(one)))
    const refused = answers.filter(({ kind }) => kind !== 'queued')
    expect(refused).toMatchObject([{ kind: 'held', notWaiting: 'own' }])
  })

  it('keeps the order while another process files tickets between the calls', async () => {
    const before: AcquireRequest[] = []
    beforeCall = async () => {
      if (before.length >= 6) return
      const one = wish()
      before.push(one)
      await other.acquire(one)
    }
    const wishes = Array.from({ length: WAITERS }, () => wish())
    const answers = await Promise.all(wishes.map((one) => api.acquire(one)))
    expect(new Set(answers.map(({ kind }) => kind))).toEqual(new Set(['queued']))
    const own = new Set(wishes.map(({ id }) => id))
    const queue = await waiting()
    expect(queue).toHaveLength(WAITERS + before.length)
    expect(queue.filter((id) => own.has(id))).toEqual(wishes.map(({ id }) => id))
    expect(calls).toBeLessThanOrEqual(WAITERS / 5)
  })

  it('answers each request as if it had come alone', async () => {
    const ended = { ...wish(), resource: parseResource('work:W-2') }
    await other.acquire(ended)
    await other.release(ownLease(ended))
    const wishes = Array.from({ length: 20 }, () => wish())
    const first = wishes[0] ?? wish()
    const odd = [
      wish(0),
      { ...wish(), id: ended.id },
      { ...wish(), priority: 100 },
      { ...wish(), mode: 'shared' as const },
      { ...first },
    ]
    const asked = wishes.flatMap((one, index) => (index === 10 ? [...odd, one] : [one]))
    const answers = await Promise.all(asked.map((one) => api.acquire(one)))
    const kinds = answers.map(({ kind }) => kind)
    expect(kinds.slice(10, 15)).toEqual(['held', 'id_taken', 'queued', 'queued', 'queued'])
    expect(kinds.toSpliced(10, 5)).toEqual(wishes.map(() => 'queued'))
    const [, , urgent, shared] = odd.map(({ id }) => id)
    const plain = wishes.map(({ id }) => id)
    expect(await waiting()).toEqual([urgent, ...plain.toSpliced(10, 0, shared ?? '')])
  })

  it('fails all of a call whose answer was lost, and finds each of them when it is asked again', async () => {
    const wishes = Array.from({ length: 20 }, () => wish())
    let isLost = true
    const file = (): Promise<readonly PromiseSettledResult<{ readonly kind: string }>[]> => {
      return Promise.allSettled(wishes.map((one) => api.acquire(one)))
    }
    beforeCall = async () => {
      if (!isLost) return
      throw new LeaseError('STORE_OUTCOME_UNKNOWN', 'the answer was lost')
    }
    const failed = { status: 'rejected', reason: { code: 'STORE_OUTCOME_UNKNOWN' } }
    expect(await file()).toMatchObject(wishes.map(() => failed))
    isLost = false
    await file()
    expect(await waiting()).toEqual(wishes.map(({ id }) => id))
    expect(await file()).toMatchObject(wishes.map(() => ({ value: { kind: 'queued' } })))
    expect(await waiting()).toHaveLength(wishes.length)
  })
})
