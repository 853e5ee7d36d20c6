/**
 * A Redis server with two replicas, and three Sentinels that watch over them: when the primary dies they agree on a replica
 * that takes its place. Replication is asynchronous, as it always is.
 */
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { DURABLE_REDIS, startRedis } from './redis-server.ts'
import type { TestServer } from './test-server.ts'

const run = promisify(execFile)

/** What the Sentinels call their primary. */
export const SENTINEL_NAME = 'tenure'
const REPLICAS = 2
const SENTINELS = 3
const QUORUM = 2
const DOWN_AFTER_MS = 500
const FAILOVER_WITHIN_MS = 3_000
const LOOK_EVERY_MS = 50
/** A server that comes back is taken for a primary for ten seconds, before Sentinels make it a replica. */
const LOOK_WITHIN_MS = 120_000

export class SentinelGroup {
  #primary: TestServer
  readonly #servers: readonly TestServer[]
  readonly #sentinels: readonly TestServer[]

  private constructor(servers: readonly TestServer[], sentinels: readonly TestServer[]) {
    const [primary] = servers
    if (primary === undefined) throw new Error('a group has a primary')
    this.#primary = primary
    this.#servers = servers
    this.#sentinels = sentinels
  }

  static async start(): Promise<SentinelGroup> {
    const primary = await startRedis({ settings: DURABLE_REDIS })
    const settings = { ...DURABLE_REDIS, replicaof: `127.0.0.1 ${primary.port}` }
    const replicas = Array.from({ length: REPLICAS }, () => startRedis({ settings }))
    const servers = [primary, ...(await Promise.all(replicas))]
    const sentinels = Array.from({ length: SENTINELS }, () => startSentinel(primary))
    const group = new SentinelGroup(servers, await Promise.all(sentinels))
    await group.#untilWhole()
    return group
  }

  /** Where the Sentinels are, as a client is told. */
  get places(): readonly { readonly host: string; readonly port: number }[] {
    return this.#sentinels.map(({ port }) => ({ host: '127.0.0.1', port }))
  }

  /** The primary dies, and a replica takes its place. */
  async losePrimary(): Promise<void> {
    const lost = this.#primary
    await lost.kill()
    await this.#until(async () => (await this.#knowsPrimary()) && this.#primary !== lost)
  }

  /** The server that died comes back, and becomes a replica. */
  async heal(): Promise<void> {
    for (const server of this.#servers) if (server.pid === null) await server.restart()
    await this.#untilWhole()
  }

  async close(): Promise<void> {
    for (const server of [...this.#sentinels, ...this.#servers]) await server.close()
  }

  /** On a busy machine the Sentinels may take a primary for dead that is not, and put another in its place. */
  async #knowsPrimary(): Promise<boolean> {
    const ports = await Promise.all(this.#sentinels.map(({ port }) => primaryPort(port)))
    const agreed = this.#servers.find(({ port }) => port === ports[0])
    if (agreed === undefined || agreed.pid === null || new Set(ports).size > 1) return false
    if (!(await replicationOf(agreed)).includes('role:master')) return false
    this.#primary = agreed
    return true
  }

  /** Everybody follows the primary, and every Sentinel knows all of them. */
  async #untilWhole(): Promise<void> {
    await this.#until(async () => {
      if (!(await this.#knowsPrimary())) return false
      const replicas = this.#servers.filter((server) => server !== this.#primary)
      const told = await Promise.all(replicas.map(replicationOf))
      const follows = `master_port:${this.#primary.port}\r\nmaster_link_status:up`
      if (told.some((text) => !text.includes(follows))) return false
      return (await Promise.all(this.#sentinels.map(({ port }) => isInformed(port)))).every(Boolean)
    })
  }

  async #until(isSo: () => Promise<boolean>): Promise<void> {
    const untilMs = performance.now() + LOOK_WITHIN_MS
    while (!(await isSo())) {
      if (performance.now() > untilMs) {
        const told = await Promise.all(this.#sentinels.map(({ port }) => primaryTold(port)))
        throw new Error(`the Sentinels do not get there: ${told.join('; ')}`)
      }
      await sleep(LOOK_EVERY_MS)
    }
  }
}

function startSentinel(primary: TestServer): Promise<TestServer> {
  const settings = {
    'sentinel monitor': `${SENTINEL_NAME} 127.0.0.1 ${primary.port} ${QUORUM}`,
    'sentinel down-after-milliseconds': `${SENTINEL_NAME} ${DOWN_AFTER_MS}`,
    'sentinel failover-timeout': `${SENTINEL_NAME} ${FAILOVER_WITHIN_MS}`,
  }
  return startRedis({ settings, isSentinel: true })
}

async function primaryPort(sentinel: number): Promise<number> {
  const told = await ask(sentinel, 'sentinel', 'get-master-addr-by-name', SENTINEL_NAME)
  return Number(told.split('\n')[1])
}

/** Where a Sentinel has the primary, as what, and how many replicas and other Sentinels it knows. */
async function primaryTold(sentinel: number): Promise<string> {
  const told = (await ask(sentinel, 'sentinel', 'master', SENTINEL_NAME)).split('\n')
  const names = ['port', 'flags', 'num-slaves', 'num-other-sentinels']
  return names.map((name) => told[told.indexOf(name) + 1]).join(' ')
}

/** Knows the replicas and the other Sentinels, and sees no failover under way. */
async function isInformed(sentinel: number): Promise<boolean> {
  return (await primaryTold(sentinel)).endsWith(` master ${REPLICAS} ${SENTINELS - 1}`)
}

/** Empty of a server that does not answer, or not yet. */
async function replicationOf({ port }: TestServer): Promise<string> {
  try {
    return await ask(port, 'info', 'replication')
  } catch {
    // No fault: it was killed, or is being started, and is asked again.
    return ''
  }
}

async function ask(port: number, ...command: readonly string[]): Promise<string> {
  return (await run('redis-cli', ['-p', String(port), ...command])).stdout
}
