/**
 * Listens to channels on a connection of its own, which is made anew when it is lost. It subscribes by itself whenever
 * the connection is ready: when a driver does that and loses the connection meanwhile, nobody hears the rejection, which
 * ends the process. Whatever was said in between is lost, so the listener is told when it hears again.
 */
import type { RedisDriver } from '../../store/redis/redis-client.ts'
import { isRefusal, type PollConnection } from './poll-connection.ts'

export interface EarListener {
  message(channel: string, text: string): void
  /** It hears again, after a time in which it did not. */
  heard(): void
}

export class PollEar {
  readonly #connection: PollConnection
  readonly #channels: readonly string[]
  readonly #listener: EarListener
  #driver: RedisDriver | null = null
  #hasHeard = false

  constructor(connection: PollConnection, channels: readonly string[], listener: EarListener) {
    this.#connection = connection
    this.#channels = channels
    this.#listener = listener
  }

  /** Resolves when every channel is subscribed to for the first time; rejects when the server refuses that. */
  open(): Promise<void> {
    const driver = this.#connection.duplicate()
    this.#driver = driver
    const isCurrent = (): boolean => this.#driver === driver
    driver.onMessage((channel, text) => {
      if (isCurrent()) this.#listener.message(channel, text)
    })
    return new Promise((resolve, reject) => {
      const fail = (error: unknown): void => {
        if (isRefusal(error)) reject(error)
      }
      driver.onReady(() => {
        if (isCurrent()) this.#subscribe(driver).then(resolve, fail)
      })
      // A driver goes on trying when the first attempt fails; then the connection is ready later.
      driver.connect().catch(nothing)
    })
  }

  /** For a connection that cannot tell by itself that it has gone silent. */
  reopen(): void {
    if (this.#driver === null) return
    this.#driver.disconnect()
    this.open().catch(nothing)
  }

  close(): void {
    this.#driver?.disconnect()
    this.#driver = null
  }

  async #subscribe(driver: RedisDriver): Promise<void> {
    await Promise.all(this.#channels.map((channel) => driver.subscribe(channel)))
    if (this.#hasHeard) this.#listener.heard()
    this.#hasHeard = true
  }
}

/** The next time that the connection is ready it is tried again. */
function nothing(): void {
  return undefined
}
