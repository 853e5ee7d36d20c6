/** What every handle of a client shares with the others, and how it tells the client what became of it. */
import type { LeaseInfo } from '../core/lease.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import type { HolderClock } from './holder-clock.ts'
import type { RenewalScheduler } from './renewal-scheduler.ts'
import type { WaitParts } from './waiting.ts'

export interface HandleParts<Handle> {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly clock: HolderClock
  readonly scheduler: RenewalScheduler
  /** Takes over work that no caller waits for; it must neither be lost at close nor reject into the void. */
  readonly background: (work: Promise<unknown>) => void
  /** For an upgrade that has to wait. */
  readonly waitParts: () => WaitParts
  /** Finds out, in the background, how the store sees the lease. */
  readonly askAbout: (handle: Handle) => void
  /** The lease has a new fence. */
  readonly onFence: (lease: LeaseInfo) => void
  /** The handle holds nothing any more. */
  readonly onEnd: (handle: Handle) => void
}
