/**
 * How commands reach Redis: on a connection of our own, made from a URL, or on a client that the program has, of
 * ioredis (also its Cluster) or of node-redis. A client that was given is neither closed nor made to reconnect.
 *
 * Commands of one call go out together. On one server they are one round trip; on a Cluster each goes to the node that
 * has its key, all at the same time.
 */
import { invalid, isLeaseError, isMistake, LeaseError } from '../../core/errors.ts'
import { addressOf, dial, showUrl } from '../../drivers/redis-connection.ts'
import {
  driverOf,
  type IoredisClient,
  type RedisClient,
  type RedisDriver,
} from '../../drivers/redis-driver.ts'
import { lostUnlessReply } from '../../drivers/redis-errors.ts'
import { answerWithin, type Bound } from '../answer-within.ts'

export type Command = readonly string[]
/** What the server said to one command; an `Error` when it refused. */
export type Reply = unknown

/** One that sends a command to one server of those that keep the data, and resolves as `exchange` does. */
export type Keeper = (command: Command) => Promise<Reply>

export class PollConnection {
  /** As it may be shown: without user and password. */
  readonly shown: string
  readonly #driver: RedisDriver
  readonly #isOwn: boolean

  constructor(driver: RedisDriver, { shown, isOwn }: { shown: string; isOwn: boolean }) {
    this.#driver = driver
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
  watch(onReady: () => void, onClosed: () => void): () => void {
    const stops = [this.#driver.onReady(onReady), this.#driver.onClosed(onClosed)]
    return () => stops.forEach((stop) => stop())
  }

  /**
   * One reply for each; an `Error` in the place of what was refused, a `LeaseError` where the answer may be lost. One
   * server of a Cluster that does not answer keeps nobody from hearing what the others said.
   */
  async exchange(commands: readonly Command[], bound: Bound): Promise<readonly Reply[]> {
    const asked = this.#driver.pipeline(commands)
    if (asked !== null) {
      const lost = (error: unknown): never => {
        throw lostUnlessReply(error)
      }
      const replies = await answerWithin(bound, asked.catch(lost))
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
    return this.#driver.keepers.map((send) => (command) => send(command).catch(answerOf))
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
    this.#driver.reconnect()
    return true
  }

  close(): void {
    if (this.#isOwn) this.#driver.disconnect()
  }
}

export interface Destination {
  readonly url: string
  readonly connectMs: number
  /** Hears why a connection could not be made, which a driver says nowhere else. */
  readonly onError: (error: unknown) => void
}

/** Connects to a URL; a server that is part of a Cluster leads to all of it. */
export async function connectTo({ url, connectMs, onError }: Destination): Promise<PollConnection> {
  const address = addressOf(url)
  const open = async (client: IoredisClient): Promise<RedisDriver> => {
    // An error event that nobody listens to would end the process. Whoever sends something hears of it.
    client.on('error', onError)
    const driver = driverOf(client)
    try {
      await connected(driver)
      return driver
    } catch (error) {
      driver.disconnect()
      throw error
    }
  }
  const driver = await dial(address, {
    needed: 'fleets on Redis',
    redisOptions: {
      // A command is sent once: what is repeated behind our back may be carried out when everybody has given it up.
      ...{ autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 },
      ...{ enableReadyCheck: false, connectTimeout: connectMs },
    },
    clusterOptions: {},
    // Nobody tells a Cluster's client to make a silent connection anew, so that it has to see to it itself.
    clusterRedisOptions: { socketTimeout: connectMs },
    retryMs: (attempt) => Math.min(attempt * RETRY_STEP_MS, RETRY_MS_MAX),
    open,
  })
  return new PollConnection(driver, { shown: showUrl(address), isOwn: true })
}

/** A Cluster that is not whole at first is tried again by its driver, whose first promise then never settles. */
function connected(driver: RedisDriver): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const stop = driver.onReady(() => {
      stop()
      resolve(null)
    })
    driver.connect().then(resolve, reject)
  })
}

/** A client that the program has, used as it is. */
export function connectionOf(client: RedisClient): PollConnection {
  const driver = driverOf(client)
  const { keyPrefix = null } = driver
  if (keyPrefix !== null && keyPrefix !== '') {
    throw invalid('redis', 'must have no keyPrefix (there is prefix)', keyPrefix)
  }
  return new PollConnection(driver, { shown: 'redis: (a client of the caller)', isOwn: false })
}

const LATE = 'no answer came in time'
const RETRY_STEP_MS = 50
const RETRY_MS_MAX = 500

/** An error of the server is its answer; any other of the driver means that there was none; a mistake is neither. */
function answerOf(error: unknown): unknown {
  if (isMistake(error)) throw error
  return lostUnlessReply(error)
}
