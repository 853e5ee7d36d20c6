/**
 * The questions of `LeaseApi` that need nothing but what is kept: no command is made, nothing is decided, nothing
 * changes. Their requests were read by `LeaseService`, or by the options of the command line. They stand apart
 * so that a program that only looks, `tenure ls` above all, need not load what decides.
 */
import { parseLeaseId } from '../core/input.ts'
import { describeEntry, type EntryState, type LeaseInfo } from '../core/lease.ts'
import { LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX } from '../core/limits.ts'
import type { CountedRefusal } from '../core/refusal.ts'
import { resolveSettings, type SettingRow, type Settings } from '../core/settings.ts'
import type { QuestionOf } from '../protocol/questions.ts'
import type {
  EntryQuery,
  Found,
  HistoryQuery,
  LedgerEntry,
  Position,
  StoreQuestions,
} from '../store-port/store.ts'
import type {
  HistoryEntry,
  HistoryFilter,
  LeaseApi,
  LeaseList,
  ListFilter,
  StoreDescription,
} from './lease-api.ts'

type Where = Omit<EntryQuery, 'limit'>

/** What is kept in a state; then what is late, in the order in which entries pass from one to the next and on to what is kept. */
type Asked = readonly [kept: Where, ...late: Where[]]

/** What can be asked of a store without being able to change anything in it. */
export type Questions = Pick<
  LeaseApi,
  'store' | 'get' | 'list' | 'history' | 'settingRows' | 'settings' | 'close'
>

export class LeaseQuestions implements Questions {
  readonly #store: StoreQuestions
  readonly #leave: () => Promise<void>

  /** `leave`: what closing does to a store that others use as well. */
  constructor(store: StoreQuestions, leave: () => Promise<void> = () => store.close()) {
    this.#store = store
    this.#leave = leave
  }

  get store(): StoreDescription {
    return this.#store.description
  }

  async get(asked: QuestionOf<'get'>): Promise<LeaseInfo | null> {
    const found = await this.#store.find({ ids: [parseLeaseId(asked.id)], limit: 1 })
    const entry = found.entries[0]
    return entry === undefined ? null : describeEntry(entry, found.now)
  }

  async list(filter: ListFilter): Promise<LeaseList> {
    const { state, limit = LIST_LIMIT_DEFAULT, after, session, ...others } = filter
    const names = session === undefined ? others : { ...others, session: await digestOf(session) }
    const [kept, ...late] = queriesFor(state)
    const where = { ...names, ...kept }
    let place = placeIn(after)
    let leases: readonly LeaseInfo[] = []
    if (place.lastId === null) {
      const found = await this.#store.find({ ...where, ...behind(place.end), limit })
      const { entries, now, more, next } = found
      leases = entries.map((entry) => describeEntry(entry, now))
      if (late.length === 0 || more) return { leases, more, ...(next === null ? {} : { next }) }
      place = { lastId: '', end: found.lastEnd ?? place.end }
    }
    const { lastId, end } = place
    const queries = [...late.map((one) => ({ ...names, ...one })), { ...where, ...behind(end) }]
    const rest = (await this.#late(queries)).filter(
      (lease) => lease.state === state && lease.id > (lastId ?? ''),
    )
    const told = rest.slice(0, limit - leases.length)
    const next = cursorOf({ lastId: told.at(-1)?.id ?? lastId, end })
    const more = told.length < rest.length
    return { leases: [...leases, ...told], more, ...(more ? { next } : {}) }
  }

