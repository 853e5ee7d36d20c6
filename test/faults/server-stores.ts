/** The stores that live on a server, each with a server of its own that a test may do anything to. */
import { startPostgres } from '../servers/postgres-server.ts'
import { DURABLE_REDIS, startRedis } from '../servers/redis-server.ts'
import type { TestServer } from '../servers/test-server.ts'

export interface ServerStore {
  /** Every acknowledged commit survives the death of this server. */
  start(): Promise<TestServer>
}

/** As rows of a table of tests, the name first. */
export const SERVER_STORES: readonly (readonly [name: string, store: ServerStore])[] = [
  ['postgres', { start: () => startPostgres() }],
  ['redis', { start: () => startRedis({ settings: DURABLE_REDIS }) }],
]

let namespaces = 0

/** The store of a server as nobody has seen it yet. */
export function freshStore(url: string): string {
  const own = new URL(url)
  namespaces += 1
  own.searchParams.set('namespace', `test-${namespaces}`)
  return own.href
}
