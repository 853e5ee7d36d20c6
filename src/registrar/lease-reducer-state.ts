/**
 * What a reducer knows: questions, pruning, and a digest. Answers with several leases are in order of id, whatever the
 * order in which their events came.
 */
import type { Resource } from '../core/resource.ts'
import type { LeaseTable } from './lease-table.ts'
import type { LogicalTick } from './logical-tick.ts'
import { digestOf, ordered } from './reducer-checkpoint.ts'
import { isExpiredAt, isExpiredAtTick, type RegisteredLease } from './registered-lease.ts'
import { isTerminal } from './registrar-words.ts'
import { compareTimes, parseWallTime, type WallTime } from './wall-time.ts'

export class LeaseReducerState {
  readonly #table: LeaseTable

  constructor(table: LeaseTable) {
    this.#table = table
  }

  get leases(): ReadonlyMap<string, RegisteredLease> {
    return this.#table.leases
  }

  /** Work id, or resource for a lease of a store, to the id of its one active exclusive lease. */
  get activeLeasesByWork(): ReadonlyMap<string, string> {
    const { activeByResource, leases } = this.#table
    const named = [...activeByResource].map(([resource, leaseId]): [string, string] => {
      const lease = leases.get(leaseId)
      return [lease?.isRegistrars === true ? lease.workId : resource, leaseId]
    })
    return new Map(named)
  }

  get(leaseId: string): RegisteredLease | undefined {
    return this.#table.leases.get(leaseId)
  }

  /** The exclusive lease; for a work that is shared, the sharer with the smallest id. A resource may be asked for, too. */
  getActiveLeaseForWork(workId: string): RegisteredLease | undefined {
    const { activeByResource, sharersByResource, leases } = this.#table
    const found = resourcesNamed(workId).map((resource) => {
      return (
        activeByResource.get(resource) ?? [...(sharersByResource.get(resource) ?? [])].toSorted()[0]
      )
    })
    return leases.get(found.find((leaseId) => leaseId !== undefined) ?? '')
  }

  hasActiveLease(workId: string): boolean {
    return this.getActiveLeaseForWork(workId) !== undefined
  }

  activeLeases(): readonly RegisteredLease[] {
    const { activeByResource, sharersByResource, leases } = this.#table
    const ids = [
      ...activeByResource.values(),
      ...[...sharersByResource.values()].flatMap((set) => [...set]),
    ]
    return ordered(ids.map((id) => leases.get(id)).filter((lease) => lease !== undefined))
  }

  leasesByActor(actorId: string): readonly RegisteredLease[] {
    return ordered([...this.#table.leases.values()].filter((lease) => lease.actorId === actorId))
  }

  /** Active leases that are over at this tick, or of which that cannot be told. */
  getExpiredButActiveAtTick(now: LogicalTick): readonly RegisteredLease[] {
    return this.activeLeases().filter((lease) => isExpiredAtTick(lease, now))
  }

  /** @deprecated Wall clocks can be set; ask `getExpiredButActiveAtTick`. Throws `INVALID_INPUT` for what is no time. */
  getExpiredButActive(now: WallTime): readonly RegisteredLease[] {
    const time = parseWallTime('now', now)
    return this.activeLeases().filter((lease) => isExpiredAt(lease, time))
  }

  len(): number {
    return this.#table.leases.size
  }

  isEmpty(): boolean {
    return this.len() === 0
  }

  activeCount(): number {
    return this.#table.counts.ACTIVE
  }

  releasedCount(): number {
    return this.#table.counts.RELEASED
  }

  expiredCount(): number {
    return this.#table.counts.EXPIRED
  }

  revokedCount(): number {
    return this.#table.counts.REVOKED
  }

  terminalCount(): number {
    return this.len() - this.activeCount()
  }

  /** Forgets all leases that have ended, but not their ids; tells how many. */
  pruneTerminalLeases(): number {
    return this.#prune(() => true)
  }

  /** Forgets those that ended before a time by their own `terminatedAt`. */
  pruneTerminalLeasesBefore(before: WallTime): number {
    const limit = parseWallTime('before', before)
    return this.#prune(({ terminatedAt }) => {
      return terminatedAt !== null && compareTimes(terminatedAt, limit) < 0
    })
  }

  /** SHA-256 of the whole state in hex: equal for equal states, in whatever order they came about. */
  digest(): string {
    return digestOf(this.#table)
  }

  #prune(isOld: (lease: RegisteredLease) => boolean): number {
    // Of one that still keeps others out, a store has more to tell.
    const old = [...this.#table.leases.values()].filter((lease) => {
      return isTerminal(lease.state) && lease.entry.lockedUntil === null && isOld(lease)
    })
    for (const lease of old) this.#table.prune(lease)
    return old.length
  }
}

/** What a name may stand for: a resource of a store, or a work. */
function resourcesNamed(name: string): readonly Resource[] {
  return [name as Resource, `work:${name}` as Resource]
}
