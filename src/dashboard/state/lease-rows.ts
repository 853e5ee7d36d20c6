/**
 * The leases that are shown, in their order. A change costs one pass over the rows and a sort of what has changed; only
 * another filter or order sorts everything.
 */
import type { LeaseId, LeaseInfo } from '../../core/lease.ts'
import {
  comparerOf,
  matcherOf,
  type Compare,
  type LeaseFilter,
  type LeaseOrder,
} from './lease-filter.ts'
import type { Changes, LiveLeases } from './live-leases.ts'

export class LeaseRows {
  readonly #leases: LiveLeases
  readonly #changes: Changes
  #rows: readonly LeaseInfo[] = []
  #filter: LeaseFilter | null = null
  #order: LeaseOrder | null = null
  #compare: Compare = () => 0

  constructor(leases: LiveLeases) {
    this.#leases = leases
    this.#changes = leases.follow()
  }

  end(): void {
    this.#changes.end()
  }

  /** The rows as of now. `filter` and `order` are taken for new when they are other objects. */
  update(filter: LeaseFilter, order: LeaseOrder, nowMs: number): readonly LeaseInfo[] {
    const changed = this.#changes.take()
    const isAnew = filter !== this.#filter || order !== this.#order
    const isMatch = matcherOf(filter, nowMs)
    this.#filter = filter
    this.#order = order
    // Both depend on more than the lease itself.
    if (isAnew || filter.shown === 'expiring' || order.key === 'queue') {
      this.#compare = comparerOf(order, (resource) => this.#leases.queueOf(resource))
      this.#rows = [...this.#leases.all()].filter(isMatch).sort(this.#compare)
    } else if (changed.size > 0) {
      this.#rows = this.#merged(changed, isMatch)
    }
    return this.#rows
  }

  #merged(
    changed: ReadonlySet<LeaseId>,
    isMatch: (lease: LeaseInfo) => boolean,
  ): readonly LeaseInfo[] {
    const news = [...changed]
      .flatMap((id) => this.#leases.get(id) ?? [])
      .filter(isMatch)
      .sort(this.#compare)
    const rows: LeaseInfo[] = []
    let next = 0
    for (const lease of this.#rows) {
      if (changed.has(lease.id)) continue
      for (
        let one = news[next];
        one !== undefined && this.#compare(one, lease) < 0;
        one = news[next]
      ) {
        rows.push(one)
        next += 1
      }
      rows.push(lease)
    }
    for (const one of news.slice(next)) rows.push(one)
    return rows
  }
}
