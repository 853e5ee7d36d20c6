/**
 * The life of each lease as the ledger tells it: its grant, each time span that it was given, each mode that it had,
 * and its end. When a span is over is computed here, from the TTL and the moment of the commit, not taken from the
 * ledger; only the end of a grace is, because nothing else tells it.
 */
import type { LeaseEvent } from '../src/core/event.ts'
import type { Lease, LeaseId } from '../src/core/lease.ts'
import type { Mode } from '../src/core/resource.ts'
import type { Tick } from '../src/core/time.ts'
import type { Parents } from './evidence.ts'
import type { TimedEvent } from './store-host.ts'

/** A time span of the deciding clock that the store granted. */
export interface Term {
  readonly atUs: number
  readonly tick: Tick
  readonly ttlMs: number
  readonly deadline: Tick
  /** When it is over, in true time. */
  readonly dueUs: number
  /** The same where a limit cuts it short that the store may count on for longer. No holder whose request it was counts on more. */
  readonly endUs: number
  /**
   * Until when the store itself keeps it: a decision that could have been committed later counts from there, and a renewal
   * moves the end on by a tick at least.
   */
  readonly keptUs: number
  /** The end of the grace of a revocation. */
  readonly isAsked: boolean
}

/** How a lease shared with others, from one moment to the next change. */
export interface Phase {
  readonly commit: number
  readonly mode: Mode
  readonly slots: number | null
  readonly fence: number
}

export interface LeaseLife {
  readonly lease: Lease
  readonly issued: TimedEvent
  /** The grant, each renewal, the adoption and each request to finish, in order. */
  readonly terms: readonly [Term, ...Term[]]
  readonly phases: readonly [Phase, ...Phase[]]
  /** Its sessions: the first, and the one that adopted it. */
  readonly sessions: readonly string[]
  /** The ids under which it was asked for; more than one if it was adopted by acquiring its resource. */
  readonly askedAs: readonly LeaseId[]
  /** The adoption of a lease that was given away. */
  readonly adopted: TimedEvent | null
  /** No term goes beyond this moment of true time; infinite without `maxHoldMs`. */
  readonly ceilingUs: number
  /** The same, as the store itself keeps it. */
  readonly ceilingKeptUs: number
  readonly end: TimedEvent | null
}

type Growing = { -readonly [K in keyof LeaseLife]: LeaseLife[K] }
type TrueUs = (tick: Tick) => number

export function leaseLives(
  ledger: readonly TimedEvent[],
  parents: Parents,
  trueUs: TrueUs,
): readonly LeaseLife[] {
  const lives = new Map<LeaseId, Growing>()
  const parentTerm = (id: LeaseId): Term | null => {
    const parent = lives.get(parents.get(id) ?? '')
    return parent === undefined ? null : lastTerm(parent)
  }
  let given: { readonly commit: number; readonly life: Growing } | null = null
  for (const timed of ledger) {
    const { event, commit } = timed
    const known = lives.get(event.leaseId)
    if (event.type === 'lease.issued') {
      const giver = !event.lease.adopted && given?.commit === commit ? given.life : null
      const life = born(timed, event.lease, giver)
      lives.set(event.leaseId, within(life, parentTerm(event.leaseId)))
    } else if (known !== undefined) {
      grow(known, timed, trueUs)
      within(known, parentTerm(event.leaseId))
      if (event.type === 'lease.transferred') given = { commit, life: known }
    }
  }
  return [...lives.values()]
}

function born(issued: TimedEvent, lease: Lease, giver: LeaseLife | null): Growing {
  const { atUs, tick, commit, slackUs } = issued
  const { ttlMs, deadline, mode, slots, fence, session, id } = lease
  const ceilingUs = ownCeilingUs(lease, atUs)
  const own = { ceilingUs, ceilingKeptUs: ceilingUs + slackUs }
  const ceiling = giver === null ? own : handedOn(giver)
  const isAsked = giver !== null && lastTerm(giver).isAsked
  return {
    ...{ lease, issued, ...ceiling, sessions: [session], askedAs: [id], adopted: null, end: null },
    terms: [{ atUs, tick, ttlMs, deadline, ...endsOf(ceiling, issued, ttlMs), isAsked }],
    phases: [{ commit, mode, slots, fence }],
  }
}

/** No term of a derived lease goes beyond what its parent had when it was given. */
function within(life: Growing, limit: Term | null): Growing {
  const last = lastTerm(life)
  if (limit === null) return life
  const dueUs = Math.min(last.dueUs, limit.dueUs)
  const endUs = cutAt(limit.keptUs, last.endUs)
  const keptUs = cutAt(limit.keptUs, last.keptUs)
  const [first, ...others] = [...life.terms.slice(0, -1), { ...last, dueUs, endUs, keptUs }]
  if (first !== undefined) life.terms = [first, ...others]
  return life
}

