/**
 * Reads entries and the ledger, page by page. Each page is one script, so that what it tells belongs together and
 * nobody waits long behind it.
 */
import { LeaseError } from '../../core/errors.ts'
import { hasPassed, type Tick } from '../../core/time.ts'
import { isLive, liveDeadline, type Entry, type EntryState } from '../../core/lease.ts'
import type { LeaseEvent } from '../../core/event.ts'
import type { Reach } from '../../core/resource.ts'
import type { EntryQuery, HistoryQuery, LedgerEntry, Position } from '../../store-port/store.ts'
import type { Attempt, FoundKept } from '../speculation/backend.ts'
import { pushAttempt, recordsOf, viewOf, type ScriptAnswer } from './redis-attempt.ts'
import { parsePosition, positionText, startOf, type Positions } from './redis-position.ts'
import { CLOCK_DOMAIN, eventOf, type KeptRecord } from './redis-rows.ts'
import { ATTEMPT, DUE, LEDGER, LOOK, type RedisScripted } from './redis-scripted.ts'

/** The server's clock for a test that moves it; empty for the real one. */
export type ClockText = () => string

const PAGE = 1_000
const PAGE_MIN = 100
/** More live entries than this are not gathered to be put in order; then all entries are walked in order instead. */
const GATHERED_MAX = 10_000
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

/** How to go through one of the lists of a bucket. */
type Walk = (from: string) => readonly string[]

export class RedisReader {
  readonly #scripted: RedisScripted
  readonly #clock: ClockText

  constructor(scripted: RedisScripted, clock: ClockText) {
    this.#scripted = scripted
    this.#clock = clock
  }

