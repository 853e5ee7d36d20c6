/**
 * Looks for circles of sessions that wait for each other, across resources, realms and processes.
 *
 * A session waits for whoever blocks one of its tickets, by a lease or by an earlier ticket, or keeps one of its leases
 * from being upgraded. Nobody waits for a lock delay, or for a lease whose holder was asked to finish: both pass by
 * themselves, whatever anybody waits for. Of those who share a counted resource any one may leave, so whoever waits for a
 * place there is stuck only if so many of them are stuck that none comes free.
 *
 * The search starts from whoever has just joined a queue or was heard of again, because a circle is closed by whoever
 * joins it last. What it reads is not one snapshot, so a circle counts only if a second look finds the same. Its
 * youngest ticket is refused: whoever waited longest keeps waiting.
 */
import { conflicts, standingsOf } from '../core/conflict.ts'
import {
  isWaiting,
  type CycleStep,
  type Entry,
  type Lease,
  type LeaseId,
  type Ticket,
} from '../core/lease.ts'
import { isTree } from '../core/resource.ts'
import type { Now } from '../core/time.ts'
import type { LedgerEntry, Store } from '../store-port/store.ts'

/** A circle that is longer than this is not looked for; it ends with the first timeout in it. */
const CYCLE_MAX = 16
/** A search that has read so much gives up: it must not cost more than what it could save. */
const READS_MAX = 2_000
const PAGE = 1_000

export type Waiter = Ticket | Lease

export interface Cycle {
  readonly steps: readonly CycleStep[]
  /** The tickets and leases in it, in the same order. */
  readonly ids: readonly LeaseId[]
  /** The one to refuse; null when nobody in it has a ticket. */
  readonly youngest: Ticket | null
}

/** The circle that the session of `waiter` is part of, if there is one and a second look confirms it. */
export async function findCycle(store: Store, waiter: Waiter): Promise<Cycle | null> {
  return (await mayBeWaitedFor(store, waiter)) ? findCycleOf(store, waiter) : null
}

/** As `findCycle`, of somebody who has something that others may wait for. */
export async function findCycleOf(store: Store, waiter: Waiter): Promise<Cycle | null> {
  const first = await lookForCycle(store, waiter)
  if (first === null) return null
  const second = await lookForCycle(store, waiter)
  return second !== null && namesOf(second) === namesOf(first) ? cycleOf(second) : null
}

async function lookForCycle(
  store: Store,
  { session, holder }: Waiter,
): Promise<readonly Waiter[] | null> {
  const graph = new WaitGraph(store)
  await graph.readFrom({ session, holder })
  return pathBack(stuckWaits(graph.waits), session)
}

/** A ticket that was dropped and filed anew under its id is another one, and was not there all the time. */
function namesOf(path: readonly Waiter[]): string {
  return path.map((one) => (one.kind === 'ticket' ? `${one.id} ${one.orderUs}` : one.id)).join()
}

/**
 * Whether this session should look. It is taken to have one holder: where several share it, what it holds in another
 * name is not seen from here, and the circle is found by the others in it. On a flat resource nobody waits for a ticket
 * whom its owner waits for in turn, unless one of them stands there twice. So whoever has nothing else leaves it to that
 * one to look, which spares a crowd at one door the search.
 */
async function mayBeWaitedFor(store: Store, waiter: Waiter): Promise<boolean> {
  if (waiter.kind === 'lease' || isTree(waiter.resource) || waiter.group !== null) return true
  const { holder, session } = waiter
  const states = ['active', 'pending'] as const
  const { entries } = await store.find({ holder, session, states, deadline: 'running', limit: 2 })
  return entries.length > 1
}

interface Party {
  readonly session: string
  readonly holder: string
}

/** What one ticket, or one lease that is being upgraded, waits for. */
interface Wait {
  readonly entry: Waiter
  /** All of them must go. */
  readonly alone: readonly Party[]
  /** Of these, fewer than `places` may be left. */
  readonly sharers: readonly Party[]
  readonly places: number
}

type Waits = ReadonlyMap<string, readonly Wait[]>

/** Who waits for whom, as far as it can be reached from one session. */
class WaitGraph {
  readonly waits: Map<string, readonly Wait[]> = new Map<string, readonly Wait[]>()
  readonly #store: Store
  /** Several holders may share a session, so it may have to be read more than once. */
  readonly #read = new Set<string>()
  #reads = 0

  constructor(store: Store) {
    this.#store = store
  }

