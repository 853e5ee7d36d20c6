/** A Redis Cluster of three servers, each with a third of the slots. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { startRedis } from '../servers/redis-server.ts'
import type { TestServer } from '../servers/test-server.ts'

const SLOTS = 16_384
const SERVERS = 3

export interface RedisCluster extends AsyncDisposable {
  readonly servers: readonly TestServer[]
  /** Of one of the servers, which leads to all. */
  readonly url: string
}

export async function startCluster(): Promise<RedisCluster> {
  const settings = {
    ...{ 'cluster-enabled': 'yes', 'cluster-announce-ip': '127.0.0.1', databases: '1' },
    'cluster-node-timeout': '2000',
  }
  const servers = await Promise.all(Array.from({ length: SERVERS }, () => startRedis({ settings })))
  const admins = servers.map(({ url }) => new Redis(url))
  try {
    const size = Math.ceil(SLOTS / SERVERS)
    await Promise.all(
      admins.map(async (admin, index) => {
        const [first, last] = [index * size, Math.min(SLOTS, (index + 1) * size) - 1]
        await admin.call('CLUSTER', 'ADDSLOTSRANGE', String(first), String(last))
        await admin.call('CONFIG', 'SET', 'cluster-require-full-coverage', 'no')
      }),
    )
    for (const { url } of servers.slice(1)) {
      await admins[0]?.call('CLUSTER', 'MEET', '127.0.0.1', new URL(url).port)
    }
    for (const admin of admins) await untilWhole(admin)
  } finally {
    for (const admin of admins) admin.disconnect()
  }
  return {
    ...{ servers, url: servers[0]?.url ?? '' },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(servers.map((server) => server.close()))
    },
  }
}

/** A server that knows the others refuses commands for a while yet: it calls the cluster whole when it does not. */
async function untilWhole(admin: Redis): Promise<void> {
  for (;;) {
    const info = String(await admin.call('CLUSTER', 'INFO'))
    const isWhole = info.includes(`cluster_known_nodes:${SERVERS}`)
    const isServed = info.includes('cluster_state:ok')
    if (isWhole && isServed && info.includes('cluster_slots_ok:16384')) return
    await sleep(50)
  }
}
