/**
 * Looks for circles of sessions that wait for each other, across resources, realms and processes.
 *
 * A session waits for whoever blocks one of its tickets, by a lease or by an earlier ticket, or keeps one of its leases
 * from being upgraded. The search starts from a ticket that was just filed or renewed, because a circle is closed by
 * whoever joins it last. What it reads is not one snapshot, so a circle counts only if a second look finds the same
 * ids. Its youngest ticket is refused: whoever waited longest keeps waiting.
 */
import { blockingSessions } from '../core/conflict.ts'
import { isWaiting, type CycleStep, type Entry, type Lease, type Ticket } from '../core/lease.ts'
import { isTree } from '../core/resource.ts'
import type { Now } from '../core/time.ts'
import type { Store } from '../store-port/store.ts'

/** A circle that is longer than this is not looked for; it ends with the first timeout in it. */
const CYCLE_MAX = 16
/** A search that has read so much gives up: it must not cost more than what it could save. */
const READS_MAX = 2_000
const PAGE = 1_000

export interface Cycle {
  readonly steps: readonly CycleStep[]
  /** The tickets and leases in it, in the same order. */
  readonly ids: readonly string[]
  /** The one to refuse; null when nobody in it has a ticket. */
  readonly youngest: Ticket | null
}

/** The circle that `ticket` is part of, if there is one and a second look confirms it. */
export async function findCycle(store: Store, ticket: Ticket): Promise<Cycle | null> {
  if (!(await mayBeWaitedFor(store, ticket))) return null
  const first = await new Search(store).from(ticket)
  if (first === null) return null
  const second = await new Search(store).from(ticket)
  return second !== null && second.ids.join() === first.ids.join() ? second : null
}

/**
 * Whether anybody can be waiting for this session. On a flat resource nobody waits for a ticket whom its owner waits
 * for in turn, so a session that has nothing else there is in no circle; that spares a crowd at one door the search.
 */
async function mayBeWaitedFor(store: Store, ticket: Ticket): Promise<boolean> {
  if (isTree(ticket.resource) || ticket.group !== null) return true
  const { holder, session } = ticket
  const states = ['active', 'pending'] as const
  const { entries } = await store.find({ holder, session, states, deadline: 'running', limit: 2 })
  return entries.length > 1
}

interface Step {
  readonly entry: Ticket | Lease
}

class Search {
  readonly #store: Store
  readonly #seen = new Set<string>()
  #reads = 0

  constructor(store: Store) {
    this.#store = store
  }

  async from(ticket: Ticket): Promise<Cycle | null> {
    const path = await this.#follow({ entry: ticket }, [], ticket.session)
    return path === null ? null : cycleOf(path)
  }

  /** Depth first: whom does this entry wait for, and does that lead back to `home`? */
  async #follow(step: Step, path: readonly Step[], home: string): Promise<readonly Step[] | null> {
    if (path.length >= CYCLE_MAX || this.#reads > READS_MAX) return null
    const here = [...path, step]
    for (const [session, holder] of await this.#blockingSessions(step.entry)) {
      if (session === home) return here
      if (this.#seen.has(session)) continue
      this.#seen.add(session)
      for (const entry of await this.#waitsOf(session, holder)) {
        const found = await this.#follow({ entry }, here, home)
        if (found !== null) return found
      }
    }
    return null
  }

  /** Sessions in the way, each with the name of its holder. */
  async #blockingSessions(entry: Ticket | Lease): Promise<ReadonlyMap<string, string>> {
    this.#reads += 1
    const { entries, now } = await this.#store.find({ overlapping: entry, limit: PAGE })
    return blockingSessions(waitingClaim(entry), entries, now)
  }

  async #waitsOf(session: string, holder: string): Promise<readonly (Ticket | Lease)[]> {
    this.#reads += 2
    const tickets = await this.#store.find({ session, states: ['pending'], limit: PAGE })
    const active = { session, holder, states: ['active'], deadline: 'running' } as const
    const leases = await this.#store.find({ ...active, limit: PAGE })
    return [
      ...tickets.entries.filter((entry) => isUnserved(entry, tickets.now)),
      ...leases.entries.filter((entry) => entry.kind === 'lease' && entry.upgrading),
    ]
  }
}

/** What a lease that is being upgraded waits for is what would block it if it were alone. */
function waitingClaim(entry: Ticket | Lease): Ticket | Lease {
  return entry.kind === 'ticket' ? entry : { ...entry, mode: 'exclusive', slots: null }
}

/** A ticket with an offer waits for nobody any more. */
function isUnserved(entry: Entry, now: Now): entry is Ticket & { state: 'pending' } {
  return isWaiting(entry, now) && entry.offer === null
}

function cycleOf(path: readonly Step[]): Cycle {
  const tickets = path.flatMap(({ entry }) => (entry.kind === 'ticket' ? [entry] : []))
  const [youngest = null] = tickets.toSorted(compareAge)
  return {
    steps: path.map(({ entry: { holder, session, resource } }) => ({ holder, session, resource })),
    ids: path.map(({ entry }) => entry.id),
    youngest,
  }
}

/** The latest first, whatever its priority. */
function compareAge(a: Ticket, b: Ticket): number {
  if (a.createdAtMs !== b.createdAtMs) return b.createdAtMs - a.createdAtMs
  return a.id < b.id ? 1 : -1
}
