/**
 * I5: expired means free at the moment of the check. Whoever was refused or had to wait was stopped by something that
 * was alive at that very tick: a lease before its deadline, an offer before its own, a lock delay, or a waiter that
 * had been heard of in time. And whoever asked whether a resource is held got an answer that was true while it asked.
 */
import type { Entry } from '../../src/core/lease.ts'
import { hasPassed, type Tick } from '../../src/core/time.ts'
import { seconds, short } from '../evidence.ts'
import type { Checker, Complaint, Evidence, LeaseLife } from '../evidence.ts'
import { walk, type Step } from './ledger-walk.ts'

const SLACK_US = 50

export const nowMeansNow: Checker = {
  promise: 'I5',
  name: 'now means now',
  check: (evidence) => [...refusedByGhosts(evidence), ...wrongAnswers(evidence)],
}

function refusedByGhosts(evidence: Evidence): readonly Complaint[] {
  const complaints: Complaint[] = []
  for (const step of walk(evidence.ledger)) {
    for (const { event } of step.events) {
      if (event.type !== 'lease.denied' && event.type !== 'lease.queued') continue
      if (isBlocked(event.leaseId, event.resource, step, evidence)) continue
      complaints.push(
        `${event.holder} (${short(event.leaseId)}) got ${event.type} for ${event.resource} at ` +
          `${seconds(step.atUs)} although nothing live stood in its way`,
      )
    }
  }
  return complaints
}

function isBlocked(leaseId: string, resource: string, step: Step, evidence: Evidence): boolean {
  for (const entry of step.after.values()) {
    if (entry.resource !== resource || entry.id === leaseId) continue
    if (isStanding(entry, step, evidence)) return true
  }
  return false
}

function isStanding(entry: Entry, { tick, atUs }: Step, { heard }: Evidence): boolean {
  const isAhead = (until: Tick | null): boolean => until !== null && !hasPassed(until, tick)
  if (entry.kind === 'lease') {
    return isAhead(entry.state === 'active' ? entry.deadline : entry.lockedUntil)
  }
  if (entry.state !== 'pending') return false
  if (entry.offer !== null) return isAhead(entry.offer.deadline)
  const last = heard.get(entry.id)?.findLast((contact) => contact.atUs <= atUs)
  return isAhead(last?.deadline ?? null)
}

interface Span {
  readonly fromUs: number
  readonly toUs: number
}

function wrongAnswers(evidence: Evidence): readonly Complaint[] {
  const spans = new Map<string, Span[]>()
  for (const life of evidence.lives) {
    const { resource } = life.lease
    spans.set(resource, [...(spans.get(resource) ?? []), heldSpan(life, evidence)])
  }
  const complaints: Complaint[] = []
  for (const entry of evidence.log) {
    if (entry.kind !== 'looked') continue
    const asked = { fromUs: entry.sentUs, toUs: entry.atUs }
    const touching = (spans.get(entry.resource) ?? []).filter((span) => touches(span, asked))
    const isPossible = entry.held ? touching.length > 0 : !touching.some((s) => covers(s, asked))
    if (isPossible) continue
    complaints.push(
      `${entry.session} was told that ${entry.resource} is ${entry.held ? '' : 'not '}held ` +
        `between ${seconds(asked.fromUs)} and ${seconds(asked.toUs)}, which was never true`,
    )
  }
  return complaints
}

/** From the grant to the earliest of its end, its deadline, and a change of the deciding clock. */
function heldSpan({ issued, end, terms }: LeaseLife, evidence: Evidence): Span {
  const last = terms[terms.length - 1] ?? terms[0]
  const change = evidence.clockChanges.find(({ atUs }) => atUs > issued.atUs)
  const toUs = Math.min(
    end?.atUs ?? Infinity,
    evidence.trueUs(last.deadline),
    change?.atUs ?? Infinity,
  )
  return { fromUs: issued.atUs, toUs }
}

function touches(a: Span, b: Span): boolean {
  return a.fromUs <= b.toUs + SLACK_US && b.fromUs <= a.toUs + SLACK_US
}

function covers(outer: Span, inner: Span): boolean {
  return outer.fromUs + SLACK_US < inner.fromUs && inner.toUs < outer.toUs - SLACK_US
}
