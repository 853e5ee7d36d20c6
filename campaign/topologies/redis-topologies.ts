/** Redis as people run it: a Cluster with replicas, behind Sentinels, and with TLS. */
import { execFile, execFileSync } from 'node:child_process'
import fs from 'node:fs'
import net, { type AddressInfo } from 'node:net'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { DURABLE_REDIS, startRedis } from '../../test/servers/redis-server.ts'
import { SENTINEL_NAME, SentinelGroup } from '../../test/servers/sentinel-group.ts'
import type { TestServer } from '../../test/servers/test-server.ts'
import type { Stage } from '../chaos/stage.ts'

const SERVERS = 6
const NODE_TIMEOUT_MS = 1_500
const LOOK_EVERY_MS = 100
const LOOK_MAX = 600
const SLOTS_MOVED = 300

const run = promisify(execFile)

/** Three masters and three replicas. */
export async function clusterStage(): Promise<Stage> {
  const settings = {
    ...{ 'cluster-enabled': 'yes', 'cluster-announce-ip': '127.0.0.1', databases: '1' },
    ...DURABLE_REDIS,
    'cluster-node-timeout': String(NODE_TIMEOUT_MS),
  }
  const starting = Array.from({ length: SERVERS }, () => startRedis({ settings }))
  const cluster = new Cluster(await Promise.all(starting))
  await cluster.create()
  return {
    stores: cluster.servers.map(({ url }) => url),
    server: null,
    proxies: [],
    failOver: () => cluster.failOver(),
    moveSlots: () => cluster.moveSlots(),
    close: async () => {
      for (const server of cluster.servers) await server.close()
    },
  }
}

interface Node {
  readonly id: string
  readonly port: number
  readonly isMaster: boolean
  readonly isWell: boolean
  readonly hasSlots: boolean
}

class Cluster {
  readonly servers: readonly TestServer[]
  #turn = 0

  constructor(servers: readonly TestServer[]) {
    this.servers = servers
  }

  async create(): Promise<void> {
    const places = this.servers.map(({ port }) => `127.0.0.1:${port}`)
    const options = ['--cluster-replicas', '1', '--cluster-yes']
    await run('redis-cli', ['--cluster', 'create', ...places, ...options])
    await this.#untilWhole()
  }

  /** A master dies, one of its replicas takes its slots, and it comes back as a replica. */
  async failOver(): Promise<void> {
    const masters = (await this.#nodes()).filter(({ isMaster, hasSlots }) => isMaster && hasSlots)
    const master = masters[(this.#turn += 1) % masters.length]
    const server = this.servers.find(({ port }) => port === master?.port)
    if (server === undefined) throw new Error('the cluster has no master')
    await server.kill()
    const isReplaced = async (): Promise<boolean> => {
      const serving = (await this.#nodes(server)).filter((node) => node.isMaster && node.isWell)
      return serving.filter(({ hasSlots }) => hasSlots).length === SERVERS / 2
    }
    await until(isReplaced)
    await server.restart()
    await this.#untilWhole()
  }

  async moveSlots(): Promise<void> {
    const masters = (await this.#nodes()).filter(({ isMaster, hasSlots }) => isMaster && hasSlots)
    const [from, to] = [
      masters[this.#turn % masters.length],
      masters[(this.#turn + 1) % masters.length],
    ]
    this.#turn += 1
    if (from === undefined || to === undefined) throw new Error('the cluster has no masters')
    const which = ['--cluster-from', from.id, '--cluster-to', to.id]
    const many = ['--cluster-slots', String(SLOTS_MOVED), '--cluster-yes']
    await run('redis-cli', ['--cluster', 'reshard', `127.0.0.1:${from.port}`, ...which, ...many])
  }

  async #untilWhole(): Promise<void> {
    await until(async () => {
      const nodes = await this.#nodes()
      const masters = nodes.filter(({ isMaster, hasSlots }) => isMaster && hasSlots)
      return nodes.length === SERVERS && nodes.every(({ isWell }) => isWell) && masters.length === 3
    })
  }

  /** As one of the servers sees them, not the one that is down. */
  async #nodes(down?: TestServer): Promise<readonly Node[]> {
    const asked = this.servers.find((server) => server !== down)
    const { stdout } = await run('redis-cli', ['-p', String(asked?.port), 'cluster', 'nodes'])
    return stdout.trim().split('\n').map(nodeOf)
  }
}

function nodeOf(line: string): Node {
  const [id = '', address = '', flags = '', , , , , link = '', ...slots] = line.split(' ')
  return {
    id,
    port: Number(/:(\d+)@/.exec(address)?.[1]),
    isMaster: flags.includes('master'),
    isWell: !flags.includes('fail') && link === 'connected',
    hasSlots: slots.length > 0,
  }
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let look = 0; look < LOOK_MAX; look += 1) {
    if (await isSo()) return
    await sleep(LOOK_EVERY_MS)
  }
  throw new Error('the cluster does not become whole')
}

/** A primary with two replicas, and three Sentinels, which workers ask where the primary is. */
export async function sentinelStage(): Promise<Stage> {
  const group = await SentinelGroup.start()
  const places = group.places.map(({ host, port }) => `${host}:${port}`)
  return {
    stores: [`sentinel://${places.join()}/${SENTINEL_NAME}`],
    server: null,
    proxies: [],
    failOver: async () => {
      await group.losePrimary()
      await group.heal()
    },
    close: () => group.close(),
  }
}

/** `rediss://`, with a certificate that the workers are told to trust. */
export async function tlsStage(directory: string): Promise<Stage> {
  const [certificate, key] = [path.join(directory, 'cert.pem'), path.join(directory, 'key.pem')]
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', certificate],
      ...['-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'],
    ],
    { stdio: 'pipe' },
  )
  fs.chmodSync(key, 0o600)
  const port = await freePort()
  const tls = { 'tls-port': String(port), 'tls-cert-file': certificate, 'tls-key-file': key }
  const settings = { ...DURABLE_REDIS, ...tls, 'tls-auth-clients': 'no' }
  const server = await startRedis({ settings })
  return {
    stores: [`rediss://localhost:${port}`],
    server,
    proxies: [],
    env: { NODE_EXTRA_CA_CERTS: certificate },
    close: () => server.close(),
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo
      probe.close(() => resolve(port))
    })
  })
}
