/**
 * I8, what a process leaves behind in the store while it lives and the store hears it: no ticket of a wait that has ended
 * stands for longer than its claim window, and a lease that its holder has lost is given back, so that no process, itself
 * included, waits for a lease without a holder.
 */
import type { LeaseId } from '../../src/core/lease.ts'
import { seconds, short, type Checker, type Complaint, type Evidence } from '../evidence.ts'
import { lastTerm, type LeaseLife } from '../lease-life.ts'
import type { Asked, CallBegun, Who } from '../log.ts'
import type { TimedEvent } from '../store-host.ts'
import { placeOf, resourcesOf } from './faults.ts'
import { eventsById } from './ledger-walk.ts'

/** Messages, and timers of a clock that is slow by one percent. */
const SLACK_US = 300_000
/** The longest pause before what the store did not hear is sent again. */
const RETRY_US_MAX = 1_000_000

export const nothingLeft: Checker = {
  promise: 'I8',
  name: 'nothing is left behind',
  check: (evidence) => [...ticketsLeft(evidence), ...leasesLeft(evidence)],
}

interface EndedWait {
  readonly call: CallBegun & { readonly leaseId: LeaseId }
  readonly outcome: string
  readonly endedUs: number
}

const GIVEN_UP: ReadonlySet<string> = new Set(['WAIT_TIMEOUT', 'ABORTED'])

function endedWaits({ log }: Evidence): readonly EndedWait[] {
  const begun = new Map<number, EndedWait['call']>()
  return log.flatMap((entry) => {
    if (entry.kind === 'call' && entry.operation === 'acquire' && entry.leaseId !== null) {
      begun.set(entry.call, { ...entry, leaseId: entry.leaseId })
    }
    if (entry.kind !== 'ended' || !GIVEN_UP.has(entry.outcome)) return []
    const call = begun.get(entry.call)
    return call === undefined ? [] : [{ call, outcome: entry.outcome, endedUs: entry.atUs }]
  })
}

function ticketsLeft(evidence: Evidence): readonly Complaint[] {
  const events = eventsById(evidence.ledger)
  return endedWaits(evidence).flatMap(({ call, outcome, endedUs }) => {
    const { leaseId, session } = call
    const untilUs = standsUntilUs(events.get(leaseId) ?? [], evidence)
    const earlierUs = answeredUs({ ...call, leaseId, atUs: endedUs }, untilUs, evidence)
    const backUs = Math.max(earlierUs, lastDoubtUs(call, endedUs, evidence))
    if (untilUs <= backUs + evidence.claimWindowMs * 1000 + SLACK_US) return []
    const span = { fromUs: endedUs, toUs: untilUs }
    if (affected({ ...call, leaseId }, span, evidence) || keptBack(call, span, evidence)) return []
    return [
      `${session} was told ${outcome} at ${seconds(endedUs)}, and its ticket ${short(leaseId)} ` +
        `stood until ${seconds(untilUs)}`,
    ]
  })
}

/**
 * Whether an optimistic store had something else to send there first: what touches a call that is under way goes after it.
 */
function keptBack(
  { process, leaseId }: EndedWait['call'],
  { fromUs, toUs }: Period,
  evidence: Evidence,
): boolean {
  if (evidence.store === 'memory') return false
  const resources = resourcesOf(evidence)
  const place = placeOf(resources.get(leaseId))
  return evidence.log.some((entry) => {
    if (entry.kind !== 'fault' || entry.process !== process || entry.leaseId === null) return false
    const isThen = entry.atUs >= fromUs && entry.atUs <= toUs
    if (!isThen || !MAKES_ATTEMPTS_LATE.has(entry.fault)) return false
    return placeOf(resources.get(entry.leaseId)) === place
  })
}

/** Until when the ticket kept others away: until it ended, or was neither heard of nor claimed in time. */
function standsUntilUs(events: readonly TimedEvent[], evidence: Evidence): number {
  const last = events.at(-1)
  if (last === undefined) return -Infinity
  const { event, atUs } = last
  // The network delivered the request after its sender had given it up: no process knows of that ticket.
  if (events.findLast((timed) => timed.event.type === 'lease.queued')?.isEcho === true) {
    return -Infinity
  }
  if (event.after !== 'pending') {
    const before = events.at(-2)
    const isDropped = event.type === 'lease.failed' && before?.event.after === 'pending'
    return isDropped ? Math.min(atUs, runsOutUs(before, evidence)) : -Infinity
  }
  return runsOutUs(last, evidence)
}

function runsOutUs({ event }: TimedEvent, evidence: Evidence): number {
  if (event.type === 'lease.offered') return evidence.trueUs(event.deadline)
  const heard = evidence.heard.get(event.leaseId)?.at(-1)
  return heard === undefined ? -Infinity : evidence.trueUs(heard.deadline)
}

/** When the last answer came to what was sent before the end, or that a withdrawal had failed. */
function lastDoubtUs({ leaseId }: EndedWait['call'], endedUs: number, { log }: Evidence): number {
  const answers = log.filter((entry) => {
    if (entry.kind !== 'answered' || entry.leaseId !== leaseId) return false
    return entry.sentUs <= endedUs || entry.answer.startsWith('STORE_')
  })
  return answers.at(-1)?.atUs ?? endedUs
}

