/**
 * Sends the renewals of one lease, planned ones and those its holder asks for, and reports what becomes of them. What
 * an answer means for the lease is the handle's business, and it knows before anybody who waits for the renewal.
 */
import type { LeaseInfo } from '../core/lease.ts'
import type { Refusal } from '../core/outcome.ts'
import type { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { LeaseApi, RenewAnswer, RenewRequest } from '../service/lease-api.ts'
import type { Moment } from './holder-clock.ts'
import { retry } from './retry.ts'
import type { LeaseTarget } from './lease-release.ts'
import { RenewalPlan } from './renewal-plan.ts'

export interface RenewerParts {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly target: LeaseTarget
  readonly renewed: Renewed
  /** Of automatic renewals, which have no caller: shared by all leases of a client. */
  readonly fault: RepeatedFault
}

/** Whoever hears what becomes of renewals. */
export interface Renewed {
  /** `from`: before the request was first sent. */
  onRenewed(lease: LeaseInfo, from: Moment): void
  onRefused(refusal: Refusal): void
  onFailed(error: unknown): void
  /** The holder has given the lease up, or lost it: nothing more is to be sent. */
  readonly isOver: boolean
}

export interface ManualRenewal {
  readonly ttlMs: number | null
  readonly sent: Moment
  readonly doubtInMs: number
  /** It is tried for no longer than this. */
  readonly withinMs: number
}

/** A spread of what may be left out would take V8 ten times as long. */
type Writable<Type> = { -readonly [Name in keyof Type]: Type[Name] }

export class LeaseRenewer {
  readonly plan: RenewalPlan = new RenewalPlan()
  readonly #parts: RenewerParts
  #underWay: Promise<RenewAnswer> | null = null

  constructor(parts: RenewerParts) {
    this.#parts = parts
  }

  /** A renewal under way that asks for no other TTL, so that it can answer for a second one. */
  get underWay(): Promise<RenewAnswer> | null {
    return this.#underWay
  }

  /** Never rejects into the void. `isCounted`: the store counts renewals, so each must have an id of its own. */
  renewAsPlanned(
    now: Moment,
    { isCounted, doubtInMs }: { readonly isCounted: boolean; readonly doubtInMs: number },
  ): void {
    const { api, runtime, fault } = this.#parts
    const id = (): string | null => (isCounted ? runtime.uuid() : null)
    const { requestId, firstSent } = this.plan.sending(now, { id, doubtInMs })
    const request = this.#request(null, requestId)
    const reported = this.#report(api.renew(request), firstSent)
    this.#keep(reported)
    reported.then(
      () => fault.succeeded(),
      (error: unknown) => fault.failed(error),
    )
  }

  renewNow({ ttlMs, sent, doubtInMs, withinMs }: ManualRenewal): Promise<RenewAnswer> {
    const { api, runtime, renewed } = this.#parts
    const request = this.#request(ttlMs, runtime.uuid())
    this.plan.sending(sent, { id: () => null, doubtInMs })
    const stopIf = (): boolean => renewed.isOver
    // Its caller hears of a failure soon, with most of the term still left.
    const limits = { runtime, withinMs, triesMax: 3, stopIf }
    const call = retry(limits, () => api.renew(request))
    const reported = this.#report(call, sent)
    if (ttlMs === null) this.#keep(reported)
    return reported
  }

  #keep(reported: Promise<RenewAnswer>): void {
    const ended = (): void => {
      if (this.#underWay === reported) this.#underWay = null
    }
    this.#underWay = reported
    void reported.then(ended, ended)
  }

  #report(call: Promise<RenewAnswer>, firstSent: Moment): Promise<RenewAnswer> {
    const { renewed } = this.#parts
    return call.then(
      (answer) => {
        if (answer.kind === 'renewed') renewed.onRenewed(answer.lease, firstSent)
        else renewed.onRefused(answer)
        return answer
      },
      (error: unknown) => {
        renewed.onFailed(error)
        throw error
      },
    )
  }

  #request(ttlMs: number | null, requestId: string | null): RenewRequest {
    const { id, resource, extent, holder } = this.#parts.target
    const request: Writable<RenewRequest> = { id, resource, extent, holder }
    if (ttlMs !== null) request.ttlMs = ttlMs
    if (requestId !== null) request.requestId = requestId
    return request
  }
}
