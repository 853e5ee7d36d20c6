/**
 * Waiting on behalf of callers whose connections may break. The wait itself is the client's (`client/waiting.ts`); this file
 * brings wake-ups to it, and sees to it that a broken connection neither loses a place in the queue nor leaves a lease
 * behind that nobody knows of:
 *
 *  1. A connection that closes while its request waits ends the keep-alives and nothing else. A request under the same id
 *     within one claim window keeps the place.
 *  2. A lease whose answer could not be written is released one claim window later, unless a request under the same id
 *     asks for it before, at this server.
 *  3. A server that stops ends its waits as in 1, so that they can go on at another.
 */
import { BackgroundWork } from '../client/background-work.ts'
import type { Acquired, CallerConnection } from '../client/caller-connection.ts'
import { HolderClock } from '../client/holder-clock.ts'
import { RenewalScheduler } from '../client/renewal-scheduler.ts'
import { BACKGROUND_WITHIN_MS, retry } from '../client/retry.ts'
import { Standstill } from '../client/request-under.ts'
import {
  leasesIn,
  PendingAcquire,
  pendingGroup,
  ticketRefOf,
  type PendingRequest,
} from '../client/pending-request.ts'
import { Wait } from '../client/waiting.ts'
import { LeaseError } from '../core/errors.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import { CLAIM_WINDOW_MS_DEFAULT } from '../core/limits.ts'
import { refusalError } from '../core/outcome.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import { endsWithin } from '../runtime/ends-within.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type {
  AcquireAllRequest,
  AcquireRequest,
  LeaseApi,
  TicketRef,
  Unsubscribe,
} from '../service/lease-api.ts'

export interface ServerWaitsOptions {
  readonly api: LeaseApi
  readonly runtime: Runtime
  /** Hears of every lease that is granted and not only repeated. */
  readonly onGrant: (lease: LeaseInfo) => void
}

/** One request, from its first send until its answer was written. */
interface Ask {
  readonly tickets: readonly TicketRef[]
  readonly windowMs: number
  readonly hearing: Hearing
  /** What nobody had heard of when it was asked for again. */
  readonly unheard: readonly UnheardLease[]
}

/** What the requests under one id have come to, of which each began before the answer to the one before it was written. */
interface Hearing {
  /** One of them was granted what it asked for, and the requester did not have it before. */
  isNew: boolean
  /** An answer that tells of it was written. */
  isHeard: boolean
}

interface UnheardLease {
  readonly ticket: TicketRef
  readonly leases: readonly LeaseInfo[]
  readonly windowMs: number
  readonly hearing: Hearing
  readonly timer: Timer
}

type GrantedLeases = Pick<Acquired, 'leases'> & { readonly isNew: boolean }

interface Listeners {
  readonly waits: Map<LeaseId, Set<Wait>>
  stop: Unsubscribe | null
}

export class ServerWaits {
  readonly #api: LeaseApi
  readonly #runtime: Runtime
  readonly #onGrant: (lease: LeaseInfo) => void
  readonly #clock: HolderClock
  readonly #scheduler: RenewalScheduler
  readonly #standstill: Standstill
  readonly #looks: RepeatedFault
  readonly #background = new BackgroundWork()
  /** Who waits, by session: a wake-up names the session that it is for. */
  readonly #sessions = new Map<string, Listeners>()
  readonly #open = new Set<Wait>()
  /** The latest request for each id whose answer is not written yet. */
  readonly #asks = new Map<LeaseId, Ask>()
  /** Leases that are released when their time has come, because nobody heard of them. */
  readonly #unheard = new Map<LeaseId, UnheardLease>()
  #isStopping = false

  constructor({ api, runtime, onGrant }: ServerWaitsOptions) {
    this.#api = api
    this.#runtime = runtime
    this.#onGrant = onGrant
    this.#clock = new HolderClock(runtime)
    this.#scheduler = new RenewalScheduler({ runtime, clock: this.#clock, keepAlive: true })
    // A server knows nothing of what its callers do besides: nothing is implied by their silence.
    this.#standstill = new Standstill({ runtime, claimWindowMs: null, leases: () => [] })
    this.#looks = new RepeatedFault('server/look', runtime)
  }

  /** How many requests wait. */
  get size(): number {
    return this.#open.size
  }

