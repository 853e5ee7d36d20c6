/**
 * I8: a repeated request has its effect once, and answers are true. No request id stands in the ledger twice; what was
 * answered with yes is in the ledger; what was answered with no has no effect that its process leaves behind; and an
 * unknown, or a store that is away, is only ever the fault of the network or of a stop.
 */
import { seconds, short, type Checker, type Complaint, type Evidence } from '../evidence.ts'
import { lastTerm, type LeaseLife } from '../lease-life.ts'
import type { CallBegun, CallEnded } from '../log.ts'

export const exactlyOnce: Checker = {
  promise: 'I8',
  name: 'exactly once',
  check: (evidence) => [
    ...repeatedEffects(evidence),
    ...yesWithoutEffect(evidence),
    ...noWithEffect(evidence),
    ...needlessDoubt(evidence),
  ],
}

function repeatedEffects({ ledger }: Evidence): readonly Complaint[] {
  const seen = new Set<string>()
  const complaints: Complaint[] = []
  for (const { event, atUs } of ledger) {
    if (event.requestId === null) continue
    if (seen.has(event.requestId)) {
      const what = `${event.type} of ${short(event.leaseId)}`
      complaints.push(`${what} at ${seconds(atUs)} is the second effect of one request`)
    }
    seen.add(event.requestId)
  }
  return complaints
}

function yesWithoutEffect({ log, ledger }: Evidence): readonly Complaint[] {
  const effects = new Set<string>()
  for (const { event } of ledger) {
    effects.add(`${event.type} ${event.leaseId}`)
    if (event.requestId !== null) effects.add(`${event.type} ${event.requestId}`)
  }
  const complaints: Complaint[] = []
  for (const entry of log) {
    if (entry.kind !== 'answered') continue
    const type = EFFECT_OF_ANSWER[entry.answer]
    const { requestId, givenId, leaseId } = entry
    const about = requestId ?? (type === 'lease.issued' ? (givenId ?? leaseId) : leaseId)
    if (type === undefined || effects.has(`${type} ${about}`)) continue
    // Of several that were asked for together one may have been transferred to the requester.
    if (entry.answer === 'granted_all' && effects.has(`lease.adopted ${leaseId}`)) continue
    complaints.push(
      `${entry.session} heard ${entry.answer} of ${short(entry.leaseId)} at ` +
        `${seconds(entry.atUs)}, which never happened`,
    )
  }
  return complaints
}

const EFFECT_OF_ANSWER: Readonly<Record<string, string>> = {
  granted: 'lease.issued',
  granted_all: 'lease.issued',
  transferred: 'lease.transferred',
  renewed: 'lease.renewed',
  released: 'lease.released',
  spent: 'lease.accounted',
}

type Refused = CallEnded & { readonly begun: CallBegun & At; readonly atUs: number }
type At = { readonly atUs: number }

/** Calls that were refused: their answer says that nothing changed. */
function refusedCalls({ log }: Evidence): readonly Refused[] {
  const begun = new Map<number, CallBegun & At>()
  const refused: Refused[] = []
  for (const entry of log) {
    if (entry.kind === 'call' && entry.leaseId !== null) begun.set(entry.call, entry)
    if (entry.kind !== 'ended' || YES.has(entry.outcome)) continue
    if (entry.effect === 'unknown' && !GIVEN_BACK.has(entry.outcome)) continue
    const call = begun.get(entry.call)
    if (call !== undefined) refused.push({ ...entry, begun: call })
  }
  return refused
}

/** Whatever a wait that ended so may have got at the last moment, its client gives back. */
const GIVEN_BACK: ReadonlySet<string> = new Set(['WAIT_TIMEOUT', 'ABORTED'])
const YES: ReadonlySet<string> = new Set(['granted', 'done', 'LEASE_LOST', 'LEASE_EXPIRED'])
const ACQUIRES: ReadonlySet<string> = new Set(['acquire', 'try_acquire', 'with_lease'])

function noWithEffect(evidence: Evidence): readonly Complaint[] {
  const lives = new Map(
    evidence.lives.flatMap((life) => life.askedAs.map((id) => [id, life] as const)),
  )
  const effects = new Set(evidence.ledger.map(({ event }) => event.requestId))
  const complaints: Complaint[] = []
  for (const refused of refusedCalls(evidence)) {
    const { begun, outcome, atUs } = refused
    const told = `${begun.session} ${begun.operation} was told ${outcome} at ${seconds(atUs)}, but`
    const life = lives.get(begun.leaseId ?? '')
    if (ACQUIRES.has(begun.operation)) {
      if (life === undefined || !wasLeftBehind(life, refused, evidence)) continue
      complaints.push(`${told} ${short(life.lease.id)} on ${life.lease.resource} lived on`)
    } else if (
      outcome.startsWith('STORE_') &&
      sentBy(refused, evidence).some((id) => effects.has(id))
    ) {
      complaints.push(`${told} it had happened`)
    }
  }
  return complaints
}

