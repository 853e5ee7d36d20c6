/** Lets callers wait for an answer of the store, but not beyond the loss of the lease that it is about. */
import type { LeaseError } from '../core/errors.ts'

export class LossRace {
  readonly #waiters = new Set<(error: LeaseError) => void>()

  run<Answer>(call: Promise<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiters.add(reject)
      const settled = (): void => void this.#waiters.delete(reject)
      call.then(resolve, reject).finally(settled)
    })
  }

  lose(error: LeaseError): void {
    for (const reject of this.#waiters) reject(error)
    this.#waiters.clear()
  }
}
