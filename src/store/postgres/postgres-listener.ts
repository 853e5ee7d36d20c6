/**
 * Hears NOTIFY on a connection beside the pool, one for all stores on it: so the program may end its pool before its
 * stores, and every connection of the pool is there for calls.
 */
import type { LoneClient, PostgresCaller, PostgresPool } from '../../drivers/postgres-driver.ts'
import { reportTo } from '../../runtime/diagnostics.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import {
  ChannelListener,
  type ChannelEvents,
  type ListeningConnection,
} from '../optimistic/channel-listener.ts'

export interface PostgresListenerOptions {
  readonly caller: PostgresCaller
  readonly runtime: Runtime
  readonly callMs: number
}

const listeners = new WeakMap<PostgresPool, ChannelListener>()

/** The options are those of the first store on the pool. */
export function listenerOn(pool: PostgresPool, options: PostgresListenerOptions): ChannelListener {
  const { caller, runtime, callMs } = options
  const listener =
    listeners.get(pool) ??
    new ChannelListener({
      ...{ runtime, callMs, source: 'store/postgres/listen' },
      connection: (events) => new NotifiedConnection(caller, events),
    })
  listeners.set(pool, listener)
  return listener
}

class NotifiedConnection implements ListeningConnection {
  readonly #caller: PostgresCaller
  readonly #events: ChannelEvents
  #client: LoneClient | null = null

  constructor(caller: PostgresCaller, events: ChannelEvents) {
    this.#caller = caller
    this.#events = events
  }

  async open(): Promise<void> {
    void this.close().catch(reportTo('store/postgres/listen'))
    const client = await this.#caller.connectBeside()
    this.#client = client
    client.on('notification', ({ channel, payload }) => {
      if (client === this.#client) this.#events.message(channel, payload ?? '')
    })
    client.on('error', (error) => {
      // One that is being closed may still complain.
      if (client === this.#client) this.#events.lost(error)
    })
    // Subscribers are served as long as something else keeps the process alive: a wait does, a held lease does not.
    client.unref?.()
  }

  listen(channels: readonly string[]): Promise<unknown> {
    return this.#ask(channels.map((channel) => `LISTEN ${channel}`).join('; '))
  }

  unlisten(channel: string): Promise<unknown> {
    return this.#ask(`UNLISTEN ${channel}`)
  }

  ping(): Promise<unknown> {
    return this.#ask('SELECT 1')
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = null
    await client?.end()
  }

  /** Channel names are made by us of letters and digits only; LISTEN takes no values. */
  async #ask(text: string): Promise<void> {
    if (this.#client !== null) await this.#caller.ask(this.#client, text)
  }
}
