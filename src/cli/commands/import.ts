/**
 * `tenure import seed-c`: takes over a database of the file-leasing design. The source is copied before anything reads it,
 * and what is made gets its name when it is whole, so that neither is ever seen half done.
 */
import path from 'node:path'
import { NOTHING } from '../../core/commit.ts'
import { invalid, isLeaseError, LeaseError, show } from '../../core/errors.ts'
import { MAX_RENEWALS_MAX } from '../../core/limits.ts'
import {
  parseSettingKey,
  parseSettingValue,
  SETTING_TABLE,
  type SettingKey,
} from '../../core/settings.ts'
import { US_PER_MS, type Now, type Tick } from '../../core/time.ts'
import { fs, ifThere } from '../../runtime/file-system.ts'
import { restoreLedger } from '../../service/restore-ledger.ts'
import { escapedPath, readAddress } from '../../store-address.ts'
import type { Store } from '../../store-port/store.ts'
import {
  loadSqlite,
  sqliteError,
  type SqliteDatabase,
  withAccess,
} from '../../drivers/sqlite-driver.ts'
import { SEED_LEASE_COLUMNS, isTenureStore } from '../../store/sqlite/file-origin.ts'
import type { EventCommon, LeaseEvent } from '../../core/event.ts'
import {
  parseHolder,
  parseLeaseId,
  parseMaxRenewals,
  parseNote,
  parseTtlMs,
} from '../../core/input.ts'
import type { EntryState, Lease } from '../../core/lease.ts'
import { nameOf, parseResource } from '../../core/resource.ts'
import { sessionDigest } from '../../service/session-digest.ts'
import { readWord, type OptionTable } from '../arguments.ts'
import { defineCommand, type CliCall, type CliCommand } from '../command.ts'
import type { Identity } from '../identity.ts'
import { plural, visible } from '../output.ts'
import { endedBySignals } from '../signals.ts'
import { missingFileOf, storeOptionsOf, useAndClose } from '../store-access.ts'
import { withTemporaryDirectory } from '../temporary-directory.ts'

export const importCommand: CliCommand = defineCommand({
  positionals: [
    { name: 'FORMAT', help: 'seed-c: a database of the file-leasing design' },
    { name: 'FILE', help: 'the database, which stays as it is' },
  ],
  options: {},
  notes: [
    'Makes the store that --store names, a sqlite: file that does not exist yet or is empty, with the live leases, the ended ones with their history, and the configuration of FILE. Stop the programs that use FILE first: what they write afterwards is not taken over. A line is said for each thing that cannot be: requests that waited or failed, leases that overlapped another one, rows of the history that tell of no lease or of nothing that changed, settings that Tenure does not have. The last line says how many live leases were left out: nobody has their files in the new store.',
  ],
  examples: ['tenure import seed-c old/leases.db --store sqlite:leases.db'],
  run: (call) => endedBySignals(() => run(call)),
})

interface Imported {
  readonly leases: number
  readonly live: number
  readonly events: number
  readonly settings: number
  /** What was not taken over, and why. */
  readonly left: readonly string[]
  /** How many of those are leases that were live: their files are free in the new store. */
  readonly liveLeft: number
}

async function run({ positionals, identity, printer, cwd }: CliCall<OptionTable>): Promise<number> {
  const [format, named = ''] = positionals
  readWord('FORMAT', ['seed-c'], format)
  const source = path.resolve(cwd, named)
  if (ifThere(() => fs.statSync(source))?.isFile() !== true) {
    throw invalid('FILE', 'must be a file that exists', source)
  }
  const target = targetOf(identity)
  const imported = await takeOver(source, target, identity)
  printer.effect(`${target} was made`, { store: identity.url, ...imported }, () => {
    const { leases, live, events, settings, left, liveLeft } = imported
    const what = `${plural(leases, 'lease')} (${live} live), ${plural(events, 'event')}`
    const made = `took over ${what} and ${plural(settings, 'setting')} into ${target}`
    const missing = `${plural(liveLeft, 'live lease was', 'live leases were')} left out`
    const warning = `${missing}: nobody has what they were about in the new store`
    const lines = [made, ...left.map((line) => `left out: ${line}`)]
    return [...lines, ...(liveLeft === 0 ? [] : [warning])].map(visible).join('\n')
  })
  return 0
}

