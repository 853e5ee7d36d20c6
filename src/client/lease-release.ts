/**
 * The release of one lease, sent as often as it takes under one request id, so that a lost answer does no harm. Bounded
 * in time: after that the lease ends by itself at its deadline.
 */
import type { LeaseId, LeaseInfo, ReleaseReason } from '../core/lease.ts'
import type { Refusal } from '../core/outcome.ts'
import type { Extent, Resource } from '../core/resource.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { LeaseApi, ReleaseAnswer } from '../service/lease-api.ts'
import { insist } from './insist.ts'

const RELEASE_WITHIN_MS = 10_000

/** How a handle names its lease to the store. */
export interface LeaseTarget {
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
}

/** Null in place of the lease: an earlier try had released it, and the store keeps no history. */
export type ReleaseResult =
  { readonly kind: 'released'; readonly lease: LeaseInfo | null } | Refusal

export class LeaseRelease {
  readonly #api: LeaseApi
  readonly #runtime: Runtime
  readonly #target: LeaseTarget
  #requestId: string | null = null
  #tries = 0

  constructor(api: LeaseApi, runtime: Runtime, target: LeaseTarget) {
    this.#api = api
    this.#runtime = runtime
    this.#target = target
  }

  get wasTried(): boolean {
    return this.#tries > 0
  }

  async send(releaseReason: ReleaseReason): Promise<ReleaseResult> {
    this.#requestId ??= this.#runtime.uuid()
    const request = { ...this.#target, releaseReason, requestId: this.#requestId }
    const limits = { runtime: this.#runtime, withinMs: RELEASE_WITHIN_MS }
    const answer = await insist(limits, async () => {
      this.#tries += 1
      return this.#api.release(request)
    })
    return this.#tries > 1 && isGone(answer) ? { kind: 'released', lease: null } : answer
  }
}

function isGone(answer: ReleaseAnswer): boolean {
  return answer.kind === 'not_found' || (answer.kind === 'terminal' && answer.state === 'released')
}
