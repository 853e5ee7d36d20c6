/**
 * Keeps realms in PostgreSQL, for any number of processes on any number of machines; opened from a URL, with a pool of its own,
 * or on a pool that the program already has. What a process has in flight is one call of one function, one round trip, committed
 * by itself; see postgres-functions.ts for what it does.
 *
 * The clock is the server's `clock_timestamp()`, read after everything is locked. At the end is what `tenure doctor` looks at.
 */
import { closedError } from '../../core/errors.ts'
import { STORE_CLOCK_BEHIND_US_MAX } from '../../core/limits.ts'
import { parseNamespace } from '../../core/resource.ts'
import { boundedCut, nextPruneClock } from '../../core/retention.ts'
import type { SettingRow } from '../../core/settings.ts'
import {
  connectPostgres,
  type LoneClient,
  type PostgresCaller,
  type PostgresConnectOptions,
  type PostgresPool,
  type PostgresRow,
  type PostgresValue,
  type Statement,
} from '../../drivers/postgres-driver.ts'
import { isTransient, stateOf } from '../../drivers/postgres-errors.ts'
import { RepeatedFault, reportTo } from '../../runtime/diagnostics.ts'
import type { Timer } from '../../runtime/runtime.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import { parsePosition, parseReached, prunedError } from '../position.ts'
import type {
  Checkup,
  LedgerEntry,
  Position,
  Store,
  StoreDescription,
} from '../../store-port/store.ts'
import type { Attempt, Backend, Group, GroupReply, Reply } from '../optimistic/backend.ts'
import {
  ChannelListener,
  type ChannelEvents,
  type ListeningConnection,
} from '../optimistic/channel-listener.ts'
import { OptimisticStore } from '../optimistic/optimistic-store.ts'
import { listeningTo, tryWake } from '../wake-trial.ts'
import { attemptStatement, channelOf, independentGroups, repliesOf } from './postgres-attempt.ts'
import { CLOCK_DOMAIN, NOW_US, recordedOf, type EventRow } from './postgres-columns.ts'
import {
  CALL_PRUNE,
  NAMESPACE_GONE,
  READ_PRUNE_CLOCK,
  READ_PRUNED_UP_TO,
  WRITE_PRUNE_CLOCK,
} from './postgres-functions.ts'
import { isCurrent, migrate } from './postgres-migrations.ts'
import {
  countedIn,
  countStatement,
  findStatement,
  foundIn,
  historyStatement,
  isByName,
  LEDGER_END,
  LEDGER_LAST,
  MAKE_ROOM,
  refusalsStatement,
  REMOVE_OLD,
  stretchesOf,
} from './postgres-reader.ts'
import { numberOf } from './postgres-schema.ts'

export interface PostgresStoreOptions extends PostgresConnectOptions {
  readonly namespace?: string
  /** `force`: a store of an older layout is converted although processes may still hold leases in it. */
  readonly convert?: 'force'
  /** A clock that stands in for the server's, in microseconds, for tests. */
  readonly nowUs?: () => number
}

/** For one statement of a migration: as long as a very large table takes. */
const MIGRATION_STEP_MS_MAX = 3_600_000

export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const backend = await openPostgresBackend(options)
  return OptimisticStore.open(backend, options.runtime ?? systemRuntime)
}

export async function openPostgresBackend(options: PostgresStoreOptions): Promise<PostgresBackend> {
  const namespace = parseNamespace(options.namespace ?? 'default')
  const caller = await connectPostgres(options)
  try {
    const migration = { url: caller.options.url, isForced: options.convert === 'force' }
    if (!(await caller.during(isCurrent))) {
      await caller.during((connection) => migrate(connection, migration), MIGRATION_STEP_MS_MAX)
    }
    const number = await caller.during((connection) => numberOf(connection, namespace))
    return new PostgresBackend({ caller, namespace, number, nowUs: options.nowUs })
  } catch (error) {
    await caller.end()
    throw error
  }
}

interface PostgresBackendOptions {
  readonly caller: PostgresCaller
  readonly namespace: string
  readonly number: number
  readonly nowUs: PostgresStoreOptions['nowUs'] | undefined
}

const SETTINGS = `SELECT json_build_object('key', key, 'value', value, 'scope', scope,
    'resourceId', nullif(resource_id, ''))
  FROM tenure.config WHERE namespace = $1::integer ORDER BY number`

/**
 * Left to itself the planner starts workers, which takes longer than to read all that is needed, or reads the whole table
 * because it takes the summaries of its pages for useless.
 */
const FEW_AMONG_MANY =
  'SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL enable_seqscan = off'

