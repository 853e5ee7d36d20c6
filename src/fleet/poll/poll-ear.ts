/**
 * Listens to channels on a connection of its own, which is made anew when it is lost. It subscribes by itself whenever
 * the connection is ready: when a driver does that and loses the connection meanwhile, nobody hears the rejection, which
 * ends the process. Whatever was said in between is lost, so the listener is told when it hears again.
 */
import { RepeatedFault, reportTo } from '../../runtime/diagnostics.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import type { RedisDriver } from '../../drivers/redis-driver.ts'
import { isReply } from '../../drivers/redis-errors.ts'
import { answerWithin, type Bound } from '../answer-within.ts'
import type { PollConnection } from './poll-connection.ts'

export interface EarListener {
  message(channel: string, text: string): void
  /** It hears again, after a time in which it did not. */
  heard(): void
}

export interface EarParts {
  readonly connection: PollConnection
  readonly channels: readonly string[]
  readonly listener: EarListener
  readonly runtime: Runtime
}

export class PollEar {
  readonly #connection: PollConnection
  readonly #channels: readonly string[]
  readonly #listener: EarListener
  readonly #fault: RepeatedFault
  #driver: RedisDriver | null = null
  #hasHeard = false

  constructor({ connection, channels, listener, runtime }: EarParts) {
    this.#connection = connection
    this.#channels = channels
    this.#listener = listener
    const clock = { monotonicMs: () => runtime.monotonicMs() }
    this.#fault = new RepeatedFault('fleet/redis/subscribe', clock)
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
        if (!isCurrent()) return
        this.#fault.failed(error)
        if (isReply(error)) reject(error)
      }
      driver.onReady(() => {
        if (isCurrent()) this.#subscribe(driver).then(resolve, fail)
      })
      // A driver goes on trying when the first attempt fails; then the connection is ready later.
      driver.connect().catch(fail)
    })
  }

  /** For a connection that cannot tell by itself that it has gone silent. */
  reopen(): void {
    if (this.#driver === null) return
    this.#driver.disconnect()
    this.open().catch(reportTo('fleet/redis/subscribe'))
  }

  /** A server answers after the last message; one that does not answer is not waited for longer than a call. */
  async end(bound: Bound): Promise<void> {
    const driver = this.#driver
    if (driver === null) return
    const ended = this.#channels.map((channel) => driver.unsubscribe(channel))
    try {
      await answerWithin(bound, Promise.all(ended))
    } finally {
      this.close()
    }
  }

  close(): void {
    this.#driver?.disconnect()
    this.#driver = null
  }

  async #subscribe(driver: RedisDriver): Promise<void> {
    await Promise.all(this.#channels.map((channel) => driver.subscribe(channel)))
    this.#fault.succeeded()
    if (this.#hasHeard) this.#listener.heard()
    this.#hasHeard = true
  }
}
