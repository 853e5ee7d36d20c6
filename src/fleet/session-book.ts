/**
 * What this instance knows of its sessions: a state machine over plain facts, without a store and without timers.
 *
 *  - A term runs from before the last successful request was sent, so it ends no later than the store's own.
 *  - A renewal that failed or is overdue makes a session uncertain at once; a confirmation makes it owned again.
 *  - At the local deadline it is lost, whatever anybody answers later. There is no way back but a new grant.
 *
 * Everything is computed from the clock at every read; `look` only draws the conclusions that listeners wait for.
 */
import { LeaseError } from '../core/errors.ts'
import type { HolderClock, Moment, Term } from '../client/holder-clock.ts'
import type { Listeners } from '../client/listeners.ts'
import type { FleetEvents, LeaseInfo, LeaseState, LossReason, PollContext } from './contract.ts'
import type { AcquireReply, Failed, Grant, GrantReply } from './fleet-layout.ts'

export interface BookParts {
  readonly clock: HolderClock
  readonly listeners: Listeners<FleetEvents>
  readonly instanceId: string
  readonly ttlMs: number
  /** A renewal that is not confirmed so long after the last one was sent is overdue. */
  readonly overdueMs: number
}

/** How a session came to be asked for. */
export interface Origin {
  /** Another instance handed it over. */
  readonly isGiven: boolean
  /** Which, if that is known. */
  readonly from: string | null
}

interface Held {
  readonly grant: Grant
  readonly acquiredAtMs: number
  readonly renewedAtMs: number
  readonly term: Term
  /** A renewal failed, or the connection did, since the last confirmation. */
  readonly isDoubted: boolean
}

interface Other {
  /** Null for a session that nobody may have yet, because the store has lost data. */
  readonly owner: string | null
  /** How long the answer is good for. */
  readonly term: Term
}

export class SessionBook {
  readonly #parts: BookParts
  readonly #held = new Map<string, Held>()
  readonly #others = new Map<string, Other>()
  /** Those that listeners were told of. */
  readonly #uncertain = new Set<string>()
  /** Terms of what the store says it never granted. */
  readonly #forgotten = new Map<string, Term>()

  constructor(parts: BookParts) {
    this.#parts = parts
  }

  get size(): number {
    return this.#held.size
  }

