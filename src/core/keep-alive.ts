/**
 * How waiters keep their places. A waiter is heard of each third of its claim window, so that two keep-alives may be lost,
 * and after a whole window without one its ticket is dropped. Of thousands of tickets of one client in a queue only the
 * first need that: the rest stand behind them (`behindOwn`), cannot be next, and are heard of much less often.
 *
 * Promises: processes that are dead delay a queue that is looked at by two windows at most, and one task's fault costs no
 * other task of a live process its place. `settle.ts` keeps both.
 */
import type { ClaimOffer } from './command.ts'
import { eventCommon, type Draft } from './draft.ts'
import type { Ticket } from './lease.ts'
import { CLAIM_WINDOW_MS_MAX } from './limits.ts'
import { deadlineAfter, US_PER_MS, type Tick } from './time.ts'

/** 10,000 waiters of four clients, heard of each third of a window of 5 s, are 6,000 commits a second; so they are 500. */
export const BEHIND_OWN_WINDOWS = 12

type Kept = Pick<Ticket, 'claimWindowMs' | 'behindOwn'>

function windowMsOf({ claimWindowMs, behindOwn }: Kept): number {
  if (behindOwn !== true) return claimWindowMs
  return Math.min(claimWindowMs * BEHIND_OWN_WINDOWS, CLAIM_WINDOW_MS_MAX)
}

/** How often its waiter is heard of. */
export function keepAliveMsOf(ticket: Kept): number {
  return Math.max(1, Math.floor(windowMsOf(ticket) / 3))
}

/** Until when it would live without the tickets before it: for one claim window since its waiter was last heard of. */
export function keptAloneUntil(ticket: Ticket): Tick {
  const { deadline, claimWindowMs } = ticket
  const lessMs = windowMsOf(ticket) - claimWindowMs
  return { domain: deadline.domain, us: deadline.us - lessMs * US_PER_MS }
}

/**
 * The ticket lives for another window. What it is under is noted where that is implied and has changed; what its
 * requester said stands.
 */
export function stayInQueue(
  draft: Draft,
  ticket: Ticket,
  { implied, behindOwn }: Pick<ClaimOffer, 'implied' | 'behindOwn'> = {},
): Ticket {
  const { now } = draft
  const { under, claimWindowMs } = ticket
  const isSaid = under !== undefined && !under.implied
  const isNews = implied !== undefined && !isSaid && under?.leaseIds.join() !== implied.join()
  const isChanged = isNews && (under !== undefined || implied.length > 0)
  const kept = behindOwn === true && ticket.group === null ? ({ behindOwn } as const) : {}
  draft.record({
    type: 'lease.waiting',
    ...eventCommon(ticket, now, { before: 'pending', after: 'pending' }),
    deadline: deadlineAfter(now, windowMsOf({ claimWindowMs, ...kept })),
    ...kept,
    ...(isChanged ? { implied } : {}),
  })
  const { behindOwn: _before, ...first } = ticket
  return { ...first, ...kept }
}
