/**
 * Finds out whether a call is made from inside some work, however many awaits are between. Work that waited for its own
 * end would wait for ever; with this the callee can refuse or not wait.
 *
 * Asynchronous work that outlives the work that started it is not inside it any more.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

interface Scope {
  readonly owner: unknown
  isOpen: boolean
}

const scopes = new AsyncLocalStorage<readonly Scope[]>()

/** Runs the work of `owner`, which is compared by identity. */
export async function runInScope<Result>(
  owner: unknown,
  work: () => Promise<Result> | Result,
): Promise<Result> {
  const scope = { owner, isOpen: true }
  const outer = (scopes.getStore() ?? []).filter(({ isOpen }) => isOpen)
  try {
    return await scopes.run([...outer, scope], work)
  } finally {
    scope.isOpen = false
  }
}

/** Runs work that belongs to no scope, although it may be started from inside one. */
export function runOutsideScopes<Result>(work: () => Result): Result {
  return scopes.run([], work)
}

export function isInsideScope(owner: unknown): boolean {
  return scopes.getStore()?.some((scope) => scope.isOpen && scope.owner === owner) ?? false
}
