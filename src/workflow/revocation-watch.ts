/**
 * Hears of revoked workflow leases from the ledger, for a guard that was given a client. The watch begins at a known
 * position, so that of every lease that is looked at afterwards a revocation is either seen by the look or heard later.
 *
 *  1. The guard meets a lease: the watch begins, if it has not.
 *  2. The store is asked whether that lease was revoked.
 *  3. From then on the watch tells. A watch that fails goes on where it was.
 *
 * While the ledger is empty there is no position to begin at, and the store is asked each time. A store that keeps no
 * history tells nobody of a revocation but the holder.
 */
import type { Tenure } from '../client/contract.ts'
import { isLeaseError } from '../core/errors.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { Position } from '../service/lease-api.ts'
import { WORKFLOWS_REMEMBERED } from './action-marks.ts'
import { RecentMap } from './recent-map.ts'
import { followRevocations, type RevocationSource } from './revocations.ts'
import { isWithin, outside } from './within.ts'
import type { Revocation } from './wire/action-json.ts'

/** What a guard must know of a revocation. */
export type Revoked = Pick<Revocation, 'workflowId' | 'leaseId' | 'fence'>

export interface RevocationWatchParts {
  readonly tenure: RevocationSource & Pick<Tenure, 'history'>
  readonly runtime: Runtime
  /** Throws what its marks throw; the revocation counts in this process all the same. */
  readonly onRevoked: (revoked: Revoked) => Promise<void>
}

const PAUSE_MS_MIN = 100
const PAUSE_MS_MAX = 5_000

export class RevocationWatch {
  readonly #parts: RevocationWatchParts
  readonly #closing = new AbortController()
  readonly #fault: RepeatedFault
  /** The lease of each workflow that the store was asked about since the watch began. */
  #known = new RecentMap<string>(WORKFLOWS_REMEMBERED)
  #beginning: Promise<boolean> | null = null
  #running: Promise<void> | null = null
  #noting: Promise<void> = Promise.resolve()

  constructor(parts: RevocationWatchParts) {
    this.#parts = parts
    this.#fault = new RepeatedFault('workflow/revocations', parts.runtime)
  }

  /** Whether a revocation of this lease has been, or will be, heard of. */
  knows(workflowId: string, leaseId: string): boolean {
    return this.#known.get(workflowId) === leaseId
  }

  /** Throws what the store throws: nobody knows then whether the lease was revoked. */
  async look(workflowId: string, leaseId: string): Promise<void> {
    const isFollowed = await this.#begin()
    const lease = await this.#parts.tenure.get(leaseId)
    if (lease?.state === 'revoked' && lease.fence !== null) {
      const { fence } = lease
      await this.#parts.onRevoked({ workflowId, leaseId, fence })
    }
    if (isFollowed) this.#known.set(workflowId, leaseId)
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#running
    // An effect that closes its own guard has the turn that such a note may wait for.
    if (!isWithin(this)) await this.#noting
  }

  /** False where there is no position to begin at. */
  #begin(): Promise<boolean> {
    if (this.#running !== null) return Promise.resolve(true)
    this.#beginning ??= this.#start().finally(() => (this.#beginning = null))
    return this.#beginning
  }

  async #start(): Promise<boolean> {
    const [last] = await this.#parts.tenure.history({ newestFirst: true, limit: 1 })
    if (last === undefined || this.#closing.signal.aborted) return false
    // The action that set it off has no part in it.
    this.#running = outside(() => this.#run(last.position)).finally(() => (this.#running = null))
    return true
  }

  /** Until it is closed, or the client is: then nothing is known any more, and every action asks, in vain. */
  async #run(from: Position): Promise<void> {
    const { signal } = this.#closing
    let after = from
    const onPosition = (position: Position): void => {
      after = position
      this.#fault.succeeded()
    }
    while (!signal.aborted) {
      try {
        await followRevocations(this.#parts.tenure, { signal, after, onPosition }, (one) => {
          this.#note(one)
        })
      } catch (error) {
        if (signal.aborted || (isLeaseError(error) && error.code === 'CLOSED')) break
        this.#fault.failed(error)
        await this.#pause()
      }
    }
    this.#known = new RecentMap<string>(WORKFLOWS_REMEMBERED)
  }

  /** The marks may be busy with an effect of this very workflow, and the next revocation must not wait for that. */
  #note(revocation: Revocation): void {
    const noted = this.#parts.onRevoked(revocation).catch((error: unknown) => {
      this.#fault.failed(error)
    })
    this.#noting = Promise.all([this.#noting, noted]).then(() => undefined)
  }

  #pause(): Promise<void> {
    const { runtime } = this.#parts
    const { signal } = this.#closing
    const pauseMs = Math.min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2 ** Math.min(this.#fault.count, 10))
    return new Promise((resolve) => {
      let timer: Timer | null = null
      const end = (): void => {
        timer?.cancel()
        signal.removeEventListener('abort', end)
        resolve()
      }
      if (signal.aborted) return resolve()
      timer = runtime.setTimer(pauseMs, end, { keepAlive: false })
      signal.addEventListener('abort', end)
    })
  }
}
