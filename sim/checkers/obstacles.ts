/**
 * What stands in the way of a claim at a moment: leases, delays and offers that have not run out, and living waiters
 * with a smaller order key. Judged anew here, with none of the core's rules.
 */
import type { Claim, Entry, LeaseId } from '../../src/core/lease.ts'
import { hasPassed, type Tick } from '../../src/core/time.ts'
import { areAncestorAndDescendant, type Evidence } from '../evidence.ts'
import type { Step } from './ledger-walk.ts'
import { clash, touch } from './reach.ts'

export interface Obstacle {
  readonly entry: Entry
  readonly kind: 'lease' | 'delay' | 'offer' | 'ticket'
  readonly until: Tick
  /** It only takes a place of a counted resource, as the others that share it do. */
  readonly isSharer: boolean
}

export interface Claimed {
  readonly claim: Pick<Claim, 'id' | 'resource' | 'extent' | 'mode' | 'slots'>
  readonly keyUs: number
}

/** `byUs`: what waiters said up to this moment is known. */
export function obstaclesOf(
  { claim, keyUs }: Claimed,
  step: Step,
  { evidence, byUs }: { readonly evidence: Evidence; readonly byUs: number },
): readonly Obstacle[] {
  const alone: Obstacle[] = []
  const sharers: Obstacle[] = []
  for (const entry of step.live.values()) {
    if (entry.id === claim.id || !touch(entry, claim)) continue
    if (areAncestorAndDescendant(evidence.parents, entry.id, claim.id)) continue
    const standing = standingOf(entry, evidence, byUs)
    if (standing === null || hasPassed(standing.until, step.tick)) continue
    if (standing.kind === 'ticket' && !isBefore(step, entry.id, { id: claim.id, keyUs })) continue
    const isSharer = !clash(claim, entry) && !wantsAlone(entry)
    if (!isSharer) alone.push({ entry, ...standing, isSharer })
    else if (claim.slots !== null) sharers.push({ entry, ...standing, isSharer })
  }
  const fewest = Math.min(...[claim, ...sharers.map(({ entry }) => entry)].map(placesOf))
  return sharers.length + 1 > fewest ? [...alone, ...sharers] : alone
}

/** As what an entry stands there, and until when. */
export function standingOf(
  entry: Entry,
  { heard }: Evidence,
  byUs: number,
): Pick<Obstacle, 'kind' | 'until'> | null {
  if (entry.kind === 'lease') {
    if (entry.state === 'active') return { kind: 'lease', until: entry.deadline }
    return entry.lockedUntil === null ? null : { kind: 'delay', until: entry.lockedUntil }
  }
  if (entry.state !== 'pending') return null
  if (entry.offer !== null) return { kind: 'offer', until: entry.offer.deadline }
  const last = heard.get(entry.id)?.findLast((contact) => contact.atUs <= byUs)
  return last === undefined ? null : { kind: 'ticket', until: last.deadline }
}

function isBefore(
  { keys }: Step,
  other: LeaseId,
  { id, keyUs }: { readonly id: LeaseId; readonly keyUs: number },
): boolean {
  const otherUs = keys.get(other) ?? Infinity
  if (otherUs !== keyUs) return otherUs < keyUs
  for (const filed of keys.keys()) if (filed === id || filed === other) return filed === other
  return other < id
}

/** Up to how many a claim shares with, itself among them. */
export function placesOf({ slots }: Pick<Claim, 'slots'>): number {
  return slots ?? Infinity
}

function wantsAlone(entry: Entry): boolean {
  return entry.kind === 'lease' && entry.upgrading
}
