/** The lock service of etcd, by its own JSON gateway. All locks of a process belong to one lease, which is what etcd's clients do. */
import { execFileSync } from 'node:child_process'
import { serverFolder, startOnFreePort, type TestServer } from '../../test/servers/test-server.ts'
import type { OpenSystem } from '../system.ts'
import { PlainHttp } from './plain-http.ts'

const LEASE_SECONDS = 3_600

export async function startEtcd(): Promise<TestServer> {
  requireEtcd()
  return startOnFreePort((port) => {
    const url = `http://127.0.0.1:${port}`
    const folder = serverFolder('etcd', null)
    return {
      ...{ folder, url, port, prepare: null, endSignal: 'SIGKILL', user: null },
      command: [
        ...['etcd', '--data-dir', `${folder}/data`, '--listen-client-urls', url],
        ...['--advertise-client-urls', url, '--listen-peer-urls', 'http://localhost:0'],
        ...['--log-level', 'error'],
      ],
      isReady: async () => (await fetch(`${url}/health`)).ok,
    }
  })
}

function requireEtcd(): void {
  try {
    execFileSync('etcd', ['--version'], { stdio: 'ignore' })
  } catch (cause) {
    throw new Error('etcd is not installed (apt-get install etcd-server)', { cause })
  }
}

export async function etcdLocks(url: string, connections: number): Promise<OpenSystem<string>> {
  const calls = new PlainHttp(url, connections)
  const { ID: lease } = await calls.post<{ ID: string }>('/v3/lease/grant', { TTL: LEASE_SECONDS })
  const encoded = (name: string): string => Buffer.from(name).toString('base64')
  return {
    acquire: async (name) => {
      const body = { name: encoded(name), lease }
      const { key } = await calls.post<{ key: string }>('/v3/lock/lock', body)
      return key
    },
    release: async (key) => {
      await calls.post('/v3/lock/unlock', { key })
    },
    close: async () => calls.close(),
  }
}
