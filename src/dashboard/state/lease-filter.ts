/** Which leases are shown, and in which order. Both stand in the page's address. */
import type { LeaseInfo } from '../../core/lease.ts'
import { kindOf } from '../../core/resource.ts'

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

export type Compare = (one: LeaseInfo, other: LeaseInfo) => number

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
