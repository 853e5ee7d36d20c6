/** A PostgreSQL server for tests, with the durability that PostgreSQL has when nobody touches its settings. */
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import pg from 'pg'
import { requireTestTool } from '../../scripts/test-tools.mjs'
import { type TestServer, serverFolder, startOnFreePort } from './test-server.ts'
import type { Supervised } from './supervisor.mjs'

const SUPERUSER = 'tenure_test'

export interface PostgresOptions {
  /** As in postgresql.conf, for example `{ max_connections: '5' }`. */
  readonly settings?: Readonly<Record<string, string>>
  /** Started in the place of `postgres`, with its arguments. */
  readonly program?: string
}

const DEFAULTS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  // So that "out of connections" comes at max_connections, for the superuser of the tests too.
  superuser_reserved_connections: '0',
  shared_buffers: '32MB',
}

export function startPostgres(options: PostgresOptions = {}): Promise<TestServer> {
  const { settings = {}, program: postgres = requireTestTool('postgres') } = options
  const initdb = requireTestTool('initdb')
  const user = unprivilegedUser()
  return startOnFreePort((port) => {
    const folder = serverFolder('postgres', user)
    const data = path.join(folder, 'data')
    const password = randomBytes(12).toString('hex')
    const passwordFile = path.join(folder, 'password')
    fs.writeFileSync(passwordFile, password, { mode: 0o600 })
    if (user !== null) fs.chownSync(passwordFile, user.uid, user.gid)
    const url = `postgres://${SUPERUSER}:${password}@127.0.0.1:${port}/postgres`
    const all = Object.entries({ ...DEFAULTS, ...settings, port: String(port) })
    return {
      folder,
      command: [
        postgres,
        '-D',
        data,
        ...all.flatMap(([name, value]) => ['-c', `${name}=${value}`]),
      ],
      prepare: [initdb, ...initOptions(data, passwordFile)],
      // "Immediate shutdown": no checkpoint for data that is thrown away, but nothing left behind either.
      endSignal: 'SIGQUIT',
      user,
      url,
      port,
      isReady: () => answers(url),
    }
  })
}

function initOptions(data: string, passwordFile: string): readonly string[] {
  return [
    ...['-D', data, '-U', SUPERUSER, '--auth=scram-sha-256', `--pwfile=${passwordFile}`],
    ...['--encoding=UTF8', '--locale=C'],
    // The empty database need not survive a power cut. What the server writes is synced as always.
    '--no-sync',
  ]
}

/** PostgreSQL refuses to run as root; then it runs as a user that every system has. */
export function unprivilegedUser(): Supervised['user'] {
  if (process.getuid?.() !== 0) return null
  const users = fs.readFileSync('/etc/passwd', 'utf8').split('\n')
  for (const name of ['postgres', 'nobody']) {
    const [, , uid, gid] = users.find((line) => line.startsWith(`${name}:`))?.split(':') ?? []
    if (uid !== undefined && gid !== undefined) return { uid: Number(uid), gid: Number(gid) }
  }
  throw new Error(
    'PostgreSQL does not run as root, and there is neither a user postgres nor nobody',
  )
}

export async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  try {
    await client.connect()
    return true
  } finally {
    await client.end()
  }
}
