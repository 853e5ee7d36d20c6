/**
 * How long what has ended is kept, which events a later one makes needless, and how far a store believes the clock by which
 * it prunes. The one rule for every store: a store that prunes inside a server takes its numbers from here.
 *
 * What it promises of the clock: one reading, however far ahead, removes nothing that the last prune might not have removed.
 * A reading within `PRUNE_STEP_MS` of the last one is believed. One further ahead is a store that was not swept for long, or
 * a clock that was set wrongly: it moves the time that is believed on by one step, and removes by the one believed before. So
 * after a long rest each prune catches up by one step.
 */
import type { LeaseEvent } from './event.ts'
import { endedAtMs, type Entry } from './lease.ts'
import { PRUNE_STEP_MS, TTL_MS_MAX } from './limits.ts'

/** What may go: what ended before `endedBeforeMs`, and can no longer be asked for again at `nowMs`. */
export interface PruneCut {
  readonly endedBeforeMs: number
  readonly nowMs: number
}

/** What a store remembers of its last prune; of one that never was pruned, both are the time of its first commit. */
export interface PruneClock {
  /** What the clock said. */
  readonly readingMs: number
  /** How far that was believed. */
  readonly believedMs: number
}

export function firstPruneClock(atMs: number): PruneClock {
  return { readingMs: atMs, believedMs: atMs }
}

/**
 * What to remember of a prune at `nowMs`. The batches of one prune have one reading, and move it once. `last` is null where
 * nothing is remembered.
 */
export function nextPruneClock(last: PruneClock | null, nowMs: number): PruneClock {
  if (last === null) return firstPruneClock(nowMs)
  if (nowMs === last.readingMs) return last
  const believedMs = Math.max(last.believedMs, Math.min(nowMs, last.believedMs + PRUNE_STEP_MS))
  return { readingMs: nowMs, believedMs }
}

/** As much of what is asked for as `clock`, which has the reading of this prune, allows. */
export function boundedCut(asked: PruneCut, { readingMs, believedMs }: PruneClock): PruneCut {
  const nowMs = believedMs >= readingMs ? readingMs : believedMs - PRUNE_STEP_MS
  return { endedBeforeMs: asked.endedBeforeMs - asked.nowMs + nowMs, nowMs }
}

/**
 * Whether an entry may go, with its whole history: its end was recorded long enough ago, so that followers have heard of it
 * however late it was noticed, and its TTL has passed since it ended.
 */
export function mayBePruned(
  entry: Entry,
  recordedAtMs: number,
  { endedBeforeMs, nowMs }: PruneCut,
): boolean {
  const endedMs = endedAtMs(entry)
  if (endedMs === null) return false
  return Math.max(endedMs, recordedAtMs) < endedBeforeMs && endedMs + entry.ttlMs < nowMs
}

/** Of these, an event says nothing once a later one of its type and lease is kept. */
export const SUPERSEDED_TYPES: readonly LeaseEvent['type'][] = ['lease.renewed', 'lease.advanced']

/**
 * Whether an event may go because a later one of its type and lease is kept: it is old enough, and its request can no longer
 * be repeated. `ttlMs` is that of its lease; null for one that is not live.
 */
export function isSuperseded(event: LeaseEvent, ttlMs: number | null, cut: PruneCut): boolean {
  const { type, atMs, requestId } = event
  if (atMs >= cut.endedBeforeMs) return false
  if (type === 'lease.advanced') return atMs + (ttlMs ?? TTL_MS_MAX) < cut.nowMs
  return type === 'lease.renewed' && (requestId === null || atMs + TTL_MS_MAX < cut.nowMs)
}