function leasesLeft(evidence: Evidence): readonly Complaint[] {
  const lives = new Map(evidence.lives.map((life) => [life.lease.id, life]))
  const letGo = new Set<LeaseId>()
  const endedWith = lostWith(evidence)
  return evidence.log.flatMap((entry) => {
    if (entry.kind === 'let_go') letGo.add(entry.leaseId)
    if (entry.kind !== 'signal' || letGo.has(entry.leaseId)) return []
    const life = lives.get(entry.leaseId)
    const given = { ...entry, leaseId: endedWith(entry.leaseId) }
    if (letGo.has(given.leaseId)) return []
    const givenLife = lives.get(given.leaseId)
    if (life === undefined || givenLife === undefined || isLeftToItsEnd(givenLife)) return []
    const untilUs = Math.min(life.end?.atUs ?? Infinity, lastTerm(life).dueUs)
    const sentUs = Math.max(entry.atUs, answeredUs(given, untilUs, evidence))
    const retryUs = retryDueUs(given.leaseId, untilUs, evidence)
    if (untilUs <= Math.max(sentUs, retryUs) + SLACK_US) return []
    if (affected(given, { fromUs: entry.atUs, toUs: untilUs }, evidence)) return []
    return [
      `${entry.session} lost ${short(entry.leaseId)} on ${life.lease.resource} at ` +
        `${seconds(entry.atUs)} and left it in the store until ${seconds(untilUs)}`,
    ]
  })
}

/**
 * The lease whose release ends a lost one as well. One that was lost because its parent has ended is not given back by
 * itself: the store ends it in the commit that ends the parent.
 */
function lostWith({ log, parents }: Evidence): (leaseId: LeaseId) => LeaseId {
  const withParent = new Set<LeaseId>()
  for (const entry of log) {
    if (entry.kind === 'signal' && entry.reason === 'parent_ended') withParent.add(entry.leaseId)
  }
  const endedWith = (leaseId: LeaseId): LeaseId => {
    const parentId = withParent.has(leaseId) ? parents.get(leaseId) : undefined
    return parentId === undefined ? leaseId : endedWith(parentId)
  }
  return endedWith
}

/**
 * When the last answer came to what the process had asked before a loss or the end of a wait; infinite where one had not come
 * by then. A store that decides before it asks may not send the release or the withdrawal before: decided on what an
 * earlier request may be changing, it would miss, and few calls are in flight at a time.
 */
function answeredUs(lost: Who & At, untilUs: number, { log, store }: Evidence): number {
  if (store === 'memory') return lost.atUs
  const isEarlier = (who: Who, sentUs: number): boolean => {
    return who.process === lost.process && sentUs < lost.atUs
  }
  const asked = new Set<string>()
  let lastUs = lost.atUs
  for (const entry of log) {
    if (entry.atUs > untilUs) break
    if (entry.kind === 'asked' && isEarlier(entry, entry.atUs))
      asked.add(callName(entry, entry.atUs))
    if (entry.kind !== 'answered' || !isEarlier(entry, entry.sentUs)) continue
    asked.delete(callName(entry, entry.sentUs))
    lastUs = entry.atUs
  }
  return asked.size > 0 ? Infinity : lastUs
}

function callName({ session, method, leaseId, requestId }: Call, sentUs: number): string {
  return `${session} ${method} ${leaseId} ${requestId} ${sentUs}`
}

type Call = Pick<Asked, 'session' | 'method' | 'leaseId' | 'requestId'>

interface At {
  readonly leaseId: LeaseId
  readonly atUs: number
}

/** By when a release that the store did not hear is sent again. */
function retryDueUs(leaseId: LeaseId, untilUs: number, { log }: Evidence): number {
  const failed = log.findLast((entry) => {
    if (entry.kind !== 'answered' || entry.leaseId !== leaseId || entry.atUs > untilUs) return false
    return entry.method === 'release' && entry.answer.startsWith('STORE_')
  })
  return failed === undefined ? -Infinity : failed.atUs + RETRY_US_MAX
}

/** A release would cut a lock delay off, or say that it was no revocation. */
function isLeftToItsEnd(life: LeaseLife): boolean {
  return life.lease.lockDelayMs > 0 || lastTerm(life).isAsked
}

interface Period {
  readonly fromUs: number
  readonly toUs: number
}

/** Whether anything kept the process from saying so, or the store from hearing it. */
function affected(
  { process, session, leaseId }: Who & { readonly leaseId: LeaseId },
  { fromUs, toUs }: Period,
  { log, clockChanges, store }: Evidence,
): boolean {
  const makesLate = store === 'memory' ? MAKES_LATE : MAKES_ATTEMPTS_LATE
  if (clockChanges.some(({ atUs }) => atUs <= toUs)) return true
  return log.some((entry) => {
    if (entry.atUs > toUs) return false
    // A process that is stopped may have been so for a while.
    if (entry.kind === 'stopped') return entry.process === process
    if (entry.kind === 'crashed') return entry.session === session
    if (entry.kind !== 'fault' || entry.atUs < fromUs) return false
    // What else its process asks for goes with one of the next calls, of which there are two at a time.
    const keepsOthers = store === 'optimistic' && entry.fault === 'call_hangs'
    if (keepsOthers && entry.process === process) return true
    return entry.leaseId === leaseId && makesLate.has(entry.fault)
  })
}

/** What the store never heard is sent again, so that only what is on its way for long is an excuse. */
const MAKES_LATE: ReadonlySet<string> = new Set([
  ...['slow_request', 'call_hangs', 'late_delivery', 'request_repeated', 'outcome_unknown'],
])

/** An attempt that misses has done nothing, and is decided again once its answer has come. */
const MAKES_ATTEMPTS_LATE: ReadonlySet<string> = new Set([
  ...MAKES_LATE,
  ...['answer_lost', 'slow_answer'],
])
