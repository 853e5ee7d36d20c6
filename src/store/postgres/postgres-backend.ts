/**
 * Keeps realms in PostgreSQL, for any number of processes on any number of machines. What a process has in flight is
 * one call of one function, one round trip, committed by itself; see postgres-functions.ts for what it does.
 *
 * The clock is the server's `clock_timestamp()`, read after everything is locked.
 */
import { closedError } from '../../core/errors.ts'
import { TTL_MS_MAX } from '../../core/limits.ts'
import type { SettingRow } from '../../core/settings.ts'
import { RepeatedFault } from '../../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../../runtime/runtime.ts'
import type {
  EntryQuery,
  HistoryQuery,
  LedgerEntry,
  Position,
  Pruned,
  PrunePolicy,
  SettingChange,
  StoreDescription,
  Unsubscribe,
  WakeSignal,
} from '../../store-port/store.ts'
import type { Attempt, Backend, FoundKept, Group, GroupReply } from '../speculation/backend.ts'
import { Answers, channelOf, settingOf, type Dialect } from './postgres-attempts.ts'
import {
  type PostgresCaller,
  type PostgresRow,
  type Statement,
} from '../../drivers/postgres-driver.ts'
import { isTransient } from '../../drivers/postgres-errors.ts'
import { eventOf, type EventRow } from './postgres-events.ts'
import type { Listening } from './postgres-listener.ts'
import { divide, type Division } from './postgres-plain.ts'
import { findStatement, historyStatement, LEDGER_END } from './postgres-reader.ts'
import { entryOf, type LeaseRow } from './postgres-rows.ts'
import { statementOf } from './postgres-statements.ts'

export interface PostgresBackendOptions {
  readonly caller: PostgresCaller
  readonly listener: Listening
  readonly runtime: Runtime
  readonly url: string
  /** The number of the namespace. */
  readonly namespace: number
  /** A clock that stands in for the server's, in microseconds, for tests. */
  readonly nowUs?: () => number
  /** Frees what was opened for this store alone. */
  readonly end: () => Promise<void>
}

/** There is one clock, whatever server has the data, so there is one domain and it never changes. */
const CLOCK_DOMAIN = 'postgres#1'

const SETTINGS = `SELECT to_jsonb(c) FROM tenure.config AS c WHERE namespace = $1::smallint
  ORDER BY number`

/** Numbers are given in order of creation. */
type NumberedRow = LeaseRow & { readonly number: number }

/** A transient error means that two calls met; met so often, something else is the matter. */
const TRIES_MAX = 10

