/**
 * Decides an adoption. A lease that was transferred to a named holder is that holder's from the moment of the transfer,
 * so that no instant is unowned, but no process counts its time yet. The holder takes it over by its id, or by acquiring
 * the resource; either way it is the same lease with the same fence, and its TTL runs anew from here.
 *
 * Acquiring takes over only what covers the request: a requester that asked to be alone must not be given a share and believe
 * that it is alone. What does not cover it stands in the way, and waiting for one's own lease is refused.
 */
import type { Adopt } from './command.ts'
import { compareIds, describeBlocker } from './conflict.ts'
import { Draft, eventCommon, ownLease } from './draft.ts'
import { isHeld, type Claim, type Lease } from './lease.ts'
import {
  endedOutcome,
  type AcquireOutcome,
  type Granted,
  type Held,
  type Refusal,
} from './outcome.ts'
import type { Decision, RealmView } from './realm.ts'
import { deadlineAfter, wallAt, type Now } from './time.ts'

export function decideAdopt(view: RealmView, command: Adopt, now: Now): Decision<AcquireOutcome> {
  const draft = new Draft(view, now, command)
  const { leaseId, holder, session } = command
  const own = ownLease(view, { leaseId, holder, effect: 'lease.adopted' })
  if (own.kind === 'refused') return draft.answer(own.refusal)
  const { lease } = own
  if (!isHeld(lease, now)) return draft.answer(endedOutcome(lease))
  if (!lease.adopted) {
    const adopted = adopt(draft, lease, { session, requestId: null })
    return draft.answer({ kind: 'granted', lease: adopted, repeated: false })
  }
  if (lease.session === session) return draft.answer({ kind: 'granted', lease, repeated: true })
  return draft.answer({ kind: 'already_adopted', leaseId })
}

type Wanted = Pick<Claim, 'resource' | 'holder' | 'mode' | 'extent' | 'slots'>

/** The lease of this very resource that waits for this holder and covers what it wants, if there is one. */
export function adoptable(draft: Draft, wanted: Wanted): Lease | null {
  return waitingFor(draft, wanted).find((lease) => differences(lease, wanted).length === 0) ?? null
}

/** Why this holder can have nothing else of the resource: a lease of it waits for it that is not what it wants. */
export function otherTransfer(draft: Draft, wanted: Wanted): Held | null {
  const leases = waitingFor(draft, wanted)
  const [first] = leases
  if (first === undefined) return null
  const blockers = leases.map((lease) => describeBlocker(lease, 'lease', draft.now))
  const retryAfterMs = Math.max(1, ...blockers.map((blocker) => blocker.remainingMs))
  const difference = differences(first, wanted).join(' and ')
  const { resource } = wanted
  return { kind: 'held', resource, blockers, retryAfterMs, notWaiting: 'own_transfer', difference }
}

function waitingFor({ entries, now }: Draft, { resource, holder }: Wanted): readonly Lease[] {
  let leases: Lease[] | null = null
  for (const entry of entries.values()) {
    const waits = isHeld(entry, now) && isTransferredTo({ resource, holder }, entry)
    if (waits) (leases ??= []).push(entry)
  }
  return leases?.sort(compareIds) ?? NONE
}

/** What almost every look finds, so that nothing has to be made for it. */
const NONE: readonly never[] = []

/** Whether a lease of this very resource waits for this holder to adopt it: it does not stand in its way. */
export function isTransferredTo(
  { resource, holder }: Pick<Claim, 'resource' | 'holder'>,
  lease: Pick<Lease, 'resource' | 'holder' | 'adopted'>,
): boolean {
  return !lease.adopted && lease.resource === resource && lease.holder === holder
}

/** In which respects a lease is less than, or other than, what is wanted. */
function differences(lease: Lease, wanted: Wanted): readonly string[] {
  const found: string[] = []
  if (lease.mode === 'shared' && wanted.mode === 'exclusive') found.push('is shared, not exclusive')
  if (lease.extent === 'exact' && wanted.extent === 'subtree') {
    found.push('covers the path alone, not what is below it')
  }
  const isAlone = lease.mode === 'exclusive' && wanted.mode === 'exclusive'
  if (!isAlone && !sharesWithNoMore(lease, wanted)) {
    found.push(`has ${lease.slots ?? 'no'} slots, not ${wanted.slots ?? 'none'}`)
  }
  return found
}

/** A holder that shares with up to three is served by a lease that shares with up to two; counted and uncounted do not mix. */
function sharesWithNoMore(lease: Lease, wanted: Wanted): boolean {
  if (lease.slots === null || wanted.slots === null) return lease.slots === wanted.slots
  return lease.slots <= wanted.slots
}

/** What a request under this id has adopted before, when its answer was lost; null if it has adopted nothing. */
export function adoptedBefore(
  { prior, entries }: RealmView,
  asker: Asker,
  now: Now,
): Granted | Refusal | null {
  if (prior?.type !== 'lease.adopted') return null
  const { leaseId } = prior
  const lease = entries.get(leaseId)
  if (lease?.kind !== 'lease') return { kind: 'terminal', leaseId, state: 'released' }
  if (!isHeld(lease, now)) return endedOutcome(lease)
  if (!isOwn(lease, asker)) return { kind: 'already_adopted', leaseId }
  return { kind: 'granted', lease, repeated: true }
}

/** Who sends a command: its name, and the session that only it knows. */
export type Asker = Pick<Claim, 'holder' | 'session'>

/** Whether an entry is the asker's own. The name alone is known to all, and several may share it. */
export function isOwn(entry: Asker, { holder, session }: Asker): boolean {
  return entry.holder === holder && entry.session === session
}

interface Adopter {
  readonly session: string
  /** The id under which the lease was asked for, when it was another than the lease's own. */
  readonly requestId: string | null
}

/**
 * A lease whose end was asked for keeps that end, whichever holder has it now. No other ends sooner than it did: the
 * transfer may have allowed for a longer way than this, and a lease derived since must not outlive its parent.
 */
export function adopt(draft: Draft, lease: Lease, { session, requestId }: Adopter): Lease {
  const { now } = draft
  const { renewals } = lease
  const requestedUs = Math.max(deadlineAfter(now, lease.ttlMs).us, lease.deadline.us)
  const ceilingUs = lease.revoking === null ? lease.holdUntilUs : lease.deadline.us
  const us = Math.min(requestedUs, ceilingUs ?? requestedUs)
  const facts = { before: 'active', after: 'active', renewals, requestId } as const
  const common = eventCommon(lease, now, facts)
  draft.record({
    ...common,
    session,
    type: 'lease.adopted',
    deadline: { domain: now.tick.domain, us },
    expiresAtMs: wallAt(us, now),
  })
  return draft.lease(lease.id)
}
