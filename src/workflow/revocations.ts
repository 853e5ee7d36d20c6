/**
 * Revocations of workflow leases, from the ledger. A guard with a client follows them itself. For guards without one,
 * `relayRevocations` publishes them on the bus. One relay for each bus is enough; several do no harm.
 */
import type { Tenure } from '../client/contract.ts'
import { invalid, isLeaseError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import { refuseUnknown } from '../core/input.ts'
import { RepeatedFault, report } from '../runtime/diagnostics.ts'
import { backOffMs, pause } from '../runtime/pause.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { Position } from '../service/lease-api.ts'
import { RecentMap, WORKFLOWS_REMEMBERED } from './action-marks.ts'
import type { Bus } from './bus.ts'
import type { Revocation } from './wire/action-json.ts'
import { isInsideScope, runOutsideScopes } from './work-scope.ts'

const PREFIX = 'workflow:'

/** The methods of a client that revocations are read with. */
export type RevocationSource = Pick<Tenure, 'watch' | 'get'>

export interface RelayOptions {
  /** Ends the relay when it aborts. */
  readonly signal: AbortSignal
  /** The last position of an earlier relay, so that no revocation is missed. Default: from now on. */
  readonly after?: Position
  /** Called with the position each time the bus has accepted a revocation. */
  readonly onRelayed?: (position: Position) => void
}

/** Runs until the signal aborts. Throws what the bus or the store throws; the caller starts it again. */
export async function relayRevocations(
  tenure: RevocationSource,
  bus: Bus,
  options: RelayOptions,
): Promise<void> {
  refuseUnknown(options, ['signal', 'after', 'onRelayed'])
  const { signal, after, onRelayed } = options ?? {}
  if (typeof tenure?.watch !== 'function') throw invalid('tenure', 'must be a client', tenure)
  if (typeof bus?.announce !== 'function') throw invalid('bus', 'must be a bus', bus)
  if (!(signal instanceof AbortSignal)) throw invalid('signal', 'must be an AbortSignal', signal)
  const place = {
    ...{ signal, onPosition: (position: Position) => onRelayed?.(position) },
    ...(after === undefined ? {} : { after }),
  }
  try {
    await followRevocations(tenure, place, (revocation) => bus.announce(revocation))
  } catch (error) {
    if (!signal.aborted || !isLeaseError(error)) throw error
    // The caller has ended it; a revocation that was not relayed comes again after the last position.
    if (error.code !== 'ABORTED') report('workflow/relay', error)
  }
}

interface FollowOptions {
  readonly signal: AbortSignal
  /** Default: from now on. */
  readonly after?: Position
  /** Called after every revocation up to this position was notified. */
  readonly onPosition: (position: Position) => void
}

/** One after the other, until the signal aborts or the client is closed. Throws what the store or `notify` throws. */
export async function followRevocations(
  tenure: RevocationSource,
  { onPosition, ...where }: FollowOptions,
  notify: (revocation: Revocation) => Promise<void> | void,
): Promise<void> {
  for await (const { event, position } of tenure.watch({ types: ['lease.revoked'], ...where })) {
    const revocation = await revocationOf(tenure, event)
    if (revocation !== null) await notify(revocation)
    onPosition(position)
  }
}

async function revocationOf(
  tenure: Pick<Tenure, 'get'>,
  event: LeaseEvent,
): Promise<Revocation | null> {
  if (event.type !== 'lease.revoked' || !event.resource.startsWith(PREFIX)) return null
  const lease = await tenure.get(event.leaseId)
  if (lease === null || lease.fence === null) return null
  return {
    workflowId: event.resource.slice(PREFIX.length),
    leaseId: event.leaseId,
    fence: lease.fence,
    reason: event.reason,
    revokedAtMs: event.terminatedAtMs,
  }
}

/** The part of a revocation that a guard needs. */
export type RevokedLease = Pick<Revocation, 'workflowId' | 'leaseId' | 'fence'>

interface RevocationWatchOptions {
  readonly tenure: RevocationSource & Pick<Tenure, 'history'>
  readonly runtime: Runtime
  /** May throw errors of the marks; the revocation counts in this process all the same. */
  readonly onRevoked: (revoked: RevokedLease) => Promise<void>
}

const RETRY = { firstMs: 200, maxMs: 5_000 }

/**
 * Follows revocations of workflow leases in the ledger, for a guard with a client. The watch begins at a known position,
 * so that a revocation of a lease is either found when the lease is checked or notified later.
 *
 *  1. The guard gets an action with a lease: the watch begins, if it has not.
 *  2. The guard asks the store whether that lease was revoked.
 *  3. From then on the watch notifies the guard. A watch that fails continues at its last position, or where nothing that
 *     follows was pruned.
 *
 * While the ledger is empty there is no position to begin at, and the store is asked for each action. A store that keeps
 * no history notifies only the holder of a revocation.
 */
export class RevocationWatch {
  readonly #options: RevocationWatchOptions
  readonly #closing = new AbortController()
  readonly #fault: RepeatedFault
  /** The lease of each workflow that the store was asked about since the watch began. */
  #known = new RecentMap<string>(WORKFLOWS_REMEMBERED)
  #beginning: Promise<boolean> | null = null
  #running: Promise<void> | null = null
  #recording: Promise<void> = Promise.resolve()

  constructor(options: RevocationWatchOptions) {
    this.#options = options
    this.#fault = new RepeatedFault('workflow/revocations', options.runtime)
  }

  /** Whether a revocation of this lease has been, or will be, notified. */
  knows(workflowId: string, leaseId: string): boolean {
    return this.#known.get(workflowId) === leaseId
  }

  /** Asks the store whether the lease was revoked. Throws what the store throws. */
  async check(workflowId: string, leaseId: string): Promise<void> {
    const isFollowed = await this.#begin()
    const lease = await this.#options.tenure.get(leaseId)
    if (lease?.state === 'revoked' && lease.fence !== null) {
      const { fence } = lease
      await this.#options.onRevoked({ workflowId, leaseId, fence })
    }
    if (isFollowed) this.#known.set(workflowId, leaseId)
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#running
    // Inside an effect of the guard, the recording may wait for that very effect.
    if (!isInsideScope(this)) await this.#recording
  }

  /** False where there is no position to begin at. */
  #begin(): Promise<boolean> {
    if (this.#running !== null) return Promise.resolve(true)
    this.#beginning ??= this.#start().finally(() => (this.#beginning = null))
    return this.#beginning
  }

  async #start(): Promise<boolean> {
    const question = { newestFirst: true, limit: 1, refusals: false } as const
    const [last] = await this.#options.tenure.history(question)
    if (last === undefined || this.#closing.signal.aborted) return false
    // The watch is not part of the action that started it.
    this.#running = runOutsideScopes(() => this.#run(last.position)).finally(
      () => (this.#running = null),
    )
    return true
  }

  /** Runs until the watch or the client is closed. */
  async #run(from: Position): Promise<void> {
    const { signal } = this.#closing
    let after = from
    const onPosition = (position: Position): void => {
      after = position
      this.#fault.succeeded()
    }
    while (!signal.aborted) {
      try {
        await followRevocations(this.#options.tenure, { signal, after, onPosition }, (one) => {
          this.#record(one)
        })
      } catch (error) {
        if (signal.aborted || (isLeaseError(error) && error.code === 'CLOSED')) break
        const prunedUpTo = isLeaseError(error) ? error.details['prunedUpTo'] : undefined
        if (typeof prunedUpTo === 'string') {
          after = prunedUpTo
          // A revocation may have been missed: the store is asked about each lease once more.
          this.#known = new RecentMap<string>(WORKFLOWS_REMEMBERED)
          continue
        }
        this.#fault.failed(error)
        const pauseMs = backOffMs(this.#fault.count, RETRY)
        await pause(this.#options.runtime, pauseMs, { keepAlive: false, signal })
      }
    }
    this.#known = new RecentMap<string>(WORKFLOWS_REMEMBERED)
  }

  /** Does not wait: the marks may be busy with an effect of this workflow, and the next revocation must not wait for it. */
  #record(revocation: Revocation): void {
    const recorded = this.#options.onRevoked(revocation).catch((error: unknown) => {
      this.#fault.failed(error)
    })
    this.#recording = Promise.all([this.#recording, recorded]).then(() => undefined)
  }
}
