/**
 * Reads entries and the ledger, page by page. Each page is one script, so that what it tells belongs together and
 * nobody waits long behind it.
 */
import { LeaseError } from '../../core/errors.ts'
import { isLive, type EntryState } from '../../core/lease.ts'
import type { LeaseEvent } from '../../core/event.ts'
import { isTree, realmOf, type Reach } from '../../core/resource.ts'
import { RepeatedFault } from '../../runtime/diagnostics.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { EntryQuery, HistoryQuery, LedgerEntry, Position } from '../../store-port/store.ts'
import { matchesEntry, matchesEvent } from '../query-matching.ts'
import type { Attempt, FoundKept } from '../speculation/backend.ts'
import { viewOf, type ScriptAnswer } from './redis-answer.ts'
import { EVENTS_PER_ROW } from './redis-attempt-script.ts'
import { groupArgs } from './redis-attempt.ts'
import { eventOf } from './redis-events.ts'
import { parsePosition, positionText, startOf, type Positions } from './redis-position.ts'
import { CLOCK_DOMAIN, recordsOf, type KeptRecord } from './redis-rows.ts'
import { DUE, LEDGER, LOOK, RELIST, VIEW, type RedisScripted } from './redis-scripted.ts'

/** The server's clock for a test that moves it; empty for the real one. */
export type ClockText = () => string

/** Entries of the stream, each of which has some events. */
const PAGE = 500
/** More live entries than this are not gathered to be put in order; then all entries are walked in order instead. */
const GATHERED_MAX = 10_000
/** How often what renewals have moved on is listed anew before a question for what is due is answered. */
const RELISTS_MAX = 50
const READS = 'reads'

interface LookedUp {
  readonly nowUs: number
  readonly next: string
  readonly records: readonly KeptRecord[]
}

/** What a bucket knows, in order of creation, until there is enough. */
interface Gathered {
  readonly nowUs: number
  readonly records: readonly KeptRecord[]
}

/** What a bucket is asked for. */
interface Ask {
  readonly query: EntryQuery
  readonly bucket: number
  /** Entries created up to here were told before. */
  readonly floor: number
}

/** How to go through one of the lists of a bucket. */
type Walk = (from: string | null) => readonly string[]

export class RedisReader {
  readonly #scripted: RedisScripted
  readonly #clock: ClockText
  readonly #relisting = new RepeatedFault('store/redis/relist', systemRuntime)

  constructor(scripted: RedisScripted, clock: ClockText) {
    this.#scripted = scripted
    this.#clock = clock
  }

  async find(query: EntryQuery): Promise<FoundKept> {
    const buckets =
      query.overlapping === undefined
        ? this.#bucketsFor(query)
        : [this.#scripted.bucketOf(query.overlapping.resource)]
    const asks = buckets.map((bucket) => ({ query, bucket, floor: floorOf(query, bucket) }))
    const parts = await Promise.all(asks.map((ask) => this.#gather(ask)))
    const records = parts.flatMap((part, index) => {
      const bucket = buckets[index] ?? 0
      return part.records.map(({ created, entry }) => ({ created, entry, bucket }))
    })
    const inOrder = records.toSorted((a, b) => a.created - b.created || a.bucket - b.bucket)
    const shown = inOrder.slice(0, query.limit)
    const more = inOrder.length > query.limit
    const last = more ? shown.at(-1) : undefined
    return {
      nowUs: Math.max(...parts.map((part) => part.nowUs)),
      entries: shown.map((record) => record.entry),
      more,
      next: last === undefined ? null : `${last.created} ${last.bucket}`,
    }
  }

  #bucketsFor({ resource }: EntryQuery): readonly number[] {
    return resource === undefined ? this.#scripted.buckets : [this.#scripted.bucketOf(resource)]
  }

  async #gather(ask: Ask): Promise<Gathered> {
    const { query, bucket } = ask
    if (query.overlapping !== undefined) return this.#overlapping(bucket, query.overlapping)
    if (query.ids !== undefined) return this.#once(ask, ['ids', ...new Set(query.ids)])
    if (query.deadline === 'passed' && isUnnamed(query)) return this.#due(ask)
    const live = asksForLive(query) ? await this.#live(ask) : null
    return live ?? this.#all(ask)
  }

  async #once(ask: Ask, args: readonly string[]): Promise<Gathered> {
    const page = await this.#look(ask.bucket, args)
    return { nowUs: page.nowUs, records: matching(page, ask) }
  }

