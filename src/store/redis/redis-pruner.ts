/**
 * Removes from the ledger what retention no longer asks for. What may go, the core says; here it is looked for from the
 * oldest end of the ledger, page by page, and taken in two steps: an ended lease is forgotten, so that nothing of it can be
 * seen any more, and a row goes when none of its events can.
 */
import type { LeaseEvent } from '../../core/event.ts'
import { isLive } from '../../core/lease.ts'
import {
  boundedCut,
  isSuperseded,
  mayBePruned,
  nextPruneClock,
  SUPERSEDED_TYPES,
  type PruneClock,
  type PruneCut,
} from '../../core/retention.ts'
import { US_PER_MS } from '../../core/time.ts'
import type { Pruned, PrunePolicy } from '../../store-port/store.ts'
import { rowPosition } from './redis-layout.ts'
import type { RedisNamespace } from './redis-namespace.ts'
import type { RedisReader } from './redis-reader.ts'
import { eventOf, msOf, placedRecord, type ShownRecord } from './redis-records.ts'
import { NOTE_PRUNED_SCRIPT, PRUNE_SCRIPT, TIDY_SCRIPT } from './redis-scripts.ts'
import { noteSpans } from './redis-spans.ts'

/** How many pages of rows a call looks at. */
const TRIM_STEPS = 40
/** The old part of the ledger is gone through at most so often. */
const TRIM_INTERVAL_MS = 3_600_000
const TIDY_PAGE = 1_000
const TIDY_STEPS = 100

/** Of what the ledger is to tell no more. */
interface Told {
  readonly id: string
  readonly position: number
}

/** A row of which it is not yet known that it can go. */
interface RowInQuestion {
  readonly row: string
  /** Requests of its events. */
  readonly requests: Told[]
  events: number
  /** How many of its events must stay. */
  staying: number
}

interface EventInQuestion {
  readonly event: LeaseEvent
  readonly row: RowInQuestion
}

type TrimProgress = Pick<Progress, 'notBeforeMs' | 'from'>

interface Progress {
  /** Before this time the old part of the ledger is not gone through again without cause. */
  readonly notBeforeMs: number
  /** The position to go on from; 0 for the first row. */
  readonly from: number
  readonly clock: PruneClock | null
  /** Where the live set is gone through from, for realms to forget: in a large one a call sees a part of it. */
  readonly tidyFrom: string
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
    const pruner = new BucketPruner(namespace, reader, bucket, cut)
    const { leases, more } = await pruner.forgetEnded(batch - total.leases)
    const { notBeforeMs, from } = await pruner.trim(last, leases > 0)
    const tidyFrom = await pruner.tidy(last.tidyFrom)
    const noted = [notBeforeMs, from, clock.readingMs, clock.believedMs, tidyFrom].join(' ')
    await namespace.run(bucket, NOTE_PRUNED_SCRIPT, [noted, String(cut.endedBeforeMs)])
    await noteSpans(namespace, reader, bucket)
    total.leases += leases
    total.events += pruner.events
    total.more ||= more || from > 0
  }
  return total
}

async function progressOf(namespace: RedisNamespace, bucket: number): Promise<Progress> {
  const key = namespace.keyOf(bucket, 'pruned')
  const text = (await namespace.calls.send(['GET', key], 'reads')) as string | null
  if (text === null) return { notBeforeMs: 0, from: 0, clock: null, tidyFrom: '0' }
  const [notBeforeMs, from = '', readingMs, believedMs, tidyFrom = '0'] = text.split(' ')
  const clock = { readingMs: Number(readingMs), believedMs: Number(believedMs) }
  // Others have written a row here, behind a bracket; `-` for the first one.
  const position = rowPosition(from.replace('(', ''))
  return { notBeforeMs: Number(notBeforeMs), from: position, clock, tidyFrom }
}

class BucketPruner {
  readonly #namespace: RedisNamespace
  readonly #reader: RedisReader
  readonly #bucket: number
  readonly #cut: PruneCut
  /** The position up to which rows are old enough. */
  readonly #high: number
  readonly #rows = new Map<string, RowInQuestion>()
  /** By type and lease the last event that another may make superfluous. */
  readonly #earlier = new Map<string, EventInQuestion>()
  /** How many were removed. */
  events = 0

  constructor(namespace: RedisNamespace, reader: RedisReader, bucket: number, cut: PruneCut) {
    this.#namespace = namespace
    this.#reader = reader
    this.#bucket = bucket
    this.#cut = cut
    this.#high = Math.max(0, cut.endedBeforeMs) * US_PER_MS
  }

