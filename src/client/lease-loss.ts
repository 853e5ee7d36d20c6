/** Why a holder lost its lease, the one error that says so, and how it reaches callers that wait for an answer. */
import { isLeaseError, LeaseError } from '../core/errors.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { revocationFacts, type Refusal } from '../core/outcome.ts'
import { newAbortController } from '../runtime/abort-listeners.ts'

export type LossReason =
  | 'deadline_passed'
  | 'expired'
  | 'revoked'
  | 'released'
  | 'transferred'
  | 'not_found'
  | 'not_holder'
  | 'parent_ended'

const WORDS: Readonly<Record<LossReason, string>> = {
  deadline_passed: 'its deadline passed without a confirmed renewal',
  expired: 'the store says that it expired',
  revoked: 'it was revoked',
  released: 'it was released by another process',
  transferred: 'it was transferred to another',
  not_found: 'the store does not know it',
  not_holder: 'it has another holder',
  parent_ended: 'the lease that it was derived from has ended',
}

export function lossError(lease: LeaseInfo, reason: LossReason, cause: unknown = null): LeaseError {
  const { id: leaseId, resource, holder, fence } = lease
  const message = `lease ${leaseId} of ${resource} was lost: ${lossWords(reason, cause)}`
  const revocation = reason === 'revoked' ? revocationOf(lease, cause) : {}
  const details = { leaseId, resource, holder, fence, reason, ...revocation }
  return new LeaseError('LEASE_LOST', message, cause === null ? { details } : { details, cause })
}

/** As far as the store said it: with the refusal of what the holder asked for, or when the holder looked. */
function revocationOf(lease: LeaseInfo, cause: unknown): Readonly<Record<string, unknown>> {
  if (!isLeaseError(cause) || cause.details['revokedBy'] === undefined) {
    return { ...revocationFacts(lease) }
  }
  const { revokedBy, revokedFor, revokedAtMs } = cause.details
  return { revokedBy, revokedFor, revokedAtMs }
}

/** A lease that was not renewed because it may not be has reached its limit; nothing has gone wrong. */
function lossWords(reason: LossReason, cause: unknown): string {
  const isLimit = isLeaseError(cause) && cause.code === 'RENEWAL_LIMIT'
  const limit = isLimit && reason === 'deadline_passed' ? cause.details['limit'] : undefined
  if (typeof limit === 'string') return `it has reached ${limit}`
  const isUnheard = reason === 'deadline_passed' && isLeaseError(cause)
  return isUnheard ? `${WORDS[reason]} (${cause.message})` : WORDS[reason]
}

/** What a refusal says about the lease itself; null when the lease may well live on. */
export function lossOf(refusal: Refusal): LossReason | null {
  switch (refusal.kind) {
    case 'expired':
    case 'not_found':
    case 'not_holder':
      return refusal.kind
    case 'terminal':
      return refusal.releaseReason ?? (refusal.state === 'revoked' ? 'revoked' : 'released')
    case 'held':
    case 'id_taken':
    case 'request_reused':
    case 'renewal_limit':
    case 'does_not_extend':
    case 'queue_full':
    case 'deadlock':
    case 'stale_epoch':
    case 'no_epoch':
    case 'nobody_waiting':
    case 'already_adopted':
    case 'malformed_setting':
    case 'invalid_derivation':
    case 'budget_exhausted':
    case 'look_further':
      return null
  }
}

/** What the store's own word about a lease means for its holder; null when it is still held. */
export function lossSeen(lease: LeaseInfo): LossReason | null {
  switch (lease.state) {
    case 'active':
      return null
    case 'expired':
    case 'revoked':
      return lease.state
    case 'released':
      return lease.releaseReason === 'transferred' ? 'transferred' : 'released'
    case 'pending':
    case 'failed':
      return 'released'
  }
}

/** Whether an error says that there was nothing left to release. */
export function isGone(error: unknown): boolean {
  const codes = ['LEASE_LOST', 'LEASE_EXPIRED', 'LEASE_TERMINAL', 'LEASE_NOT_FOUND']
  return isLeaseError(error) && codes.includes(error.code)
}

/** For a caller that asks something of a lease that its own holder has given up. */
export function releasedError({ id, resource }: Pick<LeaseInfo, 'id' | 'resource'>): LeaseError {
  const details = { leaseId: id, resource, state: 'released' }
  return new LeaseError('LEASE_TERMINAL', `lease ${id} is already released`, { details })
}

/**
 * The loss that ended a piece of work. Timers, child processes and streams that were given the signal of a lease end with
 * an error of their own, which has the signal's reason as its cause.
 */
export function lossBehind(error: unknown, { aborted, reason }: AbortSignal): unknown {
  return aborted && error instanceof Error && error.cause === reason ? reason : undefined
}

/**
 * Lets callers wait for an answer of the store, but not beyond the loss of the lease that it is about, and aborts the
 * lease's signal at that moment.
 */
export class LossRace {
  #waiters: Set<(error: LeaseError) => void> | null = null
  /** Made for the first reader of the signal; most leases have none. */
  #controller: AbortController | null = null
  #lost: LeaseError | null

  /** `lost`: why the lease was lost before. */
  constructor(lost: LeaseError | null) {
    this.#lost = lost
  }

  get signal(): AbortSignal {
    this.#controller ??= newAbortController()
    if (this.#lost !== null) this.#controller.abort(this.#lost)
    return this.#controller.signal
  }

  run<Answer>(call: Promise<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const waiters = (this.#waiters ??= new Set())
      waiters.add(reject)
      call.then(
        (answer) => {
          waiters.delete(reject)
          resolve(answer)
        },
        (error: unknown) => {
          waiters.delete(reject)
          reject(error)
        },
      )
    })
  }

  lose(error: LeaseError): void {
    this.#lost = error
    this.#controller?.abort(error)
    for (const reject of this.#waiters ?? []) reject(error)
    this.#waiters = null
  }
}
