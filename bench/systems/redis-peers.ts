/** The peers that know Redis only. All of them wait by asking again. */
import { Redis } from 'ioredis'
import {
  NOTHING,
  type Offers,
  type OpenSystem,
  type Place,
  type SystemUnderTest,
} from '../system.ts'
import { loadPeer } from './load-peer.ts'

const OFFERS: Offers = { ...NOTHING, ttl: true }
const FOR_EVER = Number.MAX_SAFE_INTEGER

interface RedlockLock {
  unlock(): PromiseLike<void>
  extend(ttlMs: number): PromiseLike<RedlockLock>
}

type RedlockClass = new (
  clients: readonly Redis[],
  options: Readonly<Record<string, number>>,
) => { lock(resource: string, ttlMs: number): PromiseLike<RedlockLock> }

/** Extending answers with another lock; the holder keeps the last one. */
interface RedlockHeld {
  lock: RedlockLock
}

export function redlockSystem(pauseMs: number): SystemUnderTest<RedlockHeld> {
  return {
    ...{ name: 'redlock', store: 'redis', role: 'peer', contends: true, offers: OFFERS },
    settings: `one server; retryDelay ${pauseMs} ms (default 200), retryJitter ${pauseMs} ms, retryCount -1`,
    polling: { pauseMs, pausing: redlockSystem },
    open: (place) => openRedlock(place, pauseMs),
  }
}

async function openRedlock(place: Place, pauseMs: number): Promise<OpenSystem<RedlockHeld>> {
  const { default: Redlock } = await loadPeer<{ readonly default: RedlockClass }>('redlock')
  const options = { retryDelay: pauseMs, retryJitter: pauseMs, retryCount: -1 }
  const client = new Redis(place.at)
  const redlock = new Redlock([client], options)
  return {
    acquire: async (resource, ttlMs) => ({ lock: await redlock.lock(resource, ttlMs) }),
    release: async ({ lock }) => lock.unlock(),
    renew: async (held, ttlMs) => {
      held.lock = await held.lock.extend(ttlMs)
    },
    close: async () => client.disconnect(),
  }
}

interface Mutex {
  acquire(): Promise<void>
  release(): Promise<void>
}

type MutexClass = new (
  client: Redis,
  key: string,
  options: Readonly<Record<string, number>>,
) => Mutex

export function redisSemaphoreSystem(pauseMs: number): SystemUnderTest<Mutex> {
  return {
    ...{ name: 'redis-semaphore', store: 'redis', role: 'peer', contends: true, offers: OFFERS },
    settings: `Mutex; retryInterval ${pauseMs} ms (default 10), acquireTimeout without end; renews itself, not on demand`,
    polling: { pauseMs, pausing: redisSemaphoreSystem },
    open: (place) => openSemaphore(place, pauseMs),
  }
}

async function openSemaphore(place: Place, retryInterval: number): Promise<OpenSystem<Mutex>> {
  const { Mutex } = await loadPeer<{ readonly Mutex: MutexClass }>('redis-semaphore')
  const client = new Redis(place.at)
  return {
    acquire: async (resource, lockTimeout) => {
      const times = { lockTimeout, acquireTimeout: FOR_EVER, retryInterval }
      const mutex = new Mutex(client, resource, times)
      await mutex.acquire()
      return mutex
    },
    release: (mutex) => mutex.release(),
    close: async () => client.disconnect(),
  }
}

interface SimpleLock {
  acquire(): Promise<unknown>
  release(handle: unknown): Promise<boolean>
  extend(handle: unknown, ttlMs: number): Promise<boolean>
}

interface UniversalModule {
  readonly IoredisAdapter: new (client: Redis) => unknown
  readonly createLock: (config: Readonly<Record<string, unknown>>) => SimpleLock
}

interface UniversalHeld {
  readonly lock: SimpleLock
  readonly handle: unknown
}

const UNIVERSAL_RETRIES = 1_000_000

export function redlockUniversalSystem(pauseMs: number): SystemUnderTest<UniversalHeld> {
  return {
    ...{ name: 'redlock-universal', store: 'redis', role: 'peer', contends: true, offers: OFFERS },
    settings: `createLock, performance "lean"; retryDelay ${pauseMs} ms (default 100), retryAttempts ${UNIVERSAL_RETRIES}; made for Node 22`,
    polling: { pauseMs, pausing: redlockUniversalSystem },
    open: (place) => openUniversal(place, pauseMs),
  }
}

async function openUniversal(place: Place, retryDelay: number): Promise<OpenSystem<UniversalHeld>> {
  const { IoredisAdapter, createLock } = await loadPeer<UniversalModule>('redlock-universal')
  const client = new Redis(place.at)
  const adapter = new IoredisAdapter(client)
  const demand = (done: boolean, what: string): void => {
    if (!done) throw new Error(`redlock-universal could not ${what}`)
  }
  return {
    acquire: async (key, ttl) => {
      const retries = { retryDelay, retryAttempts: UNIVERSAL_RETRIES }
      const lock = createLock({ adapter, key, ttl, ...retries, performance: 'lean' })
      return { lock, handle: await lock.acquire() }
    },
    release: async ({ lock, handle }) => demand(await lock.release(handle), 'release'),
    renew: async ({ lock, handle }, ttlMs) => demand(await lock.extend(handle, ttlMs), 'extend'),
    close: async () => client.disconnect(),
  }
}