function ownCeilingUs({ maxHoldMs }: Lease, atUs: number): number {
  return maxHoldMs === null ? Infinity : atUs + maxHoldMs * 1000
}

type Ceiling = Pick<LeaseLife, 'ceilingUs' | 'ceilingKeptUs'>
type Ends = Pick<Term, 'dueUs' | 'endUs' | 'keptUs'>

function endsOf(
  { ceilingUs, ceilingKeptUs }: Ceiling,
  { atUs, slackUs }: TimedEvent,
  ttlMs: number,
): Ends {
  const untilUs = atUs + ttlMs * 1000
  return {
    // One of nearly a whole TTL may end just before the limit as well.
    dueUs: Math.min(ceilingUs, untilUs),
    endUs: cutAt(ceilingKeptUs, untilUs),
    keptUs: cutAt(ceilingKeptUs, untilUs + slackUs),
  }
}

/** A term that is cut short ends at the very limit, although the TTL that the ledger says is in whole milliseconds. */
function cutAt(ceilingUs: number, untilUs: number): number {
  return untilUs > ceilingUs - 1000 ? ceilingUs : untilUs
}

/** A transfer hands on the end of `maxHoldMs`, or the end of the grace. */
function handedOn(giver: LeaseLife): Ceiling {
  const { isAsked, dueUs, keptUs } = lastTerm(giver)
  const { ceilingUs, ceilingKeptUs } = giver
  return isAsked ? { ceilingUs: dueUs, ceilingKeptUs: keptUs } : { ceilingUs, ceilingKeptUs }
}

function grow(life: Growing, timed: TimedEvent, trueUs: TrueUs): void {
  const { event, commit } = timed
  const phase = lastPhase(life)
  const term = nextTerm(life, timed, trueUs)
  if (term !== null) life.terms = [...life.terms, term]
  if (event.type === 'lease.upgraded') {
    life.phases = [...life.phases, { ...phase, commit, mode: 'exclusive', fence: event.fence }]
  }
  if (event.type === 'lease.downgraded') {
    life.phases = [...life.phases, { ...phase, commit, mode: 'shared' }]
  }
  if (event.type === 'lease.adopted') {
    life.adopted = timed
    life.sessions = [...life.sessions, event.session]
    if (event.requestId !== null) life.askedAs = [...life.askedAs, event.requestId]
  }
  if (isEnd(event)) life.end ??= timed
}

function nextTerm(life: LeaseLife, timed: TimedEvent, trueUs: TrueUs): Term | null {
  const { event, atUs, tick } = timed
  const before = lastTerm(life)
  const granted = (ttlMs: number): Term => {
    return { ...before, ...endsOf(life, timed, ttlMs), atUs, tick, ttlMs }
  }
  if (event.type === 'lease.renewed') {
    const { ttlMs, deadline } = event
    const term = granted(ttlMs)
    // By a TTL that is shorter than what is left it is renewed where the way to the server is allowed more for.
    const dueUs = Math.max(before.dueUs, term.dueUs)
    const endUs = Math.max(before.endUs, term.endUs)
    return { ...term, deadline, dueUs, endUs, keptUs: Math.max(before.keptUs + 1, term.keptUs) }
  }
  if (event.type === 'lease.adopted') {
    const { deadline } = event
    const term = granted(before.ttlMs)
    const adopted = { ...term, deadline, keptUs: Math.max(before.keptUs, term.keptUs) }
    return before.isAsked ? sooner(before, adopted) : adopted
  }
  if (event.type === 'lease.revoking') {
    const { deadline } = event
    const us = trueUs(deadline)
    const ends = { dueUs: us, endUs: us, keptUs: us }
    return sooner(before, { ...before, ...ends, atUs, tick, deadline, isAsked: true })
  }
  return null
}

function sooner(before: Term, term: Term): Term {
  const dueUs = Math.min(before.dueUs, term.dueUs)
  const endUs = Math.min(before.endUs, term.endUs)
  return { ...term, dueUs, endUs, keptUs: Math.min(before.keptUs, term.keptUs) }
}

const ENDS: ReadonlySet<string> = new Set([
  'lease.released',
  'lease.transferred',
  'lease.expired',
  'lease.revoked',
])

export function isEnd({ type }: LeaseEvent): boolean {
  return ENDS.has(type)
}

export function lastTerm({ terms }: LeaseLife): Term {
  return terms[terms.length - 1] ?? terms[0]
}

function lastPhase({ phases }: LeaseLife): Phase {
  return phases[phases.length - 1] ?? phases[0]
}

/** The term that was in force at a moment: the last one that the store had granted by then. */
export function termAt(life: LeaseLife, atUs: number): Term {
  let current = life.terms[0]
  for (const term of life.terms) if (term.atUs <= atUs) current = term
  return current
}

/** How a lease shared with others right after a commit. */
export function phaseAt(life: LeaseLife, commit: number): Phase {
  let current = life.phases[0]
  for (const phase of life.phases) if (phase.commit <= commit) current = phase
  return current
}
