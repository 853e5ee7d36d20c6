import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { parseResource } from '../../../src/core/resource.ts'
import { systemRuntime } from '../../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../../src/service/lease-service.ts'
import { openPostgresStore } from '../../../src/store/postgres/postgres-store.ts'
import { readPostgresUrl } from '../../../src/drivers/postgres-driver.ts'
import { ownMs } from '../../servers/own-time.ts'
import { startPostgres } from '../../servers/postgres-server.ts'
import { Proxy } from '../../servers/proxy.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'
import { ServerTicks } from '../server-ticks.ts'
import { openOnTicks } from './postgres-stage.ts'

const RESOURCE = parseResource('work:W-1')
const SHORT = { connectMs: 2_000, callMs: 2_000 }

let place: Place
let proxy: Proxy

beforeAll(async () => {
  place = await freshDatabase()
  const store = await openPostgresStore({ url: place.url })
  await store.close()
})

afterAll(() => place.remove())

beforeEach(async () => {
  proxy = await Proxy.start(place.url)
})

afterEach(() => proxy.close())

async function openService(options = {}): Promise<LeaseService> {
  const url = proxy.through(place.url)
  const store = await openPostgresStore({ url, namespace: systemRuntime.uuid(), ...options })
  return new LeaseService({ store, runtime: systemRuntime })
}

/** The server's clock stands still: a decision that came too late for it would rightly be sent again. */
async function openAtNoTime(): Promise<LeaseService> {
  const options = { url: proxy.through(place.url), namespace: systemRuntime.uuid() }
  const store = await openOnTicks(new ServerTicks(), options)
  return new LeaseService({ store, runtime: systemRuntime })
}

function request(leaseId: string) {
  return {
    id: leaseId,
    resource: RESOURCE,
    holder: 'ada',
    session: 'ada',
    ttlMs: 60_000,
    waitMs: 0,
  }
}

describe('round trips', () => {
  it('an uncontended acquire, renew and release are one each, on first contact and later', async () => {
    await using service = disposable(await openAtNoTime())
    for (let round = 0; round < 3; round += 1) {
      const leaseId = systemRuntime.uuid()
      const own = { id: leaseId, resource: RESOURCE, holder: 'ada' }
      const calls = [
        () => service.acquire(request(leaseId)),
        () => service.renew({ ...own, ttlMs: 120_000, requestId: systemRuntime.uuid() }),
        () => service.release({ ...own, requestId: systemRuntime.uuid() }),
      ]
      for (const call of calls) {
        proxy.resetCounts()
        await call()
        expect(proxy.roundTrips).toBe(1)
      }
    }
  })

  it('a thousand renewals of one process are at most ten', { timeout: 60_000 }, async () => {
    await using service = disposable(await openAtNoTime())
    const leases = Array.from({ length: 1_000 }, (_, n) => {
      const resource = parseResource(`work:many-${n}`)
      return { ...request(systemRuntime.uuid()), resource }
    })
    await Promise.all(leases.map((lease) => service.acquire(lease)))
    proxy.resetCounts()
    const renewed = await Promise.all(
      leases.map(({ id, resource, holder }) =>
        service.renew({ id, resource, holder, ttlMs: 120_000 }),
      ),
    )
    expect(new Set(renewed.map(({ kind }) => kind))).toEqual(new Set(['renewed']))
    expect(proxy.roundTrips).toBeLessThanOrEqual(10)
  })
})

describe('a connection that fails', () => {
  it('before anything was sent leaves nothing behind, and service resumes by itself', async () => {
    await using service = disposable(await openService(SHORT))
    const leaseId = systemRuntime.uuid()
    proxy.refuse()
    await expect(service.acquire(request(leaseId))).rejects.toMatchObject({
      code: expect.stringMatching(/^STORE_(UNAVAILABLE|OUTCOME_UNKNOWN)$/),
    })
    await expect(service.acquire(request(leaseId))).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      effect: 'none',
    })
    proxy.clear()
    expect((await service.acquire(request(leaseId))).kind).toBe('granted')
  })

  it('after the commit says that the outcome is unknown, and a repetition finds the effect', async () => {
    await using service = disposable(await openAtNoTime())
    const leaseId = systemRuntime.uuid()
    const lost = proxy.loseReply({ request: (bytes) => bytes.includes('tenure') })
    await expect(service.acquire(request(leaseId))).rejects.toMatchObject({
      code: 'STORE_OUTCOME_UNKNOWN',
      effect: 'unknown',
    })
    await lost
    expect(await service.acquire(request(leaseId))).toMatchObject({
      kind: 'granted',
      repeated: true,
    })
  })

  it('that has fallen silent ends the call in bounded time', async () => {
    await using service = disposable(await openService(SHORT))
    proxy.blackHole()
    const tookMs = await ownMs(async () => {
      await expect(service.acquire(request(systemRuntime.uuid()))).rejects.toMatchObject({
        code: 'STORE_OUTCOME_UNKNOWN',
      })
      await expect(service.list({})).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    })
    // Two calls, with room.
    expect(tookMs).toBeLessThan(2 * 3 * SHORT.callMs)
    proxy.cut()
  })

  it('while it is idle, or listens, does not end the process', async () => {
    const url = proxy.through(place.url)
    const store = await openPostgresStore({ url, namespace: systemRuntime.uuid(), ...SHORT })
    await using service = disposable(new LeaseService({ store, runtime: systemRuntime }))
    await service.acquire(request(systemRuntime.uuid()))
    const leave = await store.subscribe('ada', () => undefined)
    proxy.cut()
    await new Promise((resolve) => setImmediate(resolve))
    const resource = parseResource('work:W-2')
    const again = { ...request(systemRuntime.uuid()), resource }
    const answer = await service.acquire(again).catch(() => service.acquire(again))
    expect(answer.kind).toBe('granted')
    leave()
  })
})

