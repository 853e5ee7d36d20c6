/** A pool for what is written by hand on PostgreSQL. */
import pg from 'pg'

export function openPool(url: string, connections: number): pg.Pool {
  // Connections stay: whoever waits for its turn of the measurement must not begin it by logging in.
  const pool = new pg.Pool({ connectionString: url, max: connections, idleTimeoutMillis: 0 })
  // A connection that is ended by the server while nobody uses it concerns nobody.
  pool.on('error', () => {})
  return pool
}
