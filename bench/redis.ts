/**
 * How fast acquire + release pairs and renewals are on Redis, against the floor: a hand-written `SET NX PX`, a Lua
 * release and a Lua renewal that compare a token, over the same driver; they have no fence, no queue and no history.
 * Rounds are interleaved and the ratio is taken per round, because absolute times on a shared machine say little.
 *
 *   node scripts/run-dev.mjs bench/redis.ts --rounds 5 --operations 20000 [--url redis://…]
 */
import { parseArgs } from 'node:util'
import { Redis } from 'ioredis'
import { parseResource } from '../src/core/resource.ts'
import { systemRuntime } from '../src/runtime/system-runtime.ts'
import type { LeaseApi } from '../src/service/lease-api.ts'
import { LeaseService } from '../src/service/lease-service.ts'
import { openRedisStore } from '../src/store/redis/redis-store.ts'
import { startRedis } from '../test/servers/redis-server.ts'

const RESOURCES = 1_000
const TTL_MS = 600_000

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`

/** One side of the comparison. Both do the same number of things at the same time. */
interface Side {
  pair(index: number): Promise<void>
  /** Makes what `renew` renews. */
  hold(index: number): Promise<void>
  renew(index: number): Promise<void>
}

interface Scripted extends Redis {
  releaseToken(key: string, token: string): Promise<number>
  renewToken(key: string, token: string, ttlMs: number): Promise<number>
}

function floorSide(client: Redis): Side {
  client.defineCommand('releaseToken', { numberOfKeys: 1, lua: RELEASE })
  client.defineCommand('renewToken', { numberOfKeys: 1, lua: RENEW })
  const redis = client as Scripted
  const held = new Map<number, string>()
  const take = async (key: string): Promise<string> => {
    const token = systemRuntime.uuid()
    const answer = await redis.set(key, token, 'PX', TTL_MS, 'NX')
    if (answer !== 'OK') throw new Error(`the floor was refused ${key}`)
    return token
  }
  const demand = (answer: number): void => {
    if (answer !== 1) throw new Error('the floor lost what it held')
  }
  return {
    pair: async (index) => {
      const key = `floor:item-${index % RESOURCES}`
      demand(await redis.releaseToken(key, await take(key)))
    },
    hold: async (index) => {
      held.set(index, await take(`floor:held-${index}`))
    },
    renew: async (index) => {
      const token = held.get(index % RESOURCES) ?? ''
      demand(await redis.renewToken(`floor:held-${index % RESOURCES}`, token, TTL_MS))
    },
  }
}

function tenureSide(api: LeaseApi): Side {
  const holder = 'bench'
  const held = new Map<number, string>()
  const take = async (name: string): Promise<string> => {
    const leaseId = systemRuntime.uuid()
    const resource = parseResource(name)
    const wish = { leaseId, resource, holder, session: holder, ttlMs: TTL_MS, waitMs: 0 }
    const outcome = await api.acquire(wish)
    if (outcome.kind !== 'granted') throw new Error(`acquire came to ${outcome.kind}`)
    return leaseId
  }
  return {
    pair: async (index) => {
      const name = `work:item-${index % RESOURCES}`
      const leaseId = await take(name)
      const requestId = systemRuntime.uuid()
      const place = { leaseId, resource: parseResource(name), holder, requestId }
      const outcome = await api.release(place)
      if (outcome.kind !== 'released') throw new Error(`release came to ${outcome.kind}`)
    },
    hold: async (index) => {
      held.set(index, await take(`work:held-${index}`))
    },
    renew: async (index) => {
      const leaseId = held.get(index % RESOURCES) ?? ''
      const resource = parseResource(`work:held-${index % RESOURCES}`)
      const requestId = systemRuntime.uuid()
      const outcome = await api.renew({ leaseId, resource, holder, requestId })
      if (outcome.kind !== 'renewed') throw new Error(`renew came to ${outcome.kind}`)
    },
  }
}

interface Measured {
  readonly perSecond: number
  readonly p50Ms: number
}

async function measure(
  work: (index: number) => Promise<void>,
  { operations, inFlight }: { readonly operations: number; readonly inFlight: number },
): Promise<Measured> {
  const spans: number[] = []
  let next = 0
  const startMs = performance.now()
  const worker = async (): Promise<void> => {
    while (next < operations) {
      const index = next
      next += 1
      const sentMs = performance.now()
      await work(index)
      spans.push(performance.now() - sentMs)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, worker))
  const perSecond = operations / ((performance.now() - startMs) / 1000)
  return { perSecond, p50Ms: spans.toSorted((a, b) => a - b)[spans.length >> 1] ?? 0 }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
}

const KINDS = ['pair', 'renew'] as const

async function compare(
  sides: { readonly floor: Side; readonly tenure: Side },
  { rounds, operations }: { readonly rounds: number; readonly operations: number },
): Promise<void> {
  for (const inFlight of [100, 1]) {
    const some = inFlight === 1 ? Math.ceil(operations / 10) : operations
    for (const kind of KINDS) {
      const ratios: number[] = []
      for (let round = 0; round < rounds; round += 1) {
        const load = { operations: some, inFlight }
        const floor = await measure((index) => sides.floor[kind](index), load)
        const tenure = await measure((index) => sides.tenure[kind](index), load)
        ratios.push(
          inFlight === 1 ? tenure.p50Ms / floor.p50Ms : tenure.perSecond / floor.perSecond,
        )
        process.stdout.write(
          `${kind} ${inFlight} in flight: floor ${floor.perSecond.toFixed(0)}/s p50 ` +
            `${floor.p50Ms.toFixed(3)} ms, Tenure ${tenure.perSecond.toFixed(0)}/s p50 ` +
            `${tenure.p50Ms.toFixed(3)} ms\n`,
        )
      }
      const what = inFlight === 1 ? 'p50 against the floor' : 'throughput against the floor'
      process.stdout.write(
        `  ${kind}, ${inFlight} in flight, ${what}: ${median(ratios).toFixed(2)} ` +
          `(${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)})\n`,
      )
    }
  }
}

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    operations: { type: 'string', default: '20000' },
    url: { type: 'string' },
  },
})
const server = values.url === undefined ? await startRedis() : null
const url = values.url ?? server?.url ?? ''
const client = new Redis(url)
const store = await openRedisStore({ url, namespace: 'bench' })
const api = new LeaseService({ store, runtime: systemRuntime })
const sides = { floor: floorSide(client), tenure: tenureSide(api) }
for (const side of Object.values(sides)) {
  for (let index = 0; index < RESOURCES; index += 1) await side.hold(index)
  await measure((index) => side.pair(index), { operations: 2_000, inFlight: 100 })
}
await compare(sides, { rounds: Number(values.rounds), operations: Number(values.operations) })
await api.close()
client.disconnect()
await server?.close()
