/**
 * Reads entries and the ledger, page by page. Each page is one script, so that what it tells belongs together and
 * no other call waits long behind it.
 */
import { invalid, LeaseError } from '../../core/errors.ts'
import type { LeaseEvent } from '../../core/event.ts'
import { STORE_CLOCK_BEHIND_US_MAX } from '../../core/limits.ts'
import { ancestorsOf, isTree, type Reach } from '../../core/resource.ts'
import { US_PER_MS } from '../../core/time.ts'
import { prunedError } from '../position.ts'
import type { EntryQuery, HistoryQuery, LedgerEntry, Position } from '../../store-port/store.ts'
import { firstOf, isAboutEnded, matchesEntry, matchesEvent } from '../query-matching.ts'
import type { FoundEntries } from '../optimistic/backend.ts'
import { EVENTS_PER_ROW, ROW_MAX, rowPosition } from './redis-layout.ts'
import type { RedisNamespace } from './redis-namespace.ts'
import {
  CLOCK_DOMAIN,
  eventOf,
  placedRecord,
  type PlacedRecord,
  type ShownRecord,
} from './redis-records.ts'
import { LOOK_SCRIPT, WALK_SCRIPT } from './redis-scripts.ts'
import { stretchesWith } from './redis-spans.ts'

/** Rows of the stream, each of which has some events. */
const PAGE = 500
/** More live entries than this are not gathered to be put in order; then the ledger is walked in order instead. */
const GATHERED_MAX = 10_000

interface Looked {
  readonly nowUs: number
  readonly next: string
  readonly records: readonly PlacedRecord[]
}

type Gathered = Omit<Looked, 'next'>

interface Ask {
  readonly query: EntryQuery
  readonly bucket: number
  /** What lies up to here, in the order of the answer, was told before. */
  readonly floor: number
}

/** The lowest and the highest position that a row may have. */
export interface RowRange {
  readonly low: number
  readonly high: number
}

/** How the ledger is gone through; `WALK_SCRIPT` says what can be wanted. */
export interface Walk extends RowRange {
  readonly bucket: number
  readonly newestFirst?: boolean
  readonly wanted: 'events' | 'ended' | 'born' | 'rows'
  readonly leaseId?: string
  /** A text that each event contains, as it is kept. */
  readonly part?: string
}

export class RedisReader {
  readonly #namespace: RedisNamespace

  constructor(namespace: RedisNamespace) {
    this.#namespace = namespace
  }

  async find(query: EntryQuery): Promise<FoundEntries> {
    const buckets = this.#namespace.bucketsFor(query.overlapping ?? query)
    const parts = await Promise.all(
      buckets.map((bucket) => this.#gather({ query, bucket, floor: floorOf(query, bucket) })),
    )
    const all = parts.flatMap(({ records }, at) => {
      return records.map(({ place, entry }) => ({ place, entry, bucket: buckets[at] }))
    })
    const inOrder = all.toSorted((a, b) => a.place - b.place)
    const found = inOrder.map(({ place, bucket, entry }) => [`${place} ${bucket}`, entry] as const)
    return { nowUs: Math.max(...parts.map(({ nowUs }) => nowUs)), ...firstOf(found, query.limit) }
  }

  async #gather(ask: Ask): Promise<Gathered> {
    const { query, bucket } = ask
    if (isAboutEnded(query)) return this.#ended(ask)
    if (query.overlapping !== undefined) {
      const page = await this.look(bucket, ['overlapping', placeText(query.overlapping)])
      if (page.next === '') return page
      const message = `the server's clock is ${page.next} ms behind its last commit`
      throw new LeaseError('STORE_UNAVAILABLE', message)
    }
    if (query.ids !== undefined) {
      const page = await this.look(bucket, ['ids', ...new Set(query.ids)])
      return { nowUs: page.nowUs, records: matching(page, { ...ask, floor: 0 }) }
    }
    return this.#live(ask)
  }

