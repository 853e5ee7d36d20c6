/**
 * I4: a holder's own view ends no later than the store's. Whenever a holder looked at its lease and found it held or
 * uncertain, the lease had not run out for the store, and the deadline it counted on was not later than the store's.
 * At its own deadline it hears of the loss by its signal, whether or not any call ever returned; one that was stopped
 * hears of it when it runs again. A revocation may stay unheard of, but not longer than the deadline.
 */
import { isHolding, type HandleLog, type Look } from '../holder-views.ts'
import { seconds, short, type Checker, type Complaint, type Evidence } from '../evidence.ts'
import { termAt, type LeaseLife, type Term } from '../lease-life.ts'
import { stopsOf, type Stop } from './stops.ts'

/** Rounding of clocks and of the store's ticks. */
const SLACK_US = 50
/** A timer is late by a turn of the event loop or two. */
const TIMER_SLACK_US = 10_000
/**
 * After the host slept, timers are late, and the sleep itself is noticed within a second. A wall clock that was set
 * forward is taken for sleep where there is no boot clock.
 */
const SLEPT_SLACK_US = 1_100_000

export const pessimistic: Checker = {
  promise: 'I4',
  name: 'holder is pessimistic',
  check: (evidence) => {
    const lives = new Map(evidence.lives.map((life) => [life.lease.id, life]))
    const told = grantsTold(evidence)
    const stops = stopsOf(evidence)
    return evidence.handles.flatMap((handle) => {
      const life = lives.get(handle.leaseId)
      const late = lateSignal(handle, stops.get(handle.looks[0]?.process ?? '') ?? [], evidence)
      if (life === undefined) return late
      const toldUs = told.get(handle.leaseId) ?? -Infinity
      return [...optimism(handle, { life, toldUs }, evidence), ...late]
    })
  },
}

/** A lease with the moment at which the last request was sent that was answered by it. */
interface Told {
  readonly life: LeaseLife
  readonly toldUs: number
}

function grantsTold({ log }: Evidence): ReadonlyMap<string, number> {
  const told = new Map<string, number>()
  for (const entry of log) {
    if (entry.kind !== 'answered' || entry.answer !== 'granted' || entry.givenId === null) continue
    told.set(entry.givenId, Math.max(entry.sentUs, told.get(entry.givenId) ?? -Infinity))
  }
  return told
}

function optimism(handle: HandleLog, told: Told, evidence: Evidence): readonly Complaint[] {
  const complaints: Complaint[] = []
  for (const look of handle.looks) {
    if (!isHolding(look)) continue
    const storeEndUs = endAtUs(told, look, evidence)
    const what = `${look.session} on ${look.resource} (${short(look.leaseId)})`
    if (look.atUs > storeEndUs + SLACK_US) {
      complaints.push(
        `${what} said ${look.state} at ${seconds(look.atUs)}, ended at ${seconds(storeEndUs)}`,
      )
    } else if (look.deadlineUs > storeEndUs + SLACK_US) {
      complaints.push(
        `${what} counted on ${seconds(look.deadlineUs)}, the store on ${seconds(storeEndUs)}`,
      )
    }
  }
  return complaints
}

/**
 * When the store's own view ends, in true time, as far as it had granted anything by the moment of the look: a TTL from
 * the commit, and by its own deadline, whichever is sooner. A waiter that got its lease by another's commit and asks
 * later is told of the end that the store keeps.
 */
function endAtUs({ life, toldUs }: Told, look: Look, evidence: Evidence): number {
  const { end } = life
  if (end?.event.type === 'lease.released' && end.atUs <= look.atUs) return end.atUs
  const { atUs, endUs, keptUs, deadline } = termKnownAt(life, look)
  return Math.min(toldUs > atUs ? keptUs : endUs, evidence.trueUs(deadline))
}

/**
 * A holder that has not heard of a revocation with a grace still counts on its old deadline, and one with two revocations
 * may have heard of the first time only.
 */
function termKnownAt(life: LeaseLife, { atUs, isAsked }: Look): Term {
  const term = termAt(life, atUs)
  if (!term.isAsked) return term
  const known = isAsked
    ? life.terms.find((one) => one.isAsked)
    : life.terms.findLast((one) => !one.isAsked && one.atUs <= atUs)
  return known ?? term
}

function lateSignal(
  handle: HandleLog,
  stops: readonly Stop[],
  { log, endUs }: Evidence,
): readonly Complaint[] {
  const last = handle.looks.findLast(isHolding)
  if (last === undefined) return []
  const heardUs = Math.min(handle.signalUs ?? Infinity, handle.letGoUs ?? Infinity, endUs)
  if (heardUs <= last.deadlineUs + TIMER_SLACK_US) return []
  const slept = log.some(
    (entry) =>
      entry.kind === 'fault' &&
      (entry.fault === 'suspension' || entry.fault === 'wall_step') &&
      entry.process === last.process &&
      entry.atUs < heardUs,
  )
  const slackUs = slept ? SLEPT_SLACK_US : TIMER_SLACK_US
  let allowedUs = last.deadlineUs + slackUs
  for (const stop of stops) {
    if (stop.fromUs <= allowedUs) allowedUs = Math.max(allowedUs, stop.toUs + slackUs)
  }
  if (heardUs <= allowedUs) return []
  return [
    `${last.session} on ${last.resource} (${short(last.leaseId)}) was to stop at ` +
      `${seconds(last.deadlineUs)} and had not heard of it by ${seconds(allowedUs)}`,
  ]
}
