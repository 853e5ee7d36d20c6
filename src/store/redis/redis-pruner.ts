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
import { clockText, type ClockOverride, type RedisReader } from './redis-reader.ts'
import { eventOf, recordsOf, type KeptRecord } from './redis-records.ts'
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
const LATE_PAGE = 1_000
const TIDY_PAGE = 1_000
const TIDY_STEPS = 100
const WRITES = 'writes'

/** A row of which it is not yet known that it can go. */
interface RowInQuestion {
  readonly row: string
  /** Request ids of its events, each with its position. */
  readonly requests: string[]
  events: number
  /** How many of its events must stay. */
  kept: number
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

export class RedisPruner {
  readonly #namespace: RedisNamespace
  readonly #reader: RedisReader
  readonly #clock: ClockOverride

  constructor(namespace: RedisNamespace, reader: RedisReader, clock: ClockOverride) {
    this.#namespace = namespace
    this.#reader = reader
    this.#clock = clock
  }

  async prune({ batch, ...asked }: PrunePolicy): Promise<Pruned> {
    const total = { leases: 0, events: 0, more: false }
    for (const bucket of this.#namespace.buckets) {
      const last = await this.#progressOf(bucket, asked.nowMs)
      const clock = nextPruneClock(last.clock, asked.nowMs)
      const cut = boundedCut(asked, clock)
      const ended = await this.#forget(bucket, cut, batch - total.leases)
      const trimmed = await this.#trim(bucket, cut, { ...last, hasCause: ended.leases > 0 })
      await this.#note(bucket, { ...trimmed, clock })
      await this.#tidy(bucket)
      total.leases += ended.leases
      total.events += trimmed.events
      total.more ||= ended.more || trimmed.from !== '-'
    }
    return total
  }

  async #progressOf(bucket: number, nowMs: number): Promise<Progress> {
    const key = this.#namespace.keyOf(bucket, 'pruned')
    const text = (await this.#namespace.calls.send(['GET', key], 'reads')) as string | null
    if (text === null) return { notBeforeMs: 0, from: '-', clock: firstPruneClock(nowMs) }
    const [notBeforeMs, from = '-', readingMs, believedMs] = text.split(' ')
    const clock = { readingMs: Number(readingMs), believedMs: Number(believedMs) }
    return { notBeforeMs: Number(notBeforeMs), from, clock }
  }

  async #note(bucket: number, { notBeforeMs, from, clock }: Progress): Promise<void> {
    const text = [notBeforeMs, from, clock.readingMs, clock.believedMs].join(' ')
    const args = [text, String(2 * TTL_MS_MAX)]
    await this.#namespace.run(NOTE_PRUNED_SCRIPT, args, { bucket, effect: WRITES })
  }

