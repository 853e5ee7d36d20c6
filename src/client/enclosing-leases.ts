/**
 * Inside which leases a piece of work runs, so that what it asks for is known to be under them. Work that `withLease`
 * runs is inside its lease and all that enclose it, and never inside those of sibling branches.
 *
 * The storage is made by the first `withLease` of the process: from then on every await of the process is dearer (2.2
 * times on Node 20), which nobody pays who does not use it.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { LeaseId } from '../core/lease.ts'
import { UNDER_MAX } from '../core/limits.ts'

interface Enclosure {
  readonly client: object
  readonly leaseId: LeaseId
  readonly outer: Enclosure | null
}

let enclosures: AsyncLocalStorage<Enclosure> | null = null

/** Runs work inside a lease of this client. */
export function runInside<Result>(
  { client, leaseId }: Pick<Enclosure, 'client' | 'leaseId'>,
  work: () => Result,
): Result {
  enclosures ??= new AsyncLocalStorage()
  const outer = enclosures.getStore() ?? null
  return enclosures.run({ client, leaseId, outer }, work)
}

/** The leases of this client that the caller runs inside of, the innermost first; null if there are none. */
export function enclosingLeases(client: object): readonly LeaseId[] | null {
  const leaseIds: LeaseId[] = []
  let each = enclosures?.getStore() ?? null
  for (; each !== null && leaseIds.length < UNDER_MAX; each = each.outer) {
    if (each.client === client) leaseIds.push(each.leaseId)
  }
  return leaseIds.length === 0 ? null : leaseIds
}
