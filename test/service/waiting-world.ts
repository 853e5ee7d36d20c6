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
  TicketRef,
  UpgradeAnswer,
} from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { allEntries } from '../../src/testing/all-entries.ts'
import { FakeRuntime, ManualTicks } from '../../src/testing/fake-runtime.ts'
import { FaultyStore, type CallWeather, type FaultyMethod } from '../../src/testing/faulty-store.ts'

type Rest = Omit<AcquireRequest, 'leaseId' | 'resource' | 'holder' | 'session' | 'under'>

/** Without `under` said or left out, whoever waits is under all that it has. */
export type Wish = Partial<Rest> & { readonly under?: readonly string[] | undefined }

export class WaitingWorld {
  readonly ticks: ManualTicks = new ManualTicks()
  readonly runtime: FakeRuntime = new FakeRuntime()
  readonly api: LeaseService
  readonly #store: FaultyStore
  readonly #ids = new Map<string, string>()
  #failing: { readonly method: FaultyMethod; after: number; left: number } | null = null
  /** How often the store was looked at. */
  finds = 0
  #late: { left: number; readonly action: () => Promise<void> } | null = null

  constructor() {
    const store = new MemoryStore({ ticks: this.ticks })
    this.#store = new FaultyStore({ store, weather: ({ method }) => this.#weather(method) })
    this.api = new LeaseService({ store: this.#store, runtime: this.runtime })
  }

  #weather(method: FaultyMethod): CallWeather | undefined {
    const late = this.#late
    if (method === 'transact' && late !== null) {
      late.left -= 1
      if (late.left > 0) return undefined
      this.#late = null
      return { before: late.action() }
    }
    if (method === 'find') this.finds += 1
    const failing = this.#failing
    if (failing?.method === method && failing.after > 0) {
      failing.after -= 1
      return undefined
    }
    if (failing === null || failing.method !== method || failing.left === 0) return undefined
    failing.left -= 1
    return { fault: 'lost_request' }
  }

  /** The next calls of this kind, after some that do, do not reach the store. */
  failNext(method: FaultyMethod, times = 1, { after = 0 } = {}): void {
    this.#failing = { method, after, left: times }
  }

  /** Before the second of the commits to come is tried, this happens. */
  beforeSecondCommit(action: () => Promise<void>): void {
    this.#late = { left: 2, action }
  }

  async hold(who: string, resource: string, wish: Wish = {}): Promise<void> {
    const { under: _under, ...rest } = wish
    const answer = await this.#acquire(who, resource, { ...rest, waitMs: 0 })
    if (answer.kind !== 'granted') throw new Error(`${who} does not get ${resource}`)
  }

  /** Whoever waits here does nothing else meanwhile, so it waits under all that it has. */
  async wait(who: string, resource: string, wish: Wish = {}): Promise<AcquireAnswer> {
    const { under: said, ...rest } = wish
    const under = 'under' in wish ? said : await this.leasesOf(who)
    const asked = {
      ...{ waitMs: 60_000, claimWindowMs: 60_000, ...rest },
      ...(under === undefined ? {} : { under }),
    }
    return this.#unlessRefused(await this.#acquire(who, resource, asked))
  }

  async leasesOf(who: string): Promise<readonly string[]> {
    const { entries } = await this.#store.find({ holder: who, states: ['active'], limit: 100 })
    return entries.map(({ id }) => id)
  }

  /** What the search makes of a request that was filed. */
  async #unlessRefused<Answer extends { readonly kind: string; readonly leaseId?: string }>(
    answer: Answer,
  ): Promise<Answer | Extract<AcquireAnswer, { kind: 'deadlock' }>> {
    await this.settled()
    const { leaseId } = answer
    const entry = leaseId === undefined ? undefined : await this.entry(leaseId)
    if (leaseId === undefined || entry?.kind !== 'ticket' || entry.failure !== 'deadlock') {
      return answer
    }
    return { kind: 'deadlock', leaseId, cycle: entry.cycle ?? [] }
  }

  #acquire(
    who: string,
    resource: string,
    wish: Partial<AcquireRequest> & Pick<AcquireRequest, 'waitMs'>,
  ) {
    const place = { id: this.#newId(who, resource), resource: parseResource(resource) }
    return this.api.acquire({ ttlMs: 3_600_000, ...place, holder: who, session: who, ...wish })
  }

  async waitAll(
    who: string,
    resources: readonly string[],
    wish: Partial<Rest> = {},
  ): Promise<AcquireAllAnswer> {
    const under = await this.leasesOf(who)
    const members = resources.map((resource) => {
      return { id: this.#newId(who, resource), resource: parseResource(resource) }
    })
    const span = { ttlMs: 3_600_000, waitMs: 60_000, claimWindowMs: 60_000 }
    const group = this.#nextId()
    const asked = { group, members, holder: who, session: who, under, ...span, ...wish }
    const answer = await this.api.acquireAll(asked)
    const [leaseId] = answer.kind === 'queued_all' ? answer.leaseIds : []
    if (leaseId === undefined) return answer
    const seen = await this.#unlessRefused({ kind: 'queued', leaseId })
    return seen.kind === 'deadlock' && 'cycle' in seen ? seen : answer
  }

  async claim(
    who: string,
    resource: string,
    hints: Pick<TicketRef, 'implied'> = {},
  ): Promise<ClaimAnswer> {
    const place = await this.#place(who, resource)
    return this.#unlessRefused(
      await this.api.claim({ ...place, ...hints, holder: who, session: who }),
    )
  }

  async withdraw(who: string, resource: string): Promise<void> {
    const place = await this.#place(who, resource)
    await this.api.withdraw({ ...place, holder: who, session: who, why: 'aborted' })
  }

  async upgrade(who: string, resource: string): Promise<UpgradeAnswer> {
    const place = await this.#place(who, resource)
    const under = await this.leasesOf(who)
    return this.api.upgrade({ ...place, holder: who, under, mayWait: true })
  }

  async release(who: string, resource: string): Promise<void> {
    await this.api.release({ ...(await this.#place(who, resource)), holder: who })
  }

  /** Searches that nobody waits for have ended. */
  async settled(): Promise<void> {
    await this.api.settled()
  }

  /** The id of what the receiver got. */
  async give(who: string, resource: string, to: string): Promise<string> {
    const newLeaseId = this.#newId(to, resource)
    const place = await this.#place(who, resource)
    await this.api.transfer({ ...place, holder: who, to, newId: newLeaseId })
    return newLeaseId
  }

  async lease(who: string, resource: string): Promise<LeaseInfo | null> {
    return this.api.get({ id: this.#id(who, resource) })
  }

  async entry(leaseId: string): Promise<Entry | undefined> {
    return (await this.#store.find({ ids: [leaseId], limit: 1 })).entries[0]
  }

  async entries(): Promise<readonly Entry[]> {
    return allEntries(this.#store)
  }

  async #place(
    who: string,
    resource: string,
  ): Promise<Pick<Entry, 'resource' | 'extent'> & { id: string }> {
    const leaseId = this.#id(who, resource)
    const entry = await this.entry(leaseId)
    return { id: leaseId, resource: resource as Resource, extent: entry?.extent ?? 'exact' }
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
