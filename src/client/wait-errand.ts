/**
 * What a wait is about: one resource, several at once, or being alone with what one shares. Each is an errand that can
 * be filed, claimed and withdrawn; `waiting.ts` waits for all of them alike and knows none of them.
 */
import type { Blocker } from '../core/conflict.ts'
import type { LeaseInfo } from '../core/lease.ts'
import type { Dropped, Refusal } from '../core/outcome.ts'
import type { Extent, Resource } from '../core/resource.ts'
import type {
  AcquireAllAnswer,
  AcquireAllRequest,
  AcquireRequest,
  Besides,
  ClaimAnswer,
  Inspection,
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
  readonly checkAfterMs: number
  /** Of a ticket that can be served by itself: its place among others. */
  readonly orderUs?: number
}

export type WaitAnswer = GrantedAnswer | QueuedAnswer | Dropped | Refusal

export type Why = 'timed_out' | 'aborted'

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
  /** Asks for it, and gets in line. Asking the same again is safe. */
  file(waitMs: number | 'configured'): Promise<WaitAnswer>
  /** Asks whether it is this one's turn, and says that somebody still waits. `isTold`: it was woken by name. */
  claim(isTold: boolean): Promise<WaitAnswer>
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
  readonly #besides: () => Besides | undefined

  /** `besides` says at any time what else the session has; undefined: it does not know. */
  constructor(
    api: LeaseApi,
    request: AcquireRequest,
    besides: () => Besides | undefined = () => undefined,
  ) {
    this.#api = api
    this.#request = request
    this.#besides = besides
  }

  get subject(): string {
    return this.#request.resource
  }

  get waitMs(): number | 'configured' {
    return this.#request.waitMs
  }

  file(waitMs: number | 'configured'): Promise<WaitAnswer> {
    const filed = waitMs === this.waitMs ? this.#request : { ...this.#request, waitMs }
    return this.#api.acquire(this.#telling(filed)).then(single)
  }

  claim(isTold: boolean): Promise<WaitAnswer> {
    const ticket = this.#ticket
    return this.#api.claim(this.#telling(isTold ? { ...ticket, isTold } : ticket)).then(single)
  }

  withdraw(why: Why): Promise<unknown> {
    return this.#api.withdraw({ ...this.#ticket, why })
  }

  isForeign({ id }: LeaseInfo): boolean {
    return id !== this.#request.leaseId
  }

  standBy({ isReady, board }: Boarding, orderUs: number): Unsubscribe {
    const { leaseId: id, resource } = this.#request
    const boarding = (): ((claim: Promise<ClaimAnswer | null>) => void) => {
      const tell = board()
      return (claim) => tell(claim.then((answer) => answer && single(answer)))
    }
    const besides = this.#besides
    return this.#api.standBy({ id, resource, orderUs, isReady, besides, board: boarding })
  }

  async mayBeTurn(): Promise<boolean> {
    const ticket = this.#ticket
    // A ticket that reaches further is woken, not offered, so it has to look at all that may be in its way.
    if (ticket.extent === 'exact') return isServed(await this.#api.get(ticket.leaseId))
    return isTurnOf(ticket, await this.#api.inspect(ticket.resource, ticket.extent))
  }

  get #ticket(): TicketRef & { readonly extent: Extent } {
    return ticketOf(this.#request, this.#request.session)
  }

  /** Not a spread of several objects: V8 takes ten times as long for it, and this is done for every lease. */
  #telling<Request extends object>(request: Request): Request {
    const besides = this.#besides()
    return besides === undefined ? request : Object.assign({}, request, { besides })
  }
}

