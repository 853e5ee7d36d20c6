/**
 * Removes from the ledger what retention no longer asks for. What may go, the core says; here it is looked for from the
 * oldest end of the ledger, page by page, and taken in two steps: an ended lease is forgotten, so that nothing of it can be
 * seen any more, and a row goes when none of its events can.
 */
import type { LeaseEvent } from '../../core/event.ts'
import { isLive } from '../../core/lease.ts'
import { TTL_MS_MAX } from '../../core/limits.ts'
import {
  boundedCut,
  isSuperseded,
  mayBePruned,
  nextPruneClock,
  SUPERSEDED_TYPES,
  type PruneClock,
  type PruneCut,
} from '../../core/retention.ts'
import type { Pruned, PrunePolicy } from '../../store-port/store.ts'
import type { RedisNamespace } from './redis-namespace.ts'
import type { RedisReader, WalkedPage } from './redis-reader.ts'
import { eventOf, recordsOf, triplesOf, type PlacedRecord } from './redis-records.ts'
import {
  DROP_ROWS_SCRIPT,
  FORGET_SCRIPT,
  NOTE_PRUNED_SCRIPT,
  TIDY_SCRIPT,
} from './redis-scripts.ts'

/** How many pages of rows a call looks at. */
const TRIM_STEPS = 40
/** The old part of the ledger is gone through at most so often. */
const TRIM_INTERVAL_MS = 3_600_000
const TIDY_PAGE = 1_000
const TIDY_STEPS = 100

/** A row of which it is not yet known that it can go. */
interface RowInQuestion {
  readonly row: string
  /** Request ids of its events, each with its position. */
  readonly requests: string[]
  events: number
  /** How many of its events must stay. */
  staying: number
}

interface Progress {
  /** Before this time the old part of the ledger is not gone through again without cause. */
  readonly notBeforeMs: number
  /** The row to go on from; `-` for the first one. */
  readonly from: string
  readonly clock: PruneClock | null
}

interface EventInQuestion {
  readonly event: LeaseEvent
  readonly row: RowInQuestion
}

interface Pruning {
  readonly namespace: RedisNamespace
  readonly reader: RedisReader
  readonly bucket: number
  readonly cut: PruneCut
  /** The last row that is old enough. */
  readonly to: string
}

export async function pruneNamespace(
  namespace: RedisNamespace,
  reader: RedisReader,
  { batch, ...policy }: PrunePolicy,
): Promise<Pruned> {
  const total = { leases: 0, events: 0, more: false }
  for (const bucket of namespace.buckets) {
    const last = await progressOf(namespace, bucket)
    const clock = nextPruneClock(last.clock, policy.nowMs)
    const cut = boundedCut(policy, clock)
    const to = String(Math.max(0, cut.endedBeforeMs) * 1_000)
    const pruning = { namespace, reader, bucket, cut, to }
    const ended = await forgetEnded(pruning, batch - total.leases)
    const trimmed = await trim(pruning, last, ended.leases > 0)
    const { notBeforeMs, from, events } = trimmed
    const noted = [notBeforeMs, from, clock.readingMs, clock.believedMs].join(' ')
    const times = [2 * TTL_MS_MAX, cut.endedBeforeMs].map(String)
    await run(pruning, NOTE_PRUNED_SCRIPT, [noted, ...times])
    await tidy(pruning)
    total.leases += ended.leases
    total.events += events
    total.more ||= ended.more || from !== '-'
  }
  return total
}

async function progressOf(namespace: RedisNamespace, bucket: number): Promise<Progress> {
  const key = namespace.keyOf(bucket, 'pruned')
  const text = (await namespace.calls.send(['GET', key], 'reads')) as string | null
  if (text === null) return { notBeforeMs: 0, from: '-', clock: null }
  const [notBeforeMs, from = '-', readingMs, believedMs] = text.split(' ')
  const clock = { readingMs: Number(readingMs), believedMs: Number(believedMs) }
  return { notBeforeMs: Number(notBeforeMs), from, clock }
}

function run(pruning: Pruning, script: string, args: readonly string[]): Promise<unknown> {
  return pruning.namespace.run(script, args, { bucket: pruning.bucket, effect: 'writes' })
}

