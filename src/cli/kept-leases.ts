/**
 * Whether the leases that a store keeps are those that its events tell of: who holds what and since when, and which have
 * ended, and how. Whoever changes a lease behind the store's back, and not its events, is found here.
 *
 * Deadlines are not compared: renewals need not be recorded. So a lease that has run out by the table has run out.
 */
import type { LeaseEvent } from '../core/event.ts'
import { evolveEntry } from '../core/evolve.ts'
import { settledState, type Entry, type LeaseId, type LeaseInfo } from '../core/lease.ts'
import { LIST_LIMIT_MAX } from '../core/limits.ts'
import { canonicalJson } from '../core/canonical-json.ts'
import { report } from '../runtime/diagnostics.ts'
import type { ListFilter } from '../service/lease-api.ts'
import type { Questions } from '../service/lease-questions.ts'
import { eventsAfter } from './ledger-source.ts'

type Asked = Pick<Questions, 'get' | 'list' | 'history' | 'settings'>

/** What `list` is asked for: all that is live, and then what has ended. */
const LISTED: readonly ListFilter[] = [
  {},
  ...(['released', 'expired', 'revoked', 'failed'] as const).map((state) => ({ state })),
]

/** The first lease that is kept otherwise than its events tell; null if there is none. */
export async function firstOddLease(questions: Asked): Promise<LeaseId | null> {
  const told = new Map<LeaseId, Entry | null>()
  for await (const { event } of eventsAfter(questions, null)) {
    told.set(event.leaseId, evolved(told.get(event.leaseId), event))
  }
  // Those that no list has are gone, or in a state that they cannot be in.
  const doubtful = new Set(told.keys())
  for (const filter of LISTED) {
    for await (const lease of leasesOf(questions, filter)) {
      if (isSame(lease, told.get(lease.id) ?? null)) doubtful.delete(lease.id)
      else doubtful.add(lease.id)
    }
  }
  for (const leaseId of doubtful) {
    // What changed between the two readings is no difference; so each that looks like one is looked at by itself.
    if ((await isOdd(questions, leaseId)) && (await isOdd(questions, leaseId))) return leaseId
  }
  return null
}

async function isOdd(questions: Asked, leaseId: LeaseId): Promise<boolean> {
  const kept = await questions.get({ id: leaseId })
  let told: Entry | null | undefined
  const ofLease: Pick<Questions, 'history'> = {
    history: (filter) => questions.history({ ...filter, id: leaseId }),
  }
  for await (const { event } of eventsAfter(ofLease, null)) told = evolved(told, event)
  if (told !== undefined || kept === null) {
    return !isSame(kept, told ?? null) || (await isHidden(questions, kept))
  }
  // Nothing is told of a lease where no history is kept.
  return (await questions.settings({ resource: kept.resource })).keep_history
}

/** Whether a store keeps it as live and does not find it among what is live: then it is in nobody's way. */
async function isHidden(questions: Asked, kept: LeaseInfo | null): Promise<boolean> {
  if (kept === null || !isLive(kept)) return false
  const { id, resource, holder } = kept
  for await (const listed of leasesOf(questions, { resource, holder })) {
    if (listed.id === id) return false
  }
  return true
}

/** What has ended may be gone; what is live by its events may not. */
function isSame(kept: LeaseInfo | null, told: Entry | null): boolean {
  if (kept === null) return told === null || !isLive(told)
  if (told === null || ownershipOf(kept) !== ownershipOf(told)) return false
  return kept.state === told.state || hasRunOut(kept, told)
}

/** Whether it ended by time, which the store settles when somebody comes, and tells at once: when it did, too. */
function hasRunOut({ state, terminatedAtMs }: LeaseInfo, told: Entry): boolean {
  if (told.kind === 'ticket') return told.state === 'pending' && state === 'failed'
  return told.state === 'active' && state === settledState(told, true) && terminatedAtMs !== null
}

async function* leasesOf(questions: Asked, filter: ListFilter): AsyncGenerator<LeaseInfo> {
  let after: string | undefined
  do {
    const from = after === undefined ? {} : { after }
    const { leases, next } = await questions.list({ ...filter, ...from, limit: LIST_LIMIT_MAX })
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

function isLive({ state }: Entry | LeaseInfo): boolean {
  return state === 'active' || state === 'pending'
}

function ownershipOf(lease: LeaseInfo | Entry): string {
  const { id, resource, mode, extent, holder, session, createdAtMs } = lease
  const grantedAtMs = 'grantedAtMs' in lease ? lease.grantedAtMs : null
  // What was offered to a waiter is not yet its own.
  const fence = 'fence' in lease && grantedAtMs !== null ? lease.fence : null
  const facts = { id, resource, mode, extent, holder, session, createdAtMs, fence, grantedAtMs }
  return canonicalJson(facts)
}
