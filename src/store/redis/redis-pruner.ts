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
  firstPruneClock,
  isSuperseded,
  mayBePruned,
  nextPruneClock,
  SUPERSEDED_TYPES,
  type PruneClock,
  type PruneCut,
} from '../../core/retention.ts'
import type { Pruned, PrunePolicy } from '../../store-port/store.ts'
import type { RedisNamespace } from './redis-namespace.ts'
import type { RedisReader } from './redis-reader.ts'
import { eventOf, recordsOf, type PlacedRecord } from './redis-records.ts'
import {
  DROP_ROWS_SCRIPT,
  FORGET_SCRIPT,
  NOTE_PRUNED_SCRIPT,
  REMOVE_REFUSALS_SCRIPT,
  TIDY_SCRIPT,
} from './redis-scripts.ts'

/** How many pages of rows a call looks at. */
const TRIM_STEPS = 40
/** The old part of the ledger is gone through at most so often. */
const TRIM_INTERVAL_MS = 3_600_000
const LATE_PAGE = 1_000
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

/** How far a bucket was pruned. */
interface Progress {
  /** Before this time the old part of the ledger is not gone through again without cause. */
  readonly notBeforeMs: number
  /** The row to go on from; `-` for the first one. */
  readonly from: string
  readonly clock: PruneClock
}

interface EventInQuestion {
  readonly event: LeaseEvent
  readonly row: RowInQuestion
}

export async function pruneNamespace(
  namespace: RedisNamespace,
  reader: RedisReader,
  { batch, ...policy }: PrunePolicy,
): Promise<Pruned> {
  const total = { leases: 0, events: 0, more: false }
  for (const bucket of namespace.buckets) {
    const last = await progressOf(namespace, bucket, policy.nowMs)
    const clock = nextPruneClock(last.clock, policy.nowMs)
    const pruner = new BucketPruner({ namespace, reader, bucket, cut: boundedCut(policy, clock) })
    const ended = await pruner.forget(batch - total.leases)
    const trimmed = await pruner.trim(last, ended.leases > 0)
    await pruner.note({ ...trimmed, clock })
    await pruner.removeRefusals()
    await pruner.tidy()
    total.leases += ended.leases
    total.events += trimmed.events
    total.more ||= ended.more || trimmed.from !== '-'
  }
  return total
}

async function progressOf(
  namespace: RedisNamespace,
  bucket: number,
  nowMs: number,
): Promise<Progress> {
  const key = namespace.keyOf(bucket, 'pruned')
  const text = (await namespace.calls.send(['GET', key], 'reads')) as string | null
  if (text === null) return { notBeforeMs: 0, from: '-', clock: firstPruneClock(nowMs) }
  const [notBeforeMs, from = '-', readingMs, believedMs] = text.split(' ')
  const clock = { readingMs: Number(readingMs), believedMs: Number(believedMs) }
  return { notBeforeMs: Number(notBeforeMs), from, clock }
}

interface BucketPruning {
  readonly namespace: RedisNamespace
  readonly reader: RedisReader
  readonly bucket: number
  readonly cut: PruneCut
}

class BucketPruner {
  readonly #reader: RedisReader
  readonly #bucket: number
  readonly #cut: PruneCut
  readonly #namespace: RedisNamespace

  constructor({ namespace, reader, bucket, cut }: BucketPruning) {
    this.#namespace = namespace
    this.#reader = reader
    this.#bucket = bucket
    this.#cut = cut
  }

