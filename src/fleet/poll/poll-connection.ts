/**
 * How commands reach Redis: on a connection of our own, made from a URL, or on a client of the caller, from ioredis (also
 * its Cluster) or node-redis. A client of the caller is neither closed nor made to reconnect.
 *
 * Commands of one call are sent together. On one server they are one round trip; on a Cluster each goes to the node that
 * has its key, all at the same time.
 */
import { invalid, isLeaseError, isMistake, LeaseError } from '../../core/errors.ts'
import { addressOf, dial, showUrl } from '../../drivers/redis-connect.ts'
import {
  driverOf,
  type IoredisClient,
  type RedisClient,
  type RedisDriver,
} from '../../drivers/redis-driver.ts'
import { lostUnlessReply } from '../../drivers/redis-errors.ts'
import { answerWithin, type CallBound } from '../../client/retry.ts'

export type PollCommand = readonly string[]
/** The answer to one command; an `Error` when the server refused it. */
export type PollReply = unknown

/** Sends a command to one of the servers that have the data, and resolves as `exchange` does. */
export type SendToMaster = (command: PollCommand) => Promise<PollReply>

export class PollConnection {
  /** For error messages: without user and password. */
  readonly displayUrl: string
  readonly #driver: RedisDriver
  readonly #isOwn: boolean

  constructor(driver: RedisDriver, { displayUrl, isOwn }: { displayUrl: string; isOwn: boolean }) {
    this.#driver = driver
    this.displayUrl = displayUrl
    this.#isOwn = isOwn
  }

  get isCluster(): boolean {
    return this.#driver.isCluster
  }

  get isReady(): boolean {
    return this.#driver.isReady
  }

  /** Returns a function that removes the listeners: a client of the caller lives on. */
  watch(onReady: () => void, onClosed: () => void): () => void {
    const stops = [this.#driver.onReady(onReady), this.#driver.onClosed(onClosed)]
    return () => stops.forEach((stop) => stop())
  }

  /**
   * One reply for each command: an `Error` for one that was refused, a `LeaseError` where the answer may be lost. When one
   * server of a Cluster does not answer, the replies of the others are still returned.
   */
  async exchange(
    commands: readonly PollCommand[],
    bound: CallBound,
  ): Promise<readonly PollReply[]> {
    const asked = this.#driver.pipeline(commands)
    if (asked !== null) {
      const lost = (error: unknown): never => {
        throw lostUnlessReply(error)
      }
      const replies = await answerWithin(bound, () => asked.catch(lost))
      return (replies ?? []).map(([error, reply]) => (error === null ? reply : answerOf(error)))
    }
    const replies: PollReply[] = commands.map(() => new LeaseError('STORE_OUTCOME_UNKNOWN', LATE))
    const calls = commands.map(async (command, index) => {
      replies[index] = await this.#driver.send(command).catch(answerOf)
    })
    try {
      await answerWithin(bound, () => Promise.all(calls))
    } catch (error) {
      // Some servers of a Cluster have answered; the replies of the others say that the outcome is unknown.
      if (!this.isCluster || !isLeaseError(error)) throw error
    }
    return [...replies]
  }

  /** One, or the masters of a Cluster. */
  get masters(): readonly SendToMaster[] {
    return this.#driver.keepers.map((send) => (command) => send(command).catch(answerOf))
  }

  /** A connection for subscriptions, not yet open; the caller of this closes it. */
  duplicate(): RedisDriver {
    return this.#driver.duplicate()
  }

  connect(): Promise<unknown> {
    return this.#driver.connect()
  }

  /** For a connection that has gone silent. False for a client of the caller and for a Cluster, which are left alone. */
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
  /** Gets the reason why a connection could not be made, which a driver gives nowhere else. */
  readonly onError: (error: unknown) => void
}

/** Connects to a URL; a server that is part of a Cluster leads to all of it. */
export async function connectTo({ url, connectMs, onError }: Destination): Promise<PollConnection> {
  const address = addressOf(url)
  const open = async (client: IoredisClient): Promise<RedisDriver> => {
    // An `error` event without a listener would end the process.
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
      // A command is sent once: one that the driver repeats may be carried out after its caller has given up.
      ...{ autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 },
      ...{ enableReadyCheck: false, connectTimeout: connectMs },
    },
    clusterOptions: {},
    // `reconnect` leaves a Cluster alone, so its driver must detect a silent connection.
    clusterRedisOptions: { socketTimeout: connectMs },
    retryMs: (attempt) => Math.min(attempt * RETRY_STEP_MS, RETRY_MS_MAX),
    open,
  })
  return new PollConnection(driver, { displayUrl: showUrl(address), isOwn: true })
}

/** The driver retries a Cluster that is incomplete at first; the promise of its first attempt then never settles. */
function connected(driver: RedisDriver): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const stop = driver.onReady(() => {
      stop()
      resolve(null)
    })
    driver.connect().then(resolve, reject)
  })
}

/** A client of the caller, used as it is. */
export function connectionOf(client: RedisClient): PollConnection {
  const driver = driverOf(client)
  const { keyPrefix = null } = driver
  if (keyPrefix !== null && keyPrefix !== '') {
    throw invalid('redis', 'must have no keyPrefix (there is prefix)', keyPrefix)
  }
  return new PollConnection(driver, { displayUrl: 'redis: (a client of the caller)', isOwn: false })
}

const LATE = 'no answer came in time'
const RETRY_STEP_MS = 50
const RETRY_MS_MAX = 500

/** An error of the server is its answer; any other error of the driver means that there is none; a bug is thrown. */
function answerOf(error: unknown): unknown {
  if (isMistake(error)) throw error
  return lostUnlessReply(error)
}
