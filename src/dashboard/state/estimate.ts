/** How long a waiter may have to wait, estimated from how long the resource was held before. */
import type { LeaseInfo } from '../../core/lease.ts'
import type { Hold } from './holds.ts'

/** The middle one of the spans for which it was held and that have ended; null: none has. */
export function usualHoldMs(holds: readonly Hold[]): number | null {
  const spans = holds
    .flatMap(({ grantedAtMs, endedAtMs }) => {
      return grantedAtMs === null || endedAtMs === null ? [] : [endedAtMs - grantedAtMs]
    })
    .toSorted((one, other) => one - other)
  return spans[Math.floor(spans.length / 2)] ?? null
}

interface Queue {
  readonly leases: readonly LeaseInfo[]
  /** Its place; 0 is the head. */
  readonly place: number
  readonly usualMs: number
  readonly nowMs: number
}

/** If each holder keeps it for as long as is usual: what is left of the present holds, then one hold for each waiter in front. */
export function estimatedWaitMs({ leases, place, usualMs, nowMs }: Queue): number {
  const lefts = leases.map(({ grantedAtMs }) => {
    return Math.max(0, usualMs - (nowMs - (grantedAtMs ?? nowMs)))
  })
  return Math.max(0, ...lefts) + place * usualMs
}
