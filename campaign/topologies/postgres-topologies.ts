/** PostgreSQL with a standby that is promoted, and behind PgBouncer. */
import { setTimeout as sleep } from 'node:timers/promises'
import path from 'node:path'
import pg from 'pg'
import { requireTestTool } from '../../scripts/test-tools.mjs'
import { startBouncer, type PoolMode } from '../../test/servers/bouncer-server.ts'
import { answers, startPostgres, unprivilegedUser } from '../../test/servers/postgres-server.ts'
import { serverFolder, startOnFreePort, type TestServer } from '../../test/servers/test-server.ts'
import type { OpenStage, Stage } from '../chaos/stage.ts'
import { Forwarder } from './forwarder.ts'

const LOOK_EVERY_MS = 50
const LOOK_MAX = 600
/** How long before the death of its primary an asynchronous standby hears no more of it. */
const BEHIND_MS = 1_000

/**
 * A primary and a standby, and workers at an address that leads to whichever is the primary. With `isSynchronous` a commit
 * is acknowledged when the standby has it; without, the standby lacks the last second when the primary dies.
 */
export function replicatedStage({ isSynchronous }: { readonly isSynchronous: boolean }): OpenStage {
  return async () => {
    const settings: Readonly<Record<string, string>> = {
      ...{ wal_level: 'replica', max_wal_senders: '10', hot_standby: 'on', wal_keep_size: '256MB' },
      ...(isSynchronous ? { synchronous_standby_names: '*' } : {}),
    }
    const first = await startPostgres({ settings })
    const pair = new ReplicatedPair(first, { isSynchronous, settings })
    await pair.addStandby()
    const forwarder = await Forwarder.start(first.port)
    const url = new URL(first.url)
    url.port = String(forwarder.port)
    return {
      ...{ stores: [url.href], server: null, proxies: [] },
      failOver: () => pair.failOver(forwarder),
      close: async () => {
        await forwarder.close()
        await pair.close()
      },
    }
  }
}

interface Replication {
  readonly isSynchronous: boolean
  readonly settings: Readonly<Record<string, string>>
}

class ReplicatedPair {
  #primary: TestServer
  #standby: TestServer | null = null
  readonly #replication: Replication

  constructor(primary: TestServer, replication: Replication) {
    this.#primary = primary
    this.#replication = replication
  }

  /** Until the primary has a standby of the kind that the step is about. */
  async addStandby(): Promise<void> {
    this.#standby = await startStandby(this.#primary.url, this.#replication.settings)
    await this.#untilFollowed()
  }

  async #untilFollowed(): Promise<void> {
    const { isSynchronous } = this.#replication
    const waitsFor = isSynchronous ? '*' : ''
    const named = `current_setting('synchronous_standby_names') = '${waitsFor}'`
    if ((await query(this.#primary.url, `SELECT 1 WHERE ${named}`)) === 0) {
      throw new Error(`synchronous_standby_names of the primary is not '${waitsFor}'`)
    }
    const state = isSynchronous ? 'sync' : 'async'
    const wanted = `SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '${state}'`
    await until(`the standby does not follow (${state})`, this.#primary.url, wanted)
  }

  /** Cuts the standby off: what commits from now on is acknowledged, and only the primary has it. */
  async #fallBehind(standby: TestServer): Promise<void> {
    await query(standby.url, `ALTER SYSTEM SET primary_conninfo = ''`)
    await query(standby.url, 'SELECT pg_reload_conf()')
    const wanted = 'SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_stat_wal_receiver)'
    await until('the standby does not stop following', standby.url, wanted)
    await sleep(BEHIND_MS)
  }

  /** The primary dies, the standby takes its place, and a new standby is made. */
  async failOver(forwarder: Forwarder): Promise<void> {
    const next = this.#standby
    if (next === null) throw new Error('there is no standby')
    await this.#untilFollowed()
    if (!this.#replication.isSynchronous) await this.#fallBehind(next)
    await this.#primary.kill()
    await query(next.url, 'SELECT pg_promote()')
    forwarder.leadTo(next.port)
    await this.#primary.close()
    this.#primary = next
    await this.addStandby()
  }

  async close(): Promise<void> {
    await this.#standby?.close()
    await this.#primary.close()
  }
}

function startStandby(
  primary: string,
  settings: Readonly<Record<string, string>>,
): Promise<TestServer> {
  const user = unprivilegedUser()
  return startOnFreePort((port) => {
    const folder = serverFolder('standby', user)
    const data = path.join(folder, 'data')
    const copied = ['-d', primary, '-D', data, '-R', '-X', 'stream', '-c', 'fast']
    const url = new URL(primary)
    url.port = String(port)
    const all = {
      ...{ listen_addresses: '127.0.0.1', unix_socket_directories: '', shared_buffers: '32MB' },
      ...{ max_connections: '200', superuser_reserved_connections: '0', ...settings },
      port: String(port),
    }
    const set = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    return {
      ...{ folder, user, port, url: url.href, endSignal: 'SIGQUIT' },
      command: [requireTestTool('postgres'), '-D', data, ...set],
      prepare: [requireTestTool('pg_basebackup'), ...copied],
      isReady: () => answers(url.href),
    }
  })
}

/** Until a query finds a row. */
async function until(complaint: string, url: string, wanted: string): Promise<void> {
  for (let look = 0; look < LOOK_MAX; look += 1) {
    if ((await query(url, wanted)) > 0) return
    await sleep(LOOK_EVERY_MS)
  }
  throw new Error(complaint)
}

async function query(url: string, text: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return (await client.query(text)).rowCount ?? 0
  } finally {
    await client.end()
  }
}

export function bouncerStage(mode: PoolMode): OpenStage {
  return async (): Promise<Stage> => {
    const server = await startPostgres()
    const bouncer = await startBouncer(server.url, mode)
    return {
      stores: [`${bouncer.url}?prepare=false`],
      server: bouncer,
      proxies: [],
      close: async () => {
        await bouncer.close()
        await server.close()
      },
    }
  }
}