function targetOf(identity: Identity): string {
  const { url } = identity
  if (!url.startsWith('sqlite:')) throw invalid('store', 'must be sqlite:PATH', url)
  const file = missingFileOf(identity)
  if (file === null) throw existing(url)
  return file
}

function existing(url: string): LeaseError {
  return new LeaseError('LEASE_EXISTS', `store must not exist yet, or be an empty file, got ${url}`)
}

function takeOver(source: string, target: string, identity: Identity): Promise<Imported> {
  return withTemporaryDirectory(
    () => makeWorkshop(target),
    async (workshop) => {
      const copy = path.join(workshop, 'source.db')
      copyDatabase(source, copy)
      const made = path.join(workshop, 'made.db')
      const imported = await fill(made, identity, await readSource(copy, source))
      if (missingFileOf(identity) === null) throw existing(identity.url)
      // What a database of that name has left beside it when it was removed would be taken for this one's.
      for (const suffix of ['-wal', '-shm', '-journal'])
        fs.rmSync(`${target}${suffix}`, { force: true })
      fs.renameSync(made, target)
      return imported
    },
  )
}

/** Beside the target: a file cannot be renamed into another file system. */
function makeWorkshop(target: string): string {
  return withAccess(target, () => {
    fs.mkdirSync(path.dirname(target), { recursive: true })
    return fs.mkdtempSync(path.join(path.dirname(target), '.tenure-import-'))
  })
}

/** What the names of a database's files end with: the file, what was not yet moved into it, and what must still be rolled back. */
const PARTS = ['', '-wal', '-journal']

/** Parts that were copied before and after a change of the database are no database. */
function copyDatabase(source: string, copy: string): void {
  withAccess(source, () => {
    const before = stateOf(source)
    for (const part of PARTS) ifThere(() => fs.copyFileSync(`${source}${part}`, `${copy}${part}`))
    if (stateOf(source) === before) return
    const message = `${source} was written to while it was copied: stop the programs that use it first`
    throw new LeaseError('STORE_UNAVAILABLE', message)
  })
}

function stateOf(database: string): string {
  const states = PARTS.map((part) => {
    const found = ifThere(() => fs.statSync(`${database}${part}`, { bigint: true }))
    return found === null ? null : `${found.ino} ${found.size} ${found.mtimeNs}`
  })
  return states.join()
}

interface Source {
  readonly leases: readonly SeedLease[]
  readonly history: readonly SeedEvent[]
  readonly configs: readonly SeedConfig[]
  /** Tables that cannot be read. */
  readonly left: readonly string[]
}

interface SeedConfig {
  readonly config_key: string
  readonly config_value: string
  readonly scope: string
}

async function readSource(copy: string, source: string): Promise<Source> {
  const Driver = await loadSqlite()
  const database = new Driver(copy)
  try {
    return rowsOf(database, source)
  } catch (error) {
    throw sqliteError(error, source)
  } finally {
    database.close()
  }
}

type SeedTable = 'leases' | 'lease_history' | 'lease_configs'

const COLUMNS: Readonly<Record<SeedTable, readonly string[]>> = {
  leases: SEED_LEASE_COLUMNS,
  lease_history: ['lease_id', 'event_type', 'event_at', 'reason'],
  lease_configs: ['config_key', 'config_value', 'scope'],
}

