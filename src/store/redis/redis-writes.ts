/** What becomes of an entry, in the words of the script. */
import { endedAtMs, liveDeadline } from '../../core/lease.ts'
import type { EntryWrite, Kept, SeenClaim } from '../speculation/backend.ts'
import { digits, VERSION_WIDTH } from './redis-rows.ts'

/**
 * How much of an entry changes: `k` nothing but its text, `u` whether and how it stands in the way, `s` its session too;
 * `n` it is new, `x` nothing of it is kept.
 */
export type WriteMode = 'k' | 'u' | 's' | 'n' | 'x'

export function modeOf({ before, after }: EntryWrite): WriteMode {
  if (after === null) return 'x'
  if (before === null) return 'n'
  if (before.entry.session !== after.entry.session) return 's'
  if (before.claim !== after.claim) return 'u'
  const [was, is] = [liveDeadline(before.entry), liveDeadline(after.entry)]
  // The index of deadlines may lag behind a deadline that has moved on, but not behind one that has come nearer.
  const lags = was !== null && is !== null && was.domain === is.domain && was.us <= is.us
  return lags && isPending(before) === isPending(after) ? 'k' : 'u'
}

/** Where an entry is listed: a live one by its deadline, an ended one below 0 by its end. */
export function scoreText(after: Kept | null): string {
  if (after === null) return '0'
  const live = liveDeadline(after.entry)
  return live === null ? `-${(endedAtMs(after.entry) ?? 0) + 1}` : String(live.us)
}

/** As the realm itself has them. */
export function claimsText(claims: readonly SeenClaim[]): string {
  let list = ''
  for (const { id, claim } of claims) list += id + digits(claim, VERSION_WIDTH)
  return list
}

export function isPending(kept: Kept | null): boolean {
  return kept?.entry.state === 'pending'
}
