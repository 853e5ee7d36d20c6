/** Runs effects that share a name one after the other; effects with different names run in parallel. */
import { LeaseError } from '../core/errors.ts'
import { SerialQueue } from '../runtime/serial-queue.ts'
import { isInsideScope, runInScope } from './work-scope.ts'

export class EffectQueue {
  readonly #queue = new SerialQueue<string>()
  /** One scope for each name that has been run; a scope is compared by identity. */
  readonly #scopes = new Map<string, object>()

  /** Throws `DEADLOCK` when it is called inside an effect of the same name, which cannot end before this one has. */
  async run<Result>(name: string, effect: () => Promise<Result>): Promise<Result> {
    const scope = this.#scopes.get(name) ?? {}
    if (isInsideScope(scope)) {
      const message =
        'an effect must not wait for another turn on its own marks: it would never end'
      throw new LeaseError('DEADLOCK', message)
    }
    this.#scopes.set(name, scope)
    const result = this.#queue.run([name], () => runInScope(scope, effect))
    return result.finally(() => {
      if (!this.#queue.has(name)) this.#scopes.delete(name)
    })
  }
}
