/** What a running process meets when the database under it is replaced: by a restore, or by a migration of another process. */
import pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { parseResource } from '../../../src/core/resource.ts'
import type { PostgresClient, PostgresPool } from '../../../src/drivers/postgres-driver.ts'
import { openApi } from '../../../src/open.ts'
import { systemRuntime } from '../../../src/runtime/system-runtime.ts'
import type { LeaseApi } from '../../../src/service/lease-api.ts'
import { LeaseService } from '../../../src/service/lease-service.ts'
import {
  openPostgresCheckup,
  openPostgresStore,
} from '../../../src/store/postgres/postgres-store.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'
import { ownLease } from '../own-lease.ts'

let place: Place
let client: pg.Client
const opened: LeaseApi[] = []

beforeEach(async () => {
  place = await freshDatabase()
  client = new pg.Client({ connectionString: place.url })
  await client.connect()
})

afterEach(async () => {
  await Promise.all(opened.splice(0).map((api) => api.close()))
  await client.end()
  await place.remove()
})

async function open(namespace: string): Promise<LeaseApi> {
  const api = await openApi(`${place.url}?namespace=${namespace}&poolSize=1`)
  opened.push(api)
  return api
}

function asked(resource: string, id = systemRuntime.uuid()) {
  const who = { holder: 'ada', session: 'ada' }
  return { id, resource: parseResource(resource), ...who, ttlMs: 60_000, waitMs: 0 }
}

it('after a restore that predates a namespace its process does not meet another namespace', async () => {
  const old = await open('old')
  const first = asked('work:W-1')
  expect(await old.acquire(first)).toMatchObject({ kind: 'granted' })
  // The restored database knows nothing of the namespace, and gives the next number as it did then.
  await client.query(`DELETE FROM tenure.live_leases; DELETE FROM tenure.ledger;
    DELETE FROM tenure.realms; DELETE FROM tenure.namespaces`)
  const next = await open('next')
  expect(await next.acquire(asked('work:W-1'))).toMatchObject({ kind: 'granted' })
  const { id, resource, holder } = first
  expect(await old.renew({ id, resource, holder })).toMatchObject({ kind: 'not_found' })
  expect(await old.acquire(asked('work:W-1'))).toMatchObject({ kind: 'granted' })
  expect((await next.list({ limit: 9 })).leases).toHaveLength(1)
  const { rows } = await client.query('SELECT name FROM tenure.namespaces ORDER BY name')
  expect(rows).toEqual([{ name: 'next' }, { name: 'old' }])
})

it('a clock that was ahead once is accepted by an operator: leases stay, fences grow', async () => {
  const aheadUs = 3_600_000_000
  const { rows } = await client.query<{ us: string }>(
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us',
  )
  const ahead = Number(rows[0]?.us) + aheadUs
  const early = await openPostgresStore({ url: place.url, nowUs: () => ahead })
  const service = new LeaseService({ store: early, runtime: systemRuntime })
  const request = asked('work:W-1')
  const granted = await service.acquire(request)
  await service.release(ownLease(request))
  expect(await service.acquire(asked('work:W-2'))).toMatchObject({ kind: 'granted' })
  await service.close()
  const api = await open('default')
  const again = asked('work:W-1')
  await expect(api.acquire(again)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  const checkup = await openPostgresCheckup({ url: place.url })
  const look = checkup.looks.find(({ name }) => name === 'last commit')
  await expect(look?.look()).rejects.toThrow(/behind the last commit/)
  expect(await checkup.acceptClock?.()).toMatch(/^2 realms/)
  expect(await look?.look()).toBe('the clock is not behind the last commit')
  await checkup.close()
  const next = await api.acquire(again)
  if (granted.kind !== 'granted' || next.kind !== 'granted') throw new Error('it was not granted')
  expect(next.lease.fence).toBeGreaterThan(granted.lease.fence ?? Infinity)
  expect(await api.acquire(asked('work:W-2'))).toMatchObject({ kind: 'held' })
})

interface StaleFields {
  readonly message: string
  readonly code: string
  readonly severity: string
  readonly routine: string
}

interface Staleness {
  /** Whether the next call fails, as PostgreSQL says it after a migration. */
  isNext: boolean
  /** With what each connection was given back. */
  readonly released: unknown[]
}

function stalePool(pool: pg.Pool, staleness: Staleness, fields: StaleFields): PostgresPool {
  const connect: PostgresPool['connect'] = async () => {
    const connection = await pool.connect()
    return {
      on: connection.on.bind(connection) as PostgresClient['on'],
      release: (error) => {
        staleness.released.push(error)
        connection.release(error)
      },
      query: (query) => {
        const { isNext } = staleness
        staleness.isNext = false
        const error = Object.assign(new pg.DatabaseError(fields.message, 0, 'error'), fields)
        return isNext
          ? Promise.reject(error)
          : connection.query(query as unknown as pg.QueryArrayConfig)
      },
    }
  }
  const query = (): never => {
    throw new Error('nobody asks the pool itself')
  }
  const on: PostgresPool['on'] = (event, listener) => pool.on(event, listener)
  return { ...{ query }, totalCount: 1, connect, end: () => pool.end(), on }
}

it.each<StaleFields>([
  {
    ...{ message: 'cache lookup failed for type 16543', routine: 'lookup_type_cache' },
    ...{ code: 'XX000', severity: 'ERROR' },
  },
  {
    ...{ message: 'cached plan must not change result type', routine: 'RevalidateCachedQuery' },
    ...{ code: '0A000', severity: 'ERROR' },
  },
  {
    message: 'gecachter Plan darf den Ergebnistyp nicht ändern',
    ...{ routine: 'RevalidateCachedQuery', code: '0A000', severity: 'FEHLER' },
  },
])(
  'a connection that remembers what was replaced is given up, and the call sent again: $message',
  async (fields) => {
    await open('default')
    const pool = new pg.Pool({ connectionString: place.url, max: 1 })
    const staleness: Staleness = { isNext: false, released: [] }
    const store = await openPostgresStore({ pool: stalePool(pool, staleness, fields) })
    const service = new LeaseService({ store, runtime: systemRuntime })
    staleness.released.length = 0
    staleness.isNext = true
    expect(await service.acquire(asked('work:W-1'))).toMatchObject({ kind: 'granted' })
    expect(staleness.released[0]).toBe(true)
    await service.close()
    await pool.end()
  },
)
