/** How long a grant may be counted on: from before it was asked for, and never past what the store says is left. */
import type { LeaseInfo } from '../core/lease.ts'
import type { HolderClock, Moment, Term } from './holder-clock.ts'

export interface Sent {
  /** Before the request was sent for the first time. */
  readonly first: Moment
  /** Before it was sent the time that was answered. */
  readonly last: Moment
  readonly clock: HolderClock
  readonly now: Moment
}

/**
 * The term of a grant. A repeated grant may be older than this request, when the caller chose its id: then what the
 * store says is left, from before the last send, is an upper bound as well, and the sooner end counts. So it is with a
 * lease that came by transfer, whose end may have been fixed before. The store rounds up what is left, hence the
 * millisecond.
 */
export function termOf(
  lease: LeaseInfo,
  { isOlder }: { readonly isOlder: boolean },
  { first, last, clock, now }: Sent,
): Term {
  const { ttlMs, maxHoldMs, remainingMs } = lease
  if (!isOlder) return { from: first, spanMs: Math.min(ttlMs, remainingMs) }
  const whole: Term = { from: first, spanMs: Math.min(ttlMs, maxHoldMs ?? ttlMs) }
  const rest: Term = { from: last, spanMs: Math.min(ttlMs, remainingMs - 1) }
  return clock.remainingMs(whole, now) < clock.remainingMs(rest, now) ? whole : rest
}
