/**
 * Decides on what is believed, and says what a server must find and write for the decision to stand.
 */
import type { Commit, EntryChange } from '../../core/commit.ts'
import type { LeaseId } from '../../core/lease.ts'
import { isTree } from '../../core/resource.ts'
import type { Now } from '../../core/time.ts'
import type { Decide } from '../../store-port/store.ts'
import type { ResolvedSettings } from '../resolved-settings.ts'
import type { Attempt, EntryWrite, Kept } from './backend.ts'
import { placeOf, viewOfBelief, type Belief } from './belief.ts'
import { claimAhead, isCrowded } from './joining.ts'

export interface Speculation<Outcome> {
  readonly outcome: Outcome
  readonly attempt: Attempt
}

export interface Premises {
  readonly beliefs: readonly Belief[]
  readonly now: Now
  readonly settings: ResolvedSettings
  /** The highest fence that is known to be taken in all the realms, besides what the beliefs say. */
  readonly fenceTaken: number
  /** Whether it may depend on less than it has seen. */
  readonly mayJoin: boolean
  /** Behind whom it must not get in line, because that was in vain. */
  readonly missedBehind: LeaseId | null
}

export function speculate<Outcome>(
  decide: Decide<Outcome>,
  { beliefs, now, settings, fenceTaken, mayJoin, missedBehind }: Premises,
): Speculation<Outcome> {
  const views = beliefs.map((belief) => {
    const lastFence = Math.max(belief.lastFence, fenceTaken)
    return viewOfBelief(belief, lastFence, settings.for(belief.readSet.resource))
  })
  const { outcome, commit, validUntilUs } = decide(views, now)
  const latestUs = now.tick.us + now.toleranceUs + 1
  const ahead = mayJoin || isCrowded(beliefs) ? claimAhead(commit, beliefs) : null
  const behind = ahead?.id === missedBehind ? null : ahead
  const isAlive = isSignOfLife(commit, beliefs, now)
  return {
    outcome,
    attempt: {
      places: beliefs.map((belief) => {
        const place = placeOf(belief)
        if (behind !== null) return { ...place, behind }
        return isAlive ? { ...place, isSignOfLife: true } : place
      }),
      fromUs: now.tick.us,
      beforeUs: Math.min(latestUs, validUntilUs ?? latestUs),
      wallMs: now.wallMs,
      writes: writesOf(commit, beliefs, firstNumber(now)),
      events: commit.events,
      requests: commit.requests,
      epochs: commit.epochs,
      wakes: commit.wakes,
      fences: commit.firstFence === 0 ? null : { first: commit.firstFence, last: commit.lastFence },
    },
  }
}

/** What is believed of the others must not become older than this, or nobody would notice whom it concerns. */
const FRESH_US = 3_000_000

/** Whether a decision only prolongs its own entry, on what was confirmed a short while ago. */
function isSignOfLife({ changes, events }: Commit, beliefs: readonly Belief[], now: Now): boolean {
  const [belief] = beliefs
  const [change] = changes
  if (belief === undefined || beliefs.length > 1) return false
  const { readSet, confirmedUs } = belief
  if (readSet.depth !== 'claims' || isTree(readSet.resource)) return false
  if (change === undefined || changes.length > 1 || events.length > 0 || !change.renewal)
    return false
  return change.id === readSet.leaseId && now.tick.us - confirmedUs < FRESH_US
}

/**
 * Where the numbers of a new entry begin: elsewhere than those of an entry that had the same id before and of which
 * nothing is kept, so that whoever still remembers that one misses.
 */
function firstNumber({ tick }: Now): number {
  return 1 + (Math.floor(tick.us / 1_000) % 2 ** 30)
}

function writesOf(
  { changes }: Commit,
  beliefs: readonly Belief[],
  first: number,
): readonly EntryWrite[] {
  return changes.map((change) => {
    const before = change.before === undefined ? null : keptOf(change.id, beliefs)
    return { id: change.id, before, after: afterOf(change, before, first) }
  })
}

function keptOf(id: LeaseId, beliefs: readonly Belief[]): Kept | null {
  for (const { kept } of beliefs) {
    const known = kept.get(id)
    if (known !== undefined) return known
  }
  throw new Error(`a decision changed entry ${id}, which it had not seen`)
}

function afterOf({ after, renewal }: EntryChange, before: Kept | null, first: number): Kept | null {
  if (after === null) return null
  if (before === null) return { entry: after, version: first, claim: first }
  return {
    entry: after,
    version: before.version + 1,
    claim: renewal ? before.claim : before.claim + 1,
  }
}