  /** What is live is listed by name. Null: there is too much of it to be put in order. */
  async #live(ask: Ask): Promise<Gathered | null> {
    const page = await this.#look(ask.bucket, liveLook(ask.query))
    if (page.next !== '') return null
    const records = matching(page, ask).toSorted((a, b) => a.created - b.created)
    return { nowUs: page.nowUs, records }
  }

  /**
   * In order of creation: those of which the ledger tells, and those of which it does not. The ledger tells of an entry
   * behind the place at which it was created.
   */
  async #all(ask: Ask): Promise<Gathered> {
    const [page, floor] = [String(PAGE), String(ask.floor)]
    const told = await this.#walk(ask, (from) => ['born', from ?? `(${floor}`, page])
    const untold = await this.#walk(ask, (from) => ['unlisted', from ?? floor, page])
    return { nowUs: untold.nowUs, records: [...told.records, ...untold.records] }
  }

  /** Goes on until there are more than asked for, which tells that there are. */
  async #walk(ask: Ask, walk: Walk): Promise<Gathered> {
    const { limit } = ask.query
    const records: KeptRecord[] = []
    for (let from: string | null = null; ;) {
      const page: LookedUp = await this.#look(ask.bucket, walk(from))
      records.push(...matching(page, ask))
      if (page.next === '' || records.length > limit) return { nowUs: page.nowUs, records }
      from = page.next
    }
  }

  async #look(bucket: number, args: readonly string[]): Promise<LookedUp> {
    const reply = await this.#scripted.run(LOOK, [this.#clock(), ...args], {
      bucket,
      effect: READS,
    })
    const [nowUs, next = '', ...triples] = reply as readonly string[]
    return { nowUs: Number(nowUs), next, records: recordsOf(triples) }
  }

  async #due(ask: Ask): Promise<Gathered> {
    const { query, bucket } = ask
    for (let relists = 0; ; relists += 1) {
      const args = [this.#clock(), String(query.limit + 1)]
      const reply = await this.#scripted.run(DUE, args, { bucket, effect: READS })
      const [nowUs, moved, ...triples] = reply as readonly [string, string[], ...string[]]
      const page = { nowUs: Number(nowUs), records: recordsOf(triples) }
      const isDone = moved.length === 0 || page.records.length > 0 || relists === RELISTS_MAX
      const canGoOn = await this.#relist(bucket, moved)
      if (isDone || !canGoOn) return { ...page, records: matching(page, ask) }
    }
  }

  /** Whoever may not write, or cannot, leaves it to others. */
  async #relist(bucket: number, moved: readonly string[]): Promise<boolean> {
    if (moved.length === 0) return true
    try {
      await this.#scripted.run(RELIST, moved, { bucket, effect: 'writes' })
      this.#relisting.succeeded()
      return true
    } catch (error) {
      this.#relisting.failed(error)
      return false
    }
  }

  /** An attempt that can only miss is answered with what is there. */
  async #overlapping(bucket: number, reach: Reach): Promise<Gathered> {
    const { channelOf } = this.#scripted
    const facts = { clock: this.#clock(), settingsRevision: -1, sender: '', channelOf }
    const args = groupArgs([lookAt(reach)], facts)
    const answer = await this.#scripted.run(VIEW, args, { bucket, effect: READS })
    const [nowUs, , , behindMs, , , views] = answer as ScriptAnswer
    if (views === undefined) {
      const message = `the server's clock is ${behindMs} ms behind its last commit`
      throw new LeaseError('STORE_UNAVAILABLE', message)
    }
    const [view] = views as readonly (readonly string[])[]
    const records = viewOf(view ?? []).entries.filter(({ entry }) => isLive(entry))
    return { nowUs: Number(nowUs), records }
  }

  async history(query: HistoryQuery): Promise<readonly LedgerEntry[]> {
    const { limit, newestFirst = false } = query
    const count = this.#scripted.prefixes.length
    const start =
      query.after === undefined ? startOf(count, newestFirst) : parsePosition(query.after, count)
    const buckets = this.#bucketsFor(query)
    const parts = await Promise.all(
      buckets.map((bucket) => this.#tell(bucket, query, start[bucket] ?? '0')),
    )
    const inOrder = parts.flat().toSorted((a, b) => (newestFirst ? b.us - a.us : a.us - b.us))
    const at = [...start]
    return inOrder.slice(0, limit).map(({ bucket, us, event }) => {
      at[bucket] = String(us)
      return { position: positionText(at), event }
    })
  }

  async #tell(bucket: number, query: HistoryQuery, start: string): Promise<readonly Told[]> {
    const { newestFirst = false, limit, leaseId } = query
    const first = await this.#firstOf(bucket, query)
    if (first === null) return []
    const told: Told[] = []
    for (let range = firstRange(start, first, newestFirst); told.length < limit;) {
      const command = newestFirst ? 'XREVRANGE' : 'XRANGE'
      const args = [command, ...range, String(PAGE), leaseId ?? '']
      const reply = await this.#scripted.run(LEDGER, args, { bucket, effect: READS })
      const [next = '', ...rows] = reply as readonly string[]
      for (let row = 0; row + 2 < rows.length; row += 3) {
        const us = Number(rows[row])
        const event = eventOf(rows[row + 1] ?? '', rows[row + 2] ?? '')
        if (isPast(us, start, newestFirst) && matchesEvent(event, query))
          told.push({ bucket, us, event })
      }
      if (next === '') break
      range = [`(${next}`, range[1]]
    }
    return told.slice(0, limit)
  }

  /** What is known of a lease tells where its history begins. Null: it has none. */
  async #firstOf(bucket: number, { leaseId }: HistoryQuery): Promise<string | null> {
    if (leaseId === undefined) return '0'
    const [record] = (await this.#look(bucket, ['ids', leaseId])).records
    return record === undefined ? null : String(record.created)
  }

  async end(): Promise<Position> {
    return positionText(await this.lastPositions())
  }

  async lastPositions(): Promise<Positions> {
    const { buckets, calls } = this.#scripted
    const states = await Promise.all(
      buckets.map((bucket) => calls.send(this.#scripted.stateCall(bucket), READS)),
    )
    return states.map((state) => String(Number(((state ?? '0') as string).slice(0, 16))))
  }
}

interface Told {
  readonly bucket: number
  readonly us: number
  readonly event: LeaseEvent
}

/** Entries of two buckets may have been created in one moment; then those of the first bucket come first. */
function floorOf({ after }: EntryQuery, bucket: number): number {
  if (after === undefined) return 0
  const [created = 0, told = 0] = after.split(' ').map(Number)
  return bucket <= told ? created : created - 1
}

/** From where to where the stream is read first. A position may lie within one of its entries. */
function firstRange(start: string, first: string, newestFirst: boolean): readonly [string, string] {
  if (newestFirst) return [start === '' ? '+' : `(${start}-0`, first]
  const from = Math.max(Number(start) + 1 - EVENTS_PER_ROW, Number(first))
  return [String(Math.max(0, from)), '+']
}

function isPast(us: number, start: string, newestFirst: boolean): boolean {
  if (newestFirst) return start === '' || us < Number(start)
  return us > Number(start)
}

function isUnnamed({ resource, holder, session }: EntryQuery): boolean {
  return resource === undefined && holder === undefined && session === undefined
}

function liveLook({ resource, holder, session }: EntryQuery): readonly string[] {
  const most = String(GATHERED_MAX)
  if (resource !== undefined) {
    return ['claims', ...(isTree(resource) ? ['c', resource, '1'] : ['e', resource, '51'])]
  }
  if (session !== undefined) return ['members', `s:${session}`, most]
  if (holder !== undefined) return ['members', `h:${holder}`, most]
  return ['live', most]
}

const LIVE_STATES: ReadonlySet<EntryState> = new Set<EntryState>(['active', 'pending'])

function asksForLive({
  deadline,
  states,
}: {
  readonly deadline?: EntryQuery['deadline'] | undefined
  readonly states?: EntryQuery['states'] | undefined
}): boolean {
  return deadline !== undefined || (states ?? []).every((state) => LIVE_STATES.has(state))
}

function matching({ nowUs, records }: Gathered, { query, floor }: Ask): readonly KeptRecord[] {
  const now = { domain: CLOCK_DOMAIN, us: nowUs }
  return records.filter(({ created, entry }) => created > floor && matchesEntry(entry, query, now))
}

const NOBODY = '00000000-0000-0000-0000-000000000000'

function lookAt(reach: Reach): Attempt {
  const footprint = { ...reach, leaseId: NOBODY, requestId: null, depth: 'claims' } as const
  const realm = realmOf(reach.resource)
  const place = { footprint, realm, own: 0, claims: [], hasPrior: false, epoch: 0 }
  return {
    places: [place],
    fromUs: 0,
    beforeUs: 0,
    wallMs: 0,
    writes: [],
    events: [],
    requests: [],
    epochs: [],
    wakes: [],
    fences: null,
  }
}
