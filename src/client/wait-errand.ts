/**
 * What a wait is about: one resource, several at once, or being alone with what one shares. Each is an errand that can
 * be filed, claimed and withdrawn; `waiting.ts` waits for all of them alike and knows none of them.
 */
import type { Blocker } from '../core/conflict.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import type { Dropped, Refusal, Waiting } from '../core/outcome.ts'
import type { Extent, Reach, Resource } from '../core/resource.ts'
import { isServed, isTurnOf, isUpgradeTurn } from '../core/turn.ts'
import type {
  AcquireAllAnswer,
  AcquireAllRequest,
  AcquireRequest,
  ClaimAnswer,
  LeaseApi,
  TicketRef,
  Unsubscribe,
  UpgradeAnswer,
} from '../service/lease-api.ts'
import type { LeaseTarget } from './lease-release.ts'

export interface GrantedAnswer {
  readonly kind: 'granted'
  /** One, or as many as were asked for, in that order. */
  readonly leases: readonly LeaseInfo[]
  readonly repeated: boolean
}

export interface QueuedAnswer {
  readonly kind: 'queued'
  readonly blockers: readonly Blocker[]
  readonly waitMs: number
  /** How often its waiter must be heard of. */
  readonly keepAliveMs: number
  /** When to claim again, if nobody wakes the ticket. */
  readonly checkAfterMs: number
  /** Of a ticket that can be served by itself: its place among others. */
  readonly orderUs?: number
}

export type WaitAnswer = GrantedAnswer | QueuedAnswer | Waiting | Dropped | Refusal

export type Why = 'timed_out' | 'aborted'

/** What a waiter says with its claim. */
export type ClaimHints = Pick<TicketRef, 'expects' | 'implied'>

/** What a wait lets others do with its claim. */
export interface Boarding {
  readonly isReady: () => boolean
  readonly board: () => (claim: Promise<WaitAnswer | null>) => void
}

export interface Errand {
  /** What is waited for, as messages name it. */
  readonly subject: string
  readonly waitMs: number | 'configured'
  /** Whether it has several tickets, of which one may be refused while the others stand. */
  readonly hasParts: boolean
  /** Whether nobody said what it is under, so that it may follow from a standstill. */
  readonly isPlain: boolean
  /** Asks for it, and gets in line. Asking the same again is safe. */
  file(waitMs: number | 'configured'): Promise<WaitAnswer>
  /** Asks whether it is this one's turn, and says that somebody still waits. */
  claim(hints: ClaimHints): Promise<WaitAnswer>
  /** Gets out of line; what was granted meanwhile is given back. */
  withdraw(why: Why): Promise<unknown>
  /** Whether a granted lease was another's before, so that its time and fence are older than the request. */
  isForeign(lease: LeaseInfo): boolean
  /** Lets a release of this process take a claim along from now on; null for what is not served by one claim. */
  standBy(boarding: Boarding, orderUs: number): Unsubscribe | null
  /** A look that changes nothing: could a claim succeed, or is there no line to stand in any more? */
  mayBeTurn(): Promise<boolean>
}

/** One resource. A class, because every lease begins with one, and an object of functions is made function by function. */
export class SingleErrand implements Errand {
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

  file(waitMs: number | 'configured'): Promise<WaitAnswer> {
    const filed = waitMs === this.waitMs ? this.#request : { ...this.#request, waitMs }
    return this.#api.acquire(filed).then(single)
  }

  claim(hints: ClaimHints): Promise<WaitAnswer> {
    return this.#api.claim(Object.assign(this.#ticket, hints)).then(single)
  }

  withdraw(why: Why): Promise<unknown> {
    return this.#api.withdraw({ ...this.#ticket, why })
  }

  isForeign({ id }: LeaseInfo): boolean {
    return id !== this.#request.id
  }

  standBy({ isReady, board }: Boarding, orderUs: number): Unsubscribe | null {
    const { id, resource } = this.#request
    const boarding = (): ((claim: Promise<ClaimAnswer | null>) => void) => {
      const tell = board()
      return (claim) => tell(claim.then((answer) => answer && single(answer)))
    }
    return this.#api.standBy?.({ id, resource, orderUs, isReady, board: boarding }) ?? null
  }

