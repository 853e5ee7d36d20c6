/**
 * ioredis (also its Cluster) and node-redis, typed by their shape, so that neither is a dependency. A client that was
 * passed in is used as it is and never closed; what needs a connection of its own, because it listens or blocks, works on a
 * duplicate, which is ours.
 */
import { createHash } from 'node:crypto'
import { closedError, invalid } from '../core/errors.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import { within } from './bounded-call.ts'
import { isNoScript, redisError, withoutCommand, type CommandEffect } from './redis-errors.ts'

/** Of a command: text, or bytes as they are. */
export type Argument = string | Uint8Array

/** What is used of an ioredis client, or of its Cluster. */
export interface IoredisClient extends IoredisLike {
  readonly status: string
  /** The socket, once there is one; a Cluster has none of its own. */
  readonly stream?: { unref?(): unknown }
  readonly isCluster?: boolean
  duplicate(override?: { readonly autoResubscribe: boolean }): IoredisClient
  connect(): Promise<unknown>
  disconnect(reconnect?: boolean): void
  pipeline?(commands: Argument[][]): { exec(): Promise<PipelineReply[] | null> }
  nodes?(role: 'master'): readonly IoredisLike[]
  readonly options?: { readonly keyPrefix?: unknown }
  subscribe(...channels: string[]): Promise<unknown>
  unsubscribe(...channels: string[]): Promise<unknown>
  on(event: string, listener: (...args: never[]) => void): unknown
  off(event: string, listener: (...args: never[]) => void): unknown
}

type PipelineReply = readonly [error: Error | null, reply: unknown]

