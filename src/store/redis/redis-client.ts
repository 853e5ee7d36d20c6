/**
 * The drivers, and what their errors mean. Both are typed by their shape, so that neither is a dependency: ioredis
 * (also its Cluster) and node-redis. A client that was passed in is used as it is and never closed; what needs a
 * connection of its own, because it listens or blocks, works on a duplicate, which is ours.
 */
import { closedError, invalid, isLeaseError, LeaseError } from '../../core/errors.ts'
import { RepeatedFault } from '../../runtime/diagnostics.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'

/** Of a command: text, or bytes as they are. */
export type Argument = string | Uint8Array

/** What is used of an ioredis client, or of its Cluster. */
export interface IoredisClient {
  readonly status: string
  /** The socket, once there is one; a Cluster has none of its own. */
  readonly stream?: { unref?(): unknown }
  readonly isCluster?: boolean
  call(command: string, ...args: Argument[]): Promise<unknown>
  duplicate(override?: { readonly autoResubscribe: boolean }): IoredisClient
  connect(): Promise<unknown>
  disconnect(): void
  subscribe(...channels: string[]): Promise<unknown>
  unsubscribe(...channels: string[]): Promise<unknown>
  on(event: string, listener: (...args: never[]) => void): unknown
}

/** What is used of a node-redis client. */
interface NodeRedisClient {
  readonly isReady: boolean
  sendCommand(args: readonly Argument[]): Promise<unknown>
  duplicate(): NodeRedisClient
  connect(): Promise<unknown>
  destroy(): void
  subscribe(channel: string, listener: (message: string, channel: string) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  on(event: string, listener: (...args: never[]) => void): unknown
  unref?(): void
}

/** A client as a caller passes it in: of its many methods, those that tell which driver's it is. */
export type RedisClient =
  | { readonly status: string; call(command: string, ...args: string[]): Promise<unknown> }
  | { readonly isReady: boolean; sendCommand(args: readonly string[]): Promise<unknown> }

/** Either driver, as the rest of the store sees it. */
export interface RedisDriver {
  readonly isCluster: boolean
  readonly isReady: boolean
  send(args: readonly Argument[]): Promise<unknown>
  /** A connection of its own, not yet open, whose errors are reported. */
  duplicate(): RedisDriver
  connect(): Promise<unknown>
  disconnect(): void
  /** Adds the channel to those that `onMessage` hears of. */
  subscribe(channel: string): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  onMessage(listener: (channel: string, message: string) => void): void
  /** Whenever the connection can be used again. */
  onReady(listener: () => void): void
}

export function driverOf(client: unknown): RedisDriver {
  const get = (name: string): unknown => {
    return typeof client === 'object' && client !== null ? Reflect.get(client, name) : undefined
  }
  const does = (...names: readonly string[]): boolean => {
    return [...COMMON_METHODS, ...names].every((name) => typeof get(name) === 'function')
  }
  if (typeof get('status') === 'string' && does('call', 'disconnect')) {
    return new IoredisDriver(client as IoredisClient)
  }
  if (typeof get('isReady') === 'boolean' && does('sendCommand', 'destroy')) {
    return new NodeRedisDriver(client as NodeRedisClient)
  }
  throw invalid('redis', 'must be a client of ioredis or of node-redis', client)
}

const COMMON_METHODS = ['duplicate', 'connect', 'subscribe', 'unsubscribe', 'on'] as const

class IoredisDriver implements RedisDriver {
  readonly #client: IoredisClient

  constructor(client: IoredisClient) {
    this.#client = client
  }

  get isCluster(): boolean {
    return this.#client.isCluster === true
  }

  get isReady(): boolean {
    return this.#client.status === 'ready'
  }

  send([command = '', ...args]: readonly Argument[]): Promise<unknown> {
    return this.#client.call(String(command), ...args)
  }

  duplicate(): RedisDriver {
    // Whoever listens subscribes again by itself. When the driver does it and the connection is lost meanwhile, nobody
    // hears the rejection, which ends the process.
    const client = this.isCluster
      ? this.#client.duplicate()
      : this.#client.duplicate({ autoResubscribe: false })
    hearErrors(client)
    letProcessEnd(client)
    return new IoredisDriver(client)
  }

  async connect(): Promise<unknown> {
    if (this.#client.status === 'wait') return this.#client.connect()
    if (this.isReady) return undefined
    return new Promise<void>((resolve) => this.onReady(() => resolve()))
  }

  disconnect(): void {
    this.#client.disconnect()
  }

  subscribe(channel: string): Promise<unknown> {
    return this.#client.subscribe(channel)
  }

  unsubscribe(channel: string): Promise<unknown> {
    return this.#client.unsubscribe(channel)
  }

  onMessage(listener: (channel: string, message: string) => void): void {
    this.#client.on('message', listener as (...args: never[]) => void)
  }

  onReady(listener: () => void): void {
    this.#client.on('ready', listener)
  }
}

class NodeRedisDriver implements RedisDriver {
  readonly isCluster = false
  readonly #client: NodeRedisClient
  readonly #listeners = new Set<(channel: string, message: string) => void>()
  /** One and the same at every subscription: the driver keeps each function that it is given, also when it reconnects. */
  readonly #hear = (message: string, channel: string): void => {
    for (const listener of this.#listeners) listener(channel, message)
  }

  constructor(client: NodeRedisClient) {
    this.#client = client
  }

  get isReady(): boolean {
    return this.#client.isReady
  }

  send(args: readonly Argument[]): Promise<unknown> {
    return this.#client.sendCommand(args)
  }

  duplicate(): RedisDriver {
    const client = this.#client.duplicate()
    hearErrors(client)
    client.unref?.()
    return new NodeRedisDriver(client)
  }

