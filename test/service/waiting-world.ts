/**
 * Several sessions on one memory store, through the service, each with one lease or ticket per resource, so that a test
 * can say in a line who holds what and who waits for what.
 */
import type { Entry, LeaseInfo } from '../../src/core/lease.ts'
import { parseResource, type Resource } from '../../src/core/resource.ts'
import type {
  AcquireAllAnswer,
  AcquireAnswer,
  AcquireRequest,
  ClaimAnswer,
  UpgradeAnswer,
} from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { FaultyStore, type CallWeather, type FaultyMethod } from '../../src/testing/faulty-store.ts'
import { ManualTicks } from '../../src/testing/manual-ticks.ts'

export type Wish = Partial<Omit<AcquireRequest, 'leaseId' | 'resource' | 'holder' | 'session'>>

export class WaitingWorld {
  readonly ticks: ManualTicks = new ManualTicks()
  readonly api: LeaseService
  readonly #store: FaultyStore
  readonly #ids = new Map<string, string>()
  #failing: { readonly method: FaultyMethod; left: number } | null = null
  #late: { left: number; readonly action: () => Promise<void> } | null = null

  constructor() {
    const store = new MemoryStore({ ticks: this.ticks })
    this.#store = new FaultyStore({ store, weather: ({ method }) => this.#weather(method) })
    this.api = new LeaseService({ store: this.#store, runtime: new FakeRuntime() })
  }

  #weather(method: FaultyMethod): CallWeather | undefined {
    const late = this.#late
    if (method === 'transact' && late !== null) {
      late.left -= 1
      if (late.left > 0) return undefined
      this.#late = null
      return { before: late.action() }
    }
    const failing = this.#failing
    if (failing === null || failing.method !== method || failing.left === 0) return undefined
    failing.left -= 1
    return { fault: 'lost_request' }
  }

  /** The next calls of this kind do not reach the store. */
  failNext(method: FaultyMethod, times = 1): void {
    this.#failing = { method, left: times }
  }

  /** Before the second of the commits to come is tried, this happens. */
  beforeSecondCommit(action: () => Promise<void>): void {
    this.#late = { left: 2, action }
  }

  async hold(who: string, resource: string, wish: Wish = {}): Promise<void> {
    const answer = await this.#acquire(who, resource, { waitMs: 0, ...wish })
    if (answer.kind !== 'granted') throw new Error(`${who} does not get ${resource}`)
  }

  wait(who: string, resource: string, wish: Wish = {}): Promise<AcquireAnswer> {
    return this.#acquire(who, resource, { waitMs: 60_000, claimWindowMs: 60_000, ...wish })
  }

  #acquire(who: string, resource: string, wish: Wish & Pick<AcquireRequest, 'waitMs'>) {
    const place = { leaseId: this.#newId(who, resource), resource: parseResource(resource) }
    return this.api.acquire({ ttlMs: 3_600_000, ...place, holder: who, session: who, ...wish })
  }

  waitAll(who: string, resources: readonly string[], wish: Wish = {}): Promise<AcquireAllAnswer> {
    const members = resources.map((resource) => {
      return { leaseId: this.#newId(who, resource), resource: parseResource(resource) }
    })
    const span = { ttlMs: 3_600_000, waitMs: 60_000, claimWindowMs: 60_000 }
    const group = this.#nextId()
    return this.api.acquireAll({ group, members, holder: who, session: who, ...span, ...wish })
  }

  async claim(who: string, resource: string): Promise<ClaimAnswer> {
    return this.api.claim({ ...(await this.#place(who, resource)), session: who })
  }

  async withdraw(who: string, resource: string): Promise<void> {
    await this.api.withdraw({ ...(await this.#place(who, resource)), session: who, why: 'aborted' })
  }

  async upgrade(who: string, resource: string): Promise<UpgradeAnswer> {
    return this.api.upgrade({ ...(await this.#place(who, resource)), holder: who, mayWait: true })
  }

  async release(who: string, resource: string): Promise<void> {
    await this.api.release({ ...(await this.#place(who, resource)), holder: who })
  }

  /** Searches that nobody waits for have ended. */
  async settled(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
  }

  /** The id of what the receiver got. */
  async give(who: string, resource: string, to: string): Promise<string> {
    const newLeaseId = this.#newId(to, resource)
    const place = await this.#place(who, resource)
    await this.api.transfer({ ...place, holder: who, to, newLeaseId })
    return newLeaseId
  }

  async lease(who: string, resource: string): Promise<LeaseInfo | null> {
    return this.api.get(this.#id(who, resource))
  }

  async entry(leaseId: string): Promise<Entry | undefined> {
    return (await this.#store.find({ ids: [leaseId], limit: 1 })).entries[0]
  }

  async entries(): Promise<readonly Entry[]> {
    return (await this.#store.find({ limit: 1_000 })).entries
  }

  async #place(
    who: string,
    resource: string,
  ): Promise<Pick<Entry, 'resource' | 'extent'> & { leaseId: string }> {
    const leaseId = this.#id(who, resource)
    const entry = await this.entry(leaseId)
    return { leaseId, resource: resource as Resource, extent: entry?.extent ?? 'exact' }
  }

  #id(who: string, resource: string): string {
    const id = this.#ids.get(`${who} ${resource}`)
    if (id === undefined) throw new Error(`${who} never asked for ${resource}`)
    return id
  }

  #newId(who: string, resource: string): string {
    const id = this.#nextId()
    this.#ids.set(`${who} ${resource}`, id)
    return id
  }

  #count = 0
  #nextId(): string {
    this.#count += 1
    return `00000000-0000-4000-8000-${String(this.#count).padStart(12, '0')}`
  }
}