/**
 * The requests that a call sent for its lease. Those of a renewal cannot be told from the lease's own, which go on
 * beside it, so it has none here.
 */
function sentBy({ begun, atUs }: Refused, { log }: Evidence): readonly string[] {
  const ids: string[] = []
  if (begun.operation === 'renew') return ids
  for (const entry of log) {
    if (entry.kind !== 'asked' || entry.leaseId !== begun.leaseId) continue
    if (entry.session !== begun.session || entry.method !== begun.operation) continue
    const isDuring = entry.atUs >= begun.atUs && entry.atUs <= atUs
    if (isDuring && entry.requestId !== null) ids.push(entry.requestId)
  }
  return ids
}

/** Time for the request that gives the lease back to reach the store. */
const GIVING_BACK_US = 200_000

/** A wait that timed out, was cancelled or was refused must not leave a lease behind that runs until its deadline. */
function wasLeftBehind(life: LeaseLife, refused: Refused, evidence: Evidence): boolean {
  const { end } = life
  const issued = life.adopted ?? life.issued
  const endedAs = end?.event.type
  if (endedAs !== undefined && endedAs !== 'lease.expired') return false
  // A request that the network kept and delivered after the same request had been refused: it is decided anew, and its
  // sender, who may not have heard of the refusal yet, is no longer listening.
  const earlier = evidence.refusals.some(({ event, atUs }) => {
    return event.leaseId === life.lease.id && atUs <= issued.atUs
  })
  const wasRefused = issued.event.before === 'failed' || issued.atUs > refused.atUs || earlier
  if (issued.isEcho && wasRefused) return false
  const untilUs = Math.min(evidence.trueUs(lastTerm(life).deadline), evidence.endUs)
  if (untilUs < Math.max(refused.atUs, issued.atUs) + GIVING_BACK_US) return false
  return !hadExcuse(refused.begun, untilUs, evidence)
}

/**
 * The process died or was stopped, the clock changed, its attempts to give the lease back failed, or it had no answer
 * yet: to what gave it the lease, or to what was to give it back.
 */
function hadExcuse(call: CallBegun, untilUs: number, { clockChanges, log }: Evidence): boolean {
  if (clockChanges.some(({ atUs }) => atUs <= untilUs)) return true
  const unanswered = new Set<string>()
  for (const entry of log) {
    if (entry.atUs > untilUs) break
    if (entry.kind === 'stopped' && entry.process === call.process) return true
    if (entry.kind === 'crashed' && entry.session === call.session) return true
    if (entry.kind !== 'asked' && entry.kind !== 'answered') continue
    if (entry.leaseId !== call.leaseId) continue
    if (entry.kind === 'asked') unanswered.add(`${entry.method} ${entry.atUs}`)
    else unanswered.delete(`${entry.method} ${entry.sentUs}`)
    const hasFailed = entry.kind === 'answered' && entry.answer.startsWith('STORE_')
    if (hasFailed && GIVING_BACK.has(entry.method)) return true
  }
  return unanswered.size > 0
}

const GIVING_BACK: ReadonlySet<string> = new Set(['withdraw', 'release'])

/**
 * In a process that nothing happened to, every call is answered with yes or no. A renewal is waited for no longer than
 * the lease lasts, which may be less than an ordinary round trip.
 */
function needlessDoubt({ log }: Evidence): readonly Complaint[] {
  const begun = new Map<number, CallBegun>()
  const faulty = new Set<string>()
  const complaints: Complaint[] = []
  for (const entry of log) {
    if (entry.kind === 'fault' && entry.process !== null) faulty.add(entry.process)
    if (entry.kind === 'call') begun.set(entry.call, entry)
    if (entry.kind !== 'ended' || !entry.outcome.startsWith('STORE_')) continue
    const call = begun.get(entry.call)
    if (call === undefined || call.operation === 'renew' || faulty.has(call.process)) continue
    complaints.push(`${call.session} ${call.operation} ended as ${entry.outcome} for no reason`)
  }
  return complaints
}
