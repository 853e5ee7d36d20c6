/** A `redis-server` for tests, in memory only unless its settings say otherwise. */
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { requireTestTool } from '../../scripts/test-tools.mjs'
import { type TestServer, serverFolder, startOnFreePort } from './test-server.ts'

/** Every acknowledged write survives SIGKILL. */
export const DURABLE_REDIS: Readonly<Record<string, string>> = {
  appendonly: 'yes',
  appendfsync: 'always',
}

export interface RedisOptions {
  /** As in redis.conf, for example `{ maxmemory: '4mb' }` or `{ replicaof: '127.0.0.1 6379' }`. */
  readonly settings?: Readonly<Record<string, string>>
  readonly password?: string
  /** Started in the place of `redis-server`, with its arguments. */
  readonly program?: string
  /** A Sentinel: it watches over servers, and keeps what it learns in its configuration. */
  readonly isSentinel?: boolean
}

export function startRedis(options: RedisOptions = {}): Promise<TestServer> {
  const { settings = {}, password, program = requireTestTool('redis-server') } = options
  return startOnFreePort((port) => {
    const folder = serverFolder('redis', null)
    const configFile = path.join(folder, 'redis.conf')
    const all = { ...defaults(port, folder), ...settings }
    if (password !== undefined) Object.assign(all, { requirepass: JSON.stringify(password) })
    const lines = Object.entries(all).map(([name, value]) => `${name} ${value}\n`)
    fs.writeFileSync(configFile, lines.join(''), { mode: 0o600 })
    const user = password === undefined ? '' : `:${encodeURIComponent(password)}@`
    return {
      folder,
      command: [program, configFile, ...(options.isSentinel === true ? ['--sentinel'] : [])],
      prepare: null,
      endSignal: 'SIGKILL',
      user: null,
      url: `redis://${user}127.0.0.1:${port}`,
      port,
      isReady: () => answers(port),
    }
  })
}

function defaults(port: number, folder: string): Record<string, string> {
  return {
    bind: '127.0.0.1',
    port: String(port),
    dir: path.join(folder, 'data'),
    databases: '512',
    save: '""',
    // A replica is served at once, not after five seconds in which others might ask as well.
    'repl-diskless-sync-delay': '0',
  }
}

/** Asks for a sign of life. "Log in first" is one; "still loading" is not. */
function answers(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, '127.0.0.1', () => socket.write('PING\r\n'))
    socket.once('error', reject)
    socket.once('close', () => resolve(false))
    socket.once('data', (reply) => {
      resolve(/^(\+PONG|-NOAUTH|-MASTERDOWN)/.test(String(reply)))
      socket.destroy()
    })
  })
}
