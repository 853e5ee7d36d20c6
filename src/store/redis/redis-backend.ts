/**
 * Keeps the realms of one namespace on a Redis server: what a store that decides before it asks needs of a server. A
 * group of attempts is one call of one script, whose time is the server's own.
 */
import { invalid } from '../../core/errors.ts'
import { TTL_MS_MAX } from '../../core/limits.ts'
import { endedAtMs } from '../../core/lease.ts'
import type { Footprint } from '../../core/realm.ts'
import type { SettingRow } from '../../core/settings.ts'
import type { Runtime } from '../../runtime/runtime.ts'
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
import { groupReplyOf, settingField, settingRows } from './redis-answer.ts'
import { groupArgs } from './redis-attempt.ts'
import { divide, joinReplies } from './redis-divided-group.ts'
import { LedgerFollowers, WakeListeners } from './redis-listeners.ts'
import { RedisReader, type ClockText } from './redis-reader.ts'
import { CLOCK_DOMAIN, digits, recordsOf, VERSION_WIDTH, type KeptRecord } from './redis-rows.ts'
import { STATE_REVISION_AT } from './redis-script-preamble.ts'
import {
  ATTEMPT,
  CONFIGURE,
  COPY_SETTINGS,
  FORGET,
  LOOK,
  TIDY,
  TRIM,
  VIEW,
  type RedisScripted,
} from './redis-scripted.ts'

export interface BackendParts {
  readonly scripted: RedisScripted
  readonly runtime: Runtime
  readonly description: StoreDescription
  readonly callMs: number
  readonly clock: ClockText
  /** Frees what was opened for this backend. */
  readonly close: () => void
}

const WRITES = 'writes'
/** Rows of the ledger that one step of pruning looks at, and how many steps a call makes. */
const TRIM_ROWS = 1_000
const TRIM_STEPS = 20
/** The old part of the ledger is gone through at most so often. */
const TRIM_INTERVAL_MS = 3_600_000
const PRUNE_PAGE = 1_000

export class RedisBackend implements Backend {
  readonly description: StoreDescription
  readonly clockDomain: string = CLOCK_DOMAIN
  readonly isQuick = true
  readonly #parts: BackendParts
  readonly #scripted: RedisScripted
  readonly #reader: RedisReader
  readonly #sender: string
  readonly #wakes: WakeListeners
  readonly #followers: LedgerFollowers