const SERIALIZATION_FAILURE = '40001'

/** A transient error means that two calls met; met so often, something else is the matter. */
const TRIES_MAX = 10

/** While a process follows the ledger, appenders notify it; the mark that says so is renewed in time. */
const WATCH_MARK_MS = 30_000
/** Followers look by themselves, in case a notification was lost or came before what it told of could be read. */
const FOLLOW_POLL_MS = 250
const FOLLOW_POLL_ALONE_MS = 50
const FOLLOW_RETRY_MS_MAX = 5_000

export class PostgresBackend implements Backend {
  readonly description: StoreDescription
  readonly clockDomain: string = CLOCK_DOMAIN
  readonly isQuick = false
  readonly #options: PostgresBackendOptions
  readonly #listener: ChannelListener
  /** Of the namespace; another one after a restore of the database. */
  #number: number
  /** The last realm that a prune has looked at; empty: it begins with the first. */
  #walkedTo = ''
  /** The highest position up to which the ledger was ever found complete. */
  #complete = 0
  #closed = false

  constructor(options: PostgresBackendOptions) {
    this.#options = options
    this.#listener = listenerOn(options.caller)
    this.#number = options.number
    this.description = {
      url: options.caller.options.url,
      clock: `clock_timestamp() of the PostgreSQL server`,
      durability: 'what the server promises (synchronous_commit, replication)',
    }
  }

  async attempt(group: Group): Promise<GroupReply> {
    const reply = await this.#attemptBy((make) => this.#sent(make), group, true)
    if (reply.settingsRevision === group.settingsRevision) return reply
    return { ...reply, settings: await this.settings() }
  }

