/**
 * I5, what is configured holds from the moment on at which the store has it: a lease that names no TTL has the one that
 * stood there when it was granted, queued or refused, whatever the process that asked knew of it.
 */
import type { LeaseEvent } from '../../src/core/event.ts'
import type { LeaseId } from '../../src/core/lease.ts'
import { SETTING_TABLE } from '../../src/core/settings.ts'
import {
  ledgerWithRefusals,
  seconds,
  short,
  type Checker,
  type Complaint,
  type Evidence,
} from '../evidence.ts'

const { default_ttl_seconds: DEFAULT_TTL } = SETTING_TABLE
const INITIAL_MS = DEFAULT_TTL.type === 'int' ? DEFAULT_TTL.initial * 1000 : 0

export const configured: Checker = {
  promise: 'I5',
  name: 'what is configured holds',
  check: (evidence) => {
    const unnamed = askedWithoutTtl(evidence)
    return ledgerWithRefusals(evidence).flatMap(({ event, atUs }) => {
      const ttlMs = ttlOf(event)
      if (ttlMs === null || !unnamed.has(event.leaseId)) return []
      const dueMs = configuredMs(evidence, atUs)
      if (ttlMs === dueMs) return []
      return complaint(event, `${ttlMs} ms at ${seconds(atUs)}; configured were ${dueMs} ms`)
    })
  },
}

function askedWithoutTtl({ log }: Evidence): ReadonlySet<LeaseId> {
  const ids = new Set<LeaseId>()
  for (const entry of log) {
    if (entry.kind === 'asked' && entry.method === 'acquire' && entry.ttlMs === null) {
      ids.add(entry.leaseId)
    }
  }
  return ids
}

/** Of what is made by the request itself: a ticket that is served keeps the TTL that it was filed with. */
function ttlOf(event: LeaseEvent): number | null {
  if (event.type === 'lease.queued') return event.ticket.ttlMs
  if (event.type === 'lease.denied') return event.ticket?.ttlMs ?? null
  return event.type === 'lease.issued' && event.before !== 'pending' ? event.lease.ttlMs : null
}

function configuredMs({ configured: changes }: Evidence, atUs: number): number {
  return changes.findLast((change) => change.atUs <= atUs)?.ttlMs ?? INITIAL_MS
}

function complaint({ type, leaseId, resource }: LeaseEvent, what: string): readonly Complaint[] {
  return [`${type} of ${short(leaseId)} for ${resource} has a TTL of ${what}`]
}
