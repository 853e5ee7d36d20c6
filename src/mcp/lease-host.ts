/**
 * What the tools stand on: a store, in the name of the caller, and what becomes of leases between calls. `tenure mcp`
 * has one for its process, a server one for each request.
 */
import type { Acquired, CallerConnection } from '../client/caller-connection.ts'
import type { LeaseInfo } from '../core/lease.ts'
import type { Reach } from '../core/resource.ts'
import type { Runtime } from '../runtime/runtime.ts'
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