/** While somebody follows, appenders tell so; the mark that says so is renewed in time. */
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
  readonly #namespace: string
  readonly #dialect: Dialect
  readonly #followers = new Set<() => void>()
  readonly #following: RepeatedFault
  #unfollow: Unsubscribe | null = null
  #followTimer: Timer | null = null
  #followedEnd: Position | null = null
  #markedMs = -Infinity
  /** The last realm that a prune has looked at; empty: it begins with the first. */
  #walkedTo = ''
  #closed = false

  constructor(options: PostgresBackendOptions) {
    this.#options = options
    const monotonicMs = (): number => options.runtime.monotonicMs()
    this.#following = new RepeatedFault('store/postgres/follow', { monotonicMs })
    this.#namespace = String(options.namespace)
    this.#dialect = { namespace: options.namespace, domain: this.clockDomain }
    this.description = {
      url: options.url,
      clock: `clock_timestamp() of the PostgreSQL server`,
      durability: 'what the server promises (synchronous_commit, replication)',
    }
  }

  async attempt(group: Group): Promise<GroupReply> {
    const reply = await this.#attemptBy((statement) => this.#call(statement), group)
    if (reply.settingsRevision === group.settingsRevision) return reply
    return { ...reply, settings: await this.settings() }
  }

  /** The functions lock the rows of the realms that they look at, whether or not they find what was expected there. */
  async holding<Result>(work: (attempt: Backend['attempt']) => Promise<Result>): Promise<Result> {
    return this.#insisting(() => {
      return this.#options.caller.transaction((send) => {
        return work((group) => this.#attemptBy(send, group))
      })
    })
  }

  async #attemptBy(
    call: (statement: Statement) => Promise<readonly PostgresRow[]>,
    { attempts, settingsRevision }: Group,
  ): Promise<GroupReply> {
    const division = divide(attempts)
    const writes = attempts.some((attempt) => attempt.writes.length > 0)
    const statement = statementOf(attempts, division, {
      dialect: this.#dialect,
      revision: String(settingsRevision),
      nowUs: this.#nowText(),
    })
    const [row = []] = await call({ ...statement, writes })
    return this.#groupReply(row, attempts, division)
  }

  #groupReply(
    row: PostgresRow,
    attempts: readonly Attempt[],
    { fresh, changed }: Division,
  ): GroupReply {
    const [nowUs, revisionText, ...told] = row
    const isPlain = attempts.length > 1 && fresh.size + changed.size > 0
    const ofNew = new Answers(told[0], told[1])
    const ofChanged = isPlain ? new Answers(told[2], told[3]) : ofNew
    const ofOthers = isPlain ? new Answers(told[4], told[5]) : ofNew
    const replies = attempts.map((attempt, index) => {
      const other = changed.has(index) ? ofChanged : ofOthers
      return (fresh.has(index) ? ofNew : other).next(attempt, this.clockDomain)
    })
    return {
      nowUs: Number(nowUs),
      settingsRevision: Number(revisionText),
      settings: null,
      replies,
    }
  }

  async find(query: EntryQuery): Promise<FoundKept> {
    const { namespace } = this.#options
    const nowUs = this.#options.nowUs?.() ?? null
    const rows = await this.#call(findStatement(query, { namespace, nowUs }))
    const found = rows.flatMap(([, json]) => {
      return json == null ? [] : [JSON.parse(json) as NumberedRow]
    })
    const shown = found.slice(0, query.limit)
    const more = found.length > query.limit
    return {
      nowUs: Number(rows[0]?.[0]),
      entries: shown.map((row) => entryOf(row, this.clockDomain)),
      more,
      next: more ? String(shown.at(-1)?.number) : null,
    }
  }

  async history(query: HistoryQuery): Promise<readonly LedgerEntry[]> {
    const end = await this.end()
    const { namespace } = this.#options
    const rows = await this.#call(historyStatement(query, { namespace, end }))
    return rows.map(([position, json]) => ({
      position: position ?? '',
      event: eventOf(JSON.parse(json ?? '') as EventRow, this.clockDomain),
    }))
  }

  async end(): Promise<Position> {
    const [row] = await this.#call(LEDGER_END)
    return row?.[0] ?? '0'
  }

  async settings(): Promise<readonly SettingRow[]> {
    const statement = { text: SETTINGS, values: [this.#namespace], name: 'tenure_settings' }
    const rows = await this.#call({ ...statement, writes: false })
    return rows.map(([json]) =>
      settingOf(JSON.parse(json ?? '') as Parameters<typeof settingOf>[0]),
    )
  }

  async configure({ key, value, scope, resourceId }: SettingChange): Promise<void> {
    const slot = [this.#namespace, key, scope, resourceId ?? '']
    if (value === null) {
      const text = `DELETE FROM tenure.config WHERE namespace = $1::smallint AND key = $2
        AND scope = $3 AND resource_id = $4`
      await this.#call({ text, values: slot, writes: true })
      return
    }
    const text = `INSERT INTO tenure.config (namespace, key, scope, resource_id, value)
      VALUES ($1::smallint, $2, $3, $4, $5)
      ON CONFLICT (namespace, key, scope, resource_id)
      DO UPDATE SET value = excluded.value, updated_at = clock_timestamp()`
    await this.#call({ text, values: [...slot, value], writes: true })
  }

  async prune({ endedBeforeMs, nowMs, batch }: PrunePolicy): Promise<Pruned> {
    const [row = []] = await this.#call({
      text: `SELECT leases, events, more, walked_to FROM tenure.prune($1::smallint, $2::bigint,
        $3::bigint, $4::bigint, $5::integer, $6)`,
      values: [
        ...[this.#namespace, String(endedBeforeMs), String(nowMs), String(nowMs - TTL_MS_MAX)],
        ...[String(batch), this.#walkedTo],
      ],
      writes: true,
    })
    this.#walkedTo = row[3] ?? ''
    return { leases: Number(row[0]), events: Number(row[1]), more: row[2] === 't' }
  }

  async subscribe(session: string, listener: (signal: WakeSignal) => void): Promise<Unsubscribe> {
    this.#refuseIfClosed()
    const channel = channelOf(session, this.#options.namespace)
    return this.#options.listener.listen(channel, (payload) => {
      listener({ leaseIds: payload === null ? null : [payload] })
    })
  }

  follow(listener: () => void): Unsubscribe {
    const first = this.#followers.size === 0
    this.#followers.add(listener)
    if (first) this.#startFollowing()
    return () => {
      this.#followers.delete(listener)
      if (this.#followers.size === 0) this.#stopFollowing()
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#followers.clear()
    this.#stopFollowing()
    await this.#options.listener.close()
    await this.#options.end()
  }

  #startFollowing(): void {
    const channel = `tenure_ledger_${this.#namespace}`
    this.#followedEnd = null
    this.#scheduleLook(0)
    void this.#options.listener
      .listen(channel, () => this.#callFollowers())
      .then((stop) => {
        if (this.#followers.size === 0) stop()
        else this.#unfollow = stop
      })
  }

  #stopFollowing(): void {
    this.#followTimer?.cancel()
    this.#followTimer = null
    this.#unfollow?.()
    this.#unfollow = null
    this.#markedMs = -Infinity
  }

  #callFollowers(): void {
    for (const follower of this.#followers) follower()
  }

  #scheduleLook(delayMs: number): void {
    const { runtime } = this.#options
    const look = async (): Promise<void> => {
      let nextMs = this.#options.listener.isUp ? FOLLOW_POLL_MS : FOLLOW_POLL_ALONE_MS
      try {
        await this.#look()
        this.#following.succeeded()
      } catch (error) {
        if (this.#followers.size === 0) return
        this.#following.failed(error)
        const { count } = this.#following
        nextMs = Math.min(FOLLOW_RETRY_MS_MAX, FOLLOW_POLL_MS * 2 ** Math.min(count, 10))
      }
      if (this.#followers.size > 0) this.#scheduleLook(nextMs)
    }
    this.#followTimer?.cancel()
    this.#followTimer = runtime.setTimer(delayMs, () => void look(), { keepAlive: false })
  }

  async #look(): Promise<void> {
    const nowMs = this.#options.runtime.monotonicMs()
    if (nowMs - this.#markedMs > WATCH_MARK_MS / 3) {
      await this.#markWatched()
      this.#markedMs = nowMs
    }
    const end = await this.end()
    const moved = end !== this.#followedEnd
    this.#followedEnd = end
    if (moved) this.#callFollowers()
  }

  async #markWatched(): Promise<void> {
    await this.#call({
      text: `UPDATE tenure.namespaces SET watched_until_us = $2::bigint
          + coalesce($3::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
        WHERE number = $1::smallint`,
      values: [this.#namespace, String(WATCH_MARK_MS * 1_000), this.#nowText()],
      writes: false,
    })
  }

  #nowText(): string | null {
    const { nowUs } = this.#options
    return nowUs === undefined ? null : String(nowUs())
  }

  #call(statement: Statement): Promise<readonly PostgresRow[]> {
    return this.#insisting(() => this.#options.caller.call(statement))
  }

  async #insisting<Result>(call: () => Promise<Result>): Promise<Result> {
    this.#refuseIfClosed()
    for (let tries = 1; ; tries += 1) {
      try {
        return await call()
      } catch (error) {
        if (tries === TRIES_MAX || !isTransient(error)) throw error
      }
    }
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw closedError()
  }
}
