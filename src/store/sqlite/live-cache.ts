/**
 * Remembers the live entries of recently used resources, so that a release or renewal need not read what this
 * connection has written itself. It is believed only inside a write transaction, and only while `data_version` says that no other
 * connection has committed since: then what this connection saw and wrote is all there is.
 */
import type { EntryChange } from '../../core/commit.ts'
import { isLive, type Entry, type LeaseId } from '../../core/lease.ts'
import type { StatementCache } from '../../drivers/sqlite-driver.ts'
import { pathOf } from './sqlite-columns.ts'

const PATHS_MAX = 20_000

export class LiveCache {
  readonly #statements: StatementCache
  readonly #entries = new Map<string, Map<LeaseId, Entry>>()
  #version: unknown = null

  constructor(statements: StatementCache) {
    this.#statements = statements
  }

  /**
   * To be called inside each write transaction before anything is looked up. False when another connection has
   * committed since the last time, or nothing is known about it.
   */
  validate(): boolean {
    const [version] = this.#statements.get('PRAGMA data_version').get() as readonly [number]
    if (version === this.#version) return true
    this.#entries.clear()
    this.#version = version
    return false
  }

  get(path: string): Iterable<Entry> | null {
    return this.#entries.get(path)?.values() ?? null
  }

  /** Undefined for what is not live, as well as for what is not known. */
  entry(path: string, id: LeaseId): Entry | undefined {
    return this.#entries.get(path)?.get(id)
  }

  set(path: string, entries: readonly Entry[]): void {
    if (this.#entries.size >= PATHS_MAX) this.#entries.clear()
    this.#entries.set(path, new Map(entries.map((entry) => [entry.id, entry])))
  }

  /** What this connection has just written, whether or not it is committed in the end. */
  note({ id, before, after }: EntryChange): void {
    const entry = after ?? before
    const known = entry === undefined ? undefined : this.#entries.get(pathOf(entry.resource))
    if (known === undefined) return
    if (after !== null && isLive(after)) known.set(id, after)
    else known.delete(id)
  }

  /** After a rollback nothing that was noted is true. */
  forget(): void {
    this.#entries.clear()
    this.#version = null
  }
}
