/** Every store that processes can share, with a way to count what its server was asked to do. */
import { Redis } from 'ioredis'
import pg from 'pg'
import { freshDatabase, freshRedis, type Place } from '../servers/shared-servers.ts'

export interface ContendedStore {
  readonly name: string
  open(directory: string): Promise<Place>
  /** Calls that may write, so far: commits, and attempts that missed. Null: the store has no server to ask. */
  calls(url: string): Promise<number | null>
}

export const CONTENDED_STORES: readonly ContendedStore[] = [
  {
    name: 'sqlite',
    open: async (directory) => {
      const remove = async (): Promise<void> => {}
      return { url: `sqlite:${directory}/leases.db`, remove, [Symbol.asyncDispose]: remove }
    },
    calls: async () => null,
  },
  { name: 'postgres', open: () => freshDatabase(), calls: postgresTransactions },
  { name: 'redis', open: () => freshRedis(), calls: redisScripts },
]

/** A transaction has a number only if it writes or locks a row. Numbers are shared by all databases of a server. */
async function postgresTransactions(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const text = 'SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS next'
    const { rows } = await client.query<{ next: string }>(text)
    return Number(rows[0]?.next)
  } finally {
    await client.end()
  }
}

async function redisScripts(url: string): Promise<number> {
  const client = new Redis(url)
  try {
    const statistics = await client.info('commandstats')
    const counts = [...statistics.matchAll(/^cmdstat_evalsha:calls=(\d+)/gm)]
    return counts.reduce((sum, [, count]) => sum + Number(count), 0)
  } finally {
    client.disconnect()
  }
}
