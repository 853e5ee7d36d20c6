/**
 * Keeps the realms of one namespace on a Redis server, opened by URL or on a client that the caller has: `redis://` and
 * `rediss://`, one server, one behind Sentinel (pass a client), or a Cluster. `RedisBackend` is what a store that decides before
 * it asks needs of a server. A group of attempts is one call of one script, whose time is the server's own.
 */
import { invalid, isLeaseError, LeaseError, messageOf } from '../../core/errors.ts'
import { REFUSALS_MAX, STORE_CLOCK_BEHIND_US_MAX } from '../../core/limits.ts'
import type { ReadSet } from '../../core/realm.ts'
import type { RecordBody } from '../../core/record.ts'
import { compareRefusals, refusalOf, refusalRow, type CountedRefusal } from '../../core/refusal.ts'
import { parseNamespace, type Resource } from '../../core/resource.ts'
import { connectRedis, type RedisConnectOptions } from '../../drivers/redis-connect.ts'
import { pairsOf, type RedisCalls, type RedisDriver } from '../../drivers/redis-driver.ts'
import { withoutCommand } from '../../drivers/redis-errors.ts'
import { report } from '../../runtime/diagnostics.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { Checkup, RefusalQuery, Store, StoreDescription } from '../../store-port/store.ts'
import type { Attempt, Backend, Group, GroupReply, Reply } from '../optimistic/backend.ts'
import {
  ChannelListener,
  type ChannelEvents,
  type ListeningConnection,
} from '../optimistic/channel-listener.ts'
import { OptimisticStore } from '../optimistic/optimistic-store.ts'
import { matchesEvent, refusalsFor } from '../query-matching.ts'
import { FOLLOWERS } from '../subscribers.ts'
import { listeningTo, tryWake } from '../wake-trial.ts'
import {
  groupArgument,
  groupReplyOf,
  settingField,
  settingRows,
  CLOCK_DOMAIN,
} from './redis-records.ts'
import { COMMIT_SCRIPT, VIEW_SCRIPT } from './redis-commit-script.ts'
import { KEY_PREFIX } from './redis-layout.ts'
import { RedisNamespace } from './redis-namespace.ts'
import { pruneNamespace } from './redis-pruner.ts'
import { RedisReader } from './redis-reader.ts'
import {
  ACCEPT_CLOCK_SCRIPT,
  CONFIGURE_SCRIPT,
  COPY_SETTINGS_SCRIPT,
  COUNT_REFUSALS_SCRIPT,
  REFUSALS_SCRIPT,
} from './redis-scripts.ts'

export interface RedisStoreOptions extends RedisConnectOptions {
  readonly namespace?: string
  /**
   * Into how many parts the realms of the namespace are divided, each in one slot of a Cluster: 1..1024. Fixed when the
   * namespace is first used. Default 1, or 64 on a Cluster; requests for several resources need 1 there.
   */
  readonly buckets?: number
  /** `force`: a namespace of an older layout is converted although processes may still hold leases in it. */
  readonly convert?: 'force'
  /** For tests that move the clock: microseconds to take for the server's. */
  readonly nowUs?: () => number
}

export async function openRedisStore(options: RedisStoreOptions): Promise<Store> {
  const backend = await openRedisBackend(options)
  return OptimisticStore.open(backend, options.runtime ?? systemRuntime)
}

/** What a store needs of the server, ready to use. */
export async function openRedisBackend(options: RedisStoreOptions): Promise<Backend> {
  const name = parseNamespace(options.namespace ?? 'default')
  const calls = await connectRedis(options)
  try {
    const { buckets, convert, nowUs } = options
    const how = { namespace: name, buckets, isForced: convert === 'force', nowUs }
    const namespace = await RedisNamespace.open(calls, how)
    await namespace.load()
    const backend = new RedisBackend(namespace, await describe(calls))
    await backend.copySettings()
    return backend
  } catch (error) {
    const problem = NO_FLAGS.test(messageOf(error)) ? await tooOld(calls, error) : error
    calls.close()
    throw problem
  }
}

/** What a server says to the first line of every script that does not know it, before it has done anything. */
const NO_FLAGS = /Error compiling script/

async function tooOld(calls: RedisCalls, cause: unknown): Promise<LeaseError> {
  const { url } = calls.facts
  const asked = calls.send(['INFO', 'server'], 'reads')
  const version = asked.then((info) => /^redis_version:(\S+)/m.exec(String(info))?.[1] ?? null)
  const message = `${url} must be Redis 7.0 or later, got ${(await told('version', version)) ?? 'an older one'}`
  return new LeaseError('STORE_UNAVAILABLE', message, { cause, details: { store: url } })
}

