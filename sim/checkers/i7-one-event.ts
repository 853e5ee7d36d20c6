/**
 * I7: one fact, one event. Folding the ledger gives exactly what the store keeps, and every lease that a holder was
 * told of is in it.
 */
import type { LeaseEvent } from '../../src/core/event.ts'
import { differences, foldLedger } from '../../src/ledger/fold.ts'
import { short, type Checker, type Complaint, type Evidence } from '../evidence.ts'

export const oneEvent: Checker = {
  promise: 'I7',
  name: 'one fact, one event',
  check: (evidence) => [...unlikeStore(evidence), ...unwritten(evidence)],
}

function unlikeStore({ ledger, entries }: Evidence): readonly Complaint[] {
  const folded = tryFold(ledger.map(({ event }) => event))
  if (typeof folded === 'string') return [folded]
  const kept = new Map(entries.map((entry) => [entry.id, entry]))
  return differences(folded, kept).map(
    (difference) =>
      `${short(difference.leaseId)} is ${difference.kept ?? 'nothing'} in the store and ` +
      `${difference.folded ?? 'nothing'} in the ledger`,
  )
}

/** The fold, or why the events do not follow from one another. */
function tryFold(events: readonly LeaseEvent[]): ReturnType<typeof foldLedger> | string {
  try {
    return foldLedger(events)
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

function unwritten({ log, lives }: Evidence): readonly Complaint[] {
  const issued = new Set(lives.map(({ lease }) => lease.id))
  const complaints: Complaint[] = []
  for (const entry of log) {
    if (entry.kind !== 'believed' || entry.why !== 'granted' || issued.has(entry.leaseId)) continue
    complaints.push(`${entry.session} was given ${short(entry.leaseId)}, which was never issued`)
  }
  return complaints
}
