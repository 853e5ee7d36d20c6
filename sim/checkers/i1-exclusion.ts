/**
 * I1: at every instant, leases that touch are all shared, or in one line of derivation. Looked at twice: by the store's own clock (nobody is let in,
 * or made the only one, while the ledger shows another lease that is neither ended nor past its deadline) and by what
 * the holders themselves believed, in true time. After a revocation only the fence protects until the holder hears of
 * it, so a belief counts up to the revocation at most.
 */
import type { Lease, LeaseId } from '../../src/core/lease.ts'
import { hasPassed } from '../../src/core/time.ts'
import { beliefs, type Belief } from '../beliefs.ts'
import {
  areAncestorAndDescendant,
  seconds,
  short,
  type Checker,
  type Complaint,
  type Evidence,
  type Parents,
} from '../evidence.ts'
import { walk, type Step } from './ledger-walk.ts'
import { clash } from './reach.ts'

export const exclusion: Checker = {
  promise: 'I1',
  name: 'exclusion',
  check: (evidence) => [...overlapsInLedger(evidence), ...overlapsInBelief(evidence)],
}

function overlapsInLedger({ ledger, parents }: Evidence): readonly Complaint[] {
  const complaints: Complaint[] = []
  for (const step of walk(ledger)) {
    for (const { event } of step.events) {
      if (event.type !== 'lease.issued' && event.type !== 'lease.upgraded') continue
      const own = step.live.get(event.leaseId)
      if (own?.kind !== 'lease') continue
      const other = runningBeside(own, step, parents)
      if (other === null) continue
      const how = event.type === 'lease.issued' ? 'was granted to' : 'became alone for'
      complaints.push(
        `${own.resource} ${how} ${own.holder} (${short(own.id)}) at ${seconds(step.atUs)} while ` +
          `the ledger shows it held by ${other.holder} (${short(other.id)}) as ${other.resource}`,
      )
    }
  }
  return complaints
}

/** A lease that may not be there at the same time and is still running, by the store's clock. */
function runningBeside(own: Lease, { live, tick }: Step, parents: Parents): Lease | null {
  for (const other of live.values()) {
    if (other.kind !== 'lease' || other.state !== 'active' || other.id === own.id) continue
    if (areAncestorAndDescendant(parents, own.id, other.id)) continue
    if (clash(own, other) && !hasPassed(other.deadline, tick)) return other
  }
  return null
}

function overlapsInBelief(evidence: Evidence): readonly Complaint[] {
  const justified = justifiedBeliefs(evidence).toSorted((a, b) => a.fromUs - b.fromUs)
  const complaints: Complaint[] = []
  justified.forEach((belief, index) => {
    for (const before of justified.slice(0, index)) {
      if (before.untilUs <= belief.fromUs || before.leaseId === belief.leaseId) continue
      if (!clash(before, belief)) continue
      if (areAncestorAndDescendant(evidence.parents, before.leaseId, belief.leaseId)) continue
      complaints.push(
        `${before.session} believed in ${before.resource} until ${seconds(before.untilUs)}, ` +
          `${belief.session} in ${belief.resource} from ${seconds(belief.fromUs)}`,
      )
    }
  })
  return complaints
}

/** What holders believed, as far as they could not have known better. */
export function justifiedBeliefs({ handles, lives }: Evidence): readonly Belief[] {
  const revokedAtUs = new Map<LeaseId, number>()
  for (const { lease, terms, end } of lives) {
    const asked = terms.findLast((term) => term.isAsked)
    const endUs = end?.event.type === 'lease.revoked' ? end.atUs : Infinity
    revokedAtUs.set(lease.id, Math.min(asked?.dueUs ?? Infinity, endUs))
  }
  return beliefs(handles)
    .map((belief) => {
      const untilUs = Math.min(belief.untilUs, revokedAtUs.get(belief.leaseId) ?? Infinity)
      return { ...belief, untilUs }
    })
    .filter(({ fromUs, untilUs }) => fromUs < untilUs)
}
