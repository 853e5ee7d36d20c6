/**
 * Tells a call that is made from inside some work from one that is made beside it, however many awaits are between. Work
 * that waits for its own end would wait for ever; with this its caller can answer otherwise.
 *
 * What the work has started and left behind is not inside it any more once the work has ended.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

interface Scope {
  readonly owner: unknown
  isOpen: boolean
}

const scopes = new AsyncLocalStorage<readonly Scope[]>()

/** Runs the work of `owner`: an object, or a name that is its own. */
export async function within<Result>(
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

/** Runs what is nobody's part, although somebody's work may have set it off. */
export function outside<Result>(work: () => Result): Result {
  return scopes.run([], work)
}

export function isWithin(owner: unknown): boolean {
  return scopes.getStore()?.some((scope) => scope.isOpen && scope.owner === owner) ?? false
}
