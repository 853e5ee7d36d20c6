/**
 * The transfer of one lease, sent as often as it takes under one request id and one id for the new lease, so that a
 * lost answer does no harm: whatever the first try did, the next one finds. A call for the same receiver after a try
 * whose outcome is unknown goes on where that one ended.
 */
import type { LeaseId } from '../core/lease.ts'
import type { Refusal } from '../core/outcome.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import { effectOf, retry } from './retry.ts'
import type { LeaseTarget } from './lease-release.ts'

const TRANSFER_WITHIN_MS = 10_000

export interface TransferParts {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly target: LeaseTarget
}

/** `leaseId`: of the receiver's lease; null when it went to the queue. */
export type TransferResult =
  { readonly kind: 'transferred'; readonly leaseId: LeaseId | null } | Refusal

interface Try {
  readonly to: string | null
  readonly requestId: string
  readonly newId: LeaseId
}

export class LeaseTransfer {
  readonly #parts: TransferParts
  /** A try of which nobody knows what became of it. */
  #open: Try | null = null

  constructor(parts: TransferParts) {
    this.#parts = parts
  }

  /** Whether the lease may have gone to another without this holder having heard of it. */
  get isOpen(): boolean {
    return this.#open !== null
  }

  async send(to: string | null): Promise<TransferResult> {
    const { api, runtime, target } = this.#parts
    const attempt = this.#tryFor(to)
    this.#open = attempt
    try {
      const limits = { runtime, withinMs: TRANSFER_WITHIN_MS }
      const answer = await retry(limits, async () => api.transfer({ ...target, ...attempt }))
      this.#open = null
      if (answer.kind !== 'transferred') return answer
      return { kind: 'transferred', leaseId: to === null ? null : attempt.newId }
    } catch (error) {
      if (effectOf(error) === 'none') this.#open = null
      throw error
    }
  }

  #tryFor(to: string | null): Try {
    if (this.#open !== null && this.#open.to === to) return this.#open
    const { runtime } = this.#parts
    return { to, requestId: runtime.uuid(), newId: runtime.uuid() }
  }
}
