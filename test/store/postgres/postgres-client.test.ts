/** What errors of a server mean, in whatever language it speaks. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemRuntime } from '../../../src/runtime/system-runtime.ts'
import { PostgresCaller, type PostgresPool } from '../../../src/drivers/postgres-driver.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'

const ENGLISH = { ERROR: 'ERROR', FATAL: 'FATAL' }
const SPOKEN = [
  ['English', ENGLISH],
  ['German', { ERROR: 'FEHLER', FATAL: 'FATAL' }],
  ['Russian', { ERROR: 'ОШИБКА', FATAL: 'ВАЖНО' }],
] as const

let place: Place

beforeAll(async () => {
  place = await freshDatabase()
})

afterAll(() => place.remove())

/** The real server's errors with their severity translated, as `lc_messages` does it: few hosts have the locales. */
function speaking(pool: pg.Pool, words: Readonly<Record<string, string>>): PostgresPool {
  const connect: PostgresPool['connect'] = async () => {
    const client = await pool.connect()
    client.on('error', () => undefined)
    return {
      on: () => undefined,
      removeListener: () => undefined,
      release: (error) => client.release(error),
      query: (query) => {
        const sent = client.query(query as unknown as pg.QueryArrayConfig)
        return sent.catch((error: pg.DatabaseError) => {
          error.severity = words[error.severity ?? '']
          throw error
        })
      },
    }
  }
  return {
    totalCount: pool.totalCount,
    connect,
    end: () => pool.end(),
    on: (event, listener) => pool.on(event, listener),
  }
}

describe.each(SPOKEN)('a server that speaks %s', (_language, words) => {
  it.each([
    ['an ordinary error', 'SELECT 1 / 0', 'STORE_UNAVAILABLE', 1],
    ['an end', 'SELECT pg_terminate_backend(pg_backend_pid())', 'STORE_OUTCOME_UNKNOWN', 0],
  ])('is understood when it tells of %s', async (_name, text, code, connectionsLeft) => {
    const pool = new pg.Pool({ connectionString: place.url, max: 1 })
    const caller = new PostgresCaller({
      ...{ pool: speaking(pool, words), runtime: systemRuntime, url: 'postgres:' },
      ...{ connectMs: 5_000, callMs: 5_000, prepare: false },
    })
    await expect(caller.call({ text, values: [], writes: true })).rejects.toMatchObject({ code })
    expect(pool.totalCount).toBe(connectionsLeft)
    await pool.end()
  })
})

it('a mistake of ours between two statements surfaces as itself', async () => {
  const pool = new pg.Pool({ connectionString: place.url, max: 2 })
  const facts = { runtime: systemRuntime, url: 'postgres:', connectMs: 5_000, callMs: 5_000 }
  const caller = new PostgresCaller({ ...facts, pool, prepare: false })
  const mistake = async (): Promise<never> => {
    throw new TypeError('our own mistake')
  }
  await expect(caller.transaction(mistake)).rejects.toThrow(TypeError)
  await expect(caller.during(mistake)).rejects.toThrow(TypeError)
  await pool.end()
})
