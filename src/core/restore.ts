/**
 * A ledger as commits: what an empty store must be told to become the one that the ledger tells of. Folding is the
 * core's `evolve`, so the rebuilt entries are those that the first store kept.
 *
 * Deadlines stay what they were, on the clock that they were counted on. On the same clock what was held is held on; on
 * another one it is over, and a holder that may still count on it is waited for, as after any change of clock.
 *
 * Up to a number of events all is one step. A longer ledger takes several, in its order, since a server takes no commit
 * of any size: between two of them the store is what it was at an earlier moment, and the next step is the only one that
 * fits.
 */
import { NOTHING, type Commit, type EntryChange } from './commit.ts'
import type { LeaseEvent } from './event.ts'
import { evolveEntry } from './evolve.ts'
import { liveDeadline, type Entry, type LeaseId } from './lease.ts'
import { COMMIT_SLACK_MS_MAX, TTL_MS_MAX } from './limits.ts'
import type { ReadSet, RealmView } from './realm.ts'
import { isTree, kindOf, realmOf, type Resource } from './resource.ts'
import { US_PER_MS, type Now } from './time.ts'

export interface RestoreStep {
  /** How many events come before it. */
  readonly after: number
  /** How many have been told with it. */
  readonly upTo: number
  readonly readSets: readonly ReadSet[]
  /** What a store whose clock says `now` cannot have decided, in words; null if it can. */
  readonly problem: (now: Now) => string | null
  /** One view per read set; null when the store is not as the step before has left it. */
  readonly commit: (views: readonly RealmView[]) => Commit | null
}

/** `events` in order of commit. Throws when one does not follow from those before it. */
export function restoreSteps(
  events: readonly LeaseEvent[],
  stepEvents: number,
): readonly RestoreStep[] {
  const entries = new Map<LeaseId, Entry>()
  const steps: RestoreStep[] = []
  for (let after = 0; after < events.length; after += stepEvents) {
    const told = events.slice(after, after + stepEvents)
    const changesById = new Map<LeaseId, RestoredEntry>()
    for (const event of told) {
      const { leaseId: id } = event
      const last = entries.get(id)
      const next = evolveEntry(last, event)
      const { before } = changesById.get(id) ?? { before: last }
      changesById.set(id, { id, before, after: next, renewal: false })
      entries.set(id, next)
    }
    const changes = [...changesById.values()]
    const commit = { ...NOTHING, changes, events: told, epochs: epochsOf(told) }
    const facts = {
      after,
      upTo: after + told.length,
      problem: (now: Now) => endlessProblem(changes, now),
    }
    steps.push(after === 0 ? firstStep(events, commit, facts) : laterStep(commit, facts))
  }
  return steps
}

interface RestoredEntry extends EntryChange {
  readonly after: Entry
}

interface RestoreCommit extends Commit {
  readonly changes: readonly RestoredEntry[]
}

type Place = Pick<RestoreStep, 'after' | 'upTo' | 'problem'>

/**
 * Looks at all realms that the ledger tells of, whether they are empty, and sees to it that none of them ever gives a
 * fence again that any of them has given.
 */
function firstStep(events: readonly LeaseEvent[], commit: Commit, place: Place): RestoreStep {
  const realms = new Map<string, ReadSet>()
  let fence = 0
  for (const event of events) {
    fence = Math.max(fence, fenceOf(event))
    const realm = realmOf(event.resource)
    if (!realms.has(realm)) realms.set(realm, wholeRealm(event))
  }
  // None of its fences is new: a store that begins above them must not move them.
  const whole = { ...commit, firstFence: fence === 0 ? 0 : fence + 1, lastFence: fence }
  return {
    ...place,
    readSets: [...realms.values()],
    commit: (views) => (views.every(isUntouched) ? whole : null),
  }
}

/** Looks at the entries that it changes and at nothing else. */
function laterStep(commit: RestoreCommit, place: Place): RestoreStep {
  const readSets = commit.changes.map(({ id, after: { resource, extent } }): ReadSet => {
    return { resource, extent, leaseId: id, requestId: null, depth: 'entry' }
  })
  return {
    ...place,
    readSets,
    commit: (views) => {
      const kept = commit.changes.map(({ id }, index) => views[index]?.entries.get(id))
      if (!commit.changes.every(({ before }, index) => isSame(kept[index], before))) return null
      const changes = commit.changes.map((change, index) => ({ ...change, before: kept[index] }))
      return { ...commit, changes }
    },
  }
}

/** Nothing that is live has more left than it was given; on another clock it is over, however much it says. */
function endlessProblem(changes: readonly RestoredEntry[], { tick }: Now): string | null {
  for (const { id, after } of changes) {
    const deadline = liveDeadline(after)
    if (deadline === null || deadline.domain !== tick.domain) continue
    const { ttlMs, lockDelayMs } = after
    const windowMs = after.kind === 'ticket' ? after.claimWindowMs : 0
    const graceMs = after.kind === 'lease' && after.revoking !== null ? TTL_MS_MAX : 0
    const spanMs = Math.max(ttlMs + lockDelayMs, windowMs, graceMs) + COMMIT_SLACK_MS_MAX
    const most = tick.us + spanMs * US_PER_MS
    if (deadline.us > most) {
      return `deadline of lease ${id} must be at most ${most}, got ${deadline.us}`
    }
  }
  return null
}

/** Of the fields that no unrecorded event changes. */
function isSame(kept: Entry | undefined, told: Entry | undefined): boolean {
  return kept?.state === told?.state && kept?.holder === told?.holder
}

/** Nothing is there, and no epoch was used up. */
function isUntouched({ entries, epoch }: RealmView): boolean {
  return entries.size === 0 && epoch === 0
}

function wholeRealm({ resource, leaseId }: LeaseEvent): ReadSet {
  const reach = isTree(resource)
    ? ({ resource: `${kindOf(resource)}:/` as Resource, extent: 'subtree' } as const)
    : ({ resource, extent: 'exact' } as const)
  return { ...reach, leaseId, requestId: null, depth: 'claims' }
}

function epochsOf(events: readonly LeaseEvent[]): Commit['epochs'] {
  const epochs = new Map<Resource, number>()
  for (const event of events) {
    const epoch = epochOf(event)
    if (epoch > 0) epochs.set(event.resource, epoch)
  }
  return [...epochs].map(([resource, epoch]) => ({ resource, epoch }))
}

/** The epoch that a workflow has come to: by a lease's own advances, or by those before it, which may have been pruned. */
function epochOf(event: LeaseEvent): number {
  if (event.type === 'lease.issued') return event.lease.epoch
  return event.type === 'lease.advanced' ? event.to : 0
}

/** The fence that an event gives; 0 if it gives none. */
function fenceOf(event: LeaseEvent): number {
  if (event.type === 'lease.issued') return event.lease.fence
  return event.type === 'lease.offered' || event.type === 'lease.upgraded' ? event.fence : 0
}