  /** Nearest first, so that no circle within reach is missed because a longer way to it was tried before. */
  async readFrom(start: Party): Promise<void> {
    let level: readonly Party[] = [start]
    for (let depth = 0; depth < CYCLE_MAX && level.length > 0; depth += 1) {
      const next: Party[] = []
      for (const party of level) {
        const name = JSON.stringify([party.session, party.holder])
        if (this.#read.has(name)) continue
        if (this.#reads > READS_MAX) return
        this.#read.add(name)
        const known = this.waits.get(party.session) ?? []
        const waits = await this.#waitsOf(party)
        const fresh = waits.filter(({ entry }) => !known.some((wait) => wait.entry.id === entry.id))
        this.waits.set(party.session, [...known, ...fresh])
        next.push(...waits.flatMap((wait) => partiesOf(wait)))
      }
      level = next
    }
  }

  async #waitsOf({ session, holder }: Party): Promise<readonly Wait[]> {
    this.#reads += 2
    const tickets = await this.#store.find({ session, states: ['pending'], limit: PAGE })
    const active = { session, holder, states: ['active'], deadline: 'running' } as const
    const leases = await this.#store.find({ ...active, limit: PAGE })
    const waiters = [
      ...tickets.entries.filter((entry) => isUnserved(entry, tickets.now)),
      ...leases.entries.filter((entry) => entry.kind === 'lease' && entry.upgrading),
    ] as readonly Waiter[]
    return Promise.all(waiters.map((entry) => this.#waitOf(entry)))
  }

  async #waitOf(entry: Waiter): Promise<Wait> {
    this.#reads += 1
    const { entries, now } = await this.#store.find({ overlapping: entry, limit: PAGE })
    const claim = waitingClaim(entry)
    const alone: Party[] = []
    const sharers: Party[] = []
    for (const { entry: other, kind } of standingsOf(claim, entries, now)) {
      if (other.session === entry.session || kind === 'lock_delay') continue
      if (other.kind === 'lease' && other.revoking !== null) continue
      if (entry.kind === 'lease' && kind === 'ticket') continue
      if (conflicts(claim, other)) alone.push(other)
      else sharers.push(other)
    }
    return { entry, alone, sharers, places: claim.slots ?? Infinity }
  }
}

/** What a lease that is being upgraded waits for is what would block it if it were alone. */
function waitingClaim(entry: Waiter): Waiter {
  return entry.kind === 'ticket' ? entry : { ...entry, mode: 'exclusive', slots: null }
}

/** A ticket with an offer waits for nobody any more. */
function isUnserved(entry: Entry, now: Now): entry is Ticket & { state: 'pending' } {
  return isWaiting(entry, now) && entry.offer === null
}

function partiesOf({ alone, sharers }: Wait): readonly Party[] {
  return [...alone, ...sharers]
}

/** The waits that nobody outside the circles can end: all those are taken away that somebody who runs may end. */
function stuckWaits(waits: Waits): Waits {
  let stuck: Waits = new Map([...waits].filter(([, own]) => own.length > 0))
  for (;;) {
    const left = new Map<string, readonly Wait[]>()
    for (const [session, own] of stuck) {
      const remaining = own.filter((wait) => isStuck(wait, stuck))
      if (remaining.length > 0) left.set(session, remaining)
    }
    if (countOf(left) === countOf(stuck)) return left
    stuck = left
  }
}

function isStuck({ alone, sharers, places }: Wait, stuck: Waits): boolean {
  if (alone.some(({ session }) => stuck.has(session))) return true
  return sharers.filter(({ session }) => stuck.has(session)).length >= places
}

function countOf(waits: Waits): number {
  let count = 0
  for (const own of waits.values()) count += own.length
  return count
}

interface Way {
  readonly to: string
  readonly path: readonly Waiter[]
}

/** The shortest way from a session through those that are stuck back to itself. */
function pathBack(stuck: Waits, home: string): readonly Waiter[] | null {
  const seen = new Set<string>()
  let ways: readonly Way[] = [{ to: home, path: [] }]
  for (let length = 1; length <= CYCLE_MAX && ways.length > 0; length += 1) {
    const longer: Way[] = []
    for (const way of ways.flatMap((shorter) => stepsFrom(shorter, stuck))) {
      if (way.to === home) return way.path
      if (seen.has(way.to)) continue
      seen.add(way.to)
      longer.push(way)
    }
    ways = longer
  }
  return null
}

function stepsFrom({ to, path }: Way, stuck: Waits): readonly Way[] {
  return (stuck.get(to) ?? []).flatMap((wait) => {
    const next = partiesOf(wait).filter(({ session }) => stuck.has(session))
    return next.map(({ session }) => ({ to: session, path: [...path, wait.entry] }))
  })
}

function cycleOf(path: readonly Waiter[]): Cycle {
  const tickets = path.filter((entry) => entry.kind === 'ticket')
  const [youngest = null] = tickets.toSorted(compareAge)
  return {
    steps: path.map(({ holder, session, resource }) => ({ holder, session, resource })),
    ids: path.map(({ id }) => id),
    youngest,
  }
}

/** The latest first, whatever its priority. */
function compareAge(a: Ticket, b: Ticket): number {
  if (a.createdAtMs !== b.createdAtMs) return b.createdAtMs - a.createdAtMs
  return a.id < b.id ? 1 : -1
}

/**
 * Which of these leases was the last to wish to be upgraded: it closed the circle. All who look must come to the same
 * one, also where the ledger does not tell: then it is the one with the greatest id. Positions are opaque, so the
 * question is always who wished after the last one known.
 */
export async function lastToWish(store: Store, ids: readonly LeaseId[]): Promise<LeaseId | null> {
  let last: LedgerEntry | undefined
  for (const leaseId of ids) {
    const query = { leaseId, types: ['lease.upgrading'], limit: PAGE } as const
    const after = last === undefined ? {} : { after: last.position }
    last = (await store.history({ ...query, ...after })).at(-1) ?? last
  }
  return last?.event.leaseId ?? ids.toSorted().at(-1) ?? null
}