  async mayBeTurn(): Promise<boolean> {
    const ticket = this.#ticket
    // A ticket that reaches further is woken, not offered, so it has to look at all that may be in its way.
    if (ticket.extent === 'exact') return isServed(await this.#api.get({ id: ticket.id }))
    return isTurnOf(ticket.id, await this.#api.inspect(reachOf(ticket)))
  }

  get #ticket(): TicketRef & { readonly extent: Extent } {
    return ticketOf(this.#request, this.#request)
  }
}

/** Several resources, all or none. */
export function groupErrand(api: LeaseApi, request: AcquireAllRequest): Errand {
  const tickets = request.members.map((member) => ticketOf(member, request))
  return {
    subject: request.members.map(({ resource }) => resource).join(', '),
    waitMs: request.waitMs ?? 'configured',
    hasParts: true,
    isPlain: request.under === undefined,
    file: async (waitMs) => several(await api.acquireAll({ ...request, waitMs })),
    claim: async ({ implied }) => {
      const told = implied === undefined ? {} : { implied }
      return several(
        await api.claimAll({ tickets: tickets.map((ticket) => ({ ...ticket, ...told })) }),
      )
    },
    withdraw: (why) => Promise.all(tickets.map((ticket) => api.withdraw({ ...ticket, why }))),
    standBy: () => null,
    isForeign: ({ id }) => !tickets.some((ticket) => ticket.id === id),
    mayBeTurn: async () => {
      const looks = tickets.map(async (ticket) => {
        return isTurnOf(ticket.id, await api.inspect(reachOf(ticket)))
      })
      return (await Promise.all(looks)).every(Boolean)
    },
  }
}

export interface UpgradeErrandParts {
  readonly api: LeaseApi
  readonly target: LeaseTarget
  readonly waitMs: number | 'configured'
  /** What it is said to be under. */
  readonly under: readonly LeaseId[] | null
  readonly sequential: boolean
  readonly onRefused: (refusal: Refusal) => void
  /** Takes the wish back, and whatever came of it. */
  readonly undo: () => Promise<unknown>
}

/**
 * No wake-up reminds anybody of an upgrade twice, so its holder asks by itself now and then, and soon enough for a cycle
 * to be broken within a second if it is this one's to break. A question is a read.
 */
const UPGRADE_CHECK_MS_MAX = 750

/** Being the only holder of what is shared now. */
export function upgradeErrand(parts: UpgradeErrandParts): Errand {
  const { api, target, onRefused, sequential } = parts
  const { id: leaseId, resource, extent } = target
  let under = parts.under
  const ask = async (waitMs: number): Promise<WaitAnswer> => {
    const waits = under === null ? {} : { under, implied: parts.under === null }
    const answer = await api.upgrade({ ...target, ...waits, sequential, mayWait: waitMs > 0 })
    const read = upgraded(answer, waitMs)
    if (!isProgress(read)) onRefused(read)
    return read
  }
  return {
    subject: `an exclusive ${resource}`,
    waitMs: parts.waitMs,
    hasParts: false,
    isPlain: parts.under === null,
    file: async (waitMs) => {
      if (waitMs !== 'configured') return ask(waitMs)
      return ask((await api.settings({ resource })).acquisition_timeout_ms)
    },
    claim: ({ implied }) => {
      if (implied !== undefined) under = implied
      return ask(1)
    },
    withdraw: parts.undo,
    standBy: () => null,
    isForeign: () => false,
    mayBeTurn: async () => {
      const { leases } = await api.inspect({ resource, extent })
      return isUpgradeTurn(leaseId, leases)
    },
  }
}

function isProgress(answer: WaitAnswer): answer is Exclude<WaitAnswer, Refusal> {
  return ['granted', 'queued', 'waiting', 'dropped'].includes(answer.kind)
}

export function ticketOf(
  asked: { readonly id: string; readonly resource: Resource; readonly extent?: Extent },
  { holder, session }: { readonly holder: string; readonly session: string },
): TicketRef & { readonly extent: Extent } {
  const { id, resource, extent = 'exact' } = asked
  return { id, resource, extent, holder, session }
}

function reachOf({ resource, extent }: TicketRef & Reach): Reach {
  return { resource, extent }
}

function single(answer: ClaimAnswer): WaitAnswer {
  if (answer.kind !== 'granted') return answer
  return { kind: 'granted', leases: [answer.lease], repeated: answer.repeated }
}

function several(answer: AcquireAllAnswer): WaitAnswer {
  if (answer.kind === 'granted_all') return { ...answer, kind: 'granted' }
  return answer.kind === 'queued_all' ? { ...answer, kind: 'queued' } : answer
}

/** The deadline does not move with an upgrade, so its answer is read as the repeat of an older grant. */
function upgraded(answer: UpgradeAnswer, waitMs: number): WaitAnswer {
  if (answer.kind === 'upgraded') {
    return { kind: 'granted', leases: [answer.lease], repeated: true }
  }
  if (answer.kind === 'upgrade_withdrawn') return { kind: 'dropped', leaseId: answer.leaseId }
  if (answer.kind !== 'upgrading') return answer
  const checkAfterMs = Math.min(answer.checkAfterMs, UPGRADE_CHECK_MS_MAX)
  return {
    kind: 'queued',
    blockers: answer.blockers,
    waitMs,
    checkAfterMs,
    keepAliveMs: checkAfterMs,
  }
}