  acquire(request: AcquireRequest, connection: CallerConnection): Promise<Acquired> {
    const pending = new PendingAcquire(this.#api, request)
    return this.#run(pending, [ticketRefOf(request, request)], request, connection)
  }

  acquireAll(request: AcquireAllRequest, connection: CallerConnection): Promise<Acquired> {
    const tickets = request.members.map((member) => ticketRefOf(member, request))
    return this.#run(pendingGroup(this.#api, request), tickets, request, connection)
  }

  async #run(
    pending: PendingRequest,
    tickets: readonly TicketRef[],
    { session, claimWindowMs }: Pick<AcquireRequest, 'session' | 'claimWindowMs'>,
    connection: CallerConnection,
  ): Promise<Acquired> {
    const startMs = this.#runtime.monotonicMs()
    const ask = this.#begin(tickets, claimWindowMs ?? CLAIM_WINDOW_MS_DEFAULT)
    const wait = this.#waitFor(pending, session, tickets)
    connection.onEnd(() => {
      wait.leave(goneError(), (granted) => {
        this.#onUnheard(ask, { leases: leasesIn(granted), isNew: !granted.repeated })
      })
    })
    if (this.#isStopping) wait.leaveAtRest(stoppingError())
    try {
      const obtained = await wait.run()
      if (obtained.kind === 'held') throw refusalError(obtained)
      const leases = obtained.grants.map(({ lease }) => lease)
      const isNew = obtained.grants.every(({ isOlder }) => !isOlder)
      this.#answerOn(connection, ask, { leases, isNew })
      if (isNew) for (const lease of leases) this.#onGrant(lease)
      const sentMs = Math.max(...obtained.grants.map(({ term }) => term.from.monotonicMs))
      return { leases, waitedMs: Math.max(0, Math.floor(sentMs - startMs)) }
    } catch (error) {
      this.#end(ask)
      // Whoever asked under the id has got nothing, and need not be the one that it was granted to.
      for (const one of ask.unheard) this.#giveBackLater(one)
      throw error
    } finally {
      this.#open.delete(wait)
      this.#forget(session, wait)
    }
  }

  /** What was to be released because nobody had heard of it is wanted after all. */
  #begin(tickets: readonly TicketRef[], windowMs: number): Ask {
    const unheard = tickets.flatMap(({ id }) => this.#unheard.get(id) ?? [])
    for (const { timer } of unheard) timer.cancel()
    const [before] = tickets.flatMap(({ id }) => this.#asks.get(id) ?? [])
    const hearing = before?.hearing ?? unheard[0]?.hearing ?? { isNew: false, isHeard: false }
    const ask = { tickets, windowMs, hearing, unheard }
    for (const { id } of tickets) {
      this.#unheard.delete(id)
      this.#asks.set(id, ask)
    }
    return ask
  }

  #end(ask: Ask): void {
    for (const { id } of ask.tickets) {
      if (this.#asks.get(id) === ask) this.#asks.delete(id)
    }
  }

  #waitFor(pending: PendingRequest, session: string, tickets: readonly TicketRef[]): Wait {
    const wait = new Wait(
      {
        runtime: this.#runtime,
        clock: this.#clock,
        scheduler: this.#scheduler,
        standstill: this.#standstill,
        looks: this.#looks,
        background: this.#background.add,
        // One caller of a session may be gone while others of it wait.
        own: null,
        onQueued: () => this.#listen(session, wait, tickets),
      },
      pending,
    )
    this.#open.add(wait)
    return wait
  }

  #answerOn(connection: CallerConnection, ask: Ask, granted: GrantedLeases): void {
    connection.onEnd((wasWritten) => {
      if (wasWritten) ask.hearing.isHeard = true
      else this.#onUnheard(ask, granted)
      this.#end(ask)
    })
  }

