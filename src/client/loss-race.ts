/**
 * Lets callers wait for an answer of the store, but not beyond the loss of the lease that it is about, and aborts the
 * lease's signal at that moment.
 */
import type { LeaseError } from '../core/errors.ts'
import { newAbortController } from '../runtime/abort-listeners.ts'

export class LossRace {
  #waiters: Set<(error: LeaseError) => void> | null = null
  /** Made when somebody asks for the signal; most leases are released without anybody having done so. */
  #controller: AbortController | null = null
  #lost: LeaseError | null = null

  get lost(): LeaseError | null {
    return this.#lost
  }

  get signal(): AbortSignal {
    this.#controller ??= newAbortController()
    if (this.#lost !== null) this.#controller.abort(this.#lost)
    return this.#controller.signal
  }

  run<Answer>(call: Promise<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const waiters = (this.#waiters ??= new Set())
      waiters.add(reject)
      call.then(
        (answer) => {
          waiters.delete(reject)
          resolve(answer)
        },
        (error: unknown) => {
          waiters.delete(reject)
          reject(error)
        },
      )
    })
  }

  lose(error: LeaseError): void {
    this.#lost = error
    this.#controller?.abort(error)
    for (const reject of this.#waiters ?? []) reject(error)
    this.#waiters = null
  }
}