  /** In the order in which their ends were recorded. */
  async forgetEnded(batch: number): Promise<{ readonly leases: number; readonly more: boolean }> {
    const prunable: Told[] = []
    const walk = { bucket: this.#bucket, low: 0, high: this.#high, wanted: 'ended' } as const
    for await (const shown of this.#reader.pages(walk)) {
      for (const { entry, place } of shown.map(placedRecord)) {
        if (!mayBePruned(entry, msOf(place), this.#cut)) continue
        prunable.push({ id: entry.id, position: place })
      }
      if (prunable.length > batch) break
    }
    const ended = prunable.slice(0, batch)
    const leases = await this.#remove(ended)
    return { leases, more: prunable.length > ended.length }
  }

  /** Goes on where the last call has stopped, and begins again when there is cause, or after a while. */
  async trim({ from, notBeforeMs }: TrimProgress, hasCause: boolean): Promise<TrimProgress> {
    const { nowMs } = this.#cut
    if (from === 0 && !hasCause && nowMs < notBeforeMs) return { from, notBeforeMs }
    const walk = { bucket: this.#bucket, low: from, high: this.#high, wanted: 'rows' } as const
    let steps = 0
    for await (const shown of this.#reader.pages(walk)) {
      await this.#passOver(this.#note(shown))
      await this.#dropRows()
      const [lastRow = ''] = shown.at(-1) ?? []
      steps += 1
      if (steps === TRIM_STEPS) return { from: rowPosition(lastRow) + 1, notBeforeMs: 0 }
    }
    return { from: 0, notBeforeMs: nowMs + TRIM_INTERVAL_MS }
  }

  /**
   * Adds the events of a page to their rows, and tells which events are followed by another of their type and lease. The
   * position of one of which nothing can be seen any more is negative.
   */
  #note(shown: readonly ShownRecord[]): readonly EventInQuestion[] {
    const followed: EventInQuestion[] = []
    for (const [name, position, text] of shown) {
      const row = this.#rows.get(name) ?? { row: name, requests: [], events: 0, staying: 0 }
      this.#rows.set(name, row)
      const at = Math.abs(position)
      const { event } = eventOf(text, at)
      const { type, leaseId, requestId } = event
      row.events += 1
      if (requestId !== null) row.requests.push({ id: requestId, position: at })
      if (position < 0) continue
      row.staying += 1
      if (!SUPERSEDED_TYPES.includes(type)) continue
      const key = `${type} ${leaseId}`
      const before = this.#earlier.get(key)
      if (before !== undefined) followed.push(before)
      this.#earlier.set(key, { event, row })
    }
    return followed
  }

  /** Whether an event is superseded may depend on the TTL of its lease, if that is live. */
  async #passOver(followed: readonly EventInQuestion[]): Promise<void> {
    const ids = new Set(followed.map(({ event }) => event.leaseId))
    if (ids.size === 0) return
    const { records } = await this.#reader.look(this.#bucket, ['ids', ...ids])
    const live = records.filter(({ entry }) => isLive(entry))
    const ttlMs = new Map(live.map(({ entry }) => [entry.id, entry.ttlMs]))
    for (const { event, row } of followed) {
      if (isSuperseded(event, ttlMs.get(event.leaseId) ?? null, this.#cut)) row.staying -= 1
    }
  }

  async #dropRows(): Promise<void> {
    const gone = [...this.#rows.values()].filter(({ staying }) => staying === 0)
    const requests = gone.flatMap((row) => row.requests)
    const rows = gone.map(({ row }) => row)
    await this.#remove([], requests, rows)
    for (const { row, events } of gone) {
      this.#rows.delete(row)
      this.events += events
    }
  }

  /** Answers with how many ended entries were forgotten. */
  async #remove(
    ended: readonly Told[],
    requests: readonly Told[] = [],
    rows: readonly string[] = [],
  ): Promise<number> {
    if (ended.length + rows.length === 0) return 0
    const gone = JSON.stringify({ ended, requests, rows })
    return (await this.#namespace.run(this.#bucket, PRUNE_SCRIPT, [gone])) as number
  }

  /** Answers with where the next call is to go on. */
  async tidy(from: string): Promise<string> {
    let cursor = from
    for (let step = 0; step < TIDY_STEPS; step += 1) {
      const args = [cursor, String(TIDY_PAGE)]
      cursor = String(await this.#namespace.run(this.#bucket, TIDY_SCRIPT, args))
      if (cursor === '0') break
    }
    return cursor
  }
}