function rowsOf(database: SqliteDatabase, source: string): Source {
  if (isTenureStore(database)) {
    const message = `${source} is a Tenure store already: use it with --store sqlite:${source}`
    throw new LeaseError('STORE_SCHEMA', message)
  }
  const problem = faultOf(database, 'leases')
  if (problem !== null) {
    const message = `${source} is not a database of the file-leasing design: ${problem}`
    throw new LeaseError('STORE_SCHEMA', message)
  }
  const left: string[] = []
  const all = (table: SeedTable): unknown[] => {
    const fault = faultOf(database, table)
    if (fault === null) {
      return database
        .prepare(`SELECT ${COLUMNS[table].join(', ')} FROM ${table} ORDER BY rowid`)
        .all()
    }
    // A table that is not there at all has nothing that could be left out.
    if (columnsOf(database, table).length > 0) left.push(`table ${table}: ${fault}`)
    return []
  }
  return {
    leases: all('leases') as SeedLease[],
    history: all('lease_history') as SeedEvent[],
    configs: all('lease_configs') as SeedConfig[],
    left,
  }
}

/** Why a table cannot be read; null if it can. */
function faultOf(database: SqliteDatabase, table: SeedTable): string | null {
  const names = columnsOf(database, table)
  if (names.length === 0) return `it has no such table ${table}`
  const missing = COLUMNS[table].filter((column) => !names.includes(column))
  return missing.length === 0 ? null : `its table ${table} has no ${missing.join(', ')}`
}

function columnsOf(database: SqliteDatabase, table: string): readonly string[] {
  const columns = database.prepare('SELECT name FROM pragma_table_info(?)').raw()
  return (columns.all(table) as (readonly [string])[]).map(([name]) => name)
}

async function fill(file: string, identity: Identity, source: Source): Promise<Imported> {
  // All but the file is as the URL says, which may name the namespace.
  const url = identity.url.replace(/^sqlite:[^?]*/, () => `sqlite:${escapedPath(file)}`)
  const address = readAddress(url, storeOptionsOf(identity))
  return useAndClose(await address.open(), async (store) => {
    const taken = takeOverLeases(source, await nowOf(store))
    await restoreLedger(store, taken.events, { resume: false })
    const left = [...source.left, ...taken.left]
    const settings = await configure(store, source.configs, left)
    const { leases, live, events, liveLeft } = taken
    return { leases, live, events: events.length, settings, left, liveLeft }
  })
}

/** The store's own clock, on which what is live will be judged. */
function nowOf(store: Store): Promise<Now> {
  return store.transact<Now>([], (_views, now) => ({
    outcome: now,
    commit: NOTHING,
    validUntilUs: null,
  }))
}

async function configure(
  store: Store,
  configs: readonly SeedConfig[],
  left: string[],
): Promise<number> {
  let count = 0
  for (const { config_key, config_value, scope } of configs) {
    const key = settingOf(config_key, config_value)
    const problem = scope === 'global' ? key : 'only global settings can be taken over'
    if (typeof problem === 'string') left.push(`setting ${config_key}: ${problem}`)
    else {
      const value = String(config_value)
      // The design writes a row for each default; that is no user's choice.
      const isDefault = value === String(SETTING_TABLE[problem.key].initial)
      if (!isDefault) {
        await store.configure({ key: problem.key, value, scope: 'global', resourceId: null })
      }
      count += 1
    }
  }
  return count
}

/** A text says why not. */
function settingOf(key: string, value: unknown): { readonly key: SettingKey } | string {
  try {
    const known = parseSettingKey(key)
    parseSettingValue(known, value)
    return { key: known }
  } catch (error) {
    if (isLeaseError(error)) return error.message
    throw error
  }
}

/** A row of `leases`. */
interface SeedLease {
  readonly id: unknown
  readonly file_path: unknown
  readonly agent_id: unknown
  readonly created_at: number
  readonly expires_at: number
  readonly ttl_seconds: number
  readonly status: unknown
  readonly renewal_count: number | null
  readonly max_renewals: number
  readonly updated_at: number
}

