/**
 * I1: at every instant at most one holder. Looked at twice, by the store's own clock (no grant while the ledger shows
 * another lease of the resource that is neither ended nor past its deadline) and by what the holders themselves
 * believed, in true time. After a revocation only the fence protects until the holder hears of it, so a belief counts
 * up to the revocation at most.
 */
import type { LeaseId } from '../../src/core/lease.ts'
import {
  beliefs,
  seconds,
  short,
  type Belief,
  type Checker,
  type Complaint,
  type Evidence,
  type LeaseLife,
} from '../evidence.ts'

export const exclusion: Checker = {
  promise: 'I1',
  name: 'exclusion',
  check: (evidence) => [...overlapsInLedger(evidence), ...overlapsInBelief(evidence)],
}

function overlapsInLedger({ lives }: Evidence): readonly Complaint[] {
  const complaints: Complaint[] = []
  const current = new Map<string, LeaseLife>()
  for (const life of lives) {
    const { lease, issued } = life
    const before = current.get(lease.resource)
    if (before !== undefined && isRunning(before, life)) {
      const who = `${before.lease.holder} (${short(before.lease.id)})`
      complaints.push(
        `${lease.resource} was granted to ${lease.holder} (${short(lease.id)}) at ` +
          `${seconds(issued.atUs)} while the ledger shows it held by ${who}`,
      )
    }
    current.set(lease.resource, life)
  }
  return complaints
}

/** Whether a lease was still running, by the store's clock, when a later one was issued. */
function isRunning(before: LeaseLife, later: LeaseLife): boolean {
  const { tick, commit } = later.issued
  if (before.end !== null && before.end.commit <= commit) return false
  const lastTerm = before.terms.findLast((term) => term.atUs <= later.issued.atUs)
  const deadline = lastTerm?.deadline
  return deadline?.domain === tick.domain && deadline.us > tick.us
}

function overlapsInBelief({ handles, ledger }: Evidence): readonly Complaint[] {
  const revokedAtUs = new Map<LeaseId, number>()
  for (const { event, atUs } of ledger) {
    if (event.type === 'lease.revoked') revokedAtUs.set(event.leaseId, atUs)
  }
  const justified = beliefs(handles)
    .map((belief) => cutShort(belief, revokedAtUs.get(belief.leaseId) ?? Infinity))
    .filter(({ fromUs, untilUs }) => fromUs < untilUs)
  const complaints: Complaint[] = []
  const latest = new Map<string, Belief>()
  for (const belief of justified.toSorted((a, b) => a.fromUs - b.fromUs)) {
    const before = latest.get(belief.resource)
    if (before !== undefined && before.untilUs > belief.fromUs) {
      complaints.push(
        `${belief.resource}: ${before.session} believed until ${seconds(before.untilUs)}, ` +
          `${belief.session} from ${seconds(belief.fromUs)}`,
      )
    }
    if (before === undefined || belief.untilUs > before.untilUs) latest.set(belief.resource, belief)
  }
  return complaints
}

function cutShort(belief: Belief, atUs: number): Belief {
  return { ...belief, untilUs: Math.min(belief.untilUs, atUs) }
}
