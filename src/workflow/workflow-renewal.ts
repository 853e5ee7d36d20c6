/**
 * Renews the lease of a workflow when little of it is left, and tries again, ever sooner, when that fails. The loss of
 * the lease is its handle's to notice: nothing here is waited for.
 */
import type { Lease } from '../client/contract.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'

const RETRY_MS_MAX = 1_000
const RETRY_MS_MIN = 20

export interface RenewalParts {
  readonly lease: Lease
  readonly runtime: Runtime
  /** Renews as soon as less than this is left. */
  readonly renewBelowMs: number
}

export class WorkflowRenewal {
  readonly #parts: RenewalParts
  readonly #fault: RepeatedFault
  #timer: Timer | null = null
  #stopped = false

  constructor(parts: RenewalParts) {
    this.#parts = parts
    this.#fault = new RepeatedFault('workflow/renewal', parts.runtime)
    this.#arm(this.#untilDueMs())
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
  }

  /** Goes on after a stop, if there is something left to renew. */
  resume(): void {
    if (!this.#stopped || isOver(this.#parts.lease)) return
    this.#stopped = false
    this.#arm(this.#untilDueMs())
  }

  #untilDueMs(): number {
    const { lease, renewBelowMs } = this.#parts
    return Math.max(0, lease.remainingMs - renewBelowMs)
  }

  #arm(delayMs: number): void {
    const { runtime } = this.#parts
    this.#timer = runtime.setTimer(delayMs, () => void this.#renew(), { keepAlive: false })
  }

  async #renew(): Promise<void> {
    const { lease } = this.#parts
    if (this.#stopped || isOver(lease)) return
    const renewed = await this.#tryRenewal()
    if (this.#stopped || isOver(lease)) return
    const retryMs = Math.max(RETRY_MS_MIN, Math.min(RETRY_MS_MAX, lease.remainingMs / 4))
    this.#arm(renewed ? Math.max(RETRY_MS_MIN, this.#untilDueMs()) : retryMs)
  }

  async #tryRenewal(): Promise<boolean> {
    try {
      await this.#parts.lease.renew()
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