  async #forget(
    bucket: number,
    cut: PruneCut,
    batch: number,
  ): Promise<{ readonly leases: number; readonly more: boolean }> {
    const prunable = new Map<string, KeptRecord>()
    for await (const records of this.#endedBefore(bucket, cut)) {
      for (const record of records) {
        if (mayBePruned(record.entry, cut)) prunable.set(record.entry.id, record)
      }
      if (prunable.size > batch) break
    }
    const gone = [...prunable.values()].slice(0, batch)
    const more = prunable.size > gone.length
    if (gone.length === 0) return { leases: 0, more }
    const args = gone.flatMap(({ entry, place }) => [entry.id, String(place)])
    const leases = await this.#namespace.run(FORGET_SCRIPT, args, { bucket, effect: WRITES })
    return { leases: leases as number, more }
  }

  /** Those whose end was noticed later, then those that ended when the ledger says so. */
  async *#endedBefore(
    bucket: number,
    { endedBeforeMs }: PruneCut,
  ): AsyncGenerator<readonly KeptRecord[]> {
    const before = Math.max(0, endedBeforeMs)
    yield (await this.#reader.look(bucket, ['late', String(before), String(LATE_PAGE)])).records
    const walk = { bucket, to: String(before * 1_000), wanted: 'ended' } as const
    for (let from: string | null = '-'; from !== null;) {
      const page = await this.#reader.walk({ ...walk, from })
      yield recordsOf(page.triples)
      from = page.next
    }
  }

  /** Goes on where the last call has stopped, and begins again when there is cause, or after a while. */
  async #trim(
    bucket: number,
    cut: PruneCut,
    { from, notBeforeMs, hasCause }: Omit<Progress, 'clock'> & { readonly hasCause: boolean },
  ): Promise<Omit<Progress, 'clock'> & { readonly events: number }> {
    if (from === '-' && !hasCause && cut.nowMs < notBeforeMs)
      return { from, notBeforeMs, events: 0 }
    const { events, next } = await this.#dropRows(bucket, cut, from)
    if (next !== null) return { from: next, notBeforeMs: 0, events }
    return { from: '-', notBeforeMs: cut.nowMs + TRIM_INTERVAL_MS, events }
  }

  async #dropRows(
    bucket: number,
    cut: PruneCut,
    start: string,
  ): Promise<{ readonly events: number; readonly next: string | null }> {
    const rows = new Map<string, RowInQuestion>()
    const earlier = new Map<string, EventInQuestion>()
    const walk = {
      bucket,
      to: String(Math.max(0, cut.endedBeforeMs) * 1_000),
      wanted: 'rows',
    } as const
    let events = 0
    let next: string | null = start
    for (let step = 0; step < TRIM_STEPS && next !== null; step += 1) {
      const page = await this.#reader.walk({ ...walk, from: next })
      const superseded = noteRows(page.triples, rows, earlier)
      const ttlMs = await this.#ttlsOf(bucket, superseded)
      for (const { event, row } of superseded) {
        if (isSuperseded(event, ttlMs.get(event.leaseId) ?? null, cut)) row.kept -= 1
      }
      events += await this.#drop(bucket, rows)
      next = page.next
    }
    return { events, next }
  }

  /** Of the live leases whose old events depend on it. */
  async #ttlsOf(
    bucket: number,
    superseded: readonly EventInQuestion[],
  ): Promise<ReadonlyMap<string, number>> {
    const ids = new Set(superseded.map(({ event }) => event.leaseId))
    if (ids.size === 0) return new Map()
    const { records } = await this.#reader.look(bucket, ['ids', ...ids])
    const live = records.filter(({ entry }) => isLive(entry))
    return new Map(live.map(({ entry }) => [entry.id, entry.ttlMs]))
  }

  async #drop(bucket: number, rows: Map<string, RowInQuestion>): Promise<number> {
    const gone = [...rows.values()].filter(({ kept }) => kept === 0)
    if (gone.length === 0) return 0
    for (const { row } of gone) rows.delete(row)
    const requests = gone.flatMap((row) => row.requests)
    const args = [String(gone.length), ...gone.map(({ row }) => row), ...requests]
    await this.#namespace.run(DROP_ROWS_SCRIPT, args, { bucket, effect: WRITES })
    return gone.reduce((sum, { events }) => sum + events, 0)
  }

  async #tidy(bucket: number): Promise<void> {
    let cursor = '0'
    for (let step = 0; step < TIDY_STEPS; step += 1) {
      const args = [clockText(this.#clock), cursor, String(TIDY_PAGE)]
      cursor = String(await this.#namespace.run(TIDY_SCRIPT, args, { bucket, effect: WRITES }))
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
    const row = rows.get(name) ?? { row: name, requests: [], events: 0, kept: 0 }
    rows.set(name, row)
    const { event } = eventOf(text)
    const { type, leaseId, requestId } = event
    row.events += 1
    if (requestId !== null) row.requests.push(requestId, String(Math.abs(position)))
    if (position < 0) continue
    row.kept += 1
    if (!SUPERSEDED_TYPES.includes(type)) continue
    const key = `${type} ${leaseId}`
    const before = earlier.get(key)
    if (before !== undefined) followed.push(before)
    earlier.set(key, { event, row })
  }
  return followed
}
