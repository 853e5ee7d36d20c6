/**
 * Tenure itself, twice: `tenure` is what applications hold (`openTenure`: handles that renew themselves, notice loss
 * and wait in a queue), `tenure-service` what it stands on (`openApi`: ids and outcomes, no handle).
 */
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Lease, Tenure } from '../../src/client/contract.ts'
import { isLeaseError } from '../../src/core/errors.ts'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { parseResource, type Resource } from '../../src/core/resource.ts'
import { openApi, openTenure } from '../../src/open.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import {
  holderNumbered,
  LEASES_PER_HOLDER,
  type Offers,
  type OpenSystem,
  type Place,
  type StoreName,
  type SystemUnderTest,
} from '../system.ts'

/** An application is one holder: its workers are tasks of one client, and take turns like anybody's. */
const HOLDER = `process-${process.pid}`
const WAIT_MS = 600_000
const FILL_TOGETHER = 500
const FILL_ATTEMPTS = 5
const FILL_TTL_MS = 86_400_000

export function tenureUrl(store: StoreName, place: Place): string {
  return store === 'sqlite' ? `sqlite:${path.join(place.at, 'tenure.db')}` : place.at
}

function offersOf(store: StoreName): Offers {
  return { ttl: true, fence: true, fair: true, history: true, durable: store !== 'redis' }
}

const SETTINGS: Readonly<Record<StoreName, string>> = {
  sqlite: 'defaults: synchronous FULL, history and renewals recorded',
  redis: 'defaults: history and renewals recorded',
  postgres:
    'defaults: 4 connections and one that listens, synchronous_commit on, history and renewals recorded',
}

export function tenureClient(store: StoreName): SystemUnderTest<Lease> {
  return {
    ...{ name: 'tenure', store, role: 'tenure', contends: true },
    settings: `openTenure, ${SETTINGS[store]}; handles renew themselves; one client for all workers of a process`,
    offers: offersOf(store),
    open: async (place) =>
      openClient(await openTenure(tenureUrl(store, place), { holder: HOLDER })),
  }
}

function openClient(tenure: Tenure): OpenSystem<Lease> {
  return {
    acquire: (resource, ttlMs) => tenure.acquire(`work:${resource}`, { ttlMs, waitMs: WAIT_MS }),
    release: (lease) => lease.release(),
    renew: (lease, ttlMs) => lease.renew({ ttlMs }),
    close: () => tenure.close(),
  }
}

interface Kept {
  readonly resource: Resource
  readonly info: LeaseInfo
}

export function tenureService(store: StoreName): SystemUnderTest<Kept> {
  return {
    ...{ name: 'tenure-service', store, role: 'tenure', contends: false },
    settings: `openApi, ${SETTINGS[store]}; no handle, no waiting`,
    offers: { ...offersOf(store), fair: false },
    open: async (place) => openService(await openApi(tenureUrl(store, place))),
  }
}

function openService(api: LeaseApi): OpenSystem<Kept> {
  const filler = new Filler(api)
  return {
    acquire: async (name, ttlMs) => {
      const resource = parseResource(`work:${name}`)
      for (;;) {
        const leaseId = systemRuntime.uuid()
        const own = { id: leaseId, holder: HOLDER, session: HOLDER }
        const answer = await api.acquire({ ...own, resource, ttlMs, waitMs: 0 })
        if (answer.kind === 'granted') return { resource, info: answer.lease }
        if (answer.kind !== 'held') throw new Error(`acquire came to ${answer.kind}`)
        await sleep(1)
      }
    },
    release: async ({ resource, info }) => {
      const { id: leaseId, holder } = info
      const requestId = systemRuntime.uuid()
      const { kind } = await api.release({ id: leaseId, resource, holder, requestId })
      if (kind !== 'released') throw new Error(`release came to ${kind}`)
    },
    renew: async ({ resource, info }, ttlMs) => {
      const { id: leaseId, holder } = info
      const requestId = systemRuntime.uuid()
      const { kind } = await api.renew({ id: leaseId, resource, holder, ttlMs, requestId })
      if (kind !== 'renewed') throw new Error(`renew came to ${kind}`)
    },
    fill: (count) => filler.fill(count),
    list: async (holder) => (await api.list({ holder })).leases.length,
    close: () => api.close(),
  }
}

/** Through the front door, many at a time, so that what is measured among them is what Tenure itself made. */
class Filler {
  readonly #api: LeaseApi
  #made = 0

  constructor(api: LeaseApi) {
    this.#api = api
  }

  async fill(count: number): Promise<void> {
    const until = this.#made + count
    const worker = async (): Promise<void> => {
      while (this.#made < until) {
        const holder = holderNumbered(Math.floor(this.#made / LEASES_PER_HOLDER))
        this.#made += 1
        const leaseId = systemRuntime.uuid()
        const resource = parseResource(`work:live-${leaseId}`)
        const lease = { id: leaseId, resource, holder, session: holder, ttlMs: FILL_TTL_MS }
        const { kind } = await this.#retry(() => this.#api.acquire({ ...lease, waitMs: 0 }))
        if (kind !== 'granted') throw new Error(`filling came to ${kind}`)
      }
    }
    await Promise.all(Array.from({ length: Math.min(FILL_TOGETHER, count) }, worker))
  }

  /** A million of them meet a busy moment; nothing is measured here, and the id makes a repetition harmless. */
  async #retry<Answer>(send: () => Promise<Answer>): Promise<Answer> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await send()
      } catch (error) {
        if (!isLeaseError(error) || !error.retryable || attempt === FILL_ATTEMPTS) throw error
        await sleep(100 * attempt)
      }
    }
  }
}
