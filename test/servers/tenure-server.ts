/** `tenure serve` as a process of its own, before a store that a test has. */
import { MAIN } from '../cli/tenure-process.ts'
import { serverFolder, startOnFreePort, type TestServer } from './test-server.ts'

export function startTenureServer(store: string): Promise<TestServer> {
  return startOnFreePort((port) => {
    const url = `http://127.0.0.1:${port}`
    const where = ['--store', store, '--listen', `127.0.0.1:${port}`]
    return {
      folder: serverFolder('serve', null),
      command: [process.execPath, MAIN, 'serve', '--operator', ...where],
      prepare: null,
      endSignal: 'SIGTERM',
      user: null,
      ...{ url, port },
      isReady: async () => (await fetch(`${url}/readyz`)).ok,
    }
  })
}
