/**
 * The background sweep that any open process takes part in, as `auto_expire_enabled` and `cleanup_interval_seconds`
 * say at the moment. A sweep that fails is tried again at the next interval; nothing depends on it.
 */
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { LeaseApi } from './lease-api.ts'

/** How soon a change of the interval is noticed. */
const GLANCE_MS = 1_000

export class Sweeper {
  readonly #api: Pick<LeaseApi, 'settings' | 'cleanup'>
  readonly #runtime: Runtime
  #lastSweepMs: number
  #timer: Timer | null = null
  #underWay: Promise<void> | null = null

  constructor(api: Pick<LeaseApi, 'settings' | 'cleanup'>, runtime: Runtime) {
    this.#api = api
    this.#runtime = runtime
    this.#lastSweepMs = runtime.monotonicMs()
    this.#arm()
  }

  async stop(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    await this.#underWay
  }

  #arm(): void {
    this.#timer = this.#runtime.setTimer(GLANCE_MS, () => this.#glance(), { keepAlive: false })
  }

  #glance(): void {
    const sweep = this.#sweepIfDue().catch(() => undefined)
    this.#underWay = sweep.then(() => {
      this.#underWay = null
      if (this.#timer !== null) this.#arm()
    })
  }

  async #sweepIfDue(): Promise<void> {
    const settings = await this.#api.settings(null)
    const sinceMs = this.#runtime.monotonicMs() - this.#lastSweepMs
    if (!settings.auto_expire_enabled || sinceMs < settings.cleanup_interval_seconds * 1000) return
    this.#lastSweepMs = this.#runtime.monotonicMs()
    await this.#api.cleanup()
  }
}
