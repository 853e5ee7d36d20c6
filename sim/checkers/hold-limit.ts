/**
 * No lease is held longer than allowed: no term goes beyond `maxHoldMs` from the grant, a transferred lease keeps that
 * end, and after a revocation with a grace nothing makes the end later.
 */
import { seconds, short, type Checker, type Complaint, type Evidence } from '../evidence.ts'
import type { LeaseLife } from '../lease-life.ts'

const CLOCK_SLACK_US = 50

export const holdLimit: Checker = {
  promise: 'I3',
  name: 'no longer than allowed',
  check: (evidence) => evidence.lives.flatMap((life) => overstays(life, evidence)),
}

function overstays(life: LeaseLife, evidence: Evidence): Complaint[] {
  const { lease, terms, ceilingKeptUs } = life
  const complaints: Complaint[] = []
  let askedUs = Infinity
  for (const term of terms) {
    const limitUs = Math.min(ceilingKeptUs, askedUs)
    const untilUs = evidence.trueUs(term.deadline)
    if (untilUs > limitUs + CLOCK_SLACK_US) {
      complaints.push(
        `${short(lease.id)} on ${lease.resource} was given until ${seconds(untilUs)} at ` +
          `${seconds(term.atUs)}; it had to end by ${seconds(limitUs)}`,
      )
    }
    if (term.isAsked) askedUs = Math.min(askedUs, term.keptUs)
  }
  return complaints
}
