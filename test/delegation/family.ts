/** A store, a supervisor with a root lease, and short ways to derive from it, spend and end. */
import { isLeaseError } from '../../src/core/errors.ts'
import { refusalError } from '../../src/core/outcome.ts'
import { parseResource } from '../../src/core/resource.ts'
import type { LeaseInfo } from '../../src/core/lease.ts'
import type { Budget } from '../../src/core/budget.ts'
import type { DeriveRequest } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { Store } from '../../src/store-port/store.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime, ManualTicks } from '../../src/testing/fake-runtime.ts'

export const ROOT_TTL_MS = 60_000

export function id(number: number): string {
  return `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`
}

type Wish = Partial<Omit<DeriveRequest, 'parent' | 'leaseId' | 'resource'>> & {
  readonly resource?: string
}

export class Family {
  readonly ticks = new ManualTicks()
  readonly store: Store
  readonly api: LeaseService
  #ids = 100

  constructor(open = (ticks: ManualTicks): Store => new MemoryStore({ ticks })) {
    this.store = open(this.ticks)
    this.api = new LeaseService({ store: this.store, runtime: new FakeRuntime() })
  }

  async root(resource = 'work:W-1', extent: 'exact' | 'subtree' = 'exact'): Promise<LeaseInfo> {
    this.#ids += 1
    const answer = await this.api.acquire({
      id: id(this.#ids),
      resource: parseResource(resource),
      extent,
      holder: 'boss',
      session: 'boss',
      ttlMs: ROOT_TTL_MS,
      waitMs: 0,
    })
    if (answer.kind !== 'granted') throw new Error(`the root was not granted: ${answer.kind}`)
    return answer.lease
  }

  async derive(parent: LeaseInfo, { resource, ...wish }: Wish = {}): Promise<LeaseInfo> {
    this.#ids += 1
    const holder = wish.holder ?? `agent-${this.#ids}`
    const answer = await this.api.derive({
      id: id(this.#ids),
      parent: { id: parent.id },
      by: parent.holder,
      session: holder,
      ...wish,
      holder,
      ...(resource === undefined ? {} : { resource: parseResource(resource) }),
    })
    if (answer.kind === 'granted') return answer.lease
    if (answer.kind === 'queued') throw new Error('a derivation does not wait')
    throw refusalError(answer)
  }

  async spend({ id: leaseId, holder }: LeaseInfo, amounts: Budget): Promise<LeaseInfo> {
    const answer = await this.api.spend({ id: leaseId, holder, amounts })
    if (answer.kind === 'spent') return answer.lease
    throw refusalError(answer)
  }

  async release({ id: leaseId, holder }: LeaseInfo): Promise<void> {
    const answer = await this.api.release({ id: leaseId, holder })
    if (answer.kind !== 'released') throw refusalError(answer)
  }

  async see({ id: leaseId }: LeaseInfo): Promise<LeaseInfo> {
    const lease = await this.api.get({ id: leaseId })
    if (lease === null) throw new Error(`${leaseId} is not there`)
    return lease
  }

  async used(lease: LeaseInfo): Promise<Budget> {
    return (await this.see(lease)).delegation?.used ?? {}
  }
}

export async function codeOf(act: Promise<unknown>): Promise<string> {
  try {
    await act
    return 'done'
  } catch (error) {
    if (isLeaseError(error)) return error.code
    throw error
  }
}
