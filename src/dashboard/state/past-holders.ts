/**
 * Who held a resource at a moment: the leases that began before it and had not ended by then, as the events up to there tell,
 * and what has become of each since. So what has happened later makes a moment no harder to see.
 */
import { ancestorsOf, parseResource } from '../../core/resource.ts'
import { readLeases, type LedgerRow } from '../wire/answers.ts'
import type { ServerCalls } from '../wire/server-calls.ts'
import { heldAt, holdsOf, type Hold } from './holds.ts'
import { DECISIVE_TYPES, readHistory, type History } from './history.ts'

interface Instant {
  readonly resource: string
  readonly atMs: number
}

export interface PastHolders {
  readonly holds: readonly Hold[]
  /** Not all events before the moment were read: a holder that none of those names is missing. */
  readonly isCut: boolean
}

/** How many pages of events before the moment are read. */
export const PAST_PAGES_MAX = 5
const TYPES = [...DECISIVE_TYPES, 'lease.renewed'] as const
/** One batch has no more calls. */
const ASKED_MAX = 1_000

/** Of the resource itself and of those above it, whose subtree may have covered it. */
export async function holdersAt(
  calls: ServerCalls,
  { resource, atMs }: Instant,
  signal: AbortSignal,
): Promise<PastHolders> {
  const own = parseResource(resource)
  const question = { toMs: atMs, types: TYPES, pagesMax: PAST_PAGES_MAX }
  const histories: readonly History[] = await Promise.all(
    [own, ...ancestorsOf(own)].map((place) => {
      return readHistory(calls, { ...question, resource: place }, signal)
    }),
  )
  const rows = histories.flatMap((history) => history.rows)
  const ids = runningIn(rows)
  const asked = ids.slice(-ASKED_MAX).map((id) => ({ call: 'get', request: { id } }))
  const found =
    asked.length === 0
      ? []
      : readLeases(
          await calls.json('/v1/batch', { method: 'POST', body: { calls: asked }, signal }),
        )
  const leases = found.filter((lease) => lease !== null && lease !== undefined)
  const holds = heldAt(holdsOf(rows, leases, 0), atMs)
  return {
    holds: holds.filter((hold) => hold.resource === own || hold.isSubtree),
    isCut: ids.length > ASKED_MAX || histories.some((history) => history.isCut),
  }
}

/** Those that had not ended with the last of these events. */
function runningIn(rows: readonly LedgerRow[]): readonly string[] {
  const last = new Map(rows.map(({ event }) => [event.leaseId, event]))
  return [...last.values()].flatMap(({ leaseId, after }) => (after === 'active' ? [leaseId] : []))
}