  /**
   * The function locks the rows of the realms that it looks at, whether or not it finds what was expected there. Of a realm that
   * is not there yet nothing can be locked: if another call makes it meanwhile, all of this is done again.
   */
  async holding<Result>(work: (attempt: Backend['attempt']) => Promise<Result>): Promise<Result> {
    return this.#retrying(() => {
      return this.#options.caller.transaction((send) => {
        return work((group) => this.#attemptBy((make) => send(make()), group))
      })
    })
  }

  async #attemptBy(
    call: (make: () => Statement) => Promise<readonly PostgresRow[]>,
    { attempts, settingsRevision: revision }: Group,
    commitsEach = false,
  ): Promise<GroupReply> {
    const { namespace } = this.#options
    const replies: Reply[] = []
    let [nowUs, settingsRevision]: readonly (string | null | undefined)[] = []
    const send = async (group: readonly Attempt[]): Promise<void> => {
      const [row = []] = await call(() => {
        const context = { number: this.#number, namespace, revision, nowUs: this.#nowUs() }
        return attemptStatement(group, context)
      })
      ;[nowUs, settingsRevision] = row
      replies.push(...repliesOf(group, { answers: row[2] ?? null, told: row[3] ?? null }))
    }
    for (const group of independentGroups(attempts)) {
      try {
        await send(group)
      } catch (error) {
        if (!commitsEach || replies.length === 0) throw error
        // Those before were committed, each call by itself. What comes after is not sent.
        const others = attempts.slice(replies.length)
        replies.push(...others.map((): Reply => ({ kind: 'failed', error })))
        break
      }
    }
    return {
      nowUs: Number(nowUs),
      settingsRevision: Number(settingsRevision),
      settings: null,
      replies,
    }
  }

  readonly find: Backend['find'] = async (query) => {
    const context = { namespace: this.#number, nowUs: this.#nowUs() }
    return foundIn(await this.#call(findStatement(query, context)), query)
  }

  readonly history: Backend['history'] = async (query) => {
    const end = Number(await this.end())
    const { after } = query
    if (after !== undefined && parsePosition(after) > end) {
      const [row] = await this.#call(LEDGER_LAST)
      parseReached(after, Number(row?.[0]))
    }
    const found: LedgerEntry[] = []
    for (const stretch of stretchesOf(query, end)) {
      const limit = query.limit - found.length
      if (limit === 0) break
      const context = { namespace: this.#number, stretch }
      const statement = historyStatement({ ...query, limit }, context)
      const rows = await (isByName(query) ? this.#seek(statement) : this.#call(statement))
      for (const [position, json] of rows) {
        const { event } = recordedOf(JSON.parse(json ?? '') as EventRow)
        found.push({ position: position ?? '', event })
      }
    }
    if (query.unbroken === true && after !== undefined) await this.#requireUnpruned(after)
    return found
  }

  /** Asked after the page was read: what was pruned before is known by then. */
  async #requireUnpruned(after: Position): Promise<void> {
    const [row] = await this.#read(READ_PRUNED_UP_TO)
    const prunedUpTo = row?.[0] ?? '0'
    if (parsePosition(after) < Number(prunedUpTo)) throw prunedError(after, prunedUpTo)
  }

  /**
   * A transaction may have taken its number before the ledger was found complete up to a higher one, and announce it only now. It
   * appends above that end all the same, and a follower that was sent back would read twice. Only a restored ledger goes back.
   */
  readonly end: Backend['end'] = async () => {
    const known = this.#complete
    const [row] = await this.#call(LEDGER_END)
    const [end, last] = [Number(row?.[0] ?? 0), Number(row?.[1])]
    this.#complete = last < known ? end : Math.max(this.#complete, end)
    return String(this.#complete)
  }

  readonly countRefusals: Backend['countRefusals'] = async (refusals) => {
    await this.#call(countStatement(refusals, this.#number))
    await this.#write(MAKE_ROOM)
  }

  readonly refusals: Backend['refusals'] = async (query) => {
    return (await this.#call(refusalsStatement(query, this.#number))).map(countedIn)
  }

  readonly settings: Backend['settings'] = async () => {
    const statement = { text: SETTINGS, name: 'tenure_settings_v9', writes: false }
    const rows = await this.#call({ ...statement, values: [this.#number] })
    return rows.map(([json]) => JSON.parse(json ?? '') as SettingRow)
  }

  readonly configure: Backend['configure'] = async ({ key, value, scope, resourceId }) => {
    const slot = [key, scope, resourceId ?? '']
    if (value === null) {
      const text = `DELETE FROM tenure.config WHERE namespace = $1::integer AND key = $2
        AND scope = $3 AND resource_id = $4`
      return void (await this.#write(text, ...slot))
    }
    const text = `INSERT INTO tenure.config (namespace, key, scope, resource_id, value)
      VALUES ($1::integer, $2, $3, $4, $5)
      ON CONFLICT (namespace, key, scope, resource_id)
      DO UPDATE SET value = excluded.value, updated_at = clock_timestamp()`
    await this.#write(text, ...slot, value)
  }

  readonly prune: Backend['prune'] = async ({ batch, ...asked }) => {
    const [last] = await this.#read(READ_PRUNE_CLOCK)
    const [readingMs, believedMs] = last ?? []
    const known =
      readingMs == null ? null : { readingMs: Number(readingMs), believedMs: Number(believedMs) }
    const clock = nextPruneClock(known, asked.nowMs)
    if (known !== null && clock !== known) {
      await this.#write(WRITE_PRUNE_CLOCK, clock.readingMs, clock.believedMs)
    }
    const { endedBeforeMs, nowMs } = boundedCut(asked, clock)
    await this.#write(REMOVE_OLD, endedBeforeMs)
    const [row = []] = await this.#write(CALL_PRUNE, endedBeforeMs, nowMs, batch, this.#walkedTo)
    this.#walkedTo = row[3] ?? ''
    return { leases: Number(row[0]), events: Number(row[1]), more: row[2] === 't' }
  }

  readonly subscribe: Backend['subscribe'] = async (session, listener) => {
    const channel = channelOf(session, this.#options.namespace)
    return this.#listener.listen(channel, (payload) => {
      listener({ leaseIds: payload === null ? null : [payload] })
    })
  }

  /** Hears of what is appended, and looks for it as well: a notification may be lost, or come before what it tells of can be read. */
  readonly follow: Backend['follow'] = (listener) => {
    const { runtime } = this.#options.caller.options
    const fault = new RepeatedFault('store/postgres/follow', runtime)
    let isOver = false
    let markedMs = -Infinity
    let known: Position | null = null
    const look = async (): Promise<void> => {
      let nextMs = this.#listener.isUp ? FOLLOW_POLL_MS : FOLLOW_POLL_ALONE_MS
      try {
        const nowMs = runtime.monotonicMs()
        if (nowMs - markedMs > WATCH_MARK_MS / 3) {
          await this.#markWatched()
          markedMs = nowMs
        }
        const end = await this.end()
        if (end !== known && !isOver) listener()
        known = end
        fault.succeeded()
      } catch (error) {
        if (isOver) return
        fault.failed(error)
        nextMs = Math.min(FOLLOW_RETRY_MS_MAX, FOLLOW_POLL_MS * 2 ** Math.min(fault.count, 10))
      }
      if (!isOver) timer = lookIn(nextMs)
    }
    const lookIn = (delayMs: number): Timer => {
      return runtime.setTimer(delayMs, () => void look(), { keepAlive: false })
    }
    let timer = lookIn(0)
    const leave = this.#listener.listenSoon(`tenure_ledger_${this.#number}`, listener)
    return () => {
      isOver = true
      timer.cancel()
      leave()
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#listener.settled()
    await this.#options.caller.end()
  }

  /** One that is lost is renewed in time, so it is no write that would leave a doubt. */
  async #markWatched(): Promise<void> {
    const text = `UPDATE tenure.namespaces SET watched_until_us = $2::bigint
        + coalesce($3::bigint, ${NOW_US})
      WHERE number = $1::integer`
    await this.#read(text, WATCH_MARK_MS * 1_000, this.#nowUs())
  }

  #nowUs(): number | null {
    return this.#options.nowUs?.() ?? null
  }

  /** The first value is the number of the namespace. */
  #read(text: string, ...values: readonly PostgresValue[]): Promise<readonly PostgresRow[]> {
    return this.#call({ text, values: [this.#number, ...values], writes: false })
  }

  #write(text: string, ...values: readonly PostgresValue[]): Promise<readonly PostgresRow[]> {
    return this.#call({ text, values: [this.#number, ...values], writes: true })
  }

  #call(statement: Statement): Promise<readonly PostgresRow[]> {
    return this.#sent(() => statement)
  }

  /**
   * By itself a call has the isolation that is the default of the role or the database. In any but read committed it fails whenever
   * it had to wait for another; then it is sent in a transaction, which sees what was committed meanwhile.
   */
  #sent(make: () => Statement): Promise<readonly PostgresRow[]> {
    const { caller } = this.#options
    let hadToWait = false
    return this.#retrying(async () => {
      if (hadToWait) return caller.transaction((send) => send(make()))
      try {
        return await caller.call(make())
      } catch (error) {
        hadToWait = stateOf(error) === SERIALIZATION_FAILURE
        throw error
      }
    })
  }

  #seek(statement: Statement): Promise<readonly PostgresRow[]> {
    const { caller } = this.#options
    return this.#retrying(() => caller.transaction((send) => send(statement), FEW_AMONG_MANY))
  }

  async #retrying<Result>(call: () => Promise<Result>): Promise<Result> {
    if (this.#closed) throw closedError()
    for (let tries = 1; ; tries += 1) {
      try {
        return await call()
      } catch (error) {
        if (tries === TRIES_MAX) throw error
        if (stateOf(error) === NAMESPACE_GONE) await this.#findNamespace()
        else if (!isTransient(error)) throw error
      }
    }
  }

  /** The database was restored to a time before the namespace was made: it is made again, under another number. */
  async #findNamespace(): Promise<void> {
    const { caller, namespace } = this.#options
    this.#number = await caller.during((connection) => numberOf(connection, namespace))
  }
}

