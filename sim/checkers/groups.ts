/** What was asked for together, as it was asked for: the ledger tells of those that waited only. */
import type { LeaseId } from '../../src/core/lease.ts'
import type { Evidence } from '../evidence.ts'

export interface Groups {
  readonly of: ReadonlyMap<LeaseId, string>
  readonly members: ReadonlyMap<string, readonly LeaseId[]>
}

export function groupsOf({ log }: Evidence): Groups {
  const of = new Map<LeaseId, string>()
  const members = new Map<string, LeaseId[]>()
  for (const entry of log) {
    if (entry.kind !== 'asked' || entry.group === null || of.has(entry.leaseId)) continue
    of.set(entry.leaseId, entry.group)
    members.set(entry.group, [...(members.get(entry.group) ?? []), entry.leaseId])
  }
  return { of, members }
}