  #run(script: string, args: readonly string[]): Promise<unknown> {
    return this.#namespace.run(script, args, { bucket: this.#bucket, effect: 'writes' })
  }

  async note({ notBeforeMs, from, clock }: Progress): Promise<void> {
    const text = [notBeforeMs, from, clock.readingMs, clock.believedMs].join(' ')
    await this.#run(NOTE_PRUNED_SCRIPT, [text, String(2 * TTL_MS_MAX)])
  }

  async removeRefusals(): Promise<void> {
    await this.#run(REMOVE_REFUSALS_SCRIPT, [String(this.#cut.endedBeforeMs)])
  }

  async forget(batch: number): Promise<{ readonly leases: number; readonly more: boolean }> {
    const prunable = new Map<string, PlacedRecord>()
    for await (const records of this.#endedBefore()) {
      for (const record of records) {
        if (mayBePruned(record.entry, this.#cut)) prunable.set(record.entry.id, record)
      }
      if (prunable.size > batch) break
    }
    const gone = [...prunable.values()].slice(0, batch)
    const more = prunable.size > gone.length
    if (gone.length === 0) return { leases: 0, more }
    const args = gone.flatMap(({ entry, place }) => [entry.id, String(place)])
    return { leases: (await this.#run(FORGET_SCRIPT, args)) as number, more }
  }

  /** Those whose end was noticed later, then those that ended when the ledger says so. */
  async *#endedBefore(): AsyncGenerator<readonly PlacedRecord[]> {
    const bucket = this.#bucket
    const before = Math.max(0, this.#cut.endedBeforeMs)
    yield (await this.#reader.look(bucket, ['late', String(before), String(LATE_PAGE)])).records
    const walk = { bucket, to: String(before * 1_000), wanted: 'ended' } as const
    for (let from: string | null = '-'; from !== null;) {
      const page = await this.#reader.walk({ ...walk, from })
      yield recordsOf(page.triples)
      from = page.next
    }
  }

  /** Goes on where the last call has stopped, and begins again when there is cause, or after a while. */
  async trim(
    { from, notBeforeMs }: Progress,
    hasCause: boolean,
  ): Promise<Omit<Progress, 'clock'> & { readonly events: number }> {
    const { nowMs } = this.#cut
    if (from === '-' && !hasCause && nowMs < notBeforeMs) return { from, notBeforeMs, events: 0 }
    const { events, next } = await this.#dropRows(from)
    if (next !== null) return { from: next, notBeforeMs: 0, events }
    return { from: '-', notBeforeMs: nowMs + TRIM_INTERVAL_MS, events }
  }

  async #dropRows(
    start: string,
  ): Promise<{ readonly events: number; readonly next: string | null }> {
    const rows = new Map<string, RowInQuestion>()
    const earlier = new Map<string, EventInQuestion>()
    const to = String(Math.max(0, this.#cut.endedBeforeMs) * 1_000)
    const walk = { bucket: this.#bucket, to, wanted: 'rows' } as const
    let events = 0
    let next: string | null = start
    for (let step = 0; step < TRIM_STEPS && next !== null; step += 1) {
      const page = await this.#reader.walk({ ...walk, from: next })
      const superseded = noteRows(page.triples, rows, earlier)
      const ttlMs = await this.#ttlsOf(superseded)
      for (const { event, row } of superseded) {
        if (isSuperseded(event, ttlMs.get(event.leaseId) ?? null, this.#cut)) row.staying -= 1
      }
      events += await this.#drop(rows)
      next = page.next
    }
    return { events, next }
  }

  /** Of the live leases whose old events depend on it. */
  async #ttlsOf(superseded: readonly EventInQuestion[]): Promise<ReadonlyMap<string, number>> {
    const ids = new Set(superseded.map(({ event }) => event.leaseId))
    if (ids.size === 0) return new Map()
    const { records } = await this.#reader.look(this.#bucket, ['ids', ...ids])
    const live = records.filter(({ entry }) => isLive(entry))
    return new Map(live.map(({ entry }) => [entry.id, entry.ttlMs]))
  }

  async #drop(rows: Map<string, RowInQuestion>): Promise<number> {
    const gone = [...rows.values()].filter(({ staying }) => staying === 0)
    if (gone.length === 0) return 0
    for (const { row } of gone) rows.delete(row)
    const requests = gone.flatMap((row) => row.requests)
    const names = gone.map(({ row }) => row)
    await this.#run(DROP_ROWS_SCRIPT, [String(gone.length), ...names, ...requests])
    return gone.reduce((sum, { events }) => sum + events, 0)
  }

  async tidy(): Promise<void> {
    let cursor = '0'
    for (let step = 0; step < TIDY_STEPS; step += 1) {
      const args = [this.#namespace.clockText, cursor, String(TIDY_PAGE)]
      cursor = String(await this.#run(TIDY_SCRIPT, args))
      if (cursor === '0') return
    }
  }
}

/**
 * Adds the events of a page to their rows, and tells which events are followed by another of their type and lease. The
 * position of one of which nothing can be seen any more is negative.
 */
function noteRows(
  triples: readonly unknown[],
  rows: Map<string, RowInQuestion>,
  earlier: Map<string, EventInQuestion>,
): readonly EventInQuestion[] {
  const followed: EventInQuestion[] = []
  for (let at = 0; at + 2 < triples.length; at += 3) {
    const [name, position, text] = triples.slice(at, at + 3) as [string, number, string]
    const row = rows.get(name) ?? { row: name, requests: [], events: 0, staying: 0 }
    rows.set(name, row)
    const { event } = eventOf(text)
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
