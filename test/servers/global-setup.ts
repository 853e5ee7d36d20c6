/**
 * The servers that the test files of one run share. A server starts when the first file asks for it, so that a run
 * of tests that need none costs nothing; it ends with the run. `TENURE_TEST_REDIS_URL` and
 * `TENURE_TEST_POSTGRES_URL` name servers to use instead.
 */
import { randomUUID } from 'node:crypto'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestProject } from 'vitest/node'
import { startPostgres } from './postgres-server.ts'
import { startRedis } from './redis-server.ts'
import type { TestServer } from './test-server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Where a test file asks for a server: `GET {testServers}/redis` answers with its URL. */
    testServers: string
  }
}

export type ServerName = 'redis' | 'postgres'

const GIVEN: Readonly<Record<ServerName, string>> = {
  redis: 'TENURE_TEST_REDIS_URL',
  postgres: 'TENURE_TEST_POSTGRES_URL',
}
const START: Readonly<Record<ServerName, () => Promise<TestServer>>> = {
  redis: startRedis,
  postgres: startPostgres,
}
/** Vitest sets up every project apart, with modules of its own; the first one's servers are for all of them. */
const SHARED = 'TENURE_TEST_SERVERS'

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const shared = process.env[SHARED]
  if (shared !== undefined) {
    project.provide('testServers', shared)
    return async () => {}
  }
  const started = new Map<ServerName, Promise<TestServer>>()
  const desk = await openDesk((name) => urlOf(name, started))
  process.env[SHARED] = desk.url
  project.provide('testServers', desk.url)
  return async () => {
    delete process.env[SHARED]
    desk.close()
    await Promise.allSettled([...started.values()].map(async (server) => (await server).close()))
  }
}

async function urlOf(
  name: ServerName,
  started: Map<ServerName, Promise<TestServer>>,
): Promise<string> {
  const given = process.env[GIVEN[name]]
  if (given !== undefined && given !== '') return given
  const server = started.get(name) ?? START[name]()
  started.set(name, server)
  return (await server).url
}

/** Its address is a secret, because what it gives away is the password of PostgreSQL's superuser. */
async function openDesk(
  ask: (name: ServerName) => Promise<string>,
): Promise<{ readonly url: string; close(): void }> {
  const secret = randomUUID()
  const desk = http.createServer((request, response) => {
    const name = request.url?.split(`/${secret}/`)[1]
    if (name !== 'redis' && name !== 'postgres') return void response.writeHead(404).end()
    ask(name).then(
      (url) => response.end(url),
      (error: unknown) => response.writeHead(500).end(String(error)),
    )
  })
  await new Promise<void>((resolve) => desk.listen(0, '127.0.0.1', resolve))
  desk.unref()
  const { port } = desk.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/${secret}`,
    close: () => {
      desk.close()
      desk.closeAllConnections()
    },
  }
}
