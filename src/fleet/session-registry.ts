/**
 * What this instance knows of its sessions: a state machine over plain facts, without a store and without timers.
 *
 * The state of a session follows from the same rule as for the handle of a lease (`termState`).
 *
 *  - A term runs from before the last successful request was sent, so it ends no later than the store's own.
 *  - A renewal that failed or is overdue makes a session uncertain at once; a confirmation makes it owned again.
 *  - At the local deadline the session is lost, whatever the store answers later. Only a new grant brings it back.
 *
 * Every read computes from the clock; `checkDeadlines` only emits the events that follow from it.
 */
import { LeaseError } from '../core/errors.ts'
import { termState, type TermState, type Moment, type Term } from '../client/holder-clock.ts'
import type { LeaseInfo, LeaseState, LossReason, PollContext } from './contract.ts'
import type { FleetInstance } from './fleet-instance.ts'
import type { AcquireReply, Failed, Grant, GrantReply } from './fleet-layout.ts'

/** Why a session is acquired. */
export interface Origin {
  /** Another instance handed it over. */
  readonly isTransferred: boolean
  /** The instance that handed it over, if known. */
  readonly from: string | null
}

interface OwnedSession {
  readonly grant: Grant
  readonly acquiredAtMs: number
  readonly renewedAtMs: number
  readonly term: Term
  /** A renewal or the connection has failed since the last confirmation. */
  readonly isUnconfirmed: boolean
  /** `uncertain` was emitted, and `recovered` was not. */
  readonly isAnnounced: boolean
}

interface OtherOwner {
  /** Null for a session that no instance may take yet, because the store has lost data. */
  readonly owner: string | null
  /** How long the answer is valid. */
  readonly term: Term
}

export class SessionRegistry {
  readonly #instance: FleetInstance
  /** A renewal that is not confirmed so long after the last one was sent is overdue. */
  readonly #overdueMs: number
  readonly #ttlMs: number
  readonly #owned = new Map<string, OwnedSession>()
  readonly #others = new Map<string, OtherOwner>()
  /** Terms of sessions that the store no longer knows. */
  readonly #forgotten = new Map<string, Term>()

  constructor(instance: FleetInstance) {
    const { leaseTtlMs, refreshMs, callMs } = instance.settings
    this.#instance = instance
    this.#ttlMs = leaseTtlMs
    this.#overdueMs = refreshMs + callMs
  }

