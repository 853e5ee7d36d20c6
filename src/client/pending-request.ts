/**
 * What a wait is about: one resource, or several at once (an upgrade is in `lease-mode.ts`). Each is a request that can be
 * filed, claimed and withdrawn; `waiting.ts` waits for all of them alike and knows none of them.
 */
import type { Blocker } from '../core/conflict.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { CLAIM_WINDOW_MS_DEFAULT } from '../core/limits.ts'
import type { Dropped, Refusal, Waiting } from '../core/outcome.ts'
import type { Extent, Reach, Resource } from '../core/resource.ts'
import type {
  AcquireAllRequest,
  AcquireRequest,
  Requester,
  HandOffWaiter,
  LeaseApi,
  TicketRef,
  Unsubscribe,
} from '../service/lease-api.ts'
import { isServed, isTurnOf } from './waiter-turn.ts'

/** One lease, or as many as were asked for, in that order. */
export type GrantedAnswer =
  | { readonly kind: 'granted'; readonly lease: LeaseInfo; readonly repeated: boolean }
  | {
      readonly kind: 'granted_all'
      readonly leases: readonly LeaseInfo[]
      readonly repeated: boolean
    }

export function leasesIn(granted: GrantedAnswer): readonly LeaseInfo[] {
  return granted.kind === 'granted' ? [granted.lease] : granted.leases
}

export interface QueuedAnswer {
  readonly kind: 'queued' | 'queued_all'
  readonly blockers: readonly Blocker[]
  readonly waitMs: number
  /** How often its waiter must be heard of. */
  readonly keepAliveMs: number
  /** When to claim again, if no wake-up comes for the ticket. */
  readonly checkAfterMs: number
  /** Of a ticket that can be served by itself: its place among others. */
  readonly orderUs?: number
}

export type WaitAnswer = GrantedAnswer | QueuedAnswer | Waiting | Dropped | Refusal

export type Why = 'timed_out' | 'aborted'

/** What a waiter says when its ticket is filed. */
export type FilingHints = Pick<AcquireRequest, 'behindOwn'>

/** What a waiter says with its claim. */
export type ClaimHints = Pick<TicketRef, 'expects' | 'implied' | 'behindOwn'>

/** How a release of the same process takes the claim of a wait along, in its own commit. */
export type HandOff = Pick<HandOffWaiter, 'isReady' | 'carryClaim' | 'onFirst'>

/** Where a wait stands in the queue. */
export type OwnPlace = Pick<HandOffWaiter, 'id' | 'resource' | 'orderUs'>

export interface PendingRequest {
  /** What is waited for, as messages name it. */
  readonly subject: string
  readonly waitMs: number | 'configured'
  /** Whether it has several tickets, of which one may be refused while the others stand. */
  readonly hasParts: boolean
  /** Whether the request does not say what it is under, so that it may follow from a standstill. */
  readonly isPlain: boolean
  /** Asks for it, and files a ticket where it is held. Asking the same again is safe. */
  file(waitMs: number | 'configured', hints: FilingHints | null, by: Requester): Promise<WaitAnswer>
  /** Asks whether the ticket can be served, and keeps it alive. */
  claim(hints: ClaimHints, by: Requester): Promise<WaitAnswer>
  /** Withdraws the ticket; what was granted meanwhile is released. */
  withdraw(why: Why, by: Requester): Promise<unknown>
  /** After how long nothing that it has left keeps others waiting, although it was not withdrawn. */
  readonly lapsesAfterMs: number
  /** Whether a granted lease was another's before, so that its time and fence are older than the request. */
  isForeign(lease: LeaseInfo): boolean
  /** Lets a release of this process take the claim along from now on; null for what is not served by one claim. */
  awaitHandOff(handOff: HandOff, orderUs: number): Unsubscribe | null
  /** Its place among others of its client; null if it may be served although one of these waits before it. */
  placeAt(orderUs: number): OwnPlace | null
  /** A look that changes nothing: could a claim succeed, or is the ticket gone? */
  mayBeTurn(): Promise<boolean>
}

/** One resource. A class, because every lease begins with one, and an object of functions is made function by function. */
export class PendingAcquire implements PendingRequest {
  readonly hasParts = false
  readonly #api: LeaseApi
  readonly #request: AcquireRequest

  constructor(api: LeaseApi, request: AcquireRequest) {
    this.#api = api
    this.#request = request
  }