/** A row of `lease_history`. */
interface SeedEvent {
  readonly lease_id: unknown
  readonly event_type: unknown
  readonly event_at: number
  readonly reason: unknown
}

interface TakenOver extends Omit<Imported, 'events' | 'settings'> {
  readonly events: readonly LeaseEvent[]
}

interface Renewal {
  readonly atMs: number
  readonly reason: string | null
}

/** How a lease went, in milliseconds. */
interface Course {
  readonly lease: Lease
  readonly renewed: readonly Renewal[]
  readonly renewals: number
  /** What ended it; null while it is live. */
  readonly ended: { readonly as: 'released' | 'expired'; readonly atMs: number } | null
  readonly untilMs: number
  /** Of its end. */
  readonly reason: string | null
  /** How many rows of the history are about it. */
  readonly rows: number
  /** A line for each thing about it that has no place in a ledger. */
  readonly left: readonly string[]
}

const MS = 1000
const STATUSES: readonly string[] = ['active', 'expired', 'released', 'pending', 'failed']
const EVENT_TYPES: readonly string[] = ['acquired', 'renewed', 'released', 'expired', 'failed']

/**
 * The rows of a database of the file-leasing design, as the events of Tenure's ledger. That design counts in seconds, and
 * its check and its grant are two steps, so two of its leases may overlap. Of those the live one counts, or else the
 * earlier one: a ledger tells of no two holders at once. What is left out is told, a line for each.
 */
function takeOverLeases({ leases, history }: Source, now: Now): TakenOver {
  const left = new LeftOut()
  const courses: Course[] = []
  const rows = new Map<unknown, SeedEvent[]>()
  for (const row of history) {
    const own = rows.get(row.lease_id)
    if (own === undefined) rows.set(row.lease_id, [row])
    else own.push(row)
  }
  for (const row of leases) {
    const own = rows.get(row.id) ?? []
    rows.delete(row.id)
    const course = readCourse(row, own, now)
    if (typeof course !== 'string') courses.push(course)
    else left.lease({ id: row.id, isLive: isLiveRow(row, now), rows: own.length }, course)
  }
  const kept = withoutOverlaps(courses, left)
  for (const course of kept) left.lines.push(...course.left)
  for (const row of [...rows.values()].flat()) {
    left.lines.push(`${nameOfEvent(row)}: leases has no such lease`)
  }
  return {
    events: eventsOf(kept, now),
    leases: kept.length,
    live: kept.filter(({ ended }) => ended === null).length,
    left: left.lines,
    liveLeft: left.live,
  }
}

interface LeftLease {
  readonly id: unknown
  readonly isLive: boolean
  /** Of its history, which is left out with it. */
  readonly rows: number
}

class LeftOut {
  readonly lines: string[] = []
  live = 0

  lease({ id, isLive, rows }: LeftLease, why: string): void {
    if (isLive) this.live += 1
    const history = rows === 0 ? '' : ` (and ${plural(rows, 'event')} of it)`
    this.lines.push(`${isLive ? 'live ' : ''}lease ${String(id)}${history}: ${why}`)
  }
}

function nameOfEvent({ lease_id, event_type, event_at, reason }: SeedEvent): string {
  const why = reason === null || reason === '' ? '' : `, reason ${show(reason)}`
  return `event ${String(event_type)} of lease ${String(lease_id)} at ${event_at}${why}`
}

/** The enum of the design is spelt with a capital in its program, and without in its tables. */
function wordOf(value: unknown): string {
  return String(value).toLowerCase()
}

function isLiveRow({ status, expires_at }: SeedLease, now: Now): boolean {
  return wordOf(status) === 'active' && expires_at * MS > now.wallMs
}