/** What is used of a node-redis client. */
interface NodeRedisClient extends NodeRedisLike {
  readonly isReady: boolean
  duplicate(): NodeRedisClient
  connect(): Promise<unknown>
  destroy(): void
  subscribe(channel: string, listener: (message: string, channel: string) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  on(event: string, listener: (...args: never[]) => void): unknown
  unref?(): void
  off(event: string, listener: (...args: never[]) => void): unknown
}

/** A client as a caller passes it in: of its many methods, those that tell which driver's it is. */
export type RedisClient =
  | { readonly status: string; call(command: string, ...args: string[]): Promise<unknown> }
  | { readonly isReady: boolean; sendCommand(args: readonly string[]): Promise<unknown> }

/** Either driver, as the rest of Tenure sees it. */
export interface RedisDriver {
  readonly isCluster: boolean
  readonly isReady: boolean
  readonly send: RedisCommand
  /** A connection of its own, not yet open, whose errors are reported. */
  duplicate(): RedisDriver
  connect(): Promise<unknown>
  disconnect(): void
  /** Adds the channel to those that `onMessage` hears of. */
  subscribe(channel: string): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  onMessage(listener: (channel: string, message: string) => void): void
  /** Whenever the connection can be used again. Returns what takes the listener off: a client may live on. */
  onReady(listener: () => void): () => void
  /** Whenever it cannot be used any more. */
  onClosed(listener: () => void): () => void
  /** What a client puts before every key by itself. */
  readonly keyPrefix: unknown
  /** Sends all of them in one round trip; null where that cannot be done. */
  pipeline(
    commands: readonly (readonly Argument[])[],
  ): Promise<readonly PipelineReply[] | null> | null
  /** How each server that keeps data is sent a command: one, or the masters of a Cluster. */
  readonly keepers: readonly RedisCommand[]
  /** Gives up a connection that has gone silent and makes it anew. */
  reconnect(): void
  /** Whenever a connection is lost on which it may have sent what it then sends again by itself. */
  onLost(listener: () => void): () => void
}

export function driverOf(client: unknown): RedisDriver {
  const get = (name: string): unknown => {
    return typeof client === 'object' && client !== null ? Reflect.get(client, name) : undefined
  }
  const does = (...names: readonly string[]): boolean => {
    return [...COMMON_METHODS, ...names].every((name) => typeof get(name) === 'function')
  }
  if (typeof get('status') === 'string' && does('call', 'disconnect')) {
    return ioredisDriver(client as IoredisClient)
  }
  if (typeof get('isReady') === 'boolean' && does('sendCommand', 'destroy')) {
    return nodeRedisDriver(client as NodeRedisClient)
  }
  throw invalid('redis', 'must be a client of ioredis or of node-redis', client)
}

const COMMON_METHODS = ['duplicate', 'connect', 'subscribe', 'unsubscribe', 'on'] as const

/** One object for each driver, and not a class: nearly every method is the client's own by another name. */
function ioredisDriver(client: IoredisClient): RedisDriver {
  const send = commandsOf(client)
  const isCluster = client.isCluster === true
  const driver: RedisDriver = {
    ...{ send, isCluster, keyPrefix: client.options?.keyPrefix, ...connectionEvents(client) },
    get isReady() {
      return client.status === 'ready'
    },
    pipeline: (commands) => {
      if (isCluster || client.pipeline === undefined) return null
      // The driver takes any command by this name, and others only if it has a method for them.
      return client.pipeline(commands.map((command) => ['call', ...command])).exec()
    },
    get keepers() {
      return (isCluster ? client.nodes?.('master').map(commandsOf) : undefined) ?? [send]
    },
    reconnect: () => client.disconnect(true),
    // A Cluster says of each of its connections that it was lost.
    onLost: (listener) => hearing(client, ['close', '-node'], listener),
    duplicate: () => {
      // A listener subscribes again by itself. When the driver does it and the connection is lost meanwhile, no caller
      // hears the rejection, which ends the process.
      const other = isCluster ? client.duplicate() : client.duplicate({ autoResubscribe: false })
      hearErrors(other)
      letProcessEnd(other)
      return ioredisDriver(other)
    },
    connect: async () => {
      if (driver.isReady) return
      let leave = (): void => undefined
      const ready = new Promise<void>((resolve) => (leave = driver.onReady(resolve)))
      try {
        // A Cluster that is down at the first look is looked at again, and the promise of that look never settles.
        await (client.status === 'wait' ? Promise.race([ready, client.connect()]) : ready)
      } finally {
        leave()
      }
    },
    disconnect: () => client.disconnect(),
    subscribe: (channel) => client.subscribe(channel),
    unsubscribe: (channel) => client.unsubscribe(channel),
    onMessage: (listener) => void client.on('message', listener as (...args: never[]) => void),
  }
  return driver
}

function nodeRedisDriver(client: NodeRedisClient): RedisDriver {
  const send = commandsOf(client)
  const listeners = new Set<(channel: string, message: string) => void>()
  /** One and the same at every subscription: the driver keeps each function that it is given, also when it reconnects. */
  const hear = (message: string, channel: string): void => {
    for (const listener of listeners) listener(channel, message)
  }
  return {
    ...{ send, isCluster: false, keyPrefix: undefined, ...connectionEvents(client) },
    get isReady() {
      return client.isReady
    },
    // The driver sends whatever is asked for in one turn together.
    pipeline: () => null,
    keepers: [send],
    // A connection of ours is one of ioredis; this driver finds out by itself when a server has gone.
    reconnect: () => client.destroy(),
    // This driver sends nothing twice.
    onLost: () => () => undefined,
    duplicate: () => {
      const other = client.duplicate()
      hearErrors(other)
      other.unref?.()
      return nodeRedisDriver(other)
    },
    connect: () => client.connect(),
    disconnect: () => client.destroy(),
    subscribe: (channel) => client.subscribe(channel, hear),
    unsubscribe: (channel) => client.unsubscribe(channel),
    onMessage: (listener) => void listeners.add(listener),
  }
}

/** Drivers have different words for it. */
const CLOSED_EVENTS = ['close', 'end', 'reconnecting']

function connectionEvents(
  client: Pick<IoredisClient, 'on' | 'off'>,
): Pick<RedisDriver, 'onReady' | 'onClosed'> {
  return {
    onReady: (listener) => hearing(client, ['ready'], listener),
    onClosed: (listener) => hearing(client, CLOSED_EVENTS, listener),
  }
}

function hearing(
  client: Pick<IoredisClient, 'on' | 'off'>,
  events: readonly string[],
  listener: () => void,
): () => void {
  for (const event of events) client.on(event, listener)
  return () => events.forEach((event) => client.off(event, listener))
}

/**
 * A connection that is merely open does not keep the process alive, nor does a lease on it. Every call does, by its timer,
 * and so do waits and work under a lease.
 */
export function letProcessEnd(client: IoredisClient): void {
  client.on('connect', () => void client.stream?.unref?.())
}

/** An error event without a listener ends the process. The driver goes on trying to connect, so it comes often. */
export function hearErrors(client: Pick<IoredisClient, 'on'>): void {
  const fault = new RepeatedFault('store/redis/connection', systemRuntime)
  client.on('error', (error: unknown) => fault.failed(withoutCommand(error)))
  client.on('ready', () => fault.succeeded())
}

export interface CallFacts {
  /** As it may be shown: without user and password. */
  readonly url: string
  readonly callMs: number
  readonly runtime: Runtime
  /** It is closed with the calls. */
  readonly ownsDriver?: boolean
}

/** Sends commands, each of which ends in bounded time, and says what became of those that failed. */
export class RedisCalls {
  readonly driver: RedisDriver
  readonly facts: CallFacts
  readonly #stopCounting: () => void
  #losses = 0
  #closed = false