  async find(query: EntryQuery): Promise<FoundKept> {
    const buckets =
      query.overlapping === undefined
        ? this.#bucketsFor(query)
        : [this.#scripted.bucketOf(query.overlapping.resource)]
    const parts = await Promise.all(buckets.map((bucket) => this.#gather(bucket, query)))
    const records = parts.flatMap((part, index) => {
      const bucket = buckets[index] ?? 0
      const isNew = (record: KeptRecord): boolean =>
        query.after === undefined || record.created > floorOf(query, bucket)
      return part.records.filter(isNew).map(({ created, entry }) => ({ created, entry, bucket }))
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

  async #gather(bucket: number, query: EntryQuery): Promise<Gathered> {
    if (query.overlapping !== undefined) return this.#overlapping(bucket, query.overlapping)
    if (query.ids !== undefined) {
      const walk: Walk = () => ['ids', '', ...new Set(query.ids)]
      return this.#walk(bucket, query, walk)
    }
    const named = namedWalk(query)
    if (named !== null) return this.#walk(bucket, query, named)
    if (query.deadline === 'passed') return this.#due(bucket, query)
    if (asksForLive(query)) {
      const most = String(GATHERED_MAX + 1)
      const { next, ...live } = await this.#look(bucket, ['scored', 'd', '+inf', '0', most])
      if (next === '') return { ...live, records: matching(live, query) }
    }
    return this.#walk(bucket, query, (from) => ['created', 'i', from, pageOf(query)])
  }

  /** Goes on until there are more than asked for, which tells that there are. */
  async #walk(bucket: number, query: EntryQuery, walk: Walk): Promise<Gathered> {
    const records: KeptRecord[] = []
    const [how] = walk('0')
    for (let from = how === 'created' ? String(floorOf(query, bucket)) : '0'; ;) {
      const page = await this.#look(bucket, walk(from))
      records.push(...matching(page, query))
      if (page.next === '' || records.length > query.limit) return { nowUs: page.nowUs, records }
      from = page.next
    }
  }

  async #look(bucket: number, args: readonly string[]): Promise<LookedUp> {
    const reply = await this.#scripted.run(LOOK, [this.#clock(), ...args], {
      bucket,
      effect: READS,
    })
    const [nowUs, next = '', ...pairs] = reply as readonly string[]
    return { nowUs: Number(nowUs), next, records: recordsOf(pairs) }
  }

  async #due(bucket: number, query: EntryQuery): Promise<Gathered> {
    const args = [this.#clock(), String(query.limit + 1)]
    const reply = await this.#scripted.run(DUE, args, { bucket, effect: READS })
    const [nowUs, ...pairs] = reply as readonly string[]
    const page = { nowUs: Number(nowUs), records: recordsOf(pairs) }
    return { ...page, records: matching(page, query) }
  }

  /** An attempt that can only miss is answered with what is there. */
  async #overlapping(bucket: number, reach: Reach): Promise<Gathered> {
    const args = [this.#clock(), '-1', '', '1']
    const attempt = lookAt(reach)
    pushAttempt(args, attempt, this.#scripted.channelOf)
    const answer = await this.#scripted.run(ATTEMPT, args, { bucket, effect: READS })
    const [nowUs, , , behindMs, views] = answer as ScriptAnswer
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
    for (let at = start; told.length < limit;) {
      const range = newestFirst
        ? ['XREVRANGE', at === '' ? '+' : `(${at}-0`, first]
        : ['XRANGE', `(${Number(at) < Number(first) ? first : at}-0`, '+']
      const args = [...range, String(PAGE), leaseId ?? '']
      const reply = await this.#scripted.run(LEDGER, args, { bucket, effect: READS })
      const [next = '', ...rows] = reply as readonly string[]
      for (let row = 0; row + 1 < rows.length; row += 2) {
        const event = eventOf(rows[row + 1] ?? '')
        if (tells(event, query)) told.push({ bucket, us: Number(rows[row]), event })
      }
      if (next === '') break
      at = next
    }
    return told.slice(0, limit)
  }

  /** What is known of a lease, or of the first on a resource, tells where its history begins. Null: it has none. */
  async #firstOf(bucket: number, { leaseId, resource }: HistoryQuery): Promise<string | null> {
    if (leaseId !== undefined) {
      const [record] = (await this.#look(bucket, ['ids', '', leaseId])).records
      return record === undefined ? null : String(record.created)
    }
    if (resource === undefined) return '0'
    const [record] = (await this.#look(bucket, ['list', `n:${resource}`, '0', '1'])).records
    return record === undefined ? null : String(record.created)
  }

  async end(): Promise<Position> {
    return positionText(await this.lastPositions())
  }

  async lastPositions(): Promise<Positions> {
    const { buckets, calls } = this.#scripted
    const states = await Promise.all(
      buckets.map((bucket) => calls.send(['GET', this.#scripted.keyOf(bucket, 'b')], READS)),
    )
    return states.map((state) => ((state ?? '0') as string).split(' ', 1)[0] ?? '0')
  }
}

interface Told {
  readonly bucket: number
  readonly us: number
  readonly event: LeaseEvent
}

/** What a bucket has up to here was told before; entries of two buckets may have been created in one moment. */
function floorOf({ after }: EntryQuery, bucket: number): number {
  const [created = 0, told = 0] = (after ?? '0 0').split(' ').map(Number)
  return bucket <= told ? created : created - 1
}

/** Whoever asks for little is seldom told to read much. */
function pageOf({ limit }: EntryQuery): string {
  return String(Math.min(PAGE, Math.max(PAGE_MIN, limit + 1)))
}

function namedWalk(query: EntryQuery): Walk | null {
  const { resource, holder, session, deadline, states } = query
  const page = pageOf(query)
  if (resource !== undefined && asksForLive({ deadline, states })) {
    return () => ['claims', `c:${resource}`]
  }
  if (resource !== undefined) return (from) => ['list', `n:${resource}`, from, page]
  if (session !== undefined) return (from) => ['created', `s:${session}`, from, page]
  if (holder !== undefined) return (from) => ['created', `h:${holder}`, from, page]
  return null
}

const LIVE_STATES: ReadonlySet<EntryState> = new Set<EntryState>(['active', 'pending'])

function asksForLive({
  deadline,
  states,
}: {
  readonly deadline?: EntryQuery['deadline'] | undefined
  readonly states?: EntryQuery['states'] | undefined
}): boolean {
  return deadline !== undefined || states?.every((state) => LIVE_STATES.has(state)) === true
}

function matching({ nowUs, records }: Gathered, query: EntryQuery): readonly KeptRecord[] {
  const now = { domain: CLOCK_DOMAIN, us: nowUs }
  return records.filter(({ entry }) => matches(entry, query, now))
}

function matches(entry: Entry, query: EntryQuery, now: Tick): boolean {
  if (query.resource !== undefined && entry.resource !== query.resource) return false
  if (query.holder !== undefined && entry.holder !== query.holder) return false
  if (query.session !== undefined && entry.session !== query.session) return false
  if (query.states !== undefined && !query.states.includes(entry.state)) return false
  if (query.deadline === undefined) return true
  const deadline = liveDeadline(entry)
  if (deadline === null) return false
  return hasPassed(deadline, now) === (query.deadline === 'passed')
}

function tells(event: LeaseEvent, query: HistoryQuery): boolean {
  if (query.resource !== undefined && event.resource !== query.resource) return false
  if (query.holder !== undefined && event.holder !== query.holder) return false
  if (query.types !== undefined && !query.types.includes(event.type)) return false
  if (query.fromMs !== undefined && event.atMs < query.fromMs) return false
  return query.toMs === undefined || event.atMs <= query.toMs
}

const NOBODY = '00000000-0000-0000-0000-000000000000'

function lookAt(reach: Reach): Attempt {
  const footprint = { ...reach, leaseId: NOBODY, requestId: null, depth: 'claims' } as const
  const place = { footprint, realm: '', own: 0, claims: [], hasPrior: false, epoch: 0 }
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
