/**
 * Walks the ledger commit by commit, with the entries as they stood after each. An event that does not follow from
 * the ones before it is passed over here: that is I7's to complain about.
 */
import type { LeaseEvent } from '../../src/core/event.ts'
import { evolveEntry } from '../../src/core/evolve.ts'
import type { Entry, LeaseId } from '../../src/core/lease.ts'
import type { TimedEvent } from '../store-host.ts'

export interface Step {
  readonly atUs: number
  readonly tick: TimedEvent['tick']
  /** Of one commit, in order. */
  readonly events: readonly TimedEvent[]
  /** Valid until the next step. */
  readonly after: ReadonlyMap<LeaseId, Entry>
}

export function* walk(ledger: readonly TimedEvent[]): Generator<Step, void, undefined> {
  const entries = new Map<LeaseId, Entry>()
  let index = 0
  for (;;) {
    const first = ledger[index]
    if (first === undefined) return
    const events: TimedEvent[] = []
    for (let timed = ledger[index]; timed?.commit === first.commit; timed = ledger[index]) {
      apply(entries, timed.event)
      events.push(timed)
      index += 1
    }
    yield { atUs: first.atUs, tick: first.tick, events, after: entries }
  }
}

function apply(entries: Map<LeaseId, Entry>, event: LeaseEvent): void {
  try {
    entries.set(event.leaseId, evolveEntry(entries.get(event.leaseId), event))
  } catch {
    entries.delete(event.leaseId)
  }
}
