/**
 * How commands reach Redis: on a connection of our own, made from a URL, or on a client that the program has, of
 * ioredis (also its Cluster) or of node-redis. A client that was given is neither closed nor made to reconnect.
 *
 * Commands of one call go out together. On one server they are one round trip; on a Cluster each goes to the node that
 * has its key, all at the same time.
 */
import { invalid, isLeaseError, isMistake, LeaseError } from '../../core/errors.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import { driverFault } from '../../drivers/driver-fault.ts'
import { driverOf, type RedisClient, type RedisDriver } from '../../store/redis/redis-client.ts'
import { addressOf, showUrl } from '../../store/redis/redis-url.ts'
import { answerWithin, type Bound } from '../answer-within.ts'

export type Command = readonly string[]
/** What the server said to one command; an `Error` when it refused. */
export type Reply = unknown

/** What is used of a client beyond what its driver has. */
interface Client {
  readonly options?: { readonly keyPrefix?: unknown }
  on(event: string, listener: () => void): unknown
  off(event: string, listener: () => void): unknown
  /** Of ioredis. */
  disconnect?(reconnect?: boolean): void
  pipeline?(commands: string[][]): { exec(): Promise<[Error | null, unknown][] | null> }
  /** Of its Cluster. */
  nodes?(role: 'master'): readonly { call(...command: readonly string[]): Promise<unknown> }[]
}

/** When a client can be used again, and when not; drivers have different words for it. */
const READY_EVENTS = ['ready']
const CLOSED_EVENTS = ['close', 'end', 'reconnecting']

/** One that sends a command to one server of those that keep the data, and resolves as `exchange` does. */
export type Keeper = (command: Command) => Promise<Reply>

export class PollConnection {
  /** As it may be shown: without user and password. */
  readonly shown: string
  readonly #client: Client
  readonly #driver: RedisDriver
  readonly #isOwn: boolean

  constructor(client: RedisClient, { shown, isOwn }: { shown: string; isOwn: boolean }) {
    this.#driver = driverOf(client)
    this.#client = client as unknown as Client
    this.shown = shown
    this.#isOwn = isOwn
  }

  get isCluster(): boolean {
    return this.#driver.isCluster
  }

  get isReady(): boolean {
    return this.#driver.isReady
  }

  /** Returns what takes the listeners off again: the client may live on. */
  watch(onReady: () => void, onClosed: () => void = nothing): () => void {
    for (const event of READY_EVENTS) this.#client.on(event, onReady)
    for (const event of CLOSED_EVENTS) this.#client.on(event, onClosed)
    return () => {
      for (const event of READY_EVENTS) this.#client.off(event, onReady)
      for (const event of CLOSED_EVENTS) this.#client.off(event, onClosed)
    }
  }

  /**
   * One reply for each; an `Error` in the place of what was refused, a `LeaseError` where the answer may be lost. One
   * server of a Cluster that does not answer keeps nobody from hearing what the others said.
   */
  async exchange(commands: readonly Command[], bound: Bound): Promise<readonly Reply[]> {
    if (!this.isCluster && this.#client.pipeline !== undefined) {
      const asked = this.#client.pipeline(commands.map(asCall)).exec()
      const replies = await answerWithin(
        bound,
        asked.catch((error: unknown) => {
          throw lostAnswer(error)
        }),
      )
      return (replies ?? []).map(([error, reply]) => (error === null ? reply : answerOf(error)))
    }
    const replies: Reply[] = commands.map(() => new LeaseError('STORE_OUTCOME_UNKNOWN', LATE))
    const calls = commands.map(async (command, index) => {
      replies[index] = await this.#driver.send(command).catch(answerOf)
    })
    try {
      await answerWithin(bound, Promise.all(calls))
    } catch (error) {
      // Some servers of a Cluster have answered, and in the place of the others it says that they have not.
      if (!this.isCluster || !isLeaseError(error)) throw error
    }
    return [...replies]
  }

