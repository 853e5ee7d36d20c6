/**
 * The background sweep that any open process takes part in, as `auto_expire_enabled` and `cleanup_interval_seconds`
 * say at the moment. A sweep that fails is reported and tried again after growing pauses; no lease depends on it, but a
 * store that is never pruned grows until its disk is full.
 */
import { RepeatedFault } from '../runtime/diagnostics.ts'

import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { LeaseApi } from './lease-api.ts'

/** How soon a change of the interval is noticed. */
const GLANCE_MS = 1_000
const RETRY_MS_MAX = 60_000

export class Sweeper {
  readonly #api: Pick<LeaseApi, 'settings' | 'cleanup'>
  readonly #runtime: Runtime
  readonly #fault: RepeatedFault
  #lastSweepMs: number
  #timer: Timer | null = null
  #underWay: Promise<void> | null = null

  constructor(api: Pick<LeaseApi, 'settings' | 'cleanup'>, runtime: Runtime) {
    this.#api = api
    this.#runtime = runtime
    const monotonicMs = (): number => runtime.monotonicMs()
    this.#fault = new RepeatedFault('service/sweep', { monotonicMs })
    this.#lastSweepMs = runtime.monotonicMs()
    this.#arm()
  }

  async stop(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    await this.#underWay
  }

  #arm(): void {
    const delayMs = Math.min(RETRY_MS_MAX, GLANCE_MS * 2 ** Math.min(this.#fault.count, 10))
    this.#timer = this.#runtime.setTimer(delayMs, () => this.#glance(), { keepAlive: false })
  }

  #glance(): void {
    this.#underWay = this.#sweepIfDue().then(() => {
      this.#underWay = null
      if (this.#timer !== null) this.#arm()
    })
  }

  async #sweepIfDue(): Promise<void> {
    try {
      const settings = await this.#api.settings({})
      const sinceMs = this.#runtime.monotonicMs() - this.#lastSweepMs
      const isDue = sinceMs >= settings.cleanup_interval_seconds * 1000
      if (settings.auto_expire_enabled && isDue) {
        await this.#api.cleanup()
        this.#lastSweepMs = this.#runtime.monotonicMs()
      }
      this.#fault.succeeded()
    } catch (error) {
      if (this.#timer !== null) this.#fault.failed(error)
    }
  }
}
