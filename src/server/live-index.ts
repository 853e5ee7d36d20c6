/**
 * What is live in a namespace, kept from its ledger: how many leases and waiting requests of each kind, and of each holder.
 * It is read at the start, and again only if the store has lost its data: a scrape or a quota costs no look at the store.
 * Leases whose history is not kept are not in it.
 */
import type { LeaseEvent } from '../core/event.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import { LIST_LIMIT_DEFAULT } from '../core/limits.ts'
import { kindOf } from '../core/resource.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import { matchesAny } from './caller.ts'

export type LiveState = 'active' | 'pending'

interface LiveEntry {
  readonly kind: string
  readonly holder: string
  readonly state: LiveState
}

export class LiveIndex {
  readonly #entries = new Map<LeaseId, LiveEntry>()
  readonly #byHolder = new Map<string, number>()
  readonly #byKind: Record<LiveState, Map<string, number>> = {
    active: new Map(),
    pending: new Map(),
  }
  /** While the list is read: what an event has told of already, and the list may show as it was before. */
  #told: Set<LeaseId> | null = new Set()

  apply({ leaseId, resource, holder, after }: LeaseEvent): void {
    this.#told?.add(leaseId)
    this.#remove(leaseId)
    if (after !== 'active' && after !== 'pending') return
    this.#add(leaseId, { kind: kindOf(resource), holder, state: after })
  }

  /** Events must be applied from before this is called. */
  async load(api: Pick<LeaseApi, 'list'>): Promise<void> {
    let after: string | undefined
    do {
      const page = await api.list({
        limit: LIST_LIMIT_DEFAULT,
        ...(after === undefined ? {} : { after }),
      })
      for (const lease of page.leases) this.#addListed(lease)
      after = page.next
    } while (after !== undefined)
    this.#told = null
  }

  /** It must be loaded anew. */
  forget(): void {
    const counts = [this.#byHolder, this.#byKind.active, this.#byKind.pending]
    for (const one of [this.#entries, ...counts]) one.clear()
    this.#told = new Set()
  }

  has(id: LeaseId): boolean {
    return this.#entries.has(id)
  }

  /** Leases and waiting requests of all holders that match. */
  countOf(patterns: readonly string[]): number {
    let count = 0
    for (const [holder, own] of this.#byHolder) if (matchesAny(patterns, holder)) count += own
    return count
  }

  countsByKind(state: LiveState): ReadonlyMap<string, number> {
    return this.#byKind[state]
  }

  #addListed({ id, resource, holder, state }: LeaseInfo): void {
    // It is there already if the list was cut short before, and is read once more.
    if (this.#told?.has(id) === true || this.#entries.has(id)) return
    if (state !== 'active' && state !== 'pending') return
    this.#add(id, { kind: kindOf(resource), holder, state })
  }

  #add(id: LeaseId, entry: LiveEntry): void {
    this.#entries.set(id, entry)
    count(this.#byHolder, entry.holder, 1)
    count(this.#byKind[entry.state], entry.kind, 1)
  }

  #remove(id: LeaseId): void {
    const entry = this.#entries.get(id)
    if (entry === undefined) return
    this.#entries.delete(id)
    count(this.#byHolder, entry.holder, -1)
    count(this.#byKind[entry.state], entry.kind, -1)
  }
}

function count(counts: Map<string, number>, key: string, change: number): void {
  const next = (counts.get(key) ?? 0) + change
  if (next === 0) counts.delete(key)
  else counts.set(key, next)
}