  /** What is live is listed by name; where that is too much to be put in order, the ledger tells it in order. */
  async #live(ask: Ask): Promise<Gathered> {
    const page = await this.look(ask.bucket, liveLook(ask.query))
    if (page.next === '') return { nowUs: page.nowUs, records: matching(page, ask) }
    const { bucket, floor } = ask
    const walk = { bucket, low: rowBefore(floor), high: ROW_MAX, wanted: 'born' } as const
    const told = await this.#walkRecords(ask, walk, page.nowUs)
    const untold = await this.#unrecorded(ask)
    return { nowUs: untold.nowUs, records: [...told, ...untold.records] }
  }

  async #unrecorded(ask: Ask): Promise<Gathered> {
    const records: PlacedRecord[] = []
    for (let from = String(ask.floor); ;) {
      const page = await this.look(ask.bucket, ['unrecorded', from, String(PAGE)])
      records.push(...matching(page, ask))
      if (page.next === '' || records.length > ask.query.limit)
        return { nowUs: page.nowUs, records }
      from = page.next
    }
  }

  /** In the order of the ends. */
  async #ended(ask: Ask): Promise<Gathered> {
    const { query, bucket, floor } = ask
    const { nowUs } = await this.look(bucket, ['ids'])
    const rows = { low: rowBefore(floor), high: ROW_MAX }
    const walk = { bucket, ...rows, wanted: 'ended', ...partOf(query) } as const
    return { nowUs, records: await this.#walkRecords(ask, walk, nowUs) }
  }

  /** Goes on until there are more than asked for, which tells that there are. */
  async #walkRecords(ask: Ask, walk: Walk, nowUs: number): Promise<readonly PlacedRecord[]> {
    const records: PlacedRecord[] = []
    for await (const shown of this.pages(walk)) {
      records.push(...matching({ nowUs, records: shown.map(placedRecord) }, ask))
      if (records.length > ask.query.limit) break
    }
    return records
  }

  async *pages(walk: Walk): AsyncGenerator<readonly ShownRecord[]> {
    const { part } = walk
    const stretches = part === undefined ? [walk] : stretchesWith(this.#namespace, walk, part)
    for await (let { low, high } of stretches) {
      while (low <= high) {
        const [last, ...shown] = await this.#walk({ ...walk, low, high })
        yield shown
        if (last === '') break
        if (walk.newestFirst === true) high = rowPosition(last) - 1
        else low = rowPosition(last) + 1
      }
    }
  }

  async #walk(walk: Walk): Promise<readonly [lastRow: string, ...ShownRecord[]]> {
    const { bucket, newestFirst = false, low, high, wanted, leaseId = '', part = '' } = walk
    const command = newestFirst ? 'XREVRANGE' : 'XRANGE'
    const args = [command, String(low), String(high), String(PAGE), wanted, leaseId, part]
    const reply = await this.#namespace.run(bucket, WALK_SCRIPT, args)
    return reply as readonly [string, ...ShownRecord[]]
  }

  async look(bucket: number, args: readonly string[]): Promise<Looked> {
    const reply = await this.#namespace.run(bucket, LOOK_SCRIPT, args)
    const [nowUs, next, ...shown] = reply as readonly [number, string, ...ShownRecord[]]
    return { nowUs, next, records: shown.map(placedRecord) }
  }

  async history(query: HistoryQuery): Promise<readonly LedgerEntry[]> {
    const { limit, newestFirst = false } = query
    const start = this.#startOf(query)
    const parts = await Promise.all(
      this.#namespace
        .bucketsFor(query)
        .map((bucket) => this.#tell(bucket, query, start[bucket] ?? 0)),
    )
    const inOrder = parts.flat().toSorted((a, b) => (newestFirst ? b.us - a.us : a.us - b.us))
    if (query.after !== undefined) {
      if (inOrder.length === 0) await this.#requireReached(query.after, start)
      if (query.unbroken === true) await this.#requireUnpruned(query, start)
    }
    const at = [...start]
    return inOrder.slice(0, limit).map(({ bucket, us, event }) => {
      at[bucket] = us
      return { position: positionText(at), event }
    })
  }

  /** Positions are times of the server, so that one of a server that has lost its data since is as good as ever. */
  async #requireReached(after: Position, start: Positions): Promise<void> {
    const given = latestOf(start)
    if (given <= (await this.#namespace.timeUs()) + STORE_CLOCK_BEHIND_US_MAX) return
    // The clock was ahead once: what was recorded then has its place, and what comes after that as well.
    if (given <= latestOf(await this.#ends())) return
    throw invalid('after', 'must be a position of this store, not after its present time', after)
  }

  /** Asked after the page was read: what was pruned before is known by then. */
  async #requireUnpruned(query: HistoryQuery, start: Positions): Promise<void> {
    const upTo = [...start]
    for (const bucket of this.#namespace.bucketsFor(query)) {
      const key = this.#namespace.keyOf(bucket, 'live')
      const pruned = await this.#namespace.calls.send(['HGET', key, 'pruned'], 'reads')
      upTo[bucket] = Math.max(start[bucket] ?? 0, Number(pruned))
    }
    const [given, needed] = [positionText(start), positionText(upTo)]
    if (needed !== given) throw prunedError(given, needed)
  }

  async #tell(bucket: number, query: HistoryQuery, start: number): Promise<readonly Told[]> {
    const { newestFirst = false, limit, leaseId, fromMs = 0 } = query
    const [after, before] = newestFirst ? [0, start] : [start, Infinity]
    // Nothing is dated later than its place, but for what was imported from a clock that was ahead.
    const low = rowBefore(Math.max(after, fromMs * US_PER_MS - 1))
    const high = Math.min(before - 1, ROW_MAX)
    const walk = { bucket, newestFirst, low, high, wanted: 'events' } as const
    const which = leaseId === undefined ? partOf(query) : { leaseId }
    const told: Told[] = []
    for await (const shown of this.pages({ ...walk, ...which })) {
      for (const [, us, text] of shown) {
        if (us <= after || us >= before) continue
        const { event } = eventOf(text, us)
        if (matchesEvent(event, query)) told.push({ bucket, us, event })
      }
      if (told.length >= limit) break
    }
    return told.slice(0, limit)
  }

  async end(): Promise<Position> {
    return positionText(await this.#ends())
  }

  async #ends(): Promise<Positions> {
    const { buckets } = this.#namespace
    const states = await Promise.all(buckets.map((bucket) => this.#namespace.stateOf(bucket)))
    return states.map(({ last }) => Number(last))
  }

  #startOf({ after, newestFirst = false }: HistoryQuery): Positions {
    const { buckets } = this.#namespace
    const unread = newestFirst ? Infinity : 0
    if (after === undefined) return buckets.map(() => unread)
    const positions = after.split('.')
    const isOne = positions.every((position) => /^(\d{1,16}|-)$/.test(position))
    if (isOne && positions.length === buckets.length) {
      return positions.map((position) => (position === '-' ? unread : Number(position)))
    }
    throw invalid('after', 'must be a position from history or watch', after)
  }
}

/**
 * Where each bucket was read to: the microsecond of its last event that was seen, infinite for none yet when reading backwards.
 * They grow with the server's clock, so that a position stays good when a server has lost its data.
 */
type Positions = readonly number[]

function positionText(positions: Positions): Position {
  return positions.map((position) => (position === Infinity ? '-' : position)).join('.')
}

/** The latest of its places; -Infinity where it has none. */
function latestOf(positions: Positions): number {
  return Math.max(...positions.filter(Number.isFinite))
}

interface Told {
  readonly bucket: number
  readonly us: number
  readonly event: LeaseEvent
}

/** Two buckets may have entries of equal rank (`place`); then those of the first bucket come first. */
function floorOf({ after }: EntryQuery, bucket: number): number {
  if (after === undefined) return 0
  const [place = 0, told = 0] = after.split(' ').map(Number)
  return bucket <= told ? place : place - 1
}

/** The first row in which a position after this one may lie. */
function rowBefore(place: number): number {
  return Math.max(0, place + 1 - EVENTS_PER_ROW)
}

/** What every event contains that is asked for by name: spares sending all the others. */
function partOf({ resource, holder }: HistoryQuery | EntryQuery): { readonly part?: string } {
  const name = resource ?? holder
  return name === undefined ? {} : { part: JSON.stringify(name) }
}

function liveLook({ resource, holder, session, deadline, limit }: EntryQuery): readonly string[] {
  const most = String(GATHERED_MAX)
  if (resource !== undefined) return ['claims', JSON.stringify({ realm: resource })]
  if (session !== undefined) return ['members', `s:${session}`, most]
  if (holder !== undefined) return ['members', `h:${holder}`, most]
  return deadline === 'passed' ? ['due', String(limit + 1)] : ['live', most]
}

function matching({ nowUs, records }: Gathered, { query, floor }: Ask): readonly PlacedRecord[] {
  const now = { domain: CLOCK_DOMAIN, us: nowUs }
  return records.filter(({ place, entry }) => place > floor && matchesEntry(entry, query, now))
}

/** A reach as the scripts name places; `placeArgument` of redis-records.ts says more of one. */
function placeText({ resource, extent }: Reach): string {
  if (!isTree(resource)) return JSON.stringify({ realm: resource })
  const subtree = extent === 'subtree' || undefined
  return JSON.stringify({ resource, above: ancestorsOf(resource), subtree })
}
