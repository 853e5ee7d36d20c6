/**
 * Whether the leases that a store keeps are those that its events tell of: who holds what, and since when. Whoever
 * changes a lease behind the store's back, and not its events, is found here.
 *
 * All that is live is compared, in the tables or by the events. Deadlines are not: renewals need not be recorded.
 */
import type { LeaseEvent } from '../core/event.ts'
import { evolveEntry } from '../core/evolve.ts'
import type { Entry, LeaseId, LeaseInfo } from '../core/lease.ts'
import { LIST_LIMIT_MAX } from '../core/limits.ts'
import { canonicalJson } from '../ledger/fold.ts'
import { report } from '../runtime/diagnostics.ts'
import type { Questions } from '../service/lease-questions.ts'
import { eventsAfter } from './ledger-files.ts'

type Asked = Pick<Questions, 'get' | 'list' | 'history'>

/** The first lease that is kept otherwise than its events tell; null if there is none. */
export async function firstOddLease(questions: Asked): Promise<LeaseId | null> {
  const told = new Map<LeaseId, Entry | null>()
  for await (const { event } of eventsAfter(questions, null)) {
    told.set(event.leaseId, evolved(told.get(event.leaseId), event))
  }
  const doubtful = new Set([...told].filter(([, entry]) => isLive(entry)).map(([id]) => id))
  for await (const lease of liveLeases(questions)) {
    const isSame = ownershipOf(lease) === ownershipOf(told.get(lease.id) ?? null)
    if (isSame) doubtful.delete(lease.id)
    else doubtful.add(lease.id)
  }
  for (const leaseId of doubtful) {
    // What changed between the two readings is no difference; so each that looks like one is looked at by itself.
    if ((await isOdd(questions, leaseId)) && (await isOdd(questions, leaseId))) return leaseId
  }
  return null
}

async function isOdd(questions: Asked, leaseId: LeaseId): Promise<boolean> {
  const kept = await questions.get(leaseId)
  let told: Entry | null | undefined
  const ofLease: Pick<Questions, 'history'> = {
    history: (filter) => questions.history({ ...filter, leaseId }),
  }
  for await (const { event } of eventsAfter(ofLease, null)) told = evolved(told, event)
  return ownershipOf(kept) !== ownershipOf(told ?? null)
}

async function* liveLeases(questions: Asked): AsyncGenerator<LeaseInfo> {
  let after: string | undefined
  do {
    const from = after === undefined ? {} : { after }
    const { leases, next } = await questions.list({ ...from, limit: LIST_LIMIT_MAX })
    yield* leases
    after = next
  } while (after !== undefined)
}

/** Null where an event does not follow from those before it. */
function evolved(entry: Entry | null | undefined, event: LeaseEvent): Entry | null {
  if (entry === null) return null
  try {
    return evolveEntry(entry, event)
  } catch (error) {
    report('cli/verify', error)
    return null
  }
}

function isLive(entry: Entry | null): boolean {
  return entry === null || entry.state === 'active' || entry.state === 'pending'
}

function ownershipOf(lease: LeaseInfo | Entry | null): string | null {
  if (lease === null) return null
  const { id, resource, mode, extent, holder, session, createdAtMs } = lease
  const grantedAtMs = 'grantedAtMs' in lease ? lease.grantedAtMs : null
  // What was offered to a waiter is not yet its own.
  const fence = 'fence' in lease && grantedAtMs !== null ? lease.fence : null
  const facts = { id, resource, mode, extent, holder, session, createdAtMs, fence, grantedAtMs }
  return canonicalJson(facts)
}
