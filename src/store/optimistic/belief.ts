/**
 * What a store believes to be at a read set: remembered from its own commits, told by the server, or nothing at all.
 * A wrong belief costs a round trip and nothing else.
 */
import type { Entry, LeaseId } from '../../core/lease.ts'
import { isLive } from '../../core/lease.ts'
import type { ReadSet, PriorEffect, RealmView } from '../../core/realm.ts'
import { overlap, realmOf } from '../../core/resource.ts'
import type { Settings } from '../../core/settings.ts'
import type { Kept, Place, PlaceView, SeenClaim } from './backend.ts'

export interface Belief {
  readonly readSet: ReadSet
  readonly kept: ReadonlyMap<LeaseId, Kept>
  readonly lastFence: number
  readonly lastWallMs: number
  readonly ticketCount: number
  readonly prior: PriorEffect | null
  readonly epoch: number
  /** It would lead to a refusal that nothing else in it lets the server confirm: the server is to say what is there. */
  readonly isDoubtful: boolean
  /** When the server last confirmed all that is there, by its clock. */
  readonly confirmedUs: number
}

export function beliefOf(readSet: ReadSet, view: PlaceView, confirmedUs: number): Belief {
  const { entries, isPart: _isPart, ...facts } = view
  const kept = new Map(entries.map((one) => [one.entry.id, one]))
  return { readSet, kept, ...facts, isDoubtful: false, confirmedUs }
}

/** The belief as `decide` sees it. `lastFence` is given apart, because a server may have moved it on. */
export function viewOfBelief(belief: Belief, lastFence: number, settings: Settings): RealmView {
  const { kept, ticketCount, prior, epoch } = belief
  const entries = kept.size === 0 ? NO_ENTRIES : entriesOf(kept)
  return { entries, lastFence, ticketCount, epoch, prior, settings }
}

/** Most acquires see nothing, and a map is not cheap to make. */
const NO_ENTRIES: ReadonlyMap<LeaseId, Entry> = new Map()

function entriesOf(kept: ReadonlyMap<LeaseId, Kept>): ReadonlyMap<LeaseId, Entry> {
  const entries = new Map<LeaseId, Entry>()
  for (const [id, { entry }] of kept) entries.set(id, entry)
  return entries
}

/** What no entry ever has. */
const NO_VERSION = -1

/** The belief as the server is to check it. */
export function placeOf({ readSet, kept, prior, epoch, isDoubtful }: Belief): Place {
  return {
    readSet,
    realm: realmOf(readSet.resource),
    own: isDoubtful ? NO_VERSION : (kept.get(readSet.leaseId)?.version ?? 0),
    claims: readSet.depth === 'claims' ? claimsOf(readSet, kept.values()) : null,
    hasPrior: prior !== null,
    epoch,
  }
}

/** The entry of a read set's own id may have ended, or be somewhere else altogether: then it stands in nobody's way. */
function claimsOf(readSet: ReadSet, kept: Iterable<Kept>): readonly SeenClaim[] {
  const claims: SeenClaim[] = []
  for (const one of kept) {
    const { entry, claim } = one
    if (isLive(entry) && overlap(entry, readSet)) claims.push({ id: entry.id, claim, kept: one })
  }
  return claims
}