  /** A lease that its requester had before is not taken away because one answer more was lost. */
  #onUnheard(ask: Ask, { leases, isNew }: GrantedLeases): void {
    const { hearing } = ask
    hearing.isNew ||= isNew
    if (!hearing.isNew || hearing.isHeard) return
    const isAskedAgain = ask.tickets.some(({ id }) => {
      const latest = this.#asks.get(id)
      return latest !== undefined && latest !== ask
    })
    if (isAskedAgain) return
    const { windowMs } = ask
    for (const ticket of ask.tickets) this.#giveBackLater({ ticket, leases, windowMs, hearing })
  }

  #giveBackLater(unheard: Omit<UnheardLease, 'timer'>): void {
    const { ticket, windowMs } = unheard
    const giveBack = (): void => this.#giveBackNow(unheard)
    this.#unheard.get(ticket.id)?.timer.cancel()
    const timer = this.#runtime.setTimer(windowMs, giveBack, { keepAlive: false })
    this.#unheard.set(ticket.id, { ...unheard, timer })
  }

  #giveBackNow(unheard: Omit<UnheardLease, 'timer'>): void {
    this.#unheard.delete(unheard.ticket.id)
    if (unheard.hearing.isHeard) return
    this.#background.add('server/unheard-grant', this.#giveBack(unheard))
  }

  /** Whoever has renewed it has heard of it, from another server. */
  async #giveBack({ ticket, leases }: Omit<UnheardLease, 'timer'>): Promise<void> {
    const limits = { runtime: this.#runtime, withinMs: BACKGROUND_WITHIN_MS }
    const granted = leases.find(({ resource }) => resource === ticket.resource)
    await retry(limits, async () => {
      const lease = await this.#api.get({ id: granted?.id ?? ticket.id })
      if (lease === null || lease.renewals > (granted?.renewals ?? 0)) return
      await this.#api.withdraw({ ...ticket, why: 'aborted' })
    })
  }

  #listen(session: string, wait: Wait, tickets: readonly TicketRef[]): void {
    const known = this.#sessions.get(session)
    const listeners: Listeners = known ?? { waits: new Map(), stop: null }
    this.#sessions.set(session, listeners)
    for (const { id } of tickets) {
      const waits = listeners.waits.get(id) ?? new Set()
      listeners.waits.set(id, waits.add(wait))
    }
    if (known === undefined) {
      this.#background.add('server/wake-ups', this.#subscribe(session, listeners))
    }
  }

  async #subscribe(session: string, listeners: Listeners): Promise<void> {
    const stop = await this.#api.onWake({ session }, ({ leaseIds }) => {
      for (const [leaseId, waits] of listeners.waits) {
        if (leaseIds?.includes(leaseId) === true) for (const wait of waits) wait.wake()
        if (leaseIds === null) for (const wait of waits) wait.hint()
      }
    })
    if (this.#sessions.get(session) !== listeners) return stop()
    listeners.stop = stop
    // What happened before the subscription stood is made up for by one look.
    for (const waits of listeners.waits.values()) for (const wait of waits) wait.hint()
  }

  #forget(session: string, wait: Wait): void {
    const listeners = this.#sessions.get(session)
    if (listeners === undefined) return
    for (const [leaseId, waits] of listeners.waits) {
      waits.delete(wait)
      if (waits.size === 0) listeners.waits.delete(leaseId)
    }
    if (listeners.waits.size > 0) return
    this.#sessions.delete(session)
    listeners.stop?.()
  }

  /** Ends every wait with 503, and leaves their tickets in the queue. */
  stop(): void {
    this.#isStopping = true
    for (const wait of this.#open) wait.leaveAtRest(stoppingError())
  }

  /** What nobody has heard of yet may still be asked for at another server, and else ends by its TTL. */
  async close(withinMs: number): Promise<void> {
    this.#forgetUnheard()
    await endsWithin(this.#runtime, withinMs, this.#background.ends())
    this.#scheduler.close()
  }

  /** Of a process whose only caller has gone, and asks nowhere else: what it has not heard of is given back. */
  async closeForGood(withinMs: number): Promise<void> {
    const givenBack = this.#background.ends().then(() => {
      for (const one of this.#unheard.values()) this.#giveBackNow(one)
    })
    await endsWithin(this.#runtime, withinMs, givenBack)
    await this.close(withinMs)
  }

  #forgetUnheard(): void {
    for (const { timer } of this.#unheard.values()) timer.cancel()
    this.#unheard.clear()
  }
}

/** Heard by nobody: the caller has gone. */
function goneError(): LeaseError {
  return new LeaseError('ABORTED', 'the connection was closed')
}

export function stoppingError(): LeaseError {
  const message = 'the server is stopping; ask again, with the same id to keep your place'
  return new LeaseError('STORE_UNAVAILABLE', message, { details: { retryAfterMs: 1_000 } })
}