  /** One, or the masters of a Cluster. */
  get keepers(): readonly Keeper[] {
    const nodes = this.isCluster ? this.#client.nodes?.('master') : undefined
    if (nodes !== undefined) {
      return nodes.map((node) => (command) => node.call(...command).catch(answerOf))
    }
    return [(command) => this.#driver.send(command).catch(answerOf)]
  }

  /** A connection for listening, not yet open; ours in any case. */
  duplicate(): RedisDriver {
    return this.#driver.duplicate()
  }

  connect(): Promise<unknown> {
    return this.#driver.connect()
  }

  /** For one that has gone silent: it may never be heard of again. False for one that is not ours to do this with. */
  reconnect(): boolean {
    if (!this.#isOwn || this.isCluster) return false
    this.#client.disconnect?.(true)
    return true
  }

  close(): void {
    if (this.#isOwn) this.#driver.disconnect()
  }
}

export interface Destination {
  readonly url: string
  readonly runtime: Runtime
  readonly connectMs: number
  /** Hears why a connection could not be made, which a driver says nowhere else. */
  readonly onError: (error: unknown) => void
}

/** Connects to a URL; a server that is part of a Cluster leads to all of it. */
export async function connectTo(destination: Destination): Promise<PollConnection> {
  const { url, connectMs, runtime } = destination
  const { Redis, Cluster } = await loadDriver()
  const { host, port, ...rest } = addressOf(url)
  // A command is sent once: what is repeated behind our back may be carried out when everybody has given it up.
  const once = { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 }
  const asked = { enableReadyCheck: false, connectTimeout: connectMs, lazyConnect: true }
  const redisOptions = { ...rest, ...once, ...asked }
  const retry = (attempt: number): number => Math.min(attempt * RETRY_STEP_MS, RETRY_MS_MAX)
  const one = new Redis({ host, port, ...redisOptions, retryStrategy: retry })
  const single = await connected(one, destination)
  const [info] = await single.exchange([['INFO', 'cluster']], { runtime, withinMs: 4 * connectMs })
  if (!String(info).includes('cluster_enabled:1')) return single
  single.close()
  // Nobody tells a Cluster's client to make a silent connection anew, so that it has to see to it itself.
  const options = { lazyConnect: true, redisOptions: { ...redisOptions, socketTimeout: connectMs } }
  const all = new Cluster([{ host, port }], { ...options, clusterRetryStrategy: retry })
  return connected(all, destination)
}

async function connected(
  client: RedisClient,
  { url, onError }: Destination,
): Promise<PollConnection> {
  // An error event that nobody listens to would end the process. Whoever sends something hears of it.
  ;(client as unknown as EventSource).on('error', onError)
  const connection = new PollConnection(client, { shown: showUrl(addressOf(url)), isOwn: true })
  try {
    await new Promise((resolve, reject) => {
      // A Cluster that is not whole at first is tried again by its driver, whose first promise then never settles.
      const unwatch = connection.watch(() => {
        unwatch()
        resolve(null)
      })
      connection.connect().then(resolve, reject)
    })
    return connection
  } catch (error) {
    connection.close()
    throw error
  }
}

/** A client that the program has, used as it is. */
export function connectionOf(client: RedisClient): PollConnection {
  const connection = new PollConnection(client, {
    ...{ shown: 'redis: (a client of the caller)', isOwn: false },
  })
  const keyPrefix: unknown = (client as unknown as Client).options?.keyPrefix
  if (keyPrefix === undefined || keyPrefix === null || keyPrefix === '') return connection
  throw invalid('redis', 'must have no keyPrefix (there is prefix)', keyPrefix)
}

const LATE = 'no answer came in time'
const RETRY_STEP_MS = 50
const RETRY_MS_MAX = 500

/** The driver takes any command by this name, and others only if it has a method for them. */
function asCall(command: Command): string[] {
  return ['call', ...command]
}

/** What servers say begins with a word in capitals, as no error of a connection does that drivers report. */
const REFUSAL_PATTERN = /^(?!E(?:CONN|TIMEDOUT|PIPE|HOST|NOTFOUND))[A-Z]{3,} /

/** Whether it is what a server said, and not that nothing was heard. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof Error && REFUSAL_PATTERN.test(error.message)
}

/** An error of the server is its answer; any other of the driver means that there was none. */
function answerOf(error: unknown): Error {
  return isRefusal(error) ? error : lostAnswer(error)
}

function lostAnswer(error: unknown): LeaseError {
  if (isMistake(error)) throw error
  const message = error instanceof Error ? error.message : String(error)
  const cause = new Error(message)
  return new LeaseError('STORE_OUTCOME_UNKNOWN', `the answer was lost: ${message}`, { cause })
}

function nothing(): void {
  return undefined
}

interface EventSource {
  on(event: 'error', listener: (error: unknown) => void): unknown
}

interface IoredisModule {
  readonly Redis: new (options: object) => RedisClient
  readonly Cluster: new (nodes: readonly object[], options: object) => RedisClient
}

/** Loaded when a fleet on Redis is opened by URL and not before: who uses something else need not have it. */
async function loadDriver(): Promise<IoredisModule> {
  try {
    return (await import('ioredis')) as unknown as IoredisModule
  } catch (cause) {
    throw driverFault({ name: 'ioredis', needed: 'fleets on Redis', install: 'ioredis' }, cause)
  }
}
