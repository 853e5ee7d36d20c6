/**
 * Remembers the live entries of recently used resources, because each of a thousand tickets in one queue is decided on all
 * the others. It is used only inside a write transaction, and only while `data_version` says that no other connection has
 * committed since: then what this connection saw and wrote is all there is.
 */
import type { EntryChange } from '../../core/commit.ts'
import { isLive, type Entry, type LeaseId } from '../../core/lease.ts'
import type { Resource } from '../../core/resource.ts'
import type { SqliteRow, StatementCache } from '../../drivers/sqlite-driver.ts'

const RESOURCES_MAX = 20_000

export class LiveCache {
  readonly #statements: StatementCache
  readonly #entries = new Map<Resource, Map<LeaseId, Entry>>()
  #version: unknown = null

  constructor(statements: StatementCache) {
    this.#statements = statements
  }

  /** To be called inside each write transaction before anything is looked up. */
  begin(): void {
    const [version] = this.#statements.get('PRAGMA data_version').get() as SqliteRow
    if (version !== this.#version) this.#entries.clear()
    this.#version = version
  }

  at(resource: Resource, read: () => readonly Entry[]): ReadonlyMap<LeaseId, Entry> {
    const known = this.#entries.get(resource)
    if (known !== undefined) return known
    if (this.#entries.size >= RESOURCES_MAX) this.#entries.clear()
    const entries = new Map(read().map((entry) => [entry.id, entry]))
    this.#entries.set(resource, entries)
    return entries
  }

  /** What this connection has just written, whether or not it is committed in the end. */
  note({ id, before, after }: EntryChange): void {
    const entry = after ?? before
    const known = entry === undefined ? undefined : this.#entries.get(entry.resource)
    if (after !== null && isLive(after)) known?.set(id, after)
    else known?.delete(id)
  }

  /** After a rollback nothing that was noted is true. */
  forget(): void {
    this.#entries.clear()
  }
}
