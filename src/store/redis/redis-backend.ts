/**
 * Keeps the realms of one namespace on a Redis server: what a store that decides before it asks needs of a server. A
 * group of attempts is one call of one script, whose time is the server's own.
 */
import { invalid, isLeaseError } from '../../core/errors.ts'
import type { ReadSet } from '../../core/realm.ts'
import type { SettingRow } from '../../core/settings.ts'
import { pairsOf } from '../../drivers/redis-driver.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import type {
  SettingChange,
  StoreDescription,
  Unsubscribe,
  WakeSignal,
} from '../../store-port/store.ts'
import type { Attempt, Backend, Group, GroupReply, Reply } from '../optimistic/backend.ts'
import { ChannelListener } from '../optimistic/channel-listener.ts'
import { groupArgument, groupReplyOf, settingField, settingRows } from './redis-attempt.ts'
import { COMMIT_SCRIPT, VIEW_SCRIPT } from './redis-commit-script.ts'
import { LEDGER_SESSION } from './redis-layout.ts'
import { SubscribedConnection } from './redis-listener.ts'
import type { RedisNamespace } from './redis-namespace.ts'
import { pruneNamespace } from './redis-pruner.ts'
import { RedisReader } from './redis-reader.ts'
import { CLOCK_DOMAIN } from './redis-records.ts'
import { countRefusals, findRefusals } from './redis-refusals.ts'
import { CONFIGURE_SCRIPT, COPY_SETTINGS_SCRIPT } from './redis-scripts.ts'

export interface RedisBackendOptions {
  readonly namespace: RedisNamespace
  readonly runtime: Runtime
  readonly description: StoreDescription
  readonly callMs: number
  /** Frees what was opened for this backend. */
  readonly close: () => void
}

export class RedisBackend implements Backend {
  readonly description: StoreDescription
  readonly clockDomain: string = CLOCK_DOMAIN
  readonly isQuick = true
  readonly #options: RedisBackendOptions
  readonly #namespace: RedisNamespace
  readonly #reader: RedisReader
  /** What this process is called in what it publishes. */
  readonly #sender: string
  readonly #listener: ChannelListener

