/**
 * What a holder does with its lease on behalf of others: derives from it, spends its budget, and shows a signed grant of
 * it. Requests are sent as often as it takes under one id, so that a lost answer does no harm: a child is derived once,
 * and what was spent is spent once.
 */
import { remainingBudget, type Budget } from '../core/budget.ts'
import { delegationOf } from '../core/delegation.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { refusalError, type Refusal } from '../core/outcome.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { DeriveRequest, LeaseApi } from '../service/lease-api.ts'
import { termOf } from './grant-term.ts'
import type { HolderClock, Moment } from './holder-clock.ts'
import { effectOf, retry } from './retry.ts'
import type { LeaseTarget } from './lease-release.ts'
import type { DeriveWish } from './read-options.ts'
import type { Grant } from './waiting.ts'

const DERIVE_WITHIN_MS = 10_000
const SPEND_WITHIN_MS = 10_000

export interface DelegationParts {
  readonly api: LeaseApi
  readonly runtime: Runtime
  readonly clock: HolderClock
  /** Of the client: where its handles hear of what others do. */
  readonly session: string
  readonly target: LeaseTarget
  /** The store said how the lease stands; `sent`: before it was asked. */
  readonly onChanged: (lease: LeaseInfo, sent: Moment) => void
  readonly onRefused: (refusal: Refusal) => void
  /** A derivation whose outcome nobody knows is taken back. */
  readonly discard: (child: Discarded) => void
}

/** With the session itself, not what a store tells of it. */
export type Discarded = Pick<LeaseInfo, 'id' | 'resource' | 'extent' | 'holder' | 'session'>

export class LeaseDelegation {
  readonly #parts: DelegationParts

  constructor(parts: DelegationParts) {
    this.#parts = parts
  }

  async derive(wish: DeriveWish): Promise<Grant> {
    const { api, runtime, clock, session, target, onRefused } = this.#parts
    const { id, resource, extent, holder: by } = target
    const parent = { id, resource, extent }
    const request: DeriveRequest = { session, ...wish, id: runtime.uuid(), parent, by }
    const first = clock.now()
    let last = first
    const answer = await retry({ runtime, withinMs: DERIVE_WITHIN_MS }, async () => {
      last = clock.now()
      return api.derive(request)
    }).catch((error: unknown) => {
      this.#takeBack(request, error)
      throw error
    })
    if (answer.kind === 'queued') throw new Error('a derivation never waits')
    if (answer.kind !== 'granted') {
      // Only what is said of the parent concerns this lease; a sibling may be in the way.
      if ('leaseId' in answer && answer.leaseId === id) onRefused(answer)
      throw refusalError(answer)
    }
    const { lease } = answer
    const now = clock.now()
    const term = termOf(lease, { isOlder: false }, { first, last, clock, now })
    return { lease, isOlder: false, term, now }
  }

  /** Tells what is left. */
  async spend(amounts: Budget, requestId: string): Promise<Budget> {
    const { api, runtime, clock, target, onChanged, onRefused } = this.#parts
    const request = { ...target, amounts, requestId }
    let sent = clock.now()
    const answer = await retry({ runtime, withinMs: SPEND_WITHIN_MS }, async () => {
      sent = clock.now()
      return api.spend(request)
    })
    if (answer.kind !== 'spent') {
      onRefused(answer)
      throw refusalError(answer)
    }
    // A repeat is answered also when the lease has ended since, of which its handle hears as always.
    if (answer.lease.state === 'active') onChanged(answer.lease, sent)
    const { limits, used } = delegationOf(answer.lease)
    return remainingBudget(limits, used)
  }

  #takeBack(request: DeriveRequest, error: unknown): void {
    if (effectOf(error) !== 'unknown') return
    const { target, discard } = this.#parts
    const { id, holder, session, resource = target.resource } = request
    const own = request.resource === undefined ? target.extent : 'exact'
    discard({ id, holder, session, resource, extent: request.extent ?? own })
  }
}
