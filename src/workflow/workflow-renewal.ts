/**
 * Renews the lease of a workflow when less than `renewBelowMs` is left, and retries at ever shorter intervals when that
 * fails. The handle of the lease detects its loss; this class does not.
 */
import type { Lease } from '../client/contract.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'

const RETRY_MS_MAX = 1_000
const RETRY_MS_MIN = 20

export interface WorkflowRenewalOptions {
  readonly lease: Lease
  readonly runtime: Runtime
  /** Renews as soon as less than this is left. */
  readonly renewBelowMs: number
}

export class WorkflowRenewal {
  readonly #options: WorkflowRenewalOptions
  readonly #fault: RepeatedFault
  #timer: Timer | null = null
  #stopped = false

  constructor(options: WorkflowRenewalOptions) {
    this.#options = options
    this.#fault = new RepeatedFault('workflow/renewal', options.runtime)
    this.#schedule(this.#untilDueMs())
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
  }

  /** Goes on after a stop, if there is something left to renew. */
  resume(): void {
    if (!this.#stopped || isOver(this.#options.lease)) return
    this.#stopped = false
    this.#schedule(this.#untilDueMs())
  }

  #untilDueMs(): number {
    const { lease, renewBelowMs } = this.#options
    return Math.max(0, lease.remainingMs - renewBelowMs)
  }

  #schedule(delayMs: number): void {
    const { runtime } = this.#options
    this.#timer = runtime.setTimer(delayMs, () => void this.#renew(), { keepAlive: false })
  }

  async #renew(): Promise<void> {
    const { lease } = this.#options
    if (this.#stopped || isOver(lease)) return
    const renewed = await this.#tryRenewal()
    if (this.#stopped || isOver(lease)) return
    const retryMs = Math.max(RETRY_MS_MIN, Math.min(RETRY_MS_MAX, lease.remainingMs / 4))
    this.#schedule(renewed ? Math.max(RETRY_MS_MIN, this.#untilDueMs()) : retryMs)
  }

  async #tryRenewal(): Promise<boolean> {
    try {
      await this.#options.lease.renew()
      this.#fault.succeeded()
      return true
    } catch (error) {
      this.#fault.failed(error)
      return false
    }
  }
}

function isOver({ state }: Lease): boolean {
  return state === 'lost' || state === 'released'
}