  connect(): Promise<unknown> {
    return this.#client.connect()
  }

  disconnect(): void {
    this.#client.destroy()
  }

  subscribe(channel: string): Promise<unknown> {
    return this.#client.subscribe(channel, this.#hear)
  }

  unsubscribe(channel: string): Promise<unknown> {
    return this.#client.unsubscribe(channel)
  }

  onMessage(listener: (channel: string, message: string) => void): void {
    this.#listeners.add(listener)
  }

  onReady(listener: () => void): void {
    this.#client.on('ready', listener)
  }
}

/**
 * A connection that is merely open does not keep the process alive, nor does a lease on it. Every call does, by its timer,
 * and so do waits and work under a lease.
 */
export function letProcessEnd(client: IoredisClient): void {
  client.on('connect', () => void client.stream?.unref?.())
}

/** An error event that nobody listens to ends the process. The driver goes on trying to connect, so it comes often. */
export function hearErrors(client: Pick<IoredisClient, 'on'>): void {
  const fault = new RepeatedFault('store/redis/connection', systemRuntime)
  client.on('error', (error: unknown) => fault.failed(withoutCommand(error)))
  client.on('ready', () => fault.succeeded())
}

/** Drivers attach the command that failed, and that of a failed login holds the password. */
export function withoutCommand(error: unknown): Error {
  return new Error(error instanceof Error ? error.message : String(error))
}

/** Whether a command can change anything; then an answer that is lost leaves a doubt. */
export type CommandEffect = 'reads' | 'writes'

export interface CallFacts {
  /** As it may be shown: without user and password. */
  readonly url: string
  readonly callMs: number
  readonly runtime: Runtime
}

/** Sends commands, each of which ends in bounded time, and says what became of those that failed. */
export class RedisCalls {
  readonly driver: RedisDriver
  readonly #facts: CallFacts
  #closed = false

  constructor(driver: RedisDriver, facts: CallFacts) {
    this.driver = driver
    this.#facts = facts
  }

  /** The server's reply. An error that the server itself gave is thrown as it is, for whoever can do better. */
  send(args: readonly Argument[], effect: CommandEffect): Promise<unknown> {
    const { url, callMs, runtime } = this.#facts
    return new Promise((resolve, reject) => {
      if (this.#closed) throw closedError()
      if (!this.driver.isReady) throw notConnected(url)
      const timer = runtime.setTimer(
        callMs,
        () => reject(storeError(new Error(`no answer for ${callMs} ms`), { url, effect })),
        { keepAlive: true },
      )
      this.driver.send(args).then(
        (reply) => {
          timer.cancel()
          resolve(reply)
        },
        (error: unknown) => {
          timer.cancel()
          reject(isNoScript(error) ? error : storeError(error, { url, effect }))
        },
      )
    })
  }

  close(): void {
    this.#closed = true
  }
}

function notConnected(url: string): LeaseError {
  return storeError(new Error('not connected'), { url, effect: 'reads' })
}

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}

interface ErrorFacts {
  readonly url: string
  readonly effect: CommandEffect
}

/** What a server says when it has refused a command before doing anything. */
const REFUSALS: Readonly<Record<string, string>> = {
  READONLY: 'it is a read-only replica',
  OOM: 'it is out of memory (maxmemory)',
  NOAUTH: 'it requires a password',
  WRONGPASS: 'user or password is wrong',
  NOPERM: 'the user may not run a command that Tenure needs',
  LOADING: 'it is still loading its data',
  MASTERDOWN: 'it is a replica without a primary',
  NOREPLICAS: 'it has too few replicas to write (min-replicas-to-write)',
  MISCONF: 'it cannot save its data and refuses to write',
  BUSY: 'it is busy with a script',
  CLUSTERDOWN: 'its cluster is down',
  TRYAGAIN: 'its cluster is moving the keys',
}

/** Errors of drivers that sent nothing. */
const NOT_SENT = /isn't writeable|not connected|client is (closed|offline)|ECONNREFUSED|ENOTFOUND/i

/**
 * A driver's error as ours. Nothing was changed when the server refused, when nothing was sent, or when the command
 * changes nothing; anything else that befalls a command which writes leaves open whether it was carried out.
 */
export function storeError(error: unknown, { url, effect }: ErrorFacts): LeaseError {
  if (isLeaseError(error)) return error
  const said = error instanceof Error ? error.message : String(error)
  const details = { store: url }
  const cause = withoutCommand(error)
  const refusal = REFUSALS[/^[A-Z]+/.exec(said)?.[0] ?? '']
  if (refusal !== undefined) {
    return new LeaseError('STORE_UNAVAILABLE', `${url} refused: ${refusal}`, { cause, details })
  }
  const line = said.split('\n', 1)[0] ?? ''
  if (effect === 'reads' || NOT_SENT.test(said)) {
    const words = line.startsWith('ERR ') ? 'cannot be used' : 'cannot be reached'
    const message = `${url} ${words}: ${line}`
    return new LeaseError('STORE_UNAVAILABLE', message, { cause, details })
  }
  const message = `the answer of ${url} was lost: ${line}`
  return new LeaseError('STORE_OUTCOME_UNKNOWN', message, { cause, details })
}

/** What the server answered is nothing that Tenure says: its data were changed by somebody else, or damaged. */
export function notUnderstood(cause: unknown, { url, effect }: ErrorFacts): LeaseError {
  const said = cause instanceof Error ? cause.message : String(cause)
  const code = effect === 'writes' ? 'STORE_OUTCOME_UNKNOWN' : 'STORE_UNAVAILABLE'
  const message = `the answer of ${url} cannot be understood: ${said.split('\n', 1)[0] ?? ''}`
  return new LeaseError(code, message, { cause, details: { store: url } })
}
