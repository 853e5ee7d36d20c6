/** A store for a run, with the server behind it and the network before it, which a run may do anything to. */
import fs from 'node:fs'
import path from 'node:path'
import { requireTestTool } from '../../scripts/test-tools.mjs'
import { startPostgres } from '../../test/servers/postgres-server.ts'
import { Proxy } from '../../test/servers/proxy.ts'
import { DURABLE_REDIS, startRedis } from '../../test/servers/redis-server.ts'
import { serverFolder, startOnFreePort, type TestServer } from '../../test/servers/test-server.ts'
import { ROOT } from '../part.ts'
import { DuplicatingProxy } from './duplicating-proxy.ts'
import { FaketimeFile } from './faketime.ts'
import { Link } from './link.ts'

export interface Stage {
  /** What workers open; where there are two, they take turns. */
  readonly stores: readonly string[]
  readonly server: TestServer | null
  readonly proxies: readonly Proxy[]
  /** The clock of the server, where it can be set. */
  readonly serverClock?: FaketimeFile
  /** The network between workers and server, where packets can be lost in one direction. */
  readonly link?: Link
  readonly duplicators?: readonly DuplicatingProxy[]
  /** What the workers have to be started with. */
  readonly env?: Readonly<Record<string, string>>
  /** Another server takes the place of the one that serves, which dies. */
  readonly failOver?: () => Promise<void>
  /** Some of what one server keeps moves to another. */
  readonly moveSlots?: () => Promise<void>
  close(): Promise<void>
}

export type OpenStage = (directory: string) => Promise<Stage>

export async function sqliteStage(directory: string): Promise<Stage> {
  const stores = [`sqlite:${path.join(directory, 'leases.db')}`]
  return { stores, server: null, proxies: [], close: async () => undefined }
}

export function postgresStage(): Promise<Stage> {
  return behindProxy(startPostgres())
}

export function redisStage(): Promise<Stage> {
  return behindProxy(startRedis({ settings: DURABLE_REDIS }))
}

/** It keeps nothing on disk: a kill makes it lose its data. */
export function forgetfulRedisStage(): Promise<Stage> {
  return behindProxy(startRedis())
}

async function behindProxy(starting: Promise<TestServer>): Promise<Stage> {
  const server = await starting
  const proxy = await Proxy.start(server.url)
  return {
    stores: [proxy.through(server.url)],
    server,
    proxies: [proxy],
    close: () => closeAll(proxy, server),
  }
}

/** Two servers of Tenure before one store, and workers at both; the first of them is what is killed and stopped. */
export function httpStage(openBehind: OpenStage): OpenStage {
  return async (directory) => {
    const behind = await openBehind(directory)
    const store = behind.server?.url ?? behind.stores[0] ?? ''
    const servers = await Promise.all([startTenure(store), startTenure(store)])
    const proxies = await Promise.all(servers.map(({ url }) => Proxy.start(url)))
    const stores = proxies.map((proxy, index) => proxy.through(servers[index]?.url ?? ''))
    return {
      stores: stores.map((url) => url.replace(/\/$/, '')),
      server: servers[0],
      proxies,
      close: async () => {
        await closeAll(...proxies, ...servers)
        await behind.close()
      },
    }
  }
}

function startTenure(store: string): Promise<TestServer> {
  const main = path.join(ROOT, 'dist', 'cli', 'main.js')
  return startOnFreePort((port) => {
    const url = `http://127.0.0.1:${port}`
    const where = ['--store', store, '--listen', `127.0.0.1:${port}`]
    return {
      folder: serverFolder('serve', null),
      command: [process.execPath, main, 'serve', '--operator', ...where],
      prepare: null,
      endSignal: 'SIGTERM',
      user: null,
      ...{ url, port },
      isReady: async () => (await fetch(`${url}/readyz`)).ok,
    }
  })
}

/** The same, with a proxy before each server that sends requests twice. */
export function duplicatingStage(openBehind: OpenStage): OpenStage {
  return async (directory) => {
    const behind = await httpStage(openBehind)(directory)
    const starting = behind.stores.map((url) => DuplicatingProxy.start(url))
    const duplicators = await Promise.all(starting)
    return {
      ...behind,
      stores: duplicators.map(({ url }) => url),
      duplicators,
      close: async () => {
        await closeAll(...duplicators)
        await behind.close()
      },
    }
  }
}

/** A Redis that the workers reach from a network of their own. */
export async function redisAcrossLinkStage(): Promise<Stage> {
  const link = new Link()
  const bind = `127.0.0.1 ${link.address}`
  const settings = { ...DURABLE_REDIS, bind, 'protected-mode': 'no' }
  const server = await startRedis({ settings })
  return {
    stores: [server.url.replace('127.0.0.1', link.address)],
    server,
    proxies: [],
    link,
    close: async () => {
      await server.close()
      link.close()
    },
  }
}

/** A PostgreSQL whose clock the run sets. */
export async function postgresWithClockStage(directory: string): Promise<Stage> {
  // The server runs as another user, and reads its clock from a file.
  for (const folder of [path.dirname(directory), directory]) fs.chmodSync(folder, 0o755)
  const { clock, program } = programWithClock('postgres', directory)
  return { ...(await behindProxy(startPostgres({ program }))), serverClock: clock }
}

/** Redis has an allocator that asks for the time before libfaketime is ready, so it gets that of the C library. */
const OTHER_ALLOCATOR = '/lib/x86_64-linux-gnu/libc_malloc_debug.so.0'

export async function redisWithClockStage(directory: string): Promise<Stage> {
  const { clock, program } = programWithClock('redis-server', directory, OTHER_ALLOCATOR)
  const starting = startRedis({ settings: DURABLE_REDIS, program })
  return { ...(await behindProxy(starting)), serverClock: clock }
}

/** Starts a server's program with a clock that can be set, and with libraries that come before it. */
function programWithClock(
  tool: string,
  directory: string,
  ...libraries: readonly string[]
): { readonly clock: FaketimeFile; readonly program: string } {
  const clock = new FaketimeFile(path.join(directory, 'server-time'))
  const program = path.join(directory, `${tool}-with-clock`)
  const env = { ...clock.env, LD_PRELOAD: [...libraries, clock.env['LD_PRELOAD']].join(':') }
  const settings = Object.entries(env).map(([name, value]) => `export ${name}=${value}`)
  const command = `exec ${requireTestTool(tool)} "$@"`
  fs.writeFileSync(program, ['#!/bin/sh', ...settings, command, ''].join('\n'), { mode: 0o755 })
  return { clock, program }
}

async function closeAll(...closing: readonly { close(): Promise<void> }[]): Promise<void> {
  for (const one of closing) await one.close()
}
