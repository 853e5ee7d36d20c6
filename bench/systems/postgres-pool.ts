/** A pool for what is written by hand on PostgreSQL. */
import pg from 'pg'

export function openPool(url: string, connections: number): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: connections })
  // A connection that is ended by the server while nobody uses it concerns nobody.
  pool.on('error', () => {})
  return pool
}