async function describe(calls: RedisCalls): Promise<StoreDescription> {
  const { url } = calls.facts
  const clock = 'the clock of the Redis server (TIME)'
  const policy = await evictionOf(calls)
  const durability = (await told('durability', durabilityOf(calls))) ?? UNTOLD
  if (policy === null || policy === EVICTS_NOTHING) return { url, clock, durability }
  const evicts = `leases may be evicted (maxmemory-policy ${policy}, must be ${EVICTS_NOTHING})`
  return { url, clock, durability: `${durability}; ${evicts}` }
}

const UNTOLD = 'unknown: the server does not tell'

/** Null if the server does not tell; a user may be kept from asking. */
async function told(what: string, answer: Promise<string | null>): Promise<string | null> {
  try {
    return await answer
  } catch (error) {
    report(`store/redis/${what}`, error)
    return null
  }
}

async function durabilityOf(calls: RedisCalls): Promise<string> {
  const info = String(await calls.send(['INFO', 'persistence'], 'reads'))
  if (!info.includes('aof_enabled:1')) {
    return 'the last seconds or all may be lost with the server (no append-only file)'
  }
  const [, sync] = pairsOf(await calls.send(['CONFIG', 'GET', 'appendfsync'], 'reads'))
  return sync === 'always'
    ? 'every answer is on disk (append-only file, appendfsync always)'
    : `the last second may be lost with the server (append-only file, appendfsync ${sync})`
}

/** A server that removes keys when its memory is short forgets leases. */
const EVICTS_NOTHING = 'noeviction'

/** The server's `maxmemory-policy`. */
function evictionOf(calls: RedisCalls): Promise<string | null> {
  const asked = calls.send(['INFO', 'memory'], 'reads')
  const policy = asked.then((info) => /^maxmemory_policy:(\S+)/m.exec(String(info))?.[1] ?? null)
  return told('eviction', policy)
}

class RedisBackend implements Backend {
  readonly description: StoreDescription
  readonly clockDomain: string = CLOCK_DOMAIN
  readonly isQuick = true
  readonly #namespace: RedisNamespace
  readonly #reader: RedisReader
  /** What this process is called in what it publishes. */
  readonly #sender: string
  readonly #listener: ChannelListener

