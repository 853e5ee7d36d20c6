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
  type Argument,
  type RedisClient,
  type RedisDriver,
} from '../../drivers/redis-driver.ts'
import { lostUnlessReply } from '../../drivers/redis-errors.ts'
import { answerWithin, type CallBound } from '../../client/retry.ts'

export type PollCommand = readonly Argument[]
/** The answer to one command; an `Error` when the server refused it. */
export type PollReply = unknown

export interface PollConnection {
  readonly driver: RedisDriver
  /** For error messages: without user and password. */
  readonly displayUrl: string
  /** Made from a URL; false for a client of the caller, which is left alone. */
  readonly isOwn: boolean
}

/**
 * One reply for each command: an `Error` for one that was refused, a `LeaseError` where the answer may be lost. When one
 * server of a Cluster does not answer, the replies of the others are still returned.
 */
export async function exchange(
  driver: RedisDriver,
  commands: readonly PollCommand[],
  bound: CallBound,
): Promise<readonly PollReply[]> {
  const asked = driver.pipeline(commands)
  if (asked !== null) {
    const lost = (error: unknown): never => {
      throw lostUnlessReply(error)
    }
    const replies = await answerWithin(bound, () => asked.catch(lost))
    return (replies ?? []).map(([error, reply]) => (error === null ? reply : answerOf(error)))
  }
  const replies: PollReply[] = commands.map(() => new LeaseError('STORE_OUTCOME_UNKNOWN', LATE))
  const calls = commands.map(async (command, index) => {
    replies[index] = await driver.send(command).catch(answerOf)
  })
  try {
    await answerWithin(bound, () => Promise.all(calls))
  } catch (error) {
    // Some servers of a Cluster have answered; the replies of the others say that the outcome is unknown.
    if (!driver.isCluster || !isLeaseError(error)) throw error
  }
  return [...replies]
}

/** For a connection that has gone silent. False for a client of the caller and for a Cluster, which are left alone. */
export function reconnect({ driver, isOwn }: PollConnection): boolean {
  if (!isOwn || driver.isCluster) return false
  driver.reconnect()
  return true
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
    hear: (client) => void client.on('error', onError),
    connect: (driver) => driver.connect(),
  })
  return { driver, displayUrl: showUrl(address), isOwn: true }
}

/** A client of the caller, used as it is. */
export function connectionOf(client: RedisClient): PollConnection {
  const driver = driverOf(client)
  const { keyPrefix = null } = driver
  if (keyPrefix !== null && keyPrefix !== '') {
    throw invalid('redis', 'must have no keyPrefix (there is prefix)', keyPrefix)
  }
  return { driver, displayUrl: 'redis: (a client of the caller)', isOwn: false }
}

const LATE = 'no answer came in time'
const RETRY_STEP_MS = 50
const RETRY_MS_MAX = 500

/** An error of the server is its answer; any other error of the driver means that there is none; a bug is thrown. */
export function answerOf(error: unknown): unknown {
  if (isMistake(error)) throw error
  return lostUnlessReply(error)
}
