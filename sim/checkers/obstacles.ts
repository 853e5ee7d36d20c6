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

type Standing = Pick<Obstacle, 'kind' | 'until'>

/** Everything that may be in somebody's way at a moment: looked for once, however many claims are compared with it. */
export class Obstacles {
  readonly #step: Step
  readonly #evidence: Evidence
  readonly #standing: readonly (Standing & { readonly entry: Entry })[]

  /** `byUs`: what waiters said up to this moment is known. */
  constructor(step: Step, evidence: Evidence, byUs: number) {
    this.#step = step
    this.#evidence = evidence
    this.#standing = [...step.live.values()].flatMap((entry) => {
      const standing = standingOf(entry, evidence, byUs)
      const isThere = standing !== null && !hasPassed(standing.until, step.tick)
      return isThere ? [{ entry, ...standing }] : []
    })
  }

  of({ claim, keyUs }: Claimed): readonly Obstacle[] {
    const alone: Obstacle[] = []
    const sharers: Obstacle[] = []
    for (const { entry, kind, until } of this.#standing) {
      if (entry.id === claim.id || !touch(entry, claim)) continue
      if (areAncestorAndDescendant(this.#evidence.parents, entry.id, claim.id)) continue
      const own = { id: claim.id, keyUs }
      if (kind === 'ticket' && !isBefore(this.#step, entry.id, own)) continue
      const isSharer = !clash(claim, entry) && !wantsAlone(entry)
      if (!isSharer) alone.push({ entry, kind, until, isSharer })
      else if (claim.slots !== null) sharers.push({ entry, kind, until, isSharer })
    }
    const fewest = Math.min(...[claim, ...sharers.map(({ entry }) => entry)].map(placesOf))
    return sharers.length + 1 > fewest ? [...alone, ...sharers] : alone
  }
}

/** As what an entry stands there, and until when. */
export function standingOf(entry: Entry, { heard }: Evidence, byUs: number): Standing | null {
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
