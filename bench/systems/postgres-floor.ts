/**
 * The floor on PostgreSQL: a lease by hand. One conditional upsert with its history row in one statement for each
 * operation, durable, judged on the server's clock. No queue and no groups: whoever waits asks again.
 */
import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { pauseAbout, pauseText } from '../measure/pause.ts'
import { NOTHING, type OpenSystem, type SystemUnderTest } from '../system.ts'
import { openPool } from './postgres-pool.ts'

const CONNECTIONS = 10

const SCHEMA = `
  CREATE TABLE held (resource text PRIMARY KEY, token uuid NOT NULL, fence bigint NOT NULL,
    expires_at timestamptz NOT NULL);
  CREATE TABLE history (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, resource text NOT NULL,
    token uuid NOT NULL, fence bigint NOT NULL, event text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp());
  CREATE SEQUENCE fence;`

const ACQUIRE = `WITH got AS (
    INSERT INTO held (resource, token, fence, expires_at)
    VALUES ($1, $2, nextval('fence'), clock_timestamp() + $3::int * interval '1 ms')
    ON CONFLICT (resource) DO UPDATE SET token = excluded.token, fence = excluded.fence,
      expires_at = excluded.expires_at WHERE held.expires_at <= clock_timestamp()
    RETURNING resource, token, fence)
  INSERT INTO history (resource, token, fence, event) SELECT resource, token, fence, 'acquired' FROM got`

const RENEW = `WITH got AS (
    UPDATE held SET expires_at = clock_timestamp() + $3::int * interval '1 ms'
    WHERE resource = $1 AND token = $2 AND expires_at > clock_timestamp()
    RETURNING resource, token, fence)
  INSERT INTO history (resource, token, fence, event) SELECT resource, token, fence, 'renewed' FROM got`

const RELEASE = `WITH got AS (
    DELETE FROM held WHERE resource = $1 AND token = $2 AND expires_at > clock_timestamp()
    RETURNING resource, token, fence)
  INSERT INTO history (resource, token, fence, event) SELECT resource, token, fence, 'released' FROM got`

const FILL = `INSERT INTO held (resource, token, fence, expires_at)
  SELECT 'live-' || gen_random_uuid(), gen_random_uuid(), nextval('fence'),
    clock_timestamp() + interval '1 day' FROM generate_series(1, $1::int)`

interface Token {
  readonly resource: string
  readonly token: string
}

export function postgresFloor(pauseMs: number): SystemUnderTest<Token> {
  return {
    ...{ name: 'floor', store: 'postgres', role: 'reference', contends: true },
    settings: `a lease by hand: one conditional upsert with its history row, prepared, ${CONNECTIONS} connections; ${pauseText(pauseMs)}`,
    offers: { ...NOTHING, ttl: true, fence: true, history: true, durable: true },
    polling: { pauseMs, pausing: postgresFloor },
    open: async (place) => {
      const pool = openPool(place.at, CONNECTIONS)
      await prepare(pool)
      return openFloor(pool, pauseMs)
    },
  }
}

/** Of several processes that open the same place, the first makes the tables. */
async function prepare(pool: pg.Pool): Promise<void> {
  const client = await pool.connect()
  await client.query('SELECT pg_advisory_lock(1)')
  const { rows } = await client.query<{ made: string | null }>(`SELECT to_regclass('held') AS made`)
  if (rows[0]?.made === null) await client.query(SCHEMA)
  await client.query('SELECT pg_advisory_unlock(1)')
  client.release()
}

function openFloor(pool: pg.Pool, pauseMs: number): OpenSystem<Token> {
  const run = async (
    name: string,
    text: string,
    values: readonly (string | number)[],
  ): Promise<boolean> => {
    const { rowCount } = await pool.query({ name, text, values: [...values] })
    return rowCount === 1
  }
  const demand = (done: boolean): void => {
    if (!done) throw new Error('the floor lost what it held')
  }
  return {
    acquire: async (resource, ttlMs) => {
      const token = randomUUID()
      while (!(await run('acquire', ACQUIRE, [resource, token, ttlMs]))) await pauseAbout(pauseMs)
      return { resource, token }
    },
    release: async ({ resource, token }) =>
      demand(await run('release', RELEASE, [resource, token])),
    renew: async ({ resource, token }, ttlMs) =>
      demand(await run('renew', RENEW, [resource, token, ttlMs])),
    fill: async (count) => void (await pool.query(FILL, [count])),
    close: () => pool.end(),
  }
}
