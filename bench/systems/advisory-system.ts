/**
 * Advisory locks of PostgreSQL by hand: a lock belongs to a connection, so each holder has one to itself as long as it
 * holds or waits. Not durable, and a holder that hangs keeps what it has; but those who wait are woken in order.
 */
import type pg from 'pg'
import { NOTHING, type OpenSystem, type SystemUnderTest } from '../system.ts'
import { openPool } from './postgres-pool.ts'

const CONNECTIONS = 16
const ACQUIRE = 'SELECT pg_advisory_lock(hashtextextended($1, 0))'
const RELEASE = 'SELECT pg_advisory_unlock(hashtextextended($1, 0)) AS done'

interface Held {
  readonly client: pg.PoolClient
  readonly resource: string
}

export const advisorySystem: SystemUnderTest<Held> = {
  ...{ name: 'advisory', store: 'postgres', role: 'peer', contends: true },
  settings: `pg_advisory_lock by hand, prepared, a connection per holder: ${CONNECTIONS}, or one per worker`,
  offers: { ...NOTHING, fair: true },
  open: async (place, workers) => {
    const max = Math.max(workers, CONNECTIONS)
    const pool = openPool(place.at, max)
    const clients = await Promise.all(Array.from({ length: max }, () => pool.connect()))
    for (const client of clients) client.release()
    return openAdvisory(pool)
  },
}

function openAdvisory(pool: pg.Pool): OpenSystem<Held> {
  return {
    acquire: async (resource) => {
      const client = await pool.connect()
      await client.query({ name: 'acquire', text: ACQUIRE, values: [resource] })
      return { client, resource }
    },
    release: async ({ client, resource }) => {
      const query = { name: 'release', text: RELEASE, values: [resource] }
      const { rows } = await client.query<{ done: boolean }>(query)
      client.release()
      if (rows[0]?.done !== true) throw new Error('the connection did not hold it')
    },
    close: () => pool.end(),
  }
}