  get grants(): readonly Grant[] {
    return [...this.#held.values()].map(({ grant }) => grant)
  }

  get sessionIds(): readonly string[] {
    this.look()
    return [...this.#held.keys()]
  }

  state(sessionId: string): LeaseState {
    const now = this.#parts.clock.now()
    const held = this.#held.get(sessionId)
    if (held !== undefined && this.#leftMs(held, now) > 0) {
      return this.#isUncertain(held, now) ? 'uncertain' : 'owned'
    }
    return this.#ownerOf(sessionId, now) === null ? 'unknown' : 'other'
  }

  /** The lease of a session that was granted, as a poll passes it to guards. */
  leaseOf(sessionId: string): Omit<PollContext, 'signal'> | null {
    const grant = this.#held.get(sessionId)?.grant
    if (grant === undefined) return null
    const { id, fence } = grant
    const resource = `session:${sessionId}`
    return { id, resource, fence, mode: 'exclusive', extent: 'exact', slots: null, root: null }
  }

  info(sessionId: string): LeaseInfo {
    const now = this.#parts.clock.now()
    const state = this.state(sessionId)
    const held = state === 'owned' || state === 'uncertain' ? this.#held.get(sessionId) : undefined
    if (held === undefined) {
      return { ...unknownInfo(sessionId), ownerId: this.#ownerOf(sessionId, now), state }
    }
    return {
      ...{ sessionId, ownerId: this.#parts.instanceId, state, fence: held.grant.fence },
      ...{ acquiredAtMs: held.acquiredAtMs, lastRenewedAtMs: held.renewedAtMs },
      remainingMs: Math.floor(this.#leftMs(held, now)),
    }
  }

  /** Writes down an answer to an acquire that was sent at `sent`. True: it is ours. */
  answered(
    sessionId: string,
    reply: AcquireReply,
    { sent, ...origin }: Origin & { readonly sent: Moment },
  ): boolean {
    if (reply.kind === 'failed') return false
    if (reply.kind !== 'acquired') {
      const spanMs = reply.freeInMs ?? this.#parts.ttlMs
      const owner = reply.kind === 'held' ? reply.owner : null
      // What another has been granted since is not ours any more, whatever the store forgets next.
      if (owner !== null) this.#forgotten.delete(sessionId)
      this.#others.set(sessionId, { owner, term: { from: sent, spanMs } })
      return false
    }
    const term: Term = { from: sent, spanMs: this.#parts.ttlMs }
    const now = this.#parts.clock.now()
    if (this.#parts.clock.remainingMs(term, now) <= 0) return false
    const before = this.#others.get(sessionId)?.owner ?? null
    this.#others.delete(sessionId)
    this.#forgotten.delete(sessionId)
    const { wallMs } = sent
    this.#held.set(sessionId, {
      ...{ grant: reply, term, isDoubted: false },
      ...{ acquiredAtMs: wallMs, renewedAtMs: wallMs },
    })
    this.#uncertain.delete(sessionId)
    const { listeners } = this.#parts
    const isGiven = origin.isGiven || reply.wasOurs
    const giver = isGiven ? (origin.from ?? before) : null
    listeners.emit('acquired', { sessionId, fence: reply.fence, isGiven, from: giver })
    if (before !== null && !isGiven) listeners.emit('taken_over', { sessionId, from: before })
    return true
  }

  /** Writes down the answers to renewals that were sent together at `sent`. */
  renewals(grants: readonly Grant[], replies: readonly GrantReply[], sent: Moment): void {
    const now = this.#parts.clock.now()
    for (const [index, grant] of grants.entries()) {
      const held = this.#held.get(grant.sessionId)
      // What was released or granted anew meanwhile is not what was renewed.
      if (held === undefined || held.grant.token !== grant.token) continue
      const reply = replies[index]
      if (this.#leftMs(held, now) <= 0) this.#lose(grant.sessionId, 'deadline_passed')
      else if (reply === undefined || reply.kind === 'failed') this.#doubt(held, reply, now)
      else if (reply.kind === 'done') this.#confirm(held, sent, now)
      else {
        this.#forgotten.set(grant.sessionId, held.term)
        this.#lose(grant.sessionId, 'not_owner')
      }
    }
  }

  doubtAll(): void {
    for (const [sessionId, held] of this.#held) {
      this.#held.set(sessionId, { ...held, isDoubted: true })
    }
    this.look()
  }

  /** Takes a session out, to be released or handed over: from here on it is not ours. */
  take(sessionId: string): Grant | null {
    const held = this.#held.get(sessionId)
    if (held === undefined) return null
    this.#forget(sessionId)
    return this.#leftMs(held, this.#parts.clock.now()) > 0 ? held.grant : null
  }

  /** Another instance has it, as far as we know: we gave it away. */
  noteOwner(sessionId: string, owner: string): void {
    const term: Term = { from: this.#parts.clock.now(), spanMs: this.#parts.ttlMs }
    this.#others.set(sessionId, { owner, term })
  }

  /** Whether it was ours until a store forgot it, and nobody who believes the old grants can have it yet. */
  isReclaimable(sessionId: string): boolean {
    const term = this.#forgotten.get(sessionId)
    return term !== undefined && this.#parts.clock.remainingMs(term, this.#parts.clock.now()) > 0
  }

  /** When another's lease that we were told of is over, at the soonest; null: none is known. */
  freeInMs(sessionId: string): number | null {
    const other = this.#others.get(sessionId)
    if (other === undefined) return null
    const { clock } = this.#parts
    return other.term.spanMs - clock.elapsedMs(other.term.from, clock.now())
  }

  /** Draws the conclusions that the clock allows, and tells the listeners. */
  look(): void {
    const now = this.#parts.clock.now()
    for (const [sessionId, held] of [...this.#held]) {
      const leftMs = this.#leftMs(held, now)
      if (leftMs <= 0) this.#lose(sessionId, 'deadline_passed')
      else this.#announce(sessionId, this.#isUncertain(held, now), Math.floor(leftMs))
    }
  }

  /** Until `look` will have something new to say; null while nothing is held. */
  nextLookInMs(): number | null {
    const now = this.#parts.clock.now()
    let next: number | null = null
    for (const [sessionId, held] of this.#held) {
      const overdueInMs = this.#parts.overdueMs - this.#ageMs(held, now)
      const isOpen = !this.#uncertain.has(sessionId)
      const inMs = isOpen ? Math.min(overdueInMs, this.#leftMs(held, now)) : this.#leftMs(held, now)
      next = next === null ? inMs : Math.min(next, inMs)
    }
    return next
  }

  /** Forgets what is known of others and is not true any more, so that the book stays as large as the fleet's work. */
  prune(): void {
    const { clock, ttlMs } = this.#parts
    const now = clock.now()
    const isOld = (term: Term): boolean => clock.elapsedMs(term.from, now) > term.spanMs + 4 * ttlMs
    for (const [id, { term }] of this.#others) if (isOld(term)) this.#others.delete(id)
    for (const [id, term] of this.#forgotten) if (isOld(term)) this.#forgotten.delete(id)
  }

  #confirm(held: Held, sent: Moment, now: Moment): void {
    const { clock, ttlMs, listeners } = this.#parts
    const { sessionId } = held.grant
    const term: Term = { from: sent, spanMs: ttlMs }
    this.#held.set(sessionId, { ...held, term, renewedAtMs: sent.wallMs, isDoubted: false })
    const remainingMs = Math.floor(clock.remainingMs(term, now))
    this.#announce(sessionId, false, remainingMs)
    listeners.emit('renewed', { sessionId, remainingMs })
  }

  #doubt(held: Held, failed: Failed | undefined, now: Moment): void {
    const { sessionId } = held.grant
    this.#held.set(sessionId, { ...held, isDoubted: true })
    const error = failed?.error ?? new LeaseError('STORE_OUTCOME_UNKNOWN', 'no answer came')
    this.#parts.listeners.emit('renew_failed', { sessionId, error })
    this.#announce(sessionId, true, Math.floor(this.#leftMs(held, now)))
  }

  #ownerOf(sessionId: string, now: Moment): string | null {
    const other = this.#others.get(sessionId)
    if (other === undefined) return null
    return this.#parts.clock.elapsedMs(other.term.from, now) < other.term.spanMs
      ? other.owner
      : null
  }

  #announce(sessionId: string, isUncertain: boolean, remainingMs: number): void {
    if (isUncertain === this.#uncertain.has(sessionId)) return
    if (isUncertain) this.#uncertain.add(sessionId)
    else this.#uncertain.delete(sessionId)
    const name = isUncertain ? 'uncertain' : 'recovered'
    this.#parts.listeners.emit(name, { sessionId, remainingMs })
  }

  #lose(sessionId: string, reason: LossReason): void {
    this.#forget(sessionId)
    this.#parts.listeners.emit('lost', { sessionId, reason })
  }

  #forget(sessionId: string): void {
    this.#held.delete(sessionId)
    this.#uncertain.delete(sessionId)
  }

  #isUncertain(held: Held, now: Moment): boolean {
    return held.isDoubted || this.#ageMs(held, now) >= this.#parts.overdueMs
  }

  #ageMs(held: Held, now: Moment): number {
    return this.#parts.clock.elapsedMs(held.term.from, now)
  }

  #leftMs(held: Held, now: Moment): number {
    return this.#parts.clock.remainingMs(held.term, now)
  }
}

/** Of a session that nobody is known to own. */
export function unknownInfo(sessionId: string): LeaseInfo {
  return {
    ...{ sessionId, ownerId: null, state: 'unknown', fence: null },
    ...{ acquiredAtMs: null, lastRenewedAtMs: null, remainingMs: 0 },
  }
}
