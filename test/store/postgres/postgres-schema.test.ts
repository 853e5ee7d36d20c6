import fs from 'node:fs'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseResource } from '../../../src/core/resource.ts'
import { systemRuntime } from '../../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../../src/service/lease-service.ts'
import { SCHEMA_VERSION } from '../../../src/store/postgres/postgres-schema.ts'
import { openPostgresStore } from '../../../src/store/postgres/postgres-store.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'

let place: Place

beforeAll(async () => {
  place = await freshDatabase()
})

afterAll(() => place.remove())

async function run(sql: string, url = place.url): Promise<readonly unknown[][]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query({ text: sql, rowMode: 'array' })
    return rows as unknown[][]
  } finally {
    await client.end()
  }
}

/** Everything that a process does to a store in its life, in short. */
async function useStore(url: string): Promise<void> {
  const store = await openPostgresStore({ url, namespace: 'restricted' })
  const service = new LeaseService({ store, runtime: systemRuntime })
  try {
    const resource = parseResource('work:restricted')
    const leaseId = systemRuntime.uuid()
    const asked = { id: leaseId, resource, holder: 'ada', session: 'ada', ttlMs: 60_000, waitMs: 0 }
    expect((await service.acquire(asked)).kind).toBe('granted')
    const renewal = { id: leaseId, resource, holder: 'ada', ttlMs: 120_000 }
    expect((await service.renew(renewal)).kind).toBe('renewed')
    expect((await service.release({ id: leaseId, resource, holder: 'ada' })).kind).toBe('released')
    await store.configure({ key: 'max_renewals', value: '3', scope: 'global', resourceId: null })
    const nowMs = systemRuntime.wallMs() + 86_400_000
    await store.prune({ endedBeforeMs: nowMs, nowMs, batch: 10 })
    const leave = store.follow(() => undefined)
    leave()
    await store.history({ limit: 1 })
  } finally {
    await service.close()
  }
}

describe('the schema', () => {
  it('is made once when ten open an empty database at the same moment', async () => {
    const opening = Array.from({ length: 10 }, (_, n) => {
      return openPostgresStore({ url: place.url, namespace: `n-${n % 3}`, poolSize: 1 })
    })
    const stores = await Promise.all(opening)
    await Promise.all(stores.map((store) => store.close()))
    const rows = await run('SELECT version FROM tenure.migrations ORDER BY version')
    expect(rows).toEqual([[SCHEMA_VERSION]])
    expect(await run('SELECT name FROM tenure.namespaces ORDER BY name')).toEqual([
      ['n-0'],
      ['n-1'],
      ['n-2'],
    ])
  })

  it.each(['repeatable read', 'serializable'])(
    'is made once where the default isolation is %s',
    async (isolation) => {
      await using strict = await freshDatabase()
      const name = new URL(strict.url).pathname.slice(1)
      const setting = `default_transaction_isolation = '${isolation}'`
      await run(`ALTER DATABASE ${name} SET ${setting}`, strict.url)
      const opening = Array.from({ length: 10 }, () => {
        return openPostgresStore({ url: strict.url, poolSize: 1 })
      })
      const stores = await Promise.all(opening)
      await Promise.all(stores.map((store) => store.close()))
      const rows = await run('SELECT version FROM tenure.migrations', strict.url)
      expect(rows).toEqual([[SCHEMA_VERSION]])
    },
  )

  it('knows of a namespace that was pruned of everything that all of it is missing', async () => {
    await using earlier = await freshDatabase()
    await useStore(earlier.url)
    const [[last] = []] = await run('SELECT max(seq) FROM tenure.ledger', earlier.url)
    await run(
      `DELETE FROM tenure.ledger; ALTER TABLE tenure.namespaces DROP COLUMN pruned_up_to;
        UPDATE tenure.migrations SET version = 11`,
      earlier.url,
    )
    const store = await openPostgresStore({ url: earlier.url, namespace: 'restricted' })
    const before = String(Number(last) - 1)
    await expect(store.history({ after: before, unbroken: true, limit: 1 })).rejects.toMatchObject({
      details: { field: 'after', prunedUpTo: last },
    })
    await store.close()
  })

  it('knows of a namespace that was pruned before what is missing at its beginning', async () => {
    await using earlier = await freshDatabase()
    await useStore(earlier.url)
    await run(
      `DELETE FROM tenure.ledger WHERE seq = (SELECT min(seq) FROM tenure.ledger);
        ALTER TABLE tenure.namespaces DROP COLUMN pruned_up_to;
        UPDATE tenure.migrations SET version = 11`,
      earlier.url,
    )
    const store = await openPostgresStore({ url: earlier.url, namespace: 'restricted' })
    const [[first] = []] = await run('SELECT min(seq) FROM tenure.ledger', earlier.url)
    const prunedUpTo = String(Number(first) - 1)
    await expect(store.history({ after: '0', unbroken: true, limit: 10 })).rejects.toMatchObject({
      details: { field: 'after', prunedUpTo },
    })
    const rest = await store.history({ after: prunedUpTo, unbroken: true, limit: 10 })
    await store.close()
    expect(rest.length).toBeGreaterThan(0)
  })

  it('of a newer version is refused and not touched', async () => {
    await using newer = await freshDatabase()
    const store = await openPostgresStore({ url: newer.url })
    await store.close()
    const version = SCHEMA_VERSION + 1
    await run(`INSERT INTO tenure.migrations VALUES (${version}, 'from the future')`, newer.url)
    await expect(openPostgresStore({ url: newer.url })).rejects.toMatchObject({
      code: 'STORE_SCHEMA',
      details: { supported: SCHEMA_VERSION, found: version },
    })
  })

  it('serves a role that has the documented permissions and can create nothing', async () => {
    const store = await openPostgresStore({ url: place.url })
    await store.close()
    const role = `worker_${place.url.slice(-8)}`
    await run(`CREATE ROLE ${role} LOGIN PASSWORD 'secret' NOSUPERUSER NOCREATEDB`)
    try {
      await run(documentedGrants().replaceAll('tenure_worker', role))
      const url = new URL(place.url)
      url.username = role
      url.password = 'secret'
      await useStore(url.href)
      await expect(run('CREATE TABLE tenure.mine (a int)', url.href)).rejects.toThrow(/permission/)
    } finally {
      await run(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
    }
  })

  it('that a role may neither use nor make is reported with what it lacks', async () => {
    await using empty = await freshDatabase()
    const role = `nobody_${empty.url.slice(-8)}`
    await run(`CREATE ROLE ${role} LOGIN PASSWORD 'secret' NOSUPERUSER`, empty.url)
    try {
      const url = new URL(empty.url)
      url.username = role
      url.password = 'secret'
      const opening = openPostgresStore({ url: url.href })
      await expect(opening).rejects.toMatchObject({
        code: 'STORE_UNAVAILABLE',
        message: expect.stringMatching(/the role lacks a permission.*permission denied/),
      })
      await expect(opening).rejects.not.toThrow(/secret/)
    } finally {
      await run(`DROP ROLE ${role}`, empty.url)
    }
  })
})

/** What docs/stores/postgres.md tells an administrator to run. */
function documentedGrants(): string {
  const text = fs.readFileSync('docs/stores/postgres.md', 'utf8')
  const block = /```sql\n(GRANT USAGE[\s\S]*?)```/.exec(text)
  return block?.[1] ?? 'the grants are not documented'
}
