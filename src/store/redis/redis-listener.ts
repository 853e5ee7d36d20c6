/** Hears what is published, on a connection of its own. */
import type { RedisDriver } from '../../drivers/redis-driver.ts'
import { withoutCommand } from '../../drivers/redis-errors.ts'
import { report } from '../../runtime/diagnostics.ts'
import type { ChannelEvents, ListeningConnection } from '../optimistic/channel-listener.ts'

export class SubscribedConnection implements ListeningConnection {
  readonly #source: RedisDriver
  readonly #events: ChannelEvents
  #driver: RedisDriver | null = null

  constructor(source: RedisDriver, events: ChannelEvents) {
    this.#source = source
    this.#events = events
  }

  /** A connection that was lost the driver makes again by itself: it is waited for, until that has failed once. */
  async open(): Promise<void> {
    const driver = this.#driver ?? this.#duplicate()
    if (driver.isReady && driver === this.#driver) return
    const isNew = driver !== this.#driver
    this.#driver = driver
    const leave: (() => void)[] = []
    try {
      await new Promise<void>((resolve, reject) => {
        leave.push(driver.onReady(resolve))
        leave.push(driver.onClosed(() => reject(new Error('the connection was closed'))))
        if (isNew) driver.connect().then(() => resolve(), reject)
      })
    } catch (error) {
      throw withoutCommand(error)
    } finally {
      for (const one of leave) one()
    }
  }

  #duplicate(): RedisDriver {
    const driver = this.#source.duplicate()
    driver.onMessage((channel, message) => this.#events.message(channel, message))
    driver.onClosed(() => this.#events.lost(new Error('the connection was closed')))
    return driver
  }

  async listen(channels: readonly string[]): Promise<void> {
    try {
      const driver = this.#driver
      if (driver !== null) await Promise.all(channels.map((channel) => driver.subscribe(channel)))
    } catch (error) {
      throw withoutCommand(error)
    }
  }

  /** A subscription that the server does not end costs messages without a subscriber. */
  async unlisten(channel: string): Promise<void> {
    const driver = this.#driver
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