/** A text says why the row cannot be taken over. */
function readCourse(row: SeedLease, own: readonly SeedEvent[], now: Now): Course | string {
  const status = wordOf(row.status)
  if (status === 'pending') return 'pending, which ends with the process that waited'
  if (status === 'failed') return 'failed, so that it never held its file'
  if (!STATUSES.includes(status)) {
    return `status must be one of ${STATUSES.join(', ')}, got ${String(row.status)}`
  }
  try {
    return courseOf(row, own, now)
  } catch (error) {
    if (isLeaseError(error)) return error.message
    throw error
  }
}

function courseOf(row: SeedLease, own: readonly SeedEvent[], now: Now): Course {
  const plain = leaseOf(row, now)
  const { expiresAtMs, createdAtMs } = plain
  const isReleased = wordOf(row.status) === 'released'
  const isLive = isLiveRow(row, now)
  const as = isReleased ? 'released' : 'expired'
  const { acquired, renewed, end, left } = sortRows(own, isLive ? null : as)
  const updatedMs = (): number => secondsIn('updated_at', row.updated_at) * MS
  const endMs = isReleased ? (end === undefined ? updatedMs() : end.event_at * MS) : expiresAtMs
  const atMs = Math.min(Math.max(endMs, createdAtMs), now.wallMs)
  const reasonOf = (event: SeedEvent | undefined): string | null => readReason(event, left)
  // What follows another is no earlier, although the clock was set back meanwhile.
  let lastMs = createdAtMs
  const next = (ms: number): number => (lastMs = Math.max(lastMs, Math.min(ms, atMs)))
  const count = renewalsOf(row)
  const renewals: Renewal[] = renewed.map((event) => {
    return { atMs: next(event.event_at * MS), reason: reasonOf(event) }
  })
  if (renewals.length === 0 && count > 0) renewals.push({ atMs: next(updatedMs()), reason: null })
  // A renewal may have given more than the TTL in the row.
  const spanMs = expiresAtMs - (renewals.at(-1)?.atMs ?? createdAtMs)
  const ttlMs = spanMs > plain.ttlMs ? parseTtlMs(spanMs) : plain.ttlMs
  return {
    lease: { ...plain, ttlMs, reason: reasonOf(acquired) },
    renewed: renewals,
    renewals: count,
    ended: isLive ? null : { as, atMs },
    untilMs: isLive ? Infinity : atMs,
    reason: reasonOf(end),
    rows: own.length,
    left,
  }
}

function renewalsOf({ renewal_count: count }: SeedLease): number {
  if (count === null) return 0
  if (Number.isSafeInteger(count) && count >= 0 && count <= MAX_RENEWALS_MAX) return count
  throw invalid('renewal_count', `must be an integer 0..${MAX_RENEWALS_MAX}`, count)
}

function secondsIn(field: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 0) return value
  throw invalid(field, 'must be seconds since 1970', value)
}

interface SortedRows {
  readonly acquired: SeedEvent | undefined
  readonly renewed: readonly SeedEvent[]
  readonly end: SeedEvent | undefined
  readonly left: string[]
}

/** The rows of one lease by what they tell: it is acquired once, and ends once, as its own row says. */
function sortRows(own: readonly SeedEvent[], end: 'released' | 'expired' | null): SortedRows {
  const isTimed = ({ event_at }: SeedEvent): boolean => {
    return Number.isSafeInteger(event_at) && event_at >= 0
  }
  const of = (type: string | null): SeedEvent[] => {
    return own.filter((row) => isTimed(row) && wordOf(row.event_type) === type)
  }
  const sorted = { acquired: of('acquired')[0], renewed: of('renewed'), end: of(end).at(-1) }
  const used = new Set([sorted.acquired, ...sorted.renewed, sorted.end])
  const whyNot = (row: SeedEvent): string => {
    const type = wordOf(row.event_type)
    if (!EVENT_TYPES.includes(type)) return `event_type must be one of ${EVENT_TYPES.join(', ')}`
    if (!isTimed(row)) return 'event_at must be seconds since 1970'
    if (type === 'failed') return 'failed, so that it changed nothing'
    return `does not fit its lease, which began once and ${end === null ? 'is live' : `ended as ${end}`}`
  }
  const unused = own.filter((row) => !used.has(row))
  return { ...sorted, left: unused.map((row) => `${nameOfEvent(row)}: ${whyNot(row)}`) }
}

