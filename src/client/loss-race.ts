/**
 * Lets callers wait for an answer of the store, but not beyond the loss of the lease that it is about, and aborts the
 * lease's signal at that moment.
 */
import type { LeaseError } from '../core/errors.ts'

export class LossRace {
  readonly #waiters = new Set<(error: LeaseError) => void>()
  /** Made when somebody asks for the signal; most leases are released without anybody having done so. */
  #controller: AbortController | null = null
  #lost: LeaseError | null = null

  get lost(): LeaseError | null {
    return this.#lost
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#lost !== null) this.#controller.abort(this.#lost)
    return this.#controller.signal
  }

  run<Answer>(call: Promise<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiters.add(reject)
      const settled = (): void => void this.#waiters.delete(reject)
      call.then(resolve, reject).finally(settled)
    })
  }

  lose(error: LeaseError): void {
    this.#lost = error
    this.#controller?.abort(error)
    for (const reject of this.#waiters) reject(error)
    this.#waiters.clear()
  }
}