  constructor(namespace: RedisNamespace, description: StoreDescription) {
    const { driver, facts } = namespace.calls
    const { runtime, callMs } = facts
    this.#namespace = namespace
    this.description = description
    this.#reader = new RedisReader(namespace)
    this.#sender = runtime.uuid()
    this.#listener = new ChannelListener({
      ...{ runtime, callMs, source: 'store/redis/subscribe' },
      connection: (events) => new SubscribedConnection(driver, events),
    })
  }

  refuseApart(readSets: readonly ReadSet[]): void {
    const [first, ...others] = readSets
    if (first === undefined) return
    const bucket = this.#namespace.bucketOf(first.resource)
    const apart = others.find(({ resource }) => this.#namespace.bucketOf(resource) !== bucket)
    if (apart === undefined) return
    const expected = `must be in one bucket with ${first.resource} (open the namespace with buckets: 1)`
    throw invalid('resource', expected, apart.resource)
  }

  /**
   * One call for each bucket, and one reply made of theirs. Buckets fare differently, because each may lie on another node: an
   * attempt gets the reply of its own bucket, never that nothing was written because another bucket refused. Throws only
   * when no bucket has answered, and then there is no clock either.
   */
  async attempt({ settingsRevision, attempts }: Group): Promise<GroupReply> {
    const replies = new Map<Attempt | undefined, Reply>()
    const answered: GroupReply[] = []
    const errors: unknown[] = []
    const call = async (bucket: number): Promise<void> => {
      const some = attempts.filter((attempt) => this.#bucketOf(attempt) === bucket)
      try {
        const reply = await this.#attemptIn(bucket, settingsRevision, some)
        answered.push(reply)
        reply.replies.forEach((one, index) => replies.set(some[index], one))
      } catch (error) {
        errors.push(error)
        for (const attempt of some) replies.set(attempt, { kind: 'failed', error })
      }
    }
    const buckets = attempts.length === 0 ? [0] : attempts.map((attempt) => this.#bucketOf(attempt))
    await Promise.all([...new Set(buckets)].map(call))
    if (answered.length === 0) throw mostDoubtful(errors)
    const latest = answered.reduce((a, b) => (b.settingsRevision > a.settingsRevision ? b : a))
    return {
      ...latest,
      nowUs: Math.min(...answered.map(({ nowUs }) => nowUs)),
      replies: attempts.flatMap((attempt) => replies.get(attempt) ?? []),
    }
  }

  async #attemptIn(
    bucket: number,
    settingsRevision: number,
    attempts: readonly Attempt[],
  ): Promise<GroupReply> {
    const { channelOf } = this.#namespace
    const facts = { settingsRevision, sender: this.#sender, channelOf }
    const args = [groupArgument(attempts, facts)]
    const hasWrites = attempts.some(({ writes }) => writes.length > 0)
    const script = hasWrites ? COMMIT_SCRIPT : VIEW_SCRIPT
    const answer = await this.#namespace.run(bucket, script, args)
    return groupReplyOf(answer, attempts, this.description.url)
  }

  #bucketOf({ places }: Attempt): number {
    const [first] = places
    return first === undefined ? 0 : this.#namespace.bucketOf(first.readSet.resource)
  }

  readonly find: Backend['find'] = (query) => this.#reader.find(query)
  readonly history: Backend['history'] = (query) => this.#reader.history(query)
  readonly end: Backend['end'] = () => this.#reader.end()
  readonly countRefusals: Backend['countRefusals'] = (all) => countRefusals(this.#namespace, all)
  readonly refusals: Backend['refusals'] = (query) => findRefusals(this.#namespace, query)
  readonly prune: Backend['prune'] = (policy) => {
    return pruneNamespace(this.#namespace, this.#reader, policy)
  }

  readonly settings: Backend['settings'] = async () => {
    return settingRows(await this.#settingPairs())
  }

  /** Of the first bucket, which says what holds. */
  async #settingPairs(): Promise<readonly string[]> {
    const key = this.#namespace.keyOf(0, 'settings')
    return pairsOf(await this.#namespace.calls.send(['HGETALL', key], 'reads'))
  }

  /** The first bucket says what holds; the others have copies, because a script sees its own bucket only. */
  readonly configure: Backend['configure'] = async (change) => {
    const { value } = change
    const field = settingField(change)
    await this.#namespace.run(0, CONFIGURE_SCRIPT, [field, ...(value === null ? [] : [value])])
    await this.copySettings()
  }

  /**
   * Also makes good what a process left undone that ended between the first copy and the last. Where nothing is to be copied
   * it does not write: a server that is out of memory may well be read.
   */
  async copySettings(): Promise<void> {
    const { buckets } = this.#namespace
    if (buckets.length === 1) return
    const states = await Promise.all(buckets.map((bucket) => this.#namespace.stateOf(bucket)))
    const revision = states[0]?.revision ?? '0'
    const behind = buckets.filter((bucket) => Number(states[bucket]?.revision) < Number(revision))
    if (behind.length === 0) return
    const args = [revision, ...(await this.#settingPairs())]
    await Promise.all(
      behind.map((bucket) => this.#namespace.run(bucket, COPY_SETTINGS_SCRIPT, args)),
    )
  }

  /** A message says who sent it and which lease it is about; what this process sent, its store has delivered already. */
  readonly subscribe: Backend['subscribe'] = (session, listener) => {
    return this.#listener.listen(this.#namespace.channelOf(session), (message) => {
      const [sender, leaseId] = message?.split(' ') ?? []
      if (leaseId === undefined) listener({ leaseIds: null })
      else if (sender !== this.#sender) listener({ leaseIds: [leaseId] })
    })
  }

  readonly follow: Backend['follow'] = (listener) => {
    return this.#listener.listenSoon(this.#namespace.channelOf(FOLLOWERS), (message) => {
      if (message?.split(' ')[0] !== this.#sender) listener()
    })
  }

  async close(): Promise<void> {
    await this.#listener.settled()
    this.#namespace.calls.close()
  }
}

/** One error for all: if any bucket may have written something, no caller is told that nothing was written. */
function mostDoubtful(errors: readonly unknown[]): unknown {
  return errors.find((error) => !isLeaseError(error) || error.effect !== 'none') ?? errors[0]
}

/** Hears what is published, on a connection of its own. */
export class SubscribedConnection implements ListeningConnection {
  readonly #source: RedisDriver
  readonly #events: ChannelEvents
  readonly #channels = new Set<string>()
  #driver: RedisDriver | null = null

  constructor(source: RedisDriver, events: ChannelEvents) {
    this.#source = source
    this.#events = events
  }

  /** A connection that was lost the driver makes again by itself: it is waited for, until that has failed once. */
  async open(): Promise<void> {
    this.#channels.clear()
    const driver = this.#driver ?? this.#duplicate()
    if (driver.isReady && driver === this.#driver) return
    const isNew = driver !== this.#driver
    this.#driver = driver
    const leave: (() => void)[] = []
    const isBack = new Promise<unknown>((resolve, reject) => {
      leave.push(driver.onReady(() => resolve(null)))
      leave.push(driver.onClosed(() => reject(new Error('the connection was closed'))))
      if (isNew) driver.connect().then(resolve, reject)
    })
    await withoutSecrets(isBack).finally(() => leave.forEach((one) => one()))
  }

  #duplicate(): RedisDriver {
    const driver = this.#source.duplicate()
    driver.onMessage((channel, message) => this.#events.message(channel, message))
    driver.onClosed(() => {
      // One that was given up may take a while to be closed.
      if (driver === this.#driver) this.#events.lost(new Error('the connection was closed'))
    })
    return driver
  }

  async listen(channels: readonly string[]): Promise<void> {
    const driver = this.#driver
    if (driver === null) return
    for (const channel of channels) this.#channels.add(channel)
    await withoutSecrets(Promise.all(channels.map((channel) => driver.subscribe(channel))))
  }

  /** To ask for a channel once more changes nothing, and goes over the connection that listens, also in a Cluster. */
  async ping(): Promise<void> {
    const [channel] = this.#channels
    if (channel !== undefined) await this.listen([channel])
  }

  /** A subscription that the server does not end costs messages without a subscriber. */
  async unlisten(channel: string): Promise<void> {
    const driver = this.#driver
    this.#channels.delete(channel)
    try {
      await driver?.unsubscribe(channel)
    } catch (error) {
      // A connection that is closed has no subscriptions.
      if (driver === this.#driver) report('store/redis/unsubscribe', withoutCommand(error))
    }
  }

  /** Some versions of the drivers throw when the connection was closed already; then there is nothing left to close. */
  async close(): Promise<void> {
    const driver = this.#driver
    this.#driver = null
    try {
      driver?.disconnect()
    } catch (error) {
      if (!/closed/i.test(String(error))) report('store/redis/disconnect', withoutCommand(error))
    }
  }
}

function withoutSecrets(work: Promise<unknown>): Promise<unknown> {
  return work.catch((error: unknown) => {
    throw withoutCommand(error)
  })
}

/** Refusals are counted in the bucket of their resource. core/refusal.ts says what they are for. */
const REFUSALS_PAGE = 1_000

async function countRefusals(
  namespace: RedisNamespace,
  refusals: readonly CountedRefusal[],
): Promise<void> {
  const { buckets } = namespace
  const most = String(Math.ceil(REFUSALS_MAX / buckets.length))
  const countIn = async (bucket: number): Promise<void> => {
    const some = refusals.filter(({ event }) => namespace.bucketOf(event.resource) === bucket)
    if (some.length === 0) return
    const args = [most, ...some.flatMap(wordsOf)]
    await namespace.run(bucket, COUNT_REFUSALS_SCRIPT, args)
  }
  await Promise.all(buckets.map(countIn))
}

async function findRefusals(
  namespace: RedisNamespace,
  query: RefusalQuery,
): Promise<readonly CountedRefusal[]> {
  const buckets = namespace.bucketsFor(query)
  const parts = await Promise.all(buckets.map((bucket) => findIn(namespace, bucket, query)))
  return refusalsFor(parts.flat().toSorted(compareRefusals), query)
}

/** As many as are asked for, and all of the millisecond of the last: the server has them in another order. */
async function findIn(
  namespace: RedisNamespace,
  bucket: number,
  query: RefusalQuery,
): Promise<readonly CountedRefusal[]> {
  const { fromMs = '-inf', toMs = '+inf', newestFirst, limit } = query
  const range =
    newestFirst === true ? ['ZREVRANGEBYSCORE', toMs, fromMs] : ['ZRANGEBYSCORE', fromMs, toMs]
  const found: CountedRefusal[] = []
  for (let passed = 0; ; passed += REFUSALS_PAGE) {
    const args = [...range, passed, REFUSALS_PAGE].map(String)
    const rows = await namespace.run(bucket, REFUSALS_SCRIPT, args)
    const page = (rows as readonly (readonly [key: string, row: string])[]).map(refusalOfRow)
    found.push(...page.filter(({ event }) => matchesEvent(event, query)))
    const last = found[limit - 1]
    const isWhole = last !== undefined && last.event.atMs !== page.at(-1)?.event.atMs
    if (isWhole || page.length < REFUSALS_PAGE) return found
  }
}

function wordsOf(counted: CountedRefusal): readonly string[] {
  const { resource, holder, reason, count, lastAtMs, leaseId, detail } = refusalRow(counted)
  const key = JSON.stringify([resource, holder, reason])
  return [key, String(count), [lastAtMs, leaseId, JSON.stringify(detail)].join(' ')]
}

function refusalOfRow([key, row]: readonly [key: string, row: string]): CountedRefusal {
  const [resource, holder, reason] = JSON.parse(key) as [Resource, string, string]
  const [count, lastAtMs, leaseId = '', ...rest] = row.split(' ')
  const detail = JSON.parse(rest.join(' ')) as RecordBody
  const last = { lastAtMs: Number(lastAtMs), leaseId, detail }
  return refusalOf({ resource, holder, reason, count: Number(count), ...last })
}

const TRIAL_MS = 10_000

/**
 * What `tenure doctor` looks at beyond opening the store. The key that is written to find out whether it can be is removed,
 * and would end by itself.
 */
export async function openRedisCheckup(options: RedisStoreOptions): Promise<Checkup> {
  const { namespace = 'default', buckets } = options
  const calls = await connectRedis(options)
  const how = { namespace, buckets }
  const [prefix, trial] = [`${KEY_PREFIX}:{${namespace}}`, `doctor-${systemRuntime.uuid()}`]
  return {
    acceptClock: async () => acceptClock(await RedisNamespace.open(calls, how)),
    looks: [
      { name: 'last commit', look: async () => tellBehind(await RedisNamespace.open(calls, how)) },
      { name: 'writing', look: () => tryToWrite(calls, `${prefix}:${trial}`) },
      { name: 'eviction', look: () => tellEviction(calls) },
      { name: 'wake-ups', look: () => tryToWake(calls, `${prefix}:w:${trial}`) },
      { name: 'pruning', look: () => tryToPrune(calls, `${prefix}:${trial}`) },
    ],
    close: async () => calls.close(),
  }
}

async function acceptClock(namespace: RedisNamespace): Promise<string> {
  const spans = await Promise.all(
    namespace.buckets.map((bucket) => namespace.run(bucket, ACCEPT_CLOCK_SCRIPT, [])),
  )
  const behindMs = Math.max(...spans.map(Number))
  if (behindMs === 0) return 'the clock is not behind the last commit: nothing was changed'
  return `the clock was ${behindMs} ms behind the last commit, and is believed from now on; leases that were granted meanwhile stay until their deadlines`
}

async function tellBehind(namespace: RedisNamespace): Promise<string> {
  const states = await Promise.all(namespace.buckets.map((bucket) => namespace.stateOf(bucket)))
  const behindUs = Math.max(...states.map(({ high }) => Number(high))) - (await namespace.timeUs())
  if (behindUs <= STORE_CLOCK_BEHIND_US_MAX) return 'the clock is not behind the last commit'
  throw new Error(
    `the clock is ${Math.ceil(behindUs / 1_000)} ms behind the last commit: commands fail until it has caught up, or tenure doctor --accept-clock says that it is right`,
  )
}

async function tryToWrite(calls: RedisCalls, key: string): Promise<string> {
  await calls.send(['SET', key, '1', 'PX', String(TRIAL_MS)], 'writes')
  await calls.send(['DEL', key], 'writes')
  return 'a key can be written and removed'
}

async function tellEviction(calls: RedisCalls): Promise<string> {
  const policy = await evictionOf(calls)
  if (policy === null) return UNTOLD
  if (policy === EVICTS_NOTHING) return `maxmemory-policy is ${policy}`
  throw new Error(
    `maxmemory-policy must be ${EVICTS_NOTHING}, got ${policy}: a server that evicts keys forgets leases`,
  )
}

/** As a waiting session listens, and as the script of a commit sends. */
function tryToWake(calls: RedisCalls, channel: string): Promise<string> {
  return tryWake({
    runtime: systemRuntime,
    listen: listeningTo(channel, (events) => new SubscribedConnection(calls.driver, events)),
    send: () => calls.send(['PUBLISH', channel, 'doctor'], 'writes'),
  })
}

/** What pruning needs besides what every command does; on a key that does not exist none of it changes anything. */
const PRUNING: readonly (readonly [command: string, ...args: string[]])[] = [
  ['XRANGE', '-', '+'],
  ['XDEL', '1-1'],
  ['HDEL', 'none'],
  ['ZREM', 'none'],
  ['HSCAN', '0'],
]

async function tryToPrune(calls: RedisCalls, key: string): Promise<string> {
  for (const [command, ...args] of PRUNING) {
    await calls.send([command, key, ...args], 'writes').catch((error: unknown) => {
      throw new Error(`${command} is refused, so the store grows without bound`, { cause: error })
    })
  }
  return 'what has ended can be pruned'
}
