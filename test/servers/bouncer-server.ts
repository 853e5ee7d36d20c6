/** A PgBouncer before a PostgreSQL server: in transaction mode any statement may go over any connection. */
import fs from 'node:fs'
import path from 'node:path'
import { requireTestTool } from '../../scripts/test-tools.mjs'
import { answers, unprivilegedUser } from './postgres-server.ts'
import { type TestServer, serverFolder, startOnFreePort } from './test-server.ts'

export type PoolMode = 'session' | 'transaction'

/** Fewer than those who ask, so that they get each other's; a session keeps its own. */
const POOL_SIZES: Readonly<Record<PoolMode, number>> = { session: 200, transaction: 3 }

/** `url` of a database; the bouncer's own URL leads to the same one. */
export function startBouncer(url: string, mode: PoolMode = 'transaction'): Promise<TestServer> {
  const program = requireTestTool('pgbouncer')
  const user = unprivilegedUser()
  return startOnFreePort((port) => {
    const folder = serverFolder('pgbouncer', user)
    const { username, password, hostname, port: behind, pathname } = new URL(url)
    const database = pathname.slice(1)
    const users = writeFor(user, path.join(folder, 'users.txt'), `"${username}" "${password}"\n`)
    const config = writeFor(
      user,
      path.join(folder, 'pgbouncer.ini'),
      [
        '[databases]',
        `${database} = host=${hostname} port=${behind} dbname=${database}`,
        '[pgbouncer]',
        ...['listen_addr = 127.0.0.1', `listen_port = ${port}`, 'unix_socket_dir ='],
        ...['auth_type = scram-sha-256', `auth_file = ${users}`, `pool_mode = ${mode}`],
        `default_pool_size = ${POOL_SIZES[mode]}`,
        '',
      ].join('\n'),
    )
    const through = new URL(url)
    through.hostname = '127.0.0.1'
    through.port = String(port)
    return {
      ...{ folder, command: [program, config], prepare: null, endSignal: 'SIGTERM', user, port },
      url: through.href,
      isReady: () => answers(through.href),
    }
  })
}

function writeFor(user: ReturnType<typeof unprivilegedUser>, file: string, text: string): string {
  fs.writeFileSync(file, text, { mode: 0o600 })
  if (user !== null) fs.chownSync(file, user.uid, user.gid)
  return file
}
