/** What every handle of a client shares with the others, and how it tells the client what became of it. */
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import type { Resource } from '../core/resource.ts'
import type { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import type { HolderClock } from './holder-clock.ts'
import type { Discarded } from './lease-delegation.ts'
import type { HandleFacts } from './lease-knowledge.ts'
import type { ReadAcquire } from './read-options.ts'
import type { RenewalScheduler } from './renewal-scheduler.ts'
import type { Grant, WaitParts } from './waiting.ts'

export interface HandleParts<Handle> {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly clock: HolderClock
  readonly scheduler: RenewalScheduler
  /** Of the client. */
  readonly session: string
  /**
   * Takes over the release of a lease that is over for its holder; until it has ended, no answer brings the lease back.
   */
  readonly giveBack: (
    handle: Handle,
    release: { readonly source: string; readonly work: Promise<unknown> },
  ) => void
  /** The client was closed and waits for nothing any more. */
  readonly hasEnded: () => boolean
  /** How long a lease of this resource is renewed by itself, as the store says now; null: as long as it is held. */
  readonly readMaxHoldMs: ((resource: Resource) => () => Promise<number>) | null
  /** Of automatic renewals. */
  readonly renewalFault: RepeatedFault
  /** For an upgrade that has to wait. */
  readonly waitParts: () => WaitParts
  /** Finds out, in the background, how the store sees the lease. */
  readonly askAbout: (handle: Handle) => void
  /** The holder has made a call. */
  readonly onCall: () => void
  readonly sequential: boolean
  /** What a call that is made now is said to be under; null: nothing. */
  readonly underOf: () => readonly LeaseId[] | null
  /** Acquires what is asked for under the lease of a handle. */
  readonly acquireUnder: (wanted: ReadAcquire) => Promise<Handle>
  /** The lease has a new fence. */
  readonly onFence: (lease: LeaseInfo) => void
  /** Turns what was derived from a lease into a handle of its own. */
  readonly handOutChild: (
    parent: Handle,
    derivation: Promise<Grant>,
    facts: Pick<HandleFacts, 'autoRenew'>,
  ) => Promise<Handle>
  /** The signed token of the lease. */
  readonly signedGrant: (handle: Handle) => string
  /** Gives back, in the background, what nobody is to have. */
  readonly discard: (lease: Discarded) => void
  /** The holder has begun to give the lease up: what was derived from it ends with it. */
  readonly onLettingGo: (handle: Handle) => void
  /** The lease was kept beyond its first term, without anybody asking. */
  readonly onKept: (handle: Handle) => void
  /** The handle holds nothing any more. */
  readonly onEnd: (handle: Handle) => void
}