/** The event is taken over without a reason that Tenure cannot keep. */
function readReason(event: SeedEvent | undefined, left: string[]): string | null {
  if (event === undefined || event.reason === '') return null
  try {
    return parseNote(event.reason, null).reason
  } catch (error) {
    if (!isLeaseError(error)) throw error
    left.push(`the reason of ${nameOfEvent(event)}: ${error.message}`)
    return null
  }
}

/** As it stands at last; its fence follows when it is known which leases come before it. */
function leaseOf(row: SeedLease, now: Now): Lease {
  const holder = parseHolder(row.agent_id, 'agent_id')
  const resource = parseResource(`file:${String(row.file_path)}`)
  const createdAtMs = Math.min(secondsIn('created_at', row.created_at) * MS, now.wallMs)
  const ttlMs = parseTtlMs(row.ttl_seconds * MS)
  // A deadline further away than its TTL is of a clock that was set back since.
  const endMs = secondsIn('expires_at', row.expires_at) * MS
  const expiresAtMs = Math.min(endMs, now.wallMs + ttlMs)
  const us = now.tick.us + (expiresAtMs - now.wallMs) * US_PER_MS
  return {
    ...{ id: parseLeaseId(row.id, 'id'), resource, holder, session: sessionDigest(holder), ttlMs },
    ...{ mode: 'exclusive', extent: 'exact', slots: null, lockDelayMs: 0, breakable: false },
    ...{ maxRenewals: parseMaxRenewals(row.max_renewals), maxHoldMs: null, reason: null },
    ...{ metadata: null, createdAtMs, recorded: true, kind: 'lease', state: 'active', fence: 0 },
    ...{ grantedAtMs: createdAtMs, renewedAtMs: null, expiresAtMs, terminatedAtMs: null },
    ...{ deadline: { domain: now.tick.domain, us: Math.max(1, Math.round(us)) } },
    ...{ holdUntilUs: null, renewals: 0, releaseReason: null, lockedUntil: null, revoking: null },
    ...{ upgrading: false, adopted: true, epoch: 0 },
  }
}

/** Live ones first, then the earlier: what overlaps one that was kept is left out. */
function withoutOverlaps(courses: readonly Course[], left: LeftOut): readonly Course[] {
  const order = courses.toSorted((a, b) => {
    if (a.untilMs !== b.untilMs && Math.max(a.untilMs, b.untilMs) === Infinity) {
      return b.untilMs - a.untilMs
    }
    return a.lease.createdAtMs - b.lease.createdAtMs
  })
  const kept = new Map<string, Course[]>()
  const ids = new Set<string>()
  for (const course of order) {
    const { lease, untilMs } = course
    const facts = { id: lease.id, isLive: course.ended === null, rows: course.rows }
    if (ids.has(lease.id)) {
      left.lease(facts, 'another lease has the same id, in letters of another case')
      continue
    }
    const others = kept.get(lease.resource) ?? []
    const other = others.find((one) => {
      return lease.createdAtMs < one.untilMs && one.lease.createdAtMs < untilMs
    })
    if (other === undefined) {
      ids.add(lease.id)
      kept.set(lease.resource, [...others, course])
    } else {
      const whose = `${other.lease.id} of ${other.lease.holder}`
      const when = `at the same time as ${whose}`
      left.lease(facts, `${lease.holder} had ${nameOf(lease.resource)} ${when}`)
    }
  }
  return [...kept.values()].flat()
}

interface Placed {
  readonly atMs: number
  /** Of the lease among all, by its beginning and end. */
  readonly place: number
  readonly make: (fence: number) => LeaseEvent
}

