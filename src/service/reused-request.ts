/** Finds out whether a request came under the id of another, from what the ledger tells of the first. */
import type { LeaseEvent, LeaseEventType } from '../core/event.ts'
import type { Refusal } from '../core/outcome.ts'
import { isEffectOf, type CountedCommand } from '../core/same-request.ts'
import type { HistoryQuery, Position, Store } from '../store-port/store.ts'

const EFFECTS: Readonly<Record<CountedCommand['kind'], LeaseEventType>> = {
  spend: 'lease.accounted',
  advance: 'lease.advanced',
  transfer: 'lease.transferred',
}

const PAGE = 1_000

/**
 * Refuses a command that was answered without any effect of its own, as a repeat is, but asks for something else than
 * the first under its id did; null for a true repeat. Where no history is kept, there is nothing to compare it with, and
 * the id alone decides.
 */
export async function reuseOf(store: Store, command: CountedCommand): Promise<Refusal | null> {
  const event = await effectOf(store, command)
  if (event === null || isEffectOf(event, command)) return null
  return { kind: 'request_reused', leaseId: command.leaseId }
}

/** The newest first: what is repeated was most likely asked a moment ago. */
async function effectOf(
  store: Store,
  { kind, leaseId, requestId }: CountedCommand,
): Promise<LeaseEvent | null> {
  const query: HistoryQuery = { leaseId, types: [EFFECTS[kind]], newestFirst: true, limit: PAGE }
  let after: Position | undefined
  for (;;) {
    const page = await store.history(after === undefined ? query : { ...query, after })
    const found = page.find(({ event }) => event.requestId === requestId)
    if (found !== undefined) return found.event
    if (page.length < PAGE) return null
    after = page.at(-1)?.position
  }
}
