/**
 * Which leases are shown and in which order, both of which stand in the page's address, and how they are laid out under the
 * folders they are in.
 */
import type { LeaseId, LeaseInfo } from '../../core/lease.ts'
import { kindOf } from '../../core/resource.ts'
import type { Changes, LiveLeases } from './live-leases.ts'

export type Shown = 'all' | 'held' | 'waiting' | 'expiring' | 'revoking'
export const SHOWN: readonly Shown[] = ['all', 'held', 'waiting', 'expiring', 'revoking']

export type SortKey = 'resource' | 'holder' | 'since' | 'left' | 'renewals' | 'fence' | 'queue'
export const SORT_KEYS: readonly SortKey[] = [
  ...(['resource', 'holder', 'since', 'left', 'renewals', 'fence', 'queue'] as const),
]

export interface LeaseFilter {
  /** Words that all must occur in resource, holder or reason. */
  readonly text: string
  /** Empty: any. */
  readonly kind: string
  /** Exactly this one; empty: any. */
  readonly holder: string
  readonly shown: Shown
}

export interface LeaseOrder {
  readonly key: SortKey
  readonly isDescending: boolean
}

/** Its holder has let most of its time pass: it may be gone. */
export function isExpiring({ state, expiresAtMs, ttlMs }: LeaseInfo, nowMs: number): boolean {
  return state === 'active' && expiresAtMs !== null && expiresAtMs - nowMs < ttlMs / 5
}

/** Makes a test of the filter, as of now. */
export function matcherOf(filter: LeaseFilter, nowMs: number): (lease: LeaseInfo) => boolean {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean)
  const { kind, holder, shown } = filter
  return (lease) => {
    if (kind !== '' && kindOf(lease.resource) !== kind) return false
    if (holder !== '' && lease.holder !== holder) return false
    if (!isShown(lease, shown, nowMs)) return false
    if (words.length === 0) return true
    const text = `${lease.resource}\n${lease.holder}\n${lease.reason ?? ''}`.toLowerCase()
    return words.every((word) => text.includes(word))
  }
}

function isShown(lease: LeaseInfo, shown: Shown, nowMs: number): boolean {
  switch (shown) {
    case 'all':
      return true
    case 'held':
      return lease.state === 'active'
    case 'waiting':
      return lease.state === 'pending'
    case 'expiring':
      return isExpiring(lease, nowMs)
    case 'revoking':
      return lease.revoking !== null
  }
}

type Compare = (one: LeaseInfo, other: LeaseInfo) => number

/** A total order: leases that are equal by the key stand by resource, holders before waiters, then by id. */
export function comparerOf(
  { key, isDescending }: LeaseOrder,
  queueOf: (resource: LeaseInfo['resource']) => number,
): Compare {
  const value = valueOf(key, queueOf)
  const sign = isDescending ? -1 : 1
  return (one, other) => {
    const a = value(one)
    const b = value(other)
    if (a !== b) return a < b ? -sign : sign
    return compareTexts(one.resource, other.resource) || compareStates(one, other)
  }
}

function valueOf(
  key: SortKey,
  queueOf: (resource: LeaseInfo['resource']) => number,
): (lease: LeaseInfo) => string | number {
  switch (key) {
    case 'resource':
      return ({ resource }) => resource
    case 'holder':
      return ({ holder }) => holder
    case 'since':
      return (lease) => sinceMs(lease)
    case 'left':
      return ({ expiresAtMs }) => expiresAtMs ?? Infinity
    case 'renewals':
      return ({ renewals }) => renewals
    case 'fence':
      return ({ fence }) => fence ?? 0
    case 'queue':
      return ({ resource, state }) => (state === 'active' ? queueOf(resource) : -1)
  }
}

/** Since when it is held, or waited for. */
export function sinceMs({ grantedAtMs, createdAtMs }: LeaseInfo): number {
  return grantedAtMs ?? createdAtMs
}

function compareStates(one: LeaseInfo, other: LeaseInfo): number {
  if (one.state !== other.state) return one.state === 'active' ? -1 : 1
  return sinceMs(one) - sinceMs(other) || compareTexts(one.id, other.id)
}

function compareTexts(one: string, other: string): number {
  if (one === other) return 0
  return one < other ? -1 : 1
}

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
