/**
 * I1: at every instant, leases that touch are all shared, or in one ancestor chain. Looked at twice: by the store's own clock (no conflicting lease is granted,
 * or made the only one, while the ledger shows another lease that is neither ended nor past its deadline) and by what
 * the holders themselves saw, in true time. After a revocation only the fence protects until the holder hears of
 * it, so a view counts up to the revocation at most.
 */
import type { Lease, LeaseId } from '../../src/core/lease.ts'
import { hasPassed } from '../../src/core/time.ts'
import { holderViews, type HolderView } from '../holder-views.ts'
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
  const justified = justifiedViews(evidence).toSorted((a, b) => a.fromUs - b.fromUs)
  const complaints: Complaint[] = []
  justified.forEach((view, index) => {
    for (const before of justified.slice(0, index)) {
      if (before.untilUs <= view.fromUs || before.leaseId === view.leaseId) continue
      if (!clash(before, view)) continue
      if (areAncestorAndDescendant(evidence.parents, before.leaseId, view.leaseId)) continue
      complaints.push(
        `${before.session} held ${before.resource} until ${seconds(before.untilUs)}, ` +
          `${view.session} in ${view.resource} from ${seconds(view.fromUs)}`,
      )
    }
  })
  return complaints
}

/** The views of holders, up to the revocation of their lease. */
export function justifiedViews({ handles, lives }: Evidence): readonly HolderView[] {
  const revokedAtUs = new Map<LeaseId, number>()
  for (const { lease, terms, end } of lives) {
    const asked = terms.findLast((term) => term.isAsked)
    const endUs = end?.event.type === 'lease.revoked' ? end.atUs : Infinity
    revokedAtUs.set(lease.id, Math.min(asked?.dueUs ?? Infinity, endUs))
  }
  return holderViews(handles)
    .map((view) => {
      const untilUs = Math.min(view.untilUs, revokedAtUs.get(view.leaseId) ?? Infinity)
      return { ...view, untilUs }
    })
    .filter(({ fromUs, untilUs }) => fromUs < untilUs)
}