describe('a call of which a part fails', () => {
  it('tells the others what became of them', async () => {
    const url = `${place.url}?options=-c%20lock_timeout%3D300`
    await using service = disposable(await openService({ url }))
    const kept = { ...request(systemRuntime.uuid()), resource: parseResource('file:/kept') }
    const keptLease = await service.acquire(kept)
    expect(keptLease.kind).toBe('granted')
    const blocker = new pg.Client({ connectionString: place.url })
    await blocker.connect()
    await blocker.query('BEGIN')
    await blocker.query('SELECT 1 FROM tenure.live_leases WHERE id = $1 FOR UPDATE', [kept.id])
    const { resource: _resource, id: _id, ...wish } = request('')
    // A request for several resources and a renewal in one of their realms: they are sent in one turn, and not in one statement.
    const group = systemRuntime.uuid()
    const members = ['file:/wanted', 'work:wanted'].map((name) => {
      return { id: systemRuntime.uuid(), resource: parseResource(name) }
    })
    const [several, renewal] = await Promise.allSettled([
      service.acquireAll({ ...wish, group, members }),
      service.renew({
        ...{ id: kept.id, resource: kept.resource, holder: 'ada' },
        ...{ requestId: systemRuntime.uuid(), ttlMs: 60_000 },
      }),
    ])
    await blocker.query('ROLLBACK')
    await blocker.end()
    expect(renewal).toMatchObject({ reason: { code: 'STORE_UNAVAILABLE', effect: 'none' } })
    expect(several).toMatchObject({ value: { kind: 'granted_all' } })
  })
})

describe('a server that will not serve', () => {
  it('because the password is wrong says so, and does not show it', async () => {
    const url = new URL(place.url)
    url.password = 'not-the-password'
    await expect(openPostgresStore({ url: url.href })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: expect.stringMatching(/the server refused the password/),
    })
    await expect(openPostgresStore({ url: url.href })).rejects.not.toThrow(/not-the-password/)
  })

  it('because it is not there says so in bounded time', async () => {
    const url = 'postgres://ada:secret@127.0.0.1:1/none'
    const connectMs = 1_000
    const tookMs = await ownMs(async () => {
      const opening = openPostgresStore({ url, connectMs })
      await expect(opening).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE', effect: 'none' })
    })
    expect(tookMs).toBeLessThan(3 * connectMs)
  })

  it('because it is out of connections, or read-only, says so and serves later', async () => {
    await using server = await startPostgres({ settings: { max_connections: '4' } })
    const store = await openPostgresStore({ url: server.url, poolSize: 1, connectMs: 2_000 })
    const taken = Array.from({ length: 6 }, () => new pg.Client({ connectionString: server.url }))
    await Promise.allSettled(taken.map((client) => client.connect()))
    await expect(openPostgresStore({ url: server.url, connectMs: 2_000 })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: expect.stringMatching(/no connection left/),
    })
    await Promise.allSettled(taken.map((client) => client.end()))
    const service = new LeaseService({ store, runtime: systemRuntime })
    const readOnly = new URL(server.url)
    readOnly.searchParams.set('options', '-c default_transaction_read_only=on')
    const standby = await openPostgresStore({ url: readOnly.href, poolSize: 1 })
    const standbyService = new LeaseService({ store: standby, runtime: systemRuntime })
    await expect(standbyService.acquire(request(systemRuntime.uuid()))).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: expect.stringMatching(/read-only/),
    })
    expect((await service.acquire(request(systemRuntime.uuid()))).kind).toBe('granted')
    await standbyService.close()
    await service.close()
  })
})

describe('a pool that the program has already', () => {
  it('is used and stays open', async () => {
    const pool = new pg.Pool({ connectionString: place.url, max: 3 })
    const store = await openPostgresStore({ pool, namespace: 'borrowed' })
    const service = new LeaseService({ store, runtime: systemRuntime })
    expect((await service.acquire(request(systemRuntime.uuid()))).kind).toBe('granted')
    await service.close()
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await pool.end()
  })
})

describe('a URL', () => {
  it('is shown without its password', async () => {
    const store = await openPostgresStore({ url: place.url })
    await store.close()
    expect(store.description.url).toMatch(/^postgres:\/\/tenure_test@/)
    expect(store.description.url).not.toContain(new URL(place.url).password)
  })

  it.each([
    ['mysql://ada:secret@host/db', 'store must be postgres://user@host:port/database'],
    ['postgres://h/d?tpyo=1', 'store parameters must be among'],
  ])('that says %s is refused in one line', (url, message) => {
    expect(() => readPostgresUrl(url)).toThrow(message)
    expect(() => readPostgresUrl(url)).not.toThrow('secret')
  })
})

function disposable<T extends { close(): Promise<void> }>(value: T): T & AsyncDisposable {
  return Object.assign(value, { [Symbol.asyncDispose]: () => value.close() })
}
