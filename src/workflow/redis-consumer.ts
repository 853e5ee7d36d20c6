/**
 * One consumer of a group on a Redis stream, on a connection of its own. It handles one message after the other, in
 * the order of the stream:
 *
 *  1. What others of the group have taken and not acknowledged in time, because they died or failed. Too often: a dead
 *     letter.
 *  2. What is new; if nothing is, it waits for it.
 *
 * A message is acknowledged when it was handled, and not before.
 */
import type { Runtime } from '../runtime/runtime.ts'
import { commandsOf, type RedisCommand } from '../guard/redis-client.ts'
import { EVERY_TARGET } from './action.ts'
import type { Listener, Subscription } from './bus.ts'
import { readMessage } from './local-bus.ts'
import type { RedisBusClient } from './redis-bus.ts'
import { reasonOf } from './wire/action-json.ts'

export interface ConsumerOptions {
  readonly client: RedisBusClient
  readonly stream: string
  readonly group: string
  readonly listener: Listener
  readonly deliveriesMax: number
  readonly retryAfterMs: number
  readonly runtime: Runtime
}

interface Entry {
  readonly id: string
  readonly text: string
}

const READ_COUNT = 100
const PAUSE_MS = 200

export class RedisConsumer implements Subscription {
  readonly #options: ConsumerOptions
  readonly #connection: RedisBusClient
  readonly #command: RedisCommand
  readonly #name: string
  #closed = false
  #running: Promise<void> = Promise.resolve()

  static async start(options: ConsumerOptions): Promise<RedisConsumer> {
    const connection = await connected(options.client.duplicate())
    const consumer = new RedisConsumer(options, connection)
    await consumer.#createGroup()
    consumer.#running = consumer.#run()
    return consumer
  }

  private constructor(options: ConsumerOptions, connection: RedisBusClient) {
    this.#options = options
    this.#connection = connection
    this.#command = commandsOf(connection)
    this.#name = options.runtime.uuid()
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#running
    disconnect(this.#connection)
  }

  async #createGroup(): Promise<void> {
    const { stream, group } = this.#options
    try {
      await this.#command(['XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM'])
    } catch (error) {
      if (!String(error).includes('BUSYGROUP')) throw error
    }
  }

  /** Nothing that the server does ends it: it tries again until it is closed. */
  async #run(): Promise<void> {
    while (!this.#closed) {
      try {
        await this.#handleAll(await this.#abandoned())
        await this.#handleAll(await this.#fresh())
      } catch {
        await this.#pause(PAUSE_MS)
      }
    }
  }

  async #handleAll(entries: readonly Entry[]): Promise<void> {
    for (const entry of entries) {
      if (this.#closed) return
      await this.#handle(entry)
    }
  }

  async #handle({ id, text }: Entry): Promise<void> {
    const { group, listener } = this.#options
    const message = readMessage(text)
    if ('reason' in message) return this.#bury({ id, text }, message.reason)
    try {
      if (message.kind === 'revoked') await listener.onRevoked?.(message.revocation)
      else if ([group, EVERY_TARGET].includes(message.action.target)) {
        await listener.onAction(message.action)
      }
    } catch (error) {
      const deliveries = await this.#deliveriesOf(id)
      if (deliveries >= this.#options.deliveriesMax) await this.#bury({ id, text }, reasonOf(error))
      return
    }
    await this.#acknowledge(id)
  }

  async #acknowledge(id: string): Promise<void> {
    const { stream, group } = this.#options
    await this.#command(['XACK', stream, group, id])
  }

  async #bury({ id, text }: Entry, reason: string): Promise<void> {
    const { stream, group } = this.#options
    const fields = ['target', group, 'reason', reason, 'message', text]
    await this.#command(['XADD', `${stream}:dead`, '*', ...fields])
    await this.#acknowledge(id)
  }

  async #deliveriesOf(id: string): Promise<number> {
    const { stream, group } = this.#options
    const reply = await this.#command(['XPENDING', stream, group, id, id, '1'])
    const [pending] = reply as readonly (readonly [string, string, number, number])[]
    return Number(pending?.[3] ?? 0)
  }

  async #abandoned(): Promise<readonly Entry[]> {
    const { stream, group, retryAfterMs } = this.#options
    const range = ['0', 'COUNT', String(READ_COUNT)]
    const reply = await this.#command([
      ...['XAUTOCLAIM', stream, group, this.#name, String(retryAfterMs)],
      ...range,
    ])
    return entriesOf((reply as readonly unknown[])[1])
  }

  async #fresh(): Promise<readonly Entry[]> {
    const { stream, group, retryAfterMs } = this.#options
    const reply = await this.#command([
      ...['XREADGROUP', 'GROUP', group, this.#name, 'COUNT', String(READ_COUNT)],
      ...['BLOCK', String(Math.min(PAUSE_MS, retryAfterMs)), 'STREAMS', stream, '>'],
    ])
    return streamEntries(reply)
  }

  #pause(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#options.runtime.setTimer(delayMs, resolve, { keepAlive: true })
    })
  }
}

/**
 * The entries of the only stream that was asked for: a list of pairs in the second version of the protocol, in the
 * third a map, of which some clients make an object and others a flat list.
 */
function streamEntries(reply: unknown): readonly Entry[] {
  if (reply === null || typeof reply !== 'object') return []
  if (!Array.isArray(reply)) return entriesOf(Object.values(reply)[0])
  const [first, second] = reply as readonly unknown[]
  return entriesOf(Array.isArray(first) ? first[1] : second)
}

/** An entry that was trimmed away meanwhile has no fields, and is left out. */
function entriesOf(reply: unknown): readonly Entry[] {
  if (!Array.isArray(reply)) return []
  return (reply as readonly (readonly [string, readonly string[] | null] | null)[]).flatMap(
    (entry) => {
      if (entry === null || entry[1] === null) return []
      const [id, fields] = entry
      const at = fields.indexOf('message')
      return [{ id, text: at < 0 ? '' : (fields[at + 1] ?? '') }]
    },
  )
}

/** node-redis connects when it is told to, ioredis by itself. */
async function connected(client: RedisBusClient): Promise<RedisBusClient> {
  if ('isOpen' in client && client.isOpen === false && 'connect' in client) {
    await (client.connect as () => Promise<unknown>).call(client)
  }
  return client
}

function disconnect(client: RedisBusClient): void {
  const name = 'destroy' in client ? 'destroy' : 'disconnect'
  const end = (client as unknown as Readonly<Record<string, () => void>>)[name]
  end?.call(client)
}