  constructor(driver: RedisDriver, facts: CallFacts) {
    this.driver = driver
    this.facts = facts
    this.#stopCounting = driver.onLost(() => (this.#losses += 1))
  }

  /**
   * By its hash, or else whole: a server that does not know the hash may have run the script before, on a connection that was
   * lost since.
   */
  run(call: ScriptCall, effect: CommandEffect): Promise<unknown> {
    const losses = this.#losses
    return runScript((args) => this.#send(args, effect, losses), call)
  }

  send(args: readonly Argument[], effect: CommandEffect): Promise<unknown> {
    return this.#send(args, effect, this.#losses)
  }

  /** The server's reply. That it does not know a script is thrown as it is. */
  async #send(args: readonly Argument[], effect: CommandEffect, losses: number): Promise<unknown> {
    const { url, callMs, runtime } = this.facts
    if (this.#closed) throw closedError()
    try {
      if (!this.driver.isReady) throw new Error('not connected')
      return await within(runtime, callMs, this.driver.send(args), `no answer for ${callMs} ms`)
    } catch (error) {
      if (isNoScript(error)) throw error
      const mayBeSecond = this.#losses !== losses
      throw redisError(error, { url, effect, mayBeSecond })
    }
  }

  close(): void {
    this.#closed = true
    this.#stopCounting()
    if (this.facts.ownsDriver === true) this.driver.disconnect()
  }
}

/** ioredis: a client or a cluster. */
export interface IoredisLike {
  call(command: string, ...args: readonly (string | Uint8Array | number)[]): Promise<unknown>
}

/** node-redis: a client that is connected. */
export interface NodeRedisLike {
  sendCommand(args: readonly string[]): Promise<unknown>
}

export type RedisLike = IoredisLike | NodeRedisLike

export type RedisCommand = (args: readonly Argument[]) => Promise<unknown>

/** How either driver is sent a command. node-redis takes bytes as well, which its type does not say. */
export function commandsOf(client: RedisLike): RedisCommand {
  if (typeof client === 'object' && client !== null) {
    if ('call' in client) {
      return ([name = '', ...args]) => client.call(String(name), ...args)
    }
    if ('sendCommand' in client) return (args) => client.sendCommand(args as string[])
  }
  throw invalid('client', 'must be a client of Redis (ioredis or redis)', client)
}

export interface ScriptCall {
  readonly script: string
  readonly keys: readonly string[]
  readonly args: readonly Argument[]
}

/** Sends a script by its hash, and whole only if Redis does not know it. */
export async function runScript(command: RedisCommand, call: ScriptCall): Promise<unknown> {
  try {
    return await command(scriptCommand('EVALSHA', call))
  } catch (error) {
    if (!isNoScript(error)) throw error
    return command(scriptCommand('EVAL', call))
  }
}

export function scriptCommand(
  by: 'EVAL' | 'EVALSHA',
  { script, keys, args }: ScriptCall,
): readonly Argument[] {
  const text = by === 'EVAL' ? script : sha1(script)
  return [by, text, String(keys.length), ...keys, ...args]
}

const hashes = new Map<string, string>()
const HASHES_MAX = 1_000

/** A program that makes up scripts as it goes must not fill the memory with their hashes. */
function sha1(script: string): string {
  const known = hashes.get(script)
  if (known !== undefined) return known
  const hash = createHash('sha1').update(script).digest('hex')
  if (hashes.size >= HASHES_MAX) hashes.clear()
  hashes.set(script, hash)
  return hash
}

/** A hash, or a list of names and values, which one driver gives as an object and the protocol as a list. */
export function pairsOf(reply: unknown): readonly string[] {
  if (Array.isArray(reply)) return reply as readonly string[]
  return Object.entries(reply as Record<string, string>).flat()
}