/** In order of time; of what happened in one second, the lease that began first comes first. */
function eventsOf(courses: readonly Course[], now: Now): readonly LeaseEvent[] {
  const ordered = courses.toSorted((a, b) => {
    return a.lease.createdAtMs - b.lease.createdAtMs || a.untilMs - b.untilMs
  })
  const placed = ordered.flatMap((course, place) => placedEvents(course, place, now))
  const sorted = placed.toSorted((a, b) => a.atMs - b.atMs || a.place - b.place)
  const fences = new Map<number, number>()
  let last = 0
  return sorted.map(({ atMs, place, make }) => {
    const known = fences.get(place)
    if (known === undefined) last = Math.max(last + 1, atMs * US_PER_MS)
    fences.set(place, known ?? last)
    return make(known ?? last)
  })
}

interface End {
  readonly expiresAtMs: number
  readonly deadline: Tick
}

/**
 * Of the grant and of each renewal: a TTL after it, the last as the row says, and each before the next, since every renewal
 * moves the end. What ended before this boot is before every tick of it, in the same order.
 */
function endsOf({ lease, renewed }: Course, now: Now): readonly End[] {
  const starts = [lease.createdAtMs, ...renewed.map(({ atMs }) => atMs)]
  const ends: End[] = []
  let nextMs = lease.expiresAtMs + 1
  let nextUs = Math.max(starts.length, lease.deadline.us) + 1
  for (const [index, startMs] of [...starts.entries()].toReversed()) {
    const isLast = index === starts.length - 1
    const expiresAtMs = isLast ? lease.expiresAtMs : Math.min(startMs + lease.ttlMs, nextMs - 1)
    const us = Math.round(now.tick.us + (expiresAtMs - now.wallMs) * US_PER_MS)
    nextMs = expiresAtMs
    nextUs = Math.max(index + 1, Math.min(us, nextUs - 1))
    ends.unshift({ expiresAtMs, deadline: { domain: now.tick.domain, us: nextUs } })
  }
  return ends
}

function placedEvents(course: Course, place: number, now: Now): readonly Placed[] {
  const { lease, renewals, ended, reason } = course
  const { ttlMs, createdAtMs } = lease
  const [first, ...further] = endsOf(course, now)
  const granted = { atMs: createdAtMs, before: null, after: 'active', renewals: 0 } as const
  const issued: Placed = {
    ...{ atMs: createdAtMs, place },
    make: (fence) => ({
      type: 'lease.issued',
      ...commonOf(lease, { ...granted, reason: lease.reason }),
      lease: { ...lease, fence, ...first },
    }),
  }
  const renewed = course.renewed.map((renewal, index): Placed => {
    const { atMs } = renewal
    const isLast = index === course.renewed.length - 1
    const count = isLast ? renewals : Math.min(index + 1, renewals)
    const facts = { ...renewal, before: 'active', after: 'active', renewals: count } as const
    const event = { type: 'lease.renewed', ...commonOf(lease, facts), ttlMs, ...further[index] }
    return { atMs, place, make: () => event as LeaseEvent }
  })
  if (ended === null) return [issued, ...renewed]
  const { as, atMs } = ended
  const facts = { atMs, before: 'active', after: as, renewals, reason } as const
  const rest =
    as === 'released'
      ? { releaseReason: 'voluntary' }
      : { terminatedAtMs: Math.min(lease.expiresAtMs, now.wallMs), lockedUntil: null }
  const event = { type: `lease.${as}`, ...commonOf(lease, facts), ...rest } as LeaseEvent
  return [issued, ...renewed, { atMs, place, make: () => event }]
}

interface Facts {
  readonly atMs: number
  readonly before: EntryState | null
  readonly after: EntryState
  readonly renewals: number
  readonly reason: string | null
}

function commonOf(lease: Lease, facts: Facts): EventCommon {
  const { id: leaseId, resource, holder, session } = lease
  return { leaseId, resource, holder, session, requestId: null, ...facts }
}
