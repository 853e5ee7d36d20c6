/** A Redis store under test, its server, and ways to it; all closed when the test is done. */
import { Redis } from 'ioredis'
import { onTestFinished } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { Store } from '../../src/store-port/store.ts'
import {
  openRedisBackend,
  openRedisStore,
  type RedisStoreOptions,
} from '../../src/store/redis/redis-store.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { Proxy } from '../servers/proxy.ts'
import { startRedis, type RedisOptions } from '../servers/redis-server.ts'
import type { TestServer } from '../servers/test-server.ts'
import { ServerTicks } from './server-ticks.ts'

export const WORK = parseResource('work:W-1')
export const TTL_MS = 60_000

export async function server(options: RedisOptions = {}): Promise<TestServer> {
  const started = await startRedis(options)
  onTestFinished(() => started.close())
  return started
}

export async function proxyTo(url: string): Promise<Proxy> {
  const proxy = await Proxy.start(url)
  onTestFinished(() => proxy.close())
  return proxy
}

export function direct(url: string): Redis {
  const client = new Redis(url)
  client.on('error', () => undefined)
  onTestFinished(() => client.disconnect())
  return client
}

export class Subject {
  readonly store: Store
  readonly api: LeaseService

  static async open(options: RedisStoreOptions): Promise<Subject> {
    return Subject.#of(await openRedisStore(options))
  }

  /** The server's clock stands still: a decision that came too late for it would rightly be sent again. */
  static async openAtNoTime(options: RedisStoreOptions): Promise<Subject> {
    const ticks = new ServerTicks()
    const backend = await openRedisBackend({ ...options, nowUs: ticks.nowUs })
    return Subject.#of(await OptimisticStore.open(ticks.drive(backend), systemRuntime, ticks.time))
  }

  static #of(store: Store): Subject {
    const subject = new Subject(store)
    onTestFinished(() => subject.api.close())
    return subject
  }

  private constructor(store: Store) {
    this.store = store
    this.api = new LeaseService({ store, runtime: systemRuntime })
  }

  acquire(change: { readonly leaseId?: string; readonly holder?: string } = {}, name = 'W-1') {
    const { leaseId = systemRuntime.uuid(), holder = 'ada' } = change
    const resource = parseResource(`work:${name}`)
    return this.api.acquire({
      id: leaseId,
      resource,
      holder,
      session: holder,
      ttlMs: TTL_MS,
      waitMs: 0,
    })
  }

  async grant(name = 'W-1'): Promise<{ readonly id: string; readonly fence: number }> {
    const outcome = await this.acquire({}, name)
    if (outcome.kind !== 'granted') throw new Error(`acquire came to ${outcome.kind}`)
    return { id: outcome.lease.id, fence: outcome.lease.fence ?? 0 }
  }

  release(leaseId: string, requestId = systemRuntime.uuid()) {
    return this.api.release({ id: leaseId, resource: WORK, holder: 'ada', requestId })
  }

  renew(leaseId: string, requestId = systemRuntime.uuid(), ttlMs = 2 * TTL_MS) {
    return this.api.renew({ id: leaseId, resource: WORK, holder: 'ada', requestId, ttlMs })
  }
}

export async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo().catch(() => false))) {
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** The real time, moved. */
export class ShiftedClock {
  shiftMs = 0
  readonly nowUs = (): number => {
    return Math.floor((performance.timeOrigin + performance.now() + this.shiftMs) * 1000)
  }
}
