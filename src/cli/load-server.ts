/** The server, for the commands that start one: loaded when they do, because its packages are optional. */
import type { ServerOptions, TenureServer } from '../server/start-server.ts'
import { loadWith } from './missing-packages.ts'

const PACKAGES = ['hono', '@hono/node-server', 'prom-client']

type StartServer = (options: ServerOptions) => Promise<TenureServer>

/** `command` is named to a person where a package is missing. */
export function loadServer(command: string): Promise<{ readonly startServer: StartServer }> {
  return loadWith(command, PACKAGES, () => import('../server/start-server.ts'))
}