const listeners = new WeakMap<PostgresPool, ChannelListener>()

/** It is as the first store on the pool has made it. */
function listenerOn(caller: PostgresCaller): ChannelListener {
  const { pool, runtime, callMs } = caller.options
  const listener =
    listeners.get(pool) ??
    new ChannelListener({
      ...{ runtime, callMs, source: 'store/postgres/listen' },
      connection: (events) => new NotifiedConnection(caller, events),
    })
  listeners.set(pool, listener)
  return listener
}

/**
 * Hears NOTIFY on a connection beside the pool, one for all stores on it: so the program may end its pool before its
 * stores, and every connection of the pool is there for calls.
 */
class NotifiedConnection implements ListeningConnection {
  readonly #caller: PostgresCaller
  readonly #events: ChannelEvents
  #client: LoneClient | null = null

  constructor(caller: PostgresCaller, events: ChannelEvents) {
    this.#caller = caller
    this.#events = events
  }

  async open(): Promise<void> {
    void this.close().catch(reportTo('store/postgres/listen'))
    const client = await this.#caller.connectBeside()
    this.#client = client
    client.on('notification', ({ channel, payload }) => {
      if (client === this.#client) this.#events.message(channel, payload ?? '')
    })
    client.on('error', (error) => {
      // One that is being closed may still complain.
      if (client === this.#client) this.#events.lost(error)
    })
    // Subscribers are served as long as something else keeps the process alive: a wait does, a held lease does not.
    client.unref?.()
  }

  listen(channels: readonly string[]): Promise<unknown> {
    return this.#ask(channels.map((channel) => `LISTEN ${channel}`).join('; '))
  }

  unlisten(channel: string): Promise<unknown> {
    return this.#ask(`UNLISTEN ${channel}`)
  }

  ping(): Promise<unknown> {
    return this.#ask('SELECT 1')
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = null
    await client?.end()
  }

  /** Channel names are made by us of letters and digits only; LISTEN takes no values. */
  async #ask(text: string): Promise<void> {
    if (this.#client !== null) await this.#caller.ask(this.#client, text)
  }
}

/** What a role needs, as in docs/stores/postgres.md. */
const LACKING = `SELECT privilege || ' on ' || name
  FROM unnest('{namespaces,realms,live_leases,ledger,requests,config,refusals}'::text[]) AS named,
    unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS privilege, concat('tenure.', named) AS name
  WHERE NOT has_table_privilege(name, privilege) AND (named, privilege) <> ('namespaces', 'DELETE')`

/**
 * What `tenure doctor` looks at beyond opening the store. What is written to find out whether it can be is rolled back.
 */
export async function openPostgresCheckup(options: PostgresStoreOptions): Promise<Checkup> {
  const namespace = parseNamespace(options.namespace ?? 'default')
  const caller = await connectPostgres(options)
  return {
    looks: [
      { name: 'writing', look: () => tryToWrite(caller, namespace) },
      { name: 'schema', look: () => tellVersion(caller) },
      { name: 'wake-ups', look: () => tryToWake(caller) },
      { name: 'last commit', look: () => tellBehind(caller, namespace) },
      { name: 'pruning', look: () => tryToPrune(caller, namespace) },
    ],
    acceptClock: () => acceptClock(caller, namespace),
    close: () => caller.end(),
  }
}

async function tryToWrite(caller: PostgresCaller, namespace: string): Promise<string> {
  const text = 'UPDATE tenure.namespaces SET watched_until_us = watched_until_us WHERE name = $1'
  await tryOut(caller, text, namespace)
  const missing = await caller.call({ text: LACKING, values: [], writes: false })
  if (missing.length > 0) throw new Error(`the role lacks ${missing.flat().join(', ')}`)
  return 'a transaction can be begun and written to, and the role may write every table'
}

async function tellVersion(caller: PostgresCaller): Promise<string> {
  const text = 'SELECT max(version) FROM tenure.migrations'
  const [row] = await caller.call({ text, values: [], writes: false })
  return `version ${row?.[0]}`
}

/** How far the clock is behind the last commit of any realm, in milliseconds. */
async function tellBehind(caller: PostgresCaller, namespace: string): Promise<string> {
  const text = `SELECT coalesce(max(r.last_us), 0) - ${NOW_US} FROM tenure.realms AS r
    JOIN tenure.namespaces AS n ON n.number = r.namespace WHERE n.name = $1`
  const [row] = await caller.call({ text, values: [namespace], writes: false })
  const behindUs = Number(row?.[0] ?? 0)
  if (behindUs <= STORE_CLOCK_BEHIND_US_MAX) return 'the clock is not behind the last commit'
  throw new Error(
    `the clock is ${Math.ceil(behindUs / 1_000)} ms behind the last commit: commands there fail until it has caught up, or tenure doctor --accept-clock says that it is right`,
  )
}

/** Fences and wall times stay what they are, and never go back. */
async function acceptClock(caller: PostgresCaller, namespace: string): Promise<string> {
  const text = `WITH accepted AS (UPDATE tenure.realms SET last_us = ${NOW_US}
      WHERE last_us > ${NOW_US}
        AND namespace = (SELECT number FROM tenure.namespaces WHERE name = $1) RETURNING 1)
    SELECT count(*) FROM accepted`
  const [row] = await caller.call({ text, values: [namespace], writes: true })
  return `${row?.[0]} realms had commits later than the clock, and go on by it`
}

/** As a waiting session listens, and as a commit sends: over two connections. */
function tryToWake(caller: PostgresCaller): Promise<string> {
  const channel = `tenure_doctor_${systemRuntime.uuid().replaceAll('-', '')}`
  return tryWake({
    runtime: systemRuntime,
    listen: listeningTo(channel, (events) => new NotifiedConnection(caller, events)),
    send: () =>
      caller.call({ text: 'SELECT pg_notify($1, $2)', values: [channel, ''], writes: false }),
  })
}

/** Nothing ended before 1970. */
async function tryToPrune(caller: PostgresCaller, namespace: string): Promise<string> {
  const text = `SELECT tenure.prune_v9(number, 0, 0, 1, '') FROM tenure.namespaces WHERE name = $1`
  await tryOut(caller, text, namespace)
  return 'what has ended can be pruned'
}

function tryOut(caller: PostgresCaller, text: string, namespace: string): Promise<unknown> {
  return caller.during(async (connection) => {
    await connection.run('BEGIN')
    await connection.run(text, [namespace])
    await connection.run('ROLLBACK')
  })
}