  /**
   * All that is found, by id. It is asked for in the order in which entries pass from one query to the next, so that none is
   * missed between two.
   */
  async #late(queries: readonly Where[]): Promise<readonly LeaseInfo[]> {
    const found = new Map<string, LeaseInfo>()
    for (const query of queries) {
      for (let asked: Where | null = query; asked !== null;) {
        const page: Found = await this.#store.find({ ...asked, limit: LIST_LIMIT_MAX })
        for (const entry of page.entries) found.set(entry.id, describeEntry(entry, page.now))
        asked = page.next === null ? null : { ...query, after: page.next }
      }
    }
    return [...found.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1))
  }

  async history(asked: HistoryFilter): Promise<readonly HistoryEntry[]> {
    const { id, limit = LIST_LIMIT_DEFAULT, refusals = true, ...rest } = asked
    const query = { ...rest, ...(id === undefined ? {} : { leaseId: id }), limit }
    const isWanted = refusals && (rest.types?.includes('lease.denied') ?? true)
    if (!isWanted) return this.#store.history(query)
    return historyWithRefusals(this.#store, query)
  }

  async settingRows(): Promise<readonly SettingRow[]> {
    return this.#store.settings()
  }

  async settings(asked: QuestionOf<'settings'>): Promise<Settings> {
    const { resource = null } = asked
    return resolveSettings(await this.#store.settings(), resource)
  }

  async close(): Promise<void> {
    await this.#leave()
  }
}

/** Loaded when it is asked for: most lists name no session. */
async function digestOf(session: string): Promise<string> {
  const { sessionDigest } = await import('./session-digest.ts')
  return sessionDigest(session)
}

/** The queries that together find what is in `state` at this moment, settled or not. */
function queriesFor(state: EntryState | undefined): Asked {
  switch (state) {
    case undefined:
      return [{ states: ['active', 'pending'], deadline: 'running' }]
    case 'active':
    case 'pending':
      return [{ states: [state], deadline: 'running' }]
    case 'expired':
    case 'revoked':
      return [
        { states: [state] },
        { states: ['active'], deadline: 'passed' },
        { states: [state], delayed: true },
      ]
    case 'failed':
      return [{ states: ['failed'] }, { states: ['pending'], deadline: 'passed' }]
    case 'released':
      return [{ states: [state] }]
  }
}

/**
 * Begins the cursor of a list that has come to what is still live: over and not settled yet, or in its lock delay. All of that may
 * end, and so move behind what has ended, before the list goes on. So it is told by id, together with what has ended since:
 * the cursor has the last id that was told, and the place of the last end before.
 */
const LATE = '~'

interface Place {
  /** Empty where nothing that is late was told yet, null where the list has not come to it. */
  readonly lastId: string | null
  readonly end: string | undefined
}

function placeIn(cursor: string | undefined): Place {
  if (cursor?.startsWith(LATE) !== true) return { lastId: null, end: cursor }
  const [, lastId = '', end] = /^~(\S*)(?: (.*))?$/.exec(cursor) ?? []
  return { lastId, end }
}

function cursorOf({ lastId, end }: Place): string {
  return end === undefined ? `${LATE}${lastId}` : `${LATE}${lastId} ${end}`
}

function behind(after: string | undefined): { readonly after?: string } {
  return after === undefined ? {} : { after }
}

/**
 * The ledger and the refusals that are counted beside it, as one history in the order of time.
 *
 * A page has `limit` events and besides the refusals of its own stretch of time, at most as many: from its first event, if it
 * goes on after another page, up to the first event of the next one. So pages follow each other without loss or repeat. A
 * refusal has no place in the ledger; it is given the position of the event before it in the answer (of the first one, if it
 * comes before all), so that a caller that goes on after the last row goes on after the last event.
 */
async function historyWithRefusals(
  store: StoreQuestions,
  query: HistoryQuery,
): Promise<readonly HistoryEntry[]> {
  const { limit, newestFirst = false } = query
  const found = await store.history({ ...query, limit: limit + 1 })
  const events = found.slice(0, limit)
  const [first] = events
  if (first === undefined && query.after !== undefined) return events
  const stretch = stretchOf(query, first, found[limit])
  const { leaseId, resource, holder } = query
  const where = given({ leaseId, resource, holder, ...stretch })
  const refusals = await store.refusals({ ...where, newestFirst, limit })
  if (refusals.length === 0) return events
  // Where there is no event, a caller that goes on from here hears of those that come.
  const start = first?.position ?? (await store.end())
  return merged({ events, refusals, newestFirst, start })
}

/** The times of refusals between two pages, within what was asked for. */
function stretchOf(
  { after, newestFirst = false, ...asked }: HistoryQuery,
  first: LedgerEntry | undefined,
  next: LedgerEntry | undefined,
): Pick<HistoryQuery, 'fromMs' | 'toMs'> {
  const begin = after === undefined ? undefined : first?.event.atMs
  const [earliest, latest] = newestFirst
    ? [next && next.event.atMs + 1, begin]
    : [begin, next && next.event.atMs - 1]
  const fromMs = Math.max(asked.fromMs ?? 0, earliest ?? 0)
  const toMs = Math.min(asked.toMs ?? Infinity, latest ?? Infinity)
  return { fromMs, ...(toMs === Infinity ? {} : { toMs }) }
}

interface Rows {
  readonly events: readonly LedgerEntry[]
  readonly refusals: readonly CountedRefusal[]
  readonly newestFirst: boolean
  /** The position of what comes before all events. */
  readonly start: Position
}

function merged({ events, refusals, newestFirst, start }: Rows): readonly HistoryEntry[] {
  const entries: HistoryEntry[] = []
  let position = start
  let next = 0
  const add = (isDue: (refusal: CountedRefusal) => boolean): void => {
    for (let one = refusals[next]; one !== undefined && isDue(one); one = refusals[next]) {
      entries.push({ position, event: one.event, count: one.count })
      next += 1
    }
  }
  for (const entry of events) {
    const { atMs } = entry.event
    // What was refused in the millisecond of an event was refused after it.
    add(({ event }) => (newestFirst ? event.atMs >= atMs : event.atMs < atMs))
    entries.push(entry)
    position = entry.position
  }
  add(() => true)
  return entries
}

function given<Fields extends object>(fields: Fields): Partial<Fields> {
  const there = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(there) as Partial<Fields>
}
