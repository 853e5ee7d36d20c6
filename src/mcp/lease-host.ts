/**
 * What the tools stand on: a store, in the name of the caller, and what becomes of leases between calls. `tenure mcp`
 * has one for its process, a server one for each request.
 */
import type { Acquired, CallerConnection } from '../client/caller-connection.ts'
import { isLeaseError } from '../core/errors.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { refusalError } from '../core/outcome.ts'
import type { Reach } from '../core/resource.ts'
import { report, reportTo } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { AcquireAllRequest, AcquireRequest, LeaseApi } from '../service/lease-api.ts'

export type HostApi = Pick<
  LeaseApi,
  'get' | 'list' | 'inspect' | 'derive' | 'renew' | 'release' | 'withdraw'
>

export interface LeaseHost {
  readonly runtime: Runtime
  readonly api: HostApi
  /** Waits, and leaves its place in the queue when the connection ends. Throws every refusal. */
  acquire(request: AcquireRequest, connection: CallerConnection): Promise<Acquired>
  acquireAll(request: AcquireAllRequest, connection: CallerConnection): Promise<Acquired>
  /** The holder of calls that name none; null: every call must name its holder. */
  readonly holder: string | null
  /** A path or `kind:name`, as a model writes it. */
  readReach(text: string): Reach
  /** The TTL of a lease whose request names none; null: the store's own for what is renewed automatically. */
  readonly ttlMs: number | null
  /** Until when a lease lasts, in words for the model. */
  readonly lifetime: string
  /** Before each call of a holder. */
  onCall(holder: string): Promise<void>
  onGranted(leases: readonly LeaseInfo[]): void
  onReleased(leaseId: string): void
}

/** A store that is away, or a renewal that came too soon, is asked again this often within what is left of a lease. */
const TRIES_PER_TTL = 9
const RENEWALS_PER_TTL = 3

/**
 * Renews what a process has taken for its models, because no model counts seconds: each lease at a third of its TTL, until it is
 * released, ends, or its longest hold is over. It holds nothing itself, and promises nothing about what a model does with a
 * lease that was lost: the next call about it says so.
 */
export class LeaseKeeper {
  readonly #api: Pick<LeaseApi, 'renew' | 'release'>
  readonly #runtime: Runtime
  readonly #kept = new Map<string, { readonly lease: LeaseInfo; readonly timer: Timer }>()
  #isClosed = false

  constructor(api: Pick<LeaseApi, 'renew' | 'release'>, runtime: Runtime) {
    this.#api = api
    this.#runtime = runtime
  }

  keep(lease: LeaseInfo): void {
    this.#plan(lease, lease.ttlMs / RENEWALS_PER_TTL)
  }

  forget(leaseId: string): void {
    this.#kept.get(leaseId)?.timer.cancel()
    this.#kept.delete(leaseId)
  }

  /** Gives everything back. */
  async close(): Promise<void> {
    this.#isClosed = true
    const leases = [...this.#kept.values()].map(({ lease }) => lease)
    for (const { id } of leases) this.forget(id)
    const ends = leases.map(async ({ id, resource, extent, holder }) => {
      // A refusal is no fault: the lease has ended before.
      await this.#api.release({ id, resource, extent, holder, session: holder })
    })
    await Promise.all(ends.map((end) => end.catch(reportTo('mcp/release'))))
  }

  #plan(lease: LeaseInfo, delayMs: number): void {
    this.forget(lease.id)
    if (this.#isClosed) return
    const renew = (): void => void this.#renew(lease).catch(reportTo('mcp/renew'))
    const timer = this.#runtime.setTimer(delayMs, renew, { keepAlive: false })
    this.#kept.set(lease.id, { lease, timer })
  }

  async #renew(lease: LeaseInfo): Promise<void> {
    const { id, resource, extent, holder, ttlMs } = lease
    try {
      const answer = await this.#api.renew({ id, resource, extent, holder })
      if (!this.#kept.has(id)) return
      if (answer.kind === 'renewed') return this.keep(answer.lease)
      const isTooSoon = answer.kind === 'renewal_limit' && answer.parentId !== undefined
      // It lasts as long as its parent does, which was not renewed since.
      if (isTooSoon) return this.#plan(lease, ttlMs / TRIES_PER_TTL)
      // It has ended, or its longest hold is over: then it lasts until its deadline.
      this.forget(id)
      report('mcp/renew', refusalError(answer))
    } catch (error) {
      if (!isLeaseError(error)) throw error
      report('mcp/renew', error)
      if (this.#kept.has(id)) this.#plan(lease, ttlMs / TRIES_PER_TTL)
    }
  }
}
