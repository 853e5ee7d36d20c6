/**
 * Work that must be done when it returns, because what protects it ends then. An async function is refused before it
 * runs: its second half would come later, and write what nobody checks any more.
 */
import { invalid } from '../core/errors.ts'
import { reportTo } from '../runtime/diagnostics.ts'

const AsyncFunction = (async () => undefined).constructor

export function requireSynchronous(work: unknown): void {
  if (typeof work !== 'function') throw invalid('work', 'must be a function', work)
  if (work instanceof AsyncFunction) {
    throw invalid('work', 'must not be asynchronous', 'an async function')
  }
}

/** A promise that came all the same is refused, and when it fails later it is reported: nobody else hears of it. */
export function requireResult<Result>(result: Result): Result {
  if (!isThenable(result)) return result
  Promise.resolve(result).catch(reportTo('guard/refused-work'))
  throw invalid('work', 'must not be asynchronous', 'a promise')
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  if (typeof value !== 'object' || value === null) return false
  return 'then' in value && typeof value.then === 'function'
}
