/** The history of names, as in test/store/long-ledger.proof.ts, on PostgreSQL, by the clock of the client. */
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { parseResource } from '../../../src/core/resource.ts'
import { systemRuntime } from '../../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../../src/service/lease-service.ts'
import { OWN_ID } from '../../../src/store/postgres/postgres-columns.ts'
import { openPostgresStore } from '../../../src/store/postgres/postgres-store.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'
import { QUESTIONS } from '../long-ledger.ts'

const PAIRS = 500_000
const WITHIN_MS = 50
let place: Place

beforeAll(async () => {
  place = await freshDatabase()
  await makeLongLedger(place.url)
}, 600_000)

afterAll(() => place.remove())

/** Copies the events of two pairs that Tenure wrote; each 16th pair was revoked. */
async function makeLongLedger(url: string): Promise<void> {
  const service = await open(url)
  const claim = { resource: parseResource('work:template'), holder: 'h', session: 's', waitMs: 0 }
  const [released, revoked] = [systemRuntime.uuid(), systemRuntime.uuid()]
  await service.acquire({ ...claim, id: released })
  await service.release({ id: released, holder: 'h', requestId: systemRuntime.uuid() })
  await service.acquire({ ...claim, id: revoked })
  await service.revoke({ id: revoked, by: 'operator' })
  await service.close()
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const id = (variant: string): string =>
    `(lpad(to_hex(n), 8, '0') || '-0000-7000-${variant}-' || lpad(to_hex(n), 12, '0'))::uuid`
  await client.query(`
    CREATE TEMP TABLE template AS
      SELECT (row_number() OVER (ORDER BY seq) - 1)::integer AS place, l.* FROM tenure.ledger AS l;
    INSERT INTO tenure.ledger (seq, at_ms, lease_id, request_id, fence, ended_at, version, namespace,
        type, ended, resource, holder, session, data)
      SELECT nextval('tenure.ledger_seq'), at_ms, ${id('8000')},
        CASE WHEN request_id = '${OWN_ID}' OR request_id IS NULL THEN request_id ELSE ${id('9000')} END,
        fence, ended_at, version, namespace, type, ended,
        CASE WHEN n <= 10 THEN 'work:idle' WHEN n % 1000 = 0 THEN 'work:busy'
          ELSE 'work:' || (n::bigint * 7919 % 100003) END,
        CASE WHEN n <= 10 THEN 'idle' WHEN n % 1000 = 0 THEN 'busy' ELSE 'holder-' || n % 1009 END,
        session, data
      FROM generate_series(1, ${PAIRS}) AS n, template
      WHERE place / 2 = CASE n % 16 WHEN 0 THEN 1 ELSE 0 END ORDER BY n, place;
    SELECT brin_summarize_new_values('tenure.ledger_names');
    ANALYZE`)
  await client.end()
}

async function open(url: string): Promise<LeaseService> {
  return new LeaseService({ store: await openPostgresStore({ url }), runtime: systemRuntime })
}

async function medianMs(ask: () => Promise<unknown>): Promise<number> {
  const times: number[] = []
  for (let sample = 0; sample < 9; sample += 1) {
    const startMs = performance.now()
    await ask()
    times.push(performance.now() - startMs)
  }
  return times.toSorted((a, b) => a - b)[4] ?? 0
}

async function measure(when: string): Promise<void> {
  const api = await open(place.url)
  for (const [name, expected, ask] of QUESTIONS.filter(([asked]) => asked.startsWith('history'))) {
    const found = await ask(api)
    const ms = await medianMs(() => ask(api))
    process.stdout.write(`PostgreSQL, ${name}, ${when}: ${ms.toFixed(1)} ms\n`)
    expect([name, found]).toEqual([name, expected])
    expect([name, ms <= WITHIN_MS]).toEqual([name, true])
  }
  await api.close()
}

it('what a name has among 1,000,000 events is found in time', async () => {
  await measure('among 1,000,000 events')
})

it('also after half of it was pruned', async () => {
  const client = new pg.Client({ connectionString: place.url })
  await client.connect()
  await client.query(
    `DELETE FROM tenure.ledger WHERE seq <= ${PAIRS} AND resource NOT IN ('work:idle', 'work:template')`,
  )
  await client.end()
  await measure('after half was pruned')
})
