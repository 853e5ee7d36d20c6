/** The leases that are shown, in their order, and laid out under the folders they are in. */
import type { LeaseId, LeaseInfo } from '../../core/lease.ts'
import {
  comparerOf,
  matcherOf,
  type Compare,
  type LeaseFilter,
  type LeaseOrder,
} from './lease-filter.ts'
import type { Changes, LiveLeases } from './live-leases.ts'

/** A change costs one pass over the rows and a sort of what has changed; only another filter or order sorts everything. */
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

export interface FolderRow {
  readonly kind: 'folder'
  /** With its kind, up to and with the last `/` or `:`. */
  readonly path: string
  /** The part of the path below the folder above it. */
  readonly label: string
  readonly depth: number
  readonly count: number
  readonly isClosed: boolean
}

export interface LeaseRow {
  readonly kind: 'lease'
  readonly lease: LeaseInfo
  readonly label: string
  readonly depth: number
}

export type Row = FolderRow | LeaseRow

interface OpenFolder {
  readonly path: string
  readonly isClosed: boolean
}

export function flatRow(lease: LeaseInfo): LeaseRow {
  return { kind: 'lease', lease, label: lease.resource, depth: 0 }
}

/**
 * `file:/repo/src/` above `app.ts`, a kind above its names; a folder with one lease gets no row of its own. `leases` must be in
 * ascending order of their resources.
 */
export function folderRows(
  leases: readonly LeaseInfo[],
  closed: ReadonlySet<string>,
): readonly Row[] {
  const rows: Row[] = []
  const open: OpenFolder[] = []
  for (let index = 0; index < leases.length; index += 1) {
    const lease = leases[index]
    if (lease === undefined) break
    const { resource } = lease
    while (open.length > 0 && !resource.startsWith(open.at(-1)?.path ?? '')) open.pop()
    if (open.at(-1)?.isClosed === true) continue
    const path = folderOf(resource)
    const parent = open.at(-1)?.path ?? ''
    if (path !== parent && leases[index + 1]?.resource.startsWith(path) === true) {
      const folder = { path, isClosed: closed.has(path) }
      const count = countBelow(leases, index, path)
      const label = path.slice(parent.length)
      rows.push({ kind: 'folder', ...folder, label, depth: open.length, count })
      open.push(folder)
      if (folder.isClosed) {
        index += count - 1
        continue
      }
    }
    const label = resource.slice(open.at(-1)?.path.length ?? 0)
    rows.push({ kind: 'lease', lease, label: label === '' ? resource : label, depth: open.length })
  }
  return rows
}

function folderOf(resource: string): string {
  const slash = resource.lastIndexOf('/')
  return resource.slice(0, (slash < 0 ? resource.indexOf(':') : slash) + 1)
}

/** Those below a folder stand together: its end is found by halving. */
function countBelow(leases: readonly LeaseInfo[], from: number, path: string): number {
  let low = from
  let high = leases.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (leases[middle]?.resource.startsWith(path) === true) low = middle + 1
    else high = middle
  }
  return low - from
}