  get isPlain(): boolean {
    return this.#request.under === undefined
  }

  get subject(): string {
    return this.#request.resource
  }

  get waitMs(): number | 'configured' {
    return this.#request.waitMs ?? 'configured'
  }

  file(
    waitMs: number | 'configured',
    hints: FilingHints | null,
    by: Requester,
  ): Promise<WaitAnswer> {
    const isAsAsked = waitMs === this.waitMs && hints === null
    const filed = isAsAsked ? this.#request : { ...this.#request, waitMs, ...hints }
    return this.#api.acquire(filed, by)
  }

  claim(hints: ClaimHints, by: Requester): Promise<WaitAnswer> {
    return this.#api.claim(Object.assign(this.#ticket, hints), by)
  }

  get lapsesAfterMs(): number {
    return lapsesAfterMs(this.#request)
  }

  withdraw(why: Why, by: Requester): Promise<unknown> {
    return this.#api.withdraw({ ...this.#ticket, why }, by)
  }

  isForeign({ id }: LeaseInfo): boolean {
    return id !== this.#request.id
  }

  awaitHandOff({ isReady, carryClaim, onFirst }: HandOff, orderUs: number): Unsubscribe | null {
    const { id, resource } = this.#request
    return this.#api.standBy?.({ id, resource, orderUs, isReady, carryClaim, onFirst }) ?? null
  }

  /** A shared lease may be offered beside others, and one that reaches further is not offered: its waiter has to look. */
  placeAt(orderUs: number): OwnPlace | null {
    const { id, resource, slots, extent = 'exact' } = this.#request
    const { mode = slots === undefined ? 'exclusive' : 'shared' } = this.#request
    return mode === 'exclusive' && extent === 'exact' ? { id, resource, orderUs } : null
  }

  async mayBeTurn(): Promise<boolean> {
    const ticket = this.#ticket
    // A ticket that reaches further is woken, not offered, so it has to look at all that may be in its way.
    if (ticket.extent === 'exact') return isServed(await this.#api.get({ id: ticket.id }))
    return isTurnOf(ticket.id, await this.#api.inspect(reachOf(ticket)))
  }

  get #ticket(): TicketRef & { readonly extent: Extent } {
    return ticketRefOf(this.#request, this.#request)
  }
}

/** Several resources, all or none. */
export function pendingGroup(api: LeaseApi, request: AcquireAllRequest): PendingRequest {
  const tickets = request.members.map((member) => ticketRefOf(member, request))
  return {
    lapsesAfterMs: lapsesAfterMs(request),
    subject: request.members.map(({ resource }) => resource).join(', '),
    waitMs: request.waitMs ?? 'configured',
    hasParts: true,
    isPlain: request.under === undefined,
    file: (waitMs, _hints, by) => api.acquireAll({ ...request, waitMs }, by),
    claim: ({ implied }, by) => {
      const hints = implied === undefined ? {} : { implied }
      return api.claimAll({ tickets: tickets.map((ticket) => ({ ...ticket, ...hints })) }, by)
    },
    withdraw: (why, by) => {
      return Promise.all(tickets.map((ticket) => api.withdraw({ ...ticket, why }, by)))
    },
    awaitHandOff: () => null,
    placeAt: () => null,
    isForeign: ({ id }) => !tickets.some((ticket) => ticket.id === id),
    mayBeTurn: async () => {
      const looks = tickets.map(async (ticket) => {
        return isTurnOf(ticket.id, await api.inspect(reachOf(ticket)))
      })
      return (await Promise.all(looks)).every(Boolean)
    },
  }
}

/** A ticket without a keep-alive, or its offer, is dropped after a claim window, and what was granted expires. */
function lapsesAfterMs({
  ttlMs = Infinity,
  claimWindowMs = CLAIM_WINDOW_MS_DEFAULT,
}: Pick<AcquireRequest, 'ttlMs' | 'claimWindowMs'>): number {
  return ttlMs + claimWindowMs
}

export function ticketRefOf(
  asked: { readonly id: string; readonly resource: Resource; readonly extent?: Extent },
  { holder, session }: { readonly holder: string; readonly session: string },
): TicketRef & { readonly extent: Extent } {
  const { id, resource, extent = 'exact' } = asked
  return { id, resource, extent, holder, session }
}

function reachOf({ resource, extent }: TicketRef & Reach): Reach {
  return { resource, extent }
}