/** Several resources, all or none. */
export function groupErrand(api: LeaseApi, request: AcquireAllRequest): Errand {
  const tickets = request.members.map((member) => ticketOf(member, request.session))
  return {
    subject: request.members.map(({ resource }) => resource).join(', '),
    waitMs: request.waitMs,
    hasParts: true,
    file: async (waitMs) => several(await api.acquireAll({ ...request, waitMs })),
    claim: async () => several(await api.claimAll(tickets)),
    withdraw: (why) => Promise.all(tickets.map((ticket) => api.withdraw({ ...ticket, why }))),
    standBy: () => null,
    isForeign: ({ id }) => !tickets.some(({ leaseId }) => leaseId === id),
    mayBeTurn: async () => {
      const looks = tickets.map(async (ticket) => {
        return isTurnOf(ticket, await api.inspect(ticket.resource, ticket.extent))
      })
      return (await Promise.all(looks)).every(Boolean)
    },
  }
}

export interface UpgradeErrandParts {
  readonly api: LeaseApi
  readonly target: LeaseTarget
  readonly waitMs: number | 'configured'
  readonly onRefused: (refusal: Refusal) => void
  /** Takes the wish back, and whatever came of it. */
  readonly undo: () => Promise<unknown>
}

/**
 * No wake-up reminds anybody of an upgrade twice, so its holder asks by itself now and then, and soon enough for a circle
 * to be broken within a second if it is this one's to break. A question is a read.
 */
const UPGRADE_CHECK_MS_MAX = 750

/** Being the only holder of what is shared now. */
export function upgradeErrand(parts: UpgradeErrandParts): Errand {
  const { api, target, onRefused } = parts
  const { leaseId, resource, extent } = target
  const ask = async (waitMs: number): Promise<WaitAnswer> => {
    const answer = await api.upgrade({ ...target, mayWait: waitMs > 0 })
    const read = upgraded(answer, waitMs)
    if (read.kind !== 'granted' && read.kind !== 'queued' && read.kind !== 'dropped') {
      onRefused(read)
    }
    return read
  }
  return {
    subject: `an exclusive ${resource}`,
    waitMs: parts.waitMs,
    hasParts: false,
    file: async (waitMs) => {
      if (waitMs !== 'configured') return ask(waitMs)
      return ask((await api.settings(resource)).acquisition_timeout_ms)
    },
    claim: () => ask(1),
    withdraw: parts.undo,
    standBy: () => null,
    isForeign: () => false,
    mayBeTurn: async () => {
      const { leases } = await api.inspect(resource, extent)
      return leases.every(({ id }) => id === leaseId) || !leases.some(isUpgrading(leaseId))
    },
  }
}

/** Whether a ticket has its offer, or is gone. */
function isServed(ticket: LeaseInfo | null): boolean {
  return ticket === null || ticket.state !== 'pending' || ticket.fence !== null
}

function isUpgrading(leaseId: string): (lease: LeaseInfo) => boolean {
  return (lease) => lease.id === leaseId && lease.upgrading
}

function ticketOf(
  asked: { readonly leaseId: string; readonly resource: Resource; readonly extent?: Extent },
  session: string,
): TicketRef & { readonly extent: Extent } {
  const { leaseId, resource, extent = 'exact' } = asked
  return { leaseId, resource, extent, session }
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
  return { kind: 'queued', blockers: answer.blockers, waitMs, checkAfterMs }
}

/** Whether nobody stands before the ticket any more, or the ticket is gone. */
function isTurnOf({ leaseId }: TicketRef, { leases, queue, blockers }: Inspection): boolean {
  const place = queue.findIndex((ticket) => ticket.id === leaseId)
  const own = queue[place]
  if (own === undefined || own.fence !== null) return true
  if (blockers.some(({ kind }) => kind === 'lock_delay')) return false
  const ahead = queue.filter((ticket, index) => index < place || ticket.fence !== null)
  const others = [...leases.filter((lease) => !isGiftTo(own, lease)), ...ahead]
  const wantsAlone = (other: LeaseInfo): boolean => other.mode === 'exclusive' || other.upgrading
  if (own.mode === 'exclusive' || others.some(wantsAlone)) return others.length === 0
  return own.slots === null || others.length < own.slots
}

/** What was transferred to a waiter does not stand in its way. */
function isGiftTo({ holder, resource }: LeaseInfo, lease: LeaseInfo): boolean {
  return !lease.adopted && lease.holder === holder && lease.resource === resource
}
