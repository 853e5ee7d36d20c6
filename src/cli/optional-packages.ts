/** What is needed by some commands only, and may not be installed. */
import { LeaseError } from '../core/errors.ts'
import { hasCode } from '../runtime/file-system.ts'
import type { ServerOptions, TenureServer } from '../server/start-server.ts'

/** Loads what needs these packages, or says in one line which of them are missing. */
export async function loadWith<Module>(
  command: string,
  packages: readonly string[],
  load: () => Promise<Module>,
): Promise<Module> {
  try {
    return await load()
  } catch (cause) {
    if (!hasCode(cause, 'ERR_MODULE_NOT_FOUND')) throw cause
    const missing = (await Promise.all(packages.map(missingPackage))).flat()
    const message = `${command} needs packages that are not installed: npm install ${missing.join(' ')}`
    throw new LeaseError('INVALID_STATE', message, { cause, details: { missing } })
  }
}

async function missingPackage(name: string): Promise<readonly string[]> {
  try {
    await import(name)
    return []
  } catch (error) {
    // No fault: that it cannot be loaded is the answer.
    return hasCode(error, 'ERR_MODULE_NOT_FOUND') ? [name] : []
  }
}

const SERVER_PACKAGES = ['hono', '@hono/node-server', 'prom-client']

type StartServer = (options: ServerOptions) => Promise<TenureServer>

/** The server, for the commands that start one. `command` is named to a person where a package is missing. */
export function loadServer(command: string): Promise<{ readonly startServer: StartServer }> {
  return loadWith(command, SERVER_PACKAGES, () => import('../server/start-server.ts'))
}