  get grants(): readonly Grant[] {
    return [...this.#owned.values()].map(({ grant }) => grant)
  }

  get sessionIds(): readonly string[] {
    this.checkDeadlines()
    return [...this.#owned.keys()]
  }

  state(sessionId: string): LeaseState {
    const now = this.#instance.clock.now()
    const owned = this.#owned.get(sessionId)
    const state = owned === undefined ? 'lost' : this.#termState(owned, now)
    if (state !== 'lost') return state === 'held' ? 'owned' : 'uncertain'
    return this.#ownerOf(sessionId, now) === null ? 'unknown' : 'other'
  }

  /** The lease of an owned session, as a poll passes it to guards. */
  leaseOf(sessionId: string): Omit<PollContext, 'signal'> | null {
    const grant = this.#owned.get(sessionId)?.grant
    if (grant === undefined) return null
    const { id, fence } = grant
    const resource = `session:${sessionId}`
    return { id, resource, fence, mode: 'exclusive', extent: 'exact', slots: null, root: null }
  }

  info(sessionId: string): LeaseInfo {
    const now = this.#instance.clock.now()
    const state = this.state(sessionId)
    const owned = this.#owned.get(sessionId)
    if (owned === undefined || state === 'other' || state === 'unknown') {
      return { ...unknownInfo(sessionId), ownerId: this.#ownerOf(sessionId, now), state }
    }
    return {
      ...{ sessionId, state, ownerId: this.#instance.settings.instanceId },
      ...{
        fence: owned.grant.fence,
        acquiredAtMs: owned.acquiredAtMs,
        lastRenewedAtMs: owned.renewedAtMs,
      },
      remainingMs: Math.floor(this.#leftMs(owned, now)),
    }
  }

  /** Records the answer to an acquire that was sent at `sent`. True: this instance owns the session. */
  recordAcquire(
    sessionId: string,
    reply: AcquireReply,
    { sent, ...origin }: Origin & { readonly sent: Moment },
  ): boolean {
    if (reply.kind === 'failed') return false
    if (reply.kind !== 'acquired') {
      const spanMs = reply.freeInMs ?? this.#ttlMs
      const owner = reply.kind === 'held' ? reply.owner : null
      // A session that was granted to another instance since cannot be reclaimed after the next data loss.
      if (owner !== null) this.#forgotten.delete(sessionId)
      this.#others.set(sessionId, { owner, term: { from: sent, spanMs } })
      return false
    }
    const term: Term = { from: sent, spanMs: this.#ttlMs }
    const now = this.#instance.clock.now()
    if (this.#instance.clock.remainingMs(term, now) <= 0) return false
    // Only what is not owned is asked for: its term before is over, and was not looked at since.
    if (this.#owned.has(sessionId)) this.#lose(sessionId, 'deadline_passed')
    const before = this.#others.get(sessionId)?.owner ?? null
    this.#others.delete(sessionId)
    this.#forgotten.delete(sessionId)
    const { wallMs } = sent
    this.#owned.set(sessionId, {
      ...{ grant: reply, term, isUnconfirmed: false, isAnnounced: false },
      ...{ acquiredAtMs: wallMs, renewedAtMs: wallMs },
    })
    const { listeners } = this.#instance
    const isGiven = origin.isTransferred || reply.wasOurs
    const sender = isGiven ? (origin.from ?? before) : null
    listeners.emit('acquired', { sessionId, fence: reply.fence, isGiven, from: sender })
    if (before !== null && !isGiven) listeners.emit('taken_over', { sessionId, from: before })
    return true
  }

  /** Records the answers to renewals that were sent together at `sent`. */
  recordRenewals(grants: readonly Grant[], replies: readonly GrantReply[], sent: Moment): void {
    const now = this.#instance.clock.now()
    for (const [index, grant] of grants.entries()) {
      const owned = this.#current(grant.sessionId, now)
      // Lost, released or granted anew meanwhile: the answer is not about this grant.
      if (owned === undefined || owned.grant.token !== grant.token) continue
      const reply = replies[index]
      if (reply === undefined || reply.kind === 'failed') this.#markUncertain(owned, reply, now)
      else if (reply.kind === 'done') this.#confirm(owned, sent, now)
      else {
        this.#forgotten.set(grant.sessionId, owned.term)
        this.#lose(grant.sessionId, 'not_owner')
      }
    }
  }

  markAllUncertain(): void {
    for (const [sessionId, owned] of this.#owned) {
      this.#owned.set(sessionId, { ...owned, isUnconfirmed: true })
    }
    this.checkDeadlines()
  }

  /** Removes a session that is about to be released or handed over: this instance no longer owns it. */
  remove(sessionId: string): Grant | null {
    const owned = this.#current(sessionId, this.#instance.clock.now())
    this.#owned.delete(sessionId)
    return owned?.grant ?? null
  }

  /** Records the instance that received the session from this one. */
  noteOwner(sessionId: string, owner: string): void {
    const term: Term = { from: this.#instance.clock.now(), spanMs: this.#ttlMs }
    this.#others.set(sessionId, { owner, term })
  }

  /** Whether this instance owned the session until the store lost it, and its term is not over: no other instance has it. */
  isReclaimable(sessionId: string): boolean {
    const term = this.#forgotten.get(sessionId)
    return (
      term !== undefined && this.#instance.clock.remainingMs(term, this.#instance.clock.now()) > 0
    )
  }

  /** The earliest end of another instance's lease; null: none is known. */
  freeInMs(sessionId: string): number | null {
    const other = this.#others.get(sessionId)
    if (other === undefined) return null
    const { clock } = this.#instance
    return other.term.spanMs - clock.elapsedMs(other.term.from, clock.now())
  }

  /** Emits `lost`, `uncertain` and `recovered` for what the clock says now. */
  checkDeadlines(): void {
    const now = this.#instance.clock.now()
    for (const sessionId of [...this.#owned.keys()]) {
      const owned = this.#current(sessionId, now)
      if (owned === undefined) continue
      const remainingMs = Math.floor(this.#leftMs(owned, now))
      this.#announce(sessionId, this.#termState(owned, now) === 'uncertain', remainingMs)
    }
  }

  /** The time until `checkDeadlines` has an event to emit; null while nothing is owned. */
  nextCheckInMs(): number | null {
    const now = this.#instance.clock.now()
    let next: number | null = null
    for (const owned of this.#owned.values()) {
      const leftMs = this.#leftMs(owned, now)
      const inMs = owned.isAnnounced ? leftMs : Math.min(this.#untilDoubtMs(owned, now), leftMs)
      next = next === null ? inMs : Math.min(next, inMs)
    }
    return next
  }

  /** Removes outdated knowledge about other instances, so that memory does not grow with the number of past sessions. */
  prune(): void {
    const { clock } = this.#instance
    const now = clock.now()
    const isOld = (term: Term): boolean =>
      clock.elapsedMs(term.from, now) > term.spanMs + 4 * this.#ttlMs
    for (const [id, { term }] of this.#others) if (isOld(term)) this.#others.delete(id)
    for (const [id, term] of this.#forgotten) if (isOld(term)) this.#forgotten.delete(id)
  }

  #confirm(owned: OwnedSession, sent: Moment, now: Moment): void {
    const { clock, listeners } = this.#instance
    const { sessionId } = owned.grant
    const term: Term = { from: sent, spanMs: this.#ttlMs }
    this.#owned.set(sessionId, { ...owned, term, renewedAtMs: sent.wallMs, isUnconfirmed: false })
    const remainingMs = Math.floor(clock.remainingMs(term, now))
    this.#announce(sessionId, false, remainingMs)
    listeners.emit('renewed', { sessionId, remainingMs })
  }

  #markUncertain(owned: OwnedSession, failed: Failed | undefined, now: Moment): void {
    const { sessionId } = owned.grant
    this.#owned.set(sessionId, { ...owned, isUnconfirmed: true })
    const error = failed?.error ?? new LeaseError('STORE_OUTCOME_UNKNOWN', 'no answer came')
    this.#instance.listeners.emit('renew_failed', { sessionId, error })
    this.#announce(sessionId, true, Math.floor(this.#leftMs(owned, now)))
  }

  #ownerOf(sessionId: string, now: Moment): string | null {
    const other = this.#others.get(sessionId)
    if (other === undefined) return null
    return this.#instance.clock.elapsedMs(other.term.from, now) < other.term.spanMs
      ? other.owner
      : null
  }

  #announce(sessionId: string, isUncertain: boolean, remainingMs: number): void {
    const owned = this.#owned.get(sessionId)
    if (owned === undefined || owned.isAnnounced === isUncertain) return
    this.#owned.set(sessionId, { ...owned, isAnnounced: isUncertain })
    const name = isUncertain ? 'uncertain' : 'recovered'
    this.#instance.listeners.emit(name, { sessionId, remainingMs })
  }

  /** Undefined for a session that is not owned; one whose term is over is lost at the first look. */
  #current(sessionId: string, now: Moment): OwnedSession | undefined {
    const owned = this.#owned.get(sessionId)
    if (owned === undefined || this.#termState(owned, now) !== 'lost') return owned
    this.#lose(sessionId, 'deadline_passed')
    return undefined
  }

  #lose(sessionId: string, reason: LossReason): void {
    this.#owned.delete(sessionId)
    this.#instance.listeners.emit('lost', { sessionId, reason })
  }

  #termState(owned: OwnedSession, now: Moment): TermState {
    const untilDoubtMs = this.#untilDoubtMs(owned, now)
    return termState(this.#leftMs(owned, now), { isTroubled: owned.isUnconfirmed, untilDoubtMs })
  }

  #untilDoubtMs(owned: OwnedSession, now: Moment): number {
    return this.#overdueMs - this.#instance.clock.elapsedMs(owned.term.from, now)
  }

  #leftMs(owned: OwnedSession, now: Moment): number {
    return this.#instance.clock.remainingMs(owned.term, now)
  }
}

/** For a session without a known owner. */
export function unknownInfo(sessionId: string): LeaseInfo {
  return {
    ...{ sessionId, ownerId: null, state: 'unknown', fence: null },
    ...{ acquiredAtMs: null, lastRenewedAtMs: null, remainingMs: 0 },
  }
}