async function forgetEnded(
  pruning: Pruning,
  batch: number,
): Promise<{ readonly leases: number; readonly more: boolean }> {
  const prunable: PlacedRecord[] = []
  const { reader, bucket, cut, to } = pruning
  // In the order in which their ends were recorded.
  for await (const values of reader.pages({ bucket, from: '-', to, wanted: 'ended' })) {
    for (const record of recordsOf(values)) {
      const recordedAtMs = Math.floor(record.place / 1_000)
      if (mayBePruned(record.entry, recordedAtMs, cut)) prunable.push(record)
    }
    if (prunable.length > batch) break
  }
  const gone = prunable.slice(0, batch)
  const more = prunable.length > gone.length
  if (gone.length === 0) return { leases: 0, more }
  const args = gone.flatMap(({ entry, place }) => [entry.id, String(place)])
  return { leases: (await run(pruning, FORGET_SCRIPT, args)) as number, more }
}

/** Goes on where the last call has stopped, and begins again when there is cause, or after a while. */
async function trim(
  pruning: Pruning,
  { from, notBeforeMs }: Progress,
  hasCause: boolean,
): Promise<Omit<Progress, 'clock'> & { readonly events: number }> {
  const { nowMs } = pruning.cut
  if (from === '-' && !hasCause && nowMs < notBeforeMs) return { from, notBeforeMs, events: 0 }
  const { events, next } = await dropRows(pruning, from)
  if (next !== null) return { from: next, notBeforeMs: 0, events }
  return { from: '-', notBeforeMs: nowMs + TRIM_INTERVAL_MS, events }
}

async function dropRows(
  pruning: Pruning,
  start: string,
): Promise<{ readonly events: number; readonly next: string | null }> {
  const { reader, bucket, cut, to } = pruning
  const rows = new Map<string, RowInQuestion>()
  const earlier = new Map<string, EventInQuestion>()
  let events = 0
  let next: string | null = start
  for (let step = 0; step < TRIM_STEPS && next !== null; step += 1) {
    const page: WalkedPage = await reader.walk({ bucket, to, wanted: 'rows', from: next })
    const superseded = noteRows(page.values, rows, earlier)
    const ttlMs = await ttlsOf(pruning, superseded)
    for (const { event, row } of superseded) {
      if (isSuperseded(event, ttlMs.get(event.leaseId) ?? null, cut)) row.staying -= 1
    }
    events += await drop(pruning, rows)
    next = page.next
  }
  return { events, next }
}

/** Of the live leases whose old events depend on it. */
async function ttlsOf(
  { reader, bucket }: Pruning,
  superseded: readonly EventInQuestion[],
): Promise<ReadonlyMap<string, number>> {
  const ids = new Set(superseded.map(({ event }) => event.leaseId))
  if (ids.size === 0) return new Map()
  const { records } = await reader.look(bucket, ['ids', ...ids])
  const live = records.filter(({ entry }) => isLive(entry))
  return new Map(live.map(({ entry }) => [entry.id, entry.ttlMs]))
}

async function drop(pruning: Pruning, rows: Map<string, RowInQuestion>): Promise<number> {
  const gone = [...rows.values()].filter(({ staying }) => staying === 0)
  if (gone.length === 0) return 0
  for (const { row } of gone) rows.delete(row)
  const requests = gone.flatMap((row) => row.requests)
  const names = gone.map(({ row }) => row)
  await run(pruning, DROP_ROWS_SCRIPT, [String(gone.length), ...names, ...requests])
  return gone.reduce((sum, { events }) => sum + events, 0)
}

async function tidy(pruning: Pruning): Promise<void> {
  let cursor = '0'
  for (let step = 0; step < TIDY_STEPS; step += 1) {
    const args = [pruning.namespace.clockText, cursor, String(TIDY_PAGE)]
    cursor = String(await run(pruning, TIDY_SCRIPT, args))
    if (cursor === '0') return
  }
}

/**
 * Adds the events of a page to their rows, and tells which events are followed by another of their type and lease. The
 * position of one of which nothing can be seen any more is negative.
 */
function noteRows(
  values: readonly unknown[],
  rows: Map<string, RowInQuestion>,
  earlier: Map<string, EventInQuestion>,
): readonly EventInQuestion[] {
  const followed: EventInQuestion[] = []
  for (const [name, position, text] of triplesOf(values)) {
    const row = rows.get(name) ?? { row: name, requests: [], events: 0, staying: 0 }
    rows.set(name, row)
    const { event } = eventOf(text, Math.abs(position))
    const { type, leaseId, requestId } = event
    row.events += 1
    if (requestId !== null) row.requests.push(requestId, String(Math.abs(position)))
    if (position < 0) continue
    row.staying += 1
    if (!SUPERSEDED_TYPES.includes(type)) continue
    const key = `${type} ${leaseId}`
    const before = earlier.get(key)
    if (before !== undefined) followed.push(before)
    earlier.set(key, { event, row })
  }
  return followed
}
