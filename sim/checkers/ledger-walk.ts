/**
 * Walks the ledger commit by commit, with the entries as they stood after each. An event that does not follow from
 * the ones before it is passed over here: that is I7's to complain about.
 */
import type { LeaseEvent } from '../../src/core/event.ts'
import { evolveEntry } from '../../src/core/evolve.ts'
import { isLive, type Entry, type LeaseId } from '../../src/core/lease.ts'
import type { Tick } from '../../src/core/time.ts'
import type { TimedEvent } from '../store-host.ts'

export interface Step {
  readonly atUs: number
  readonly tick: Tick
  readonly commit: number
  /** Of one commit, in order. */
  readonly events: readonly TimedEvent[]
  /** What was live after the commit. Valid until the next step. */
  readonly live: ReadonlyMap<LeaseId, Entry>
  /**
   * The order key of every ticket: arrival, less ten seconds for each point of priority. Tickets of one commit arrive at
   * one time, in the order in which the ledger and this map have them.
   */
  readonly keys: ReadonlyMap<LeaseId, number>
}

const POINT_US = 10_000_000

export function orderKey(tick: Tick, priority: number): number {
  return tick.us - priority * POINT_US
}

export function* walk(ledger: readonly TimedEvent[]): Generator<Step, void, undefined> {
  const live = new Map<LeaseId, Entry>()
  const keys = new Map<LeaseId, number>()
  let index = 0
  for (;;) {
    const first = ledger[index]
    if (first === undefined) return
    const events: TimedEvent[] = []
    for (let timed = ledger[index]; timed?.commit === first.commit; timed = ledger[index]) {
      apply(live, timed.event)
      if (timed.event.type === 'lease.queued') {
        // Filed again it comes after all that are there.
        keys.delete(timed.event.leaseId)
        keys.set(timed.event.leaseId, orderKey(timed.tick, timed.event.ticket.priority))
      }
      events.push(timed)
      index += 1
    }
    const { atUs, tick, commit } = first
    yield { atUs, tick, commit, events, live, keys }
  }
}

/** What is found at each step, in order; a step must be looked at before the next is taken. */
export function atEachStep<Found>(
  ledger: readonly TimedEvent[],
  look: (step: Step) => readonly Found[],
): readonly Found[] {
  const found: Found[] = []
  for (const step of walk(ledger)) found.push(...look(step))
  return found
}

/** The events of each lease or ticket, in order. */
export function eventsById(
  ledger: readonly TimedEvent[],
): ReadonlyMap<LeaseId, readonly TimedEvent[]> {
  const events = new Map<LeaseId, TimedEvent[]>()
  for (const timed of ledger) {
    const known = events.get(timed.event.leaseId)
    if (known === undefined) events.set(timed.event.leaseId, [timed])
    else known.push(timed)
  }
  return events
}

function apply(live: Map<LeaseId, Entry>, event: LeaseEvent): void {
  try {
    const entry = evolveEntry(live.get(event.leaseId), event)
    if (isLive(entry)) live.set(entry.id, entry)
    else live.delete(entry.id)
  } catch {
    live.delete(event.leaseId)
  }
}