  constructor(options: RedisBackendOptions) {
    const { namespace, runtime, callMs } = options
    this.#options = options
    this.#namespace = namespace
    this.description = options.description
    this.#reader = new RedisReader(namespace)
    this.#sender = runtime.uuid()
    const { driver } = namespace.calls
    this.#listener = new ChannelListener({
      ...{ runtime, callMs, source: 'store/redis/subscribe' },
      connection: (events) => new SubscribedConnection(driver, events),
    })
  }

  refuseApart(readSets: readonly ReadSet[]): void {
    const [first, ...others] = readSets
    if (first === undefined || this.#namespace.prefixes.length === 1) return
    const bucket = this.#namespace.bucketOf(first.resource)
    const apart = others.find(({ resource }) => this.#namespace.bucketOf(resource) !== bucket)
    if (apart === undefined) return
    const expected = `must be in one bucket with ${first.resource} (open the namespace with buckets: 1)`
    throw invalid('resource', expected, apart.resource)
  }

  attempt({ settingsRevision, attempts }: Group): Promise<GroupReply> {
    if (this.#namespace.prefixes.length === 1 || attempts.length === 0) {
      return this.#attemptIn(0, settingsRevision, attempts)
    }
    return this.#attemptApart({ settingsRevision, attempts })
  }

  /**
   * One call for each bucket, and one reply made of theirs. Buckets fare differently, because each may lie on another node: an
   * attempt gets the reply of its own bucket, never that nothing was written because another bucket refused. Throws only
   * when no bucket has answered, and then there is no clock either.
   */
  async #attemptApart({ settingsRevision, attempts }: Group): Promise<GroupReply> {
    const byBucket = new Map<number, Attempt[]>()
    for (const attempt of attempts) {
      const bucket = this.#bucketOf(attempt)
      const some = byBucket.get(bucket)
      if (some === undefined) byBucket.set(bucket, [attempt])
      else some.push(attempt)
    }
    const replies = new Map<Attempt, Reply>()
    const answered: GroupReply[] = []
    const errors: unknown[] = []
    const call = async ([bucket, some]: readonly [number, readonly Attempt[]]): Promise<void> => {
      try {
        const reply = await this.#attemptIn(bucket, settingsRevision, some)
        answered.push(reply)
        some.forEach((attempt, index) => replies.set(attempt, replyTo(reply, index)))
      } catch (error) {
        errors.push(error)
        for (const attempt of some) replies.set(attempt, { kind: 'failed', error })
      }
    }
    await Promise.all([...byBucket].map(call))
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
    const { channelOf, nowUs: clock } = this.#namespace
    const facts = { clock, settingsRevision, sender: this.#sender, channelOf }
    const args = [groupArgument(attempts, facts)]
    const hasWrites = attempts.some(({ writes }) => writes.length > 0)
    const script = hasWrites ? COMMIT_SCRIPT : VIEW_SCRIPT
    const effect = hasWrites ? 'writes' : 'reads'
    const answer = await this.#namespace.run(script, args, { bucket, effect })
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

  async settings(): Promise<readonly SettingRow[]> {
    return settingRows(await this.#settingPairs())
  }

  /** Of the first bucket, which says what holds. */
  async #settingPairs(): Promise<readonly string[]> {
    const key = this.#namespace.keyOf(0, 'settings')
    return pairsOf(await this.#namespace.calls.send(['HGETALL', key], 'reads'))
  }

  /** The first bucket says what holds; the others have copies, because a script sees its own bucket only. */
  async configure(change: SettingChange): Promise<void> {
    const { value } = change
    const field = settingField(change)
    const args = [this.#namespace.clockText, field, ...(value === null ? [] : [value])]
    await this.#namespace.run(CONFIGURE_SCRIPT, args, { bucket: 0, effect: 'writes' })
    await this.copySettings()
  }

  /** Also makes good what a process left undone that ended between the first copy and the last. */
  async copySettings(): Promise<void> {
    const [, ...others] = this.#namespace.buckets
    if (others.length === 0) return
    const { revision } = await this.#namespace.stateOf(0)
    const args = [revision, ...(await this.#settingPairs())]
    await Promise.all(
      others.map((bucket) => {
        return this.#namespace.run(COPY_SETTINGS_SCRIPT, args, { bucket, effect: 'writes' })
      }),
    )
  }

  /** A message says who sent it and which lease it is about; what this process sent, its store has delivered already. */
  subscribe(session: string, listener: (signal: WakeSignal) => void): Promise<Unsubscribe> {
    return this.#listener.listen(this.#namespace.channelOf(session), (message) => {
      const [sender, leaseId] = message?.split(' ') ?? []
      if (leaseId === undefined) listener({ leaseIds: null })
      else if (sender !== this.#sender) listener({ leaseIds: [leaseId] })
    })
  }

  follow(listener: () => void): Unsubscribe {
    return this.#listener.listenSoon(this.#namespace.channelOf(LEDGER_SESSION), (message) => {
      if (message?.split(' ')[0] !== this.#sender) listener()
    })
  }

  async close(): Promise<void> {
    await this.#listener.settled()
    this.#namespace.calls.close()
    this.#options.close()
  }
}

function replyTo({ replies }: GroupReply, index: number): Reply {
  const reply = replies[index]
  if (reply === undefined) throw new Error('the server left an attempt without an answer')
  return reply
}

/** One error for all: if any bucket may have written something, no caller is told that nothing was written. */
function mostDoubtful(errors: readonly unknown[]): unknown {
  return errors.find((error) => !isLeaseError(error) || error.effect !== 'none') ?? errors[0]
}
