/**
 * What work under a guard must not do. Where what protects it ends when it returns, it must be done then: an async function
 * is refused before it runs, because its second half would write what no guard checks any more.
 */
import { invalid, LeaseError } from '../core/errors.ts'
import { reportTo } from '../runtime/diagnostics.ts'

const AsyncFunction = (async () => undefined).constructor

export function requireSynchronous(work: unknown): void {
  if (typeof work !== 'function') throw invalid('work', 'must be a function', work)
  if (work instanceof AsyncFunction) {
    throw invalid('work', 'must not be asynchronous', 'an async function')
  }
}

/** A promise that came all the same is refused, and when it fails later it is reported: no caller hears of it. */
export function requireResult<Result>(result: Result): Result {
  if (!isThenable(result)) return result
  Promise.resolve(result).catch(reportTo('guard/refused-work'))
  throw invalid('work', 'must not be asynchronous', 'a promise')
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  if (typeof value !== 'object' || value === null) return false
  return 'then' in value && typeof value.then === 'function'
}

/** Of work that has ended the transaction in which its mark was raised, whether or not it has begun another. */
export function endedError(): LeaseError {
  const message = 'work must not end the transaction, got one that did: what it wrote may stand'
  return new LeaseError('INVALID_INPUT', message, { details: { field: 'work' }, effect: 'unknown' })
}
