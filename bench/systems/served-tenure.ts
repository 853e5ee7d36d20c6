/** `tenure serve` as a process of its own. */
import path from 'node:path'
import { serverFolder, startOnFreePort, type TestServer } from '../../test/servers/test-server.ts'
import { ROOT } from './load-peer.ts'

const MAIN = path.join(ROOT, 'dist/cli/main.js')

export function serveTenure(store: string): Promise<TestServer> {
  return startOnFreePort((port) => {
    const url = `http://127.0.0.1:${port}`
    const where = ['--store', store, '--listen', `127.0.0.1:${port}`]
    return {
      ...{ folder: serverFolder('serve', null), url, port, prepare: null, user: null },
      command: [process.execPath, MAIN, 'serve', ...where],
      endSignal: 'SIGTERM',
      isReady: async () => (await fetch(`${url}/readyz`)).ok,
    }
  })
}
