/**
 * Fills a PostgreSQL database with live leases, by SQL, because a million acquires would only measure patience, and
 * measures what an acquire costs among them.
 */
import pg from 'pg'
import { parseResource } from '../../../src/core/resource.ts'
import { systemRuntime } from '../../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../../src/service/lease-service.ts'
import { openPostgresStore } from '../../../src/store/postgres/postgres-store.ts'
import { medianAcquireMs, type Growth } from '../many-leases.ts'

const COLUMNS = `SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
  WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`

/** Copies the one lease that a real acquire made, with its realm and its event, until there are `count` of them. */
export async function fillDatabase(url: string, count: number): Promise<void> {
  const store = await openPostgresStore({ url })
  const service = new LeaseService({ store, runtime: systemRuntime })
  await service.acquire({
    ...{ id: systemRuntime.uuid(), resource: parseResource('work:original') },
    ...{ holder: 'filler', session: 'filler', ttlMs: 86_400_000, waitMs: 0 },
  })
  await service.close()
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const copy = async (table: string, changes: Readonly<Record<string, string>>): Promise<void> => {
    const { rows } = await client.query<[string]>({
      ...{ text: COLUMNS, values: [table], rowMode: 'array' },
    })
    const columns = rows[0]?.[0] ?? ''
    const values = columns.split(', ').map((name) => changes[name] ?? `original.${name}`)
    await client.query(`INSERT INTO ${table} (${columns}) SELECT ${values.join(', ')}
      FROM (SELECT * FROM ${table} LIMIT 1) AS original, generate_series(1, ${count}) AS n`)
  }
  const name = `'work:' || (n::bigint * 7919 % 1000003) || '-' || n`
  const id = `('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid`
  const holder = `'holder-' || (n % 1000)`
  const number = `nextval('tenure.entry_number')`
  await copy('tenure.realms', { realm: name })
  await copy('tenure.live_leases', { id, resource: name, holder, number })
  const event = { lease_id: id, resource: name, holder, seq: `nextval('tenure.ledger_seq')` }
  await copy('tenure.ledger', event)
  await client.query('VACUUM ANALYZE')
  await client.end()
}

/** On disk, indexes included, beyond the names themselves. */
export async function bytesPerLease(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ bytes: string }>(`SELECT (
      pg_total_relation_size('tenure.live_leases') + pg_total_relation_size('tenure.ledger')
      + pg_total_relation_size('tenure.realms')
    ) / count(*) - avg(length(resource) + length(holder) + length(session)) AS bytes
    FROM tenure.live_leases`)
  await client.end()
  return Number(rows[0]?.bytes)
}

/** Both databases in one process, in turns, so that both see the same machine. */
export async function measureGrowth(urls: {
  readonly small: string
  readonly large: string
}): Promise<Growth> {
  const small = await openPostgresStore({ url: urls.small })
  const large = await openPostgresStore({ url: urls.large })
  await medianAcquireMs(small, 50)
  await medianAcquireMs(large, 50)
  const rounds: Growth[] = []
  for (let round = 0; round < 9; round += 1) {
    const smallMs = await medianAcquireMs(small, 60)
    const largeMs = await medianAcquireMs(large, 60)
    rounds.push({ smallMs, largeMs, ratio: largeMs / smallMs })
  }
  await small.close()
  await large.close()
  const middle = rounds.toSorted((a, b) => a.ratio - b.ratio)[Math.floor(rounds.length / 2)]
  if (middle === undefined) throw new Error('no round was measured')
  return middle
}

/** The whole measurement, with one line of what came out. */
export async function reportGrowth(urls: {
  readonly small: string
  readonly large: string
  readonly count: number
}): Promise<Growth> {
  await fillDatabase(urls.small, 1_000)
  await fillDatabase(urls.large, urls.count)
  const bytes = await bytesPerLease(urls.large)
  const growth = await measureGrowth(urls)
  const { smallMs, largeMs, ratio } = growth
  process.stdout.write(
    `postgres growth: ${smallMs.toFixed(3)} ms among 1,000, ${largeMs.toFixed(3)} ms among ` +
      `${urls.count}, ratio ${ratio.toFixed(2)}; ${bytes.toFixed(0)} bytes per lease\n`,
  )
  return growth
}
