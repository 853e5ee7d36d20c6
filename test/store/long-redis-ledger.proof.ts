/** What a resource or a holder has in a ledger of 1,000,000 events on Redis is found within 50 ms once it was swept. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import { startRedis } from '../servers/redis-server.ts'
import type { TestServer } from '../servers/test-server.ts'
import { medianMs, QUESTIONS } from './long-ledger.ts'
import { makeLongRedisLedger } from './long-redis-ledger.ts'

const PAIRS = 500_000
const WITHIN_MS = 50
/** The sweep takes in some 80,000 events each time. */
const SWEEPS = 30

let server: TestServer

beforeAll(async () => {
  server = await startRedis()
  await makeLongRedisLedger(server.url, PAIRS)
}, 600_000)
afterAll(() => server.close())

it('in a ledger of 1,000,000 events each is found in time', async () => {
  const store = await openRedisStore({ url: server.url })
  const api = new LeaseService({ store, runtime: systemRuntime })
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) await api.cleanup()
  const late: string[] = []
  for (const [name, expected, ask] of QUESTIONS) {
    const found = await ask(api)
    const ms = await medianMs(() => ask(api))
    process.stdout.write(`${name}, redis: ${ms.toFixed(1)} ms\n`)
    expect([name, found]).toEqual([name, expected])
    if (ms > WITHIN_MS) late.push(name)
  }
  expect(late).toEqual([])
  await api.close()
}, 600_000)