  constructor(parts: BackendParts) {
    const { scripted, runtime, callMs } = parts
    const { driver } = scripted.calls
    this.#parts = parts
    this.#scripted = scripted
    this.description = parts.description
    this.#reader = new RedisReader(scripted, parts.clock)
    this.#sender = runtime.uuid()
    const { channelOf } = scripted
    const sender = this.#sender
    this.#wakes = new WakeListeners({ driver, runtime, channelOf, sender, callMs })
    this.#followers = new LedgerFollowers({
      ...{ driver, runtime, callMs },
      stream: scripted.prefixes.length === 1 ? scripted.keyOf(0, 'l') : null,
      end: () => this.#reader.end(),
    })
  }

  refuseApart(footprints: readonly Footprint[]): void {
    const [first, ...others] = footprints
    if (first === undefined || this.#scripted.prefixes.length === 1) return
    const bucket = this.#scripted.bucketOf(first.resource)
    const apart = others.find(({ resource }) => this.#scripted.bucketOf(resource) !== bucket)
    if (apart === undefined) return
    const expected = `must be in one bucket with ${first.resource} (open the namespace with buckets: 1)`
    throw invalid('resource', expected, apart.resource)
  }

  attempt({ settingsRevision, attempts }: Group): Promise<GroupReply> {
    if (this.#scripted.prefixes.length === 1 || attempts.length === 0) {
      return this.#attemptIn(0, settingsRevision, attempts)
    }
    return this.#attemptApart({ settingsRevision, attempts })
  }

  async #attemptApart({ settingsRevision, attempts }: Group): Promise<GroupReply> {
    const byBucket = divide(attempts, (attempt) => this.#bucketOf(attempt))
    const parts = await Promise.all(
      [...byBucket].map(async ([bucket, some]) => {
        const call = this.#attemptIn(bucket, settingsRevision, some)
        const [result] = await Promise.allSettled([call])
        return { attempts: some, result }
      }),
    )
    return joinReplies(attempts, parts)
  }

  async #attemptIn(
    bucket: number,
    settingsRevision: number,
    attempts: readonly Attempt[],
  ): Promise<GroupReply> {
    const { channelOf } = this.#scripted
    const facts = { clock: this.#parts.clock(), settingsRevision, sender: this.#sender, channelOf }
    const args = groupArgs(attempts, facts)
    const hasWrites = attempts.some(({ writes }) => writes.length > 0)
    const effect = hasWrites ? WRITES : 'reads'
    const answer = await this.#scripted.run(hasWrites ? ATTEMPT : VIEW, args, { bucket, effect })
    return groupReplyOf(answer, attempts, this.description.url)
  }

  #bucketOf({ places }: Attempt): number {
    const [first] = places
    return first === undefined ? 0 : this.#scripted.bucketOf(first.footprint.resource)
  }

  find(query: EntryQuery): Promise<FoundKept> {
    return this.#reader.find(query)
  }

  async history(query: HistoryQuery): Promise<readonly LedgerEntry[]> {
    return this.#reader.history(query)
  }

  end(): Promise<Position> {
    return this.#reader.end()
  }

  async settings(): Promise<readonly SettingRow[]> {
    return settingRows(await this.#settingPairs(0))
  }

  async #settingPairs(bucket: number): Promise<readonly string[]> {
    const key = this.#scripted.keyOf(bucket, 'g')
    return pairsOf(await this.#scripted.calls.send(['HGETALL', key], 'reads'))
  }

  /** The first bucket says what holds; the others have copies, because a script sees its own bucket only. */
  async configure(change: SettingChange): Promise<void> {
    const { value } = change
    const args = [this.#parts.clock(), settingField(change), ...(value === null ? [] : [value])]
    await this.#scripted.run(CONFIGURE, args, { bucket: 0, effect: WRITES })
    await this.copySettings()
  }

  /** Also makes good what a process left undone that ended between the first copy and the last. */
  async copySettings(): Promise<void> {
    const [, ...others] = this.#scripted.buckets
    if (others.length === 0) return
    const state = await this.#scripted.calls.send(this.#scripted.stateCall(0), 'reads')
    const revision = typeof state === 'string' ? state.slice(STATE_REVISION_AT) : '0'
    const args = [revision, ...(await this.#settingPairs(0))]
    await Promise.all(
      others.map((bucket) => this.#scripted.run(COPY_SETTINGS, args, { bucket, effect: WRITES })),
    )
  }

  async prune(policy: PrunePolicy): Promise<Pruned> {
    const total = { leases: 0, events: 0, more: false }
    for (const bucket of this.#scripted.buckets) {
      const batch = policy.batch - total.leases
      const ended = await this.#pruneEnded(bucket, { ...policy, batch })
      const trimmed = await this.#trim(bucket, policy, ended.leases > 0)
      await this.#tidy(bucket)
      total.leases += ended.leases
      total.events += trimmed.events
      total.more ||= ended.more || trimmed.more
    }
    return total
  }

  async #pruneEnded(bucket: number, policy: PrunePolicy): Promise<Omit<Pruned, 'events'>> {
    const prunable: KeptRecord[] = []
    for (let from = '0'; prunable.length <= policy.batch;) {
      const beforeMs = String(Math.max(0, policy.endedBeforeMs))
      const args = [this.#parts.clock(), 'ended', beforeMs, from, String(PRUNE_PAGE)]
      const reply = await this.#scripted.run(LOOK, args, { bucket, effect: 'reads' })
      const [, next = '', ...pairs] = reply as readonly string[]
      prunable.push(...recordsOf(pairs).filter((record) => isPrunable(record, policy)))
      if (next === '') break
      from = next
    }
    const gone = prunable.slice(0, policy.batch)
    if (gone.length === 0) return { leases: 0, more: prunable.length > 0 }
    const args = gone.flatMap(({ version, entry }) => [entry.id, digits(version, VERSION_WIDTH)])
    const leases = await this.#scripted.run(FORGET, args, { bucket, effect: WRITES })
    return { leases: leases as number, more: prunable.length > gone.length }
  }

  async #tidy(bucket: number): Promise<void> {
    for (let step = 0; step < TRIM_STEPS; step += 1) {
      const args = [this.#parts.clock(), String(PRUNE_PAGE)]
      if ((await this.#scripted.run(TIDY, args, { bucket, effect: WRITES })) !== 1) return
    }
  }

  /** Goes on where the last call has stopped, and begins again when there is cause, or after a while. */
  async #trim(
    bucket: number,
    policy: PrunePolicy,
    hasCause: boolean,
  ): Promise<Omit<Pruned, 'leases'>> {
    const { calls } = this.#scripted
    const key = this.#scripted.keyOf(bucket, 'p')
    const known = ((await calls.send(['GET', key], 'reads')) ?? '0 -') as string
    const [notBeforeMs, from = '-'] = known.split(' ')
    if (from === '-' && !hasCause && policy.nowMs < Number(notBeforeMs))
      return { events: 0, more: false }
    const last = `${policy.endedBeforeMs * 1000}`
    const requested = String(policy.nowMs - TTL_MS_MAX)
    let events = 0
    let next = from
    for (let step = 0; step < TRIM_STEPS; step += 1) {
      const args = [
        ...[next, last, String(policy.endedBeforeMs), requested],
        ...[String(TRIM_ROWS), String(policy.nowMs)],
      ]
      const reply = await this.#scripted.run(TRIM, args, { bucket, effect: WRITES })
      const [position, gone] = reply as readonly [string, number]
      events += gone
      next = position === '' ? '-' : position
      if (next === '-') break
    }
    const notBefore = next === '-' ? policy.nowMs + TRIM_INTERVAL_MS : 0
    await calls.send(['SET', key, `${notBefore} ${next}`, 'PX', String(2 * TTL_MS_MAX)], WRITES)
    return { events, more: next !== '-' }
  }

  subscribe(session: string, listener: (signal: WakeSignal) => void): Promise<Unsubscribe> {
    return this.#wakes.subscribe(session, listener)
  }

  follow(listener: () => void): Unsubscribe {
    return this.#followers.follow(listener)
  }

  async close(): Promise<void> {
    this.#wakes.close()
    this.#followers.close()
    this.#scripted.calls.close()
    this.#parts.close()
  }
}

function isPrunable({ entry }: KeptRecord, { endedBeforeMs, nowMs }: PrunePolicy): boolean {
  const ended = endedAtMs(entry)
  return ended !== null && ended < endedBeforeMs && ended + entry.ttlMs < nowMs
}

/** A hash, which one driver gives as an object and the protocol as a list. */
function pairsOf(reply: unknown): readonly string[] {
  if (Array.isArray(reply)) return reply as readonly string[]
  return Object.entries(reply as Record<string, string>).flat()
}
