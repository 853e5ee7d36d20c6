/**
 * Who waits for whom, as far as it has been read, and whether a request in it waits for itself. Pure.
 *
 * A session is not a thread, so edges run between requests and leases: from a request (a ticket, or a lease that is
 * being upgraded) to the leases and the earlier tickets that block it, and from a lease to the requests that its holder
 * waits for *under* it (`isUnder`). No request waits for a lock delay, for an offer, or for a lease whose holder was asked to
 * finish: all of these pass by themselves. Of the holders that share a counted resource any one may leave, so a request for a
 * place there is stuck only if so many of them are stuck that they and it would not agree to be so many.
 *
 * A queue of n tickets is not n² edges: an earlier ticket of the same reach waits for nothing that a later one does not
 * wait for itself, so it leads nowhere new and is left out, unless it is one of several that are served together. One
 * that shares with fewer is served first all the same, so the later one finds no place before the earlier one does.
 */
import { isTransferredTo } from '../core/adopt.ts'
import { compareTickets, conflicts, isUnder, placesOf } from '../core/conflict.ts'
import {
  isHeld,
  isWaiting,
  type Claim,
  type CycleStep,
  type Entry,
  type Lease,
  type LeaseId,
  type Ticket,
} from '../core/lease.ts'
import { covers, overlap, type Reach } from '../core/resource.ts'
import type { Now } from '../core/time.ts'

/** A cycle that is longer than this is not looked for; it ends with the first timeout in it. */
export const CYCLE_MAX = 16

/** A request that waits: a ticket, or a lease that is being upgraded. */
export type Waiter = Ticket | Lease

export interface Cycle {
  readonly steps: readonly CycleStep[]
  /** The tickets and leases in it, in the same order. */
  readonly ids: readonly LeaseId[]
  /** Tells it from a later one of the same ids. */
  readonly name: string
  /** The one to refuse; null when none in it has a ticket. */
  readonly youngest: Ticket | null
}

/** What has been read; undefined where nothing was read yet. */
export interface Readings {
  /** What stands at a place that a request waits for. */
  placeOf(reach: Reach): WaitPlace | undefined
  /** The requests of a holder that wait. */
  waitsOf(holder: string): HolderWaits | undefined
}

/** The leases and tickets at one place, in a form in which each ticket finds what blocks it without going through all. */
export class WaitPlace {
  readonly #leases: readonly Lease[]
  readonly #groups: readonly Ticket[]
  readonly #byReach: ReadonlyMap<string, TicketsOfReach>

  constructor(entries: readonly Entry[], now: Now) {
    this.#leases = entries.filter((entry): entry is Lease => {
      return isHeld(entry, now) && entry.revoking === null
    })
    const tickets = entries.filter((entry) => isUnserved(entry, now)).sort(compareTickets)
    this.#groups = tickets.filter(({ group }) => group !== null)
    const byReach = new Map<string, TicketsOfReach>()
    for (const ticket of tickets.filter(({ group }) => group === null)) {
      const name = reachName(ticket)
      const known = byReach.get(name) ?? new TicketsOfReach(ticket)
      known.add(ticket)
      byReach.set(name, known)
    }
    this.#byReach = byReach
  }

  /** What blocks a request, but for what leads nowhere new. */
  blockersOf(waiter: Waiter): Blockers {
    const claim: Claim =
      waiter.kind === 'ticket' ? waiter : { ...waiter, mode: 'exclusive', slots: null }
    const alone: Entry[] = []
    const sharers: Entry[] = []
    for (const lease of this.#leases) {
      if (lease.id === waiter.id || !overlap(lease, claim)) continue
      if (isTransferredTo(claim, lease)) continue
      if (conflicts(claim, lease)) alone.push(lease)
      else if (claim.slots !== null) sharers.push(lease)
    }
    // An upgrade goes before every ticket.
    if (waiter.kind === 'lease') return { alone, sharers, places: Infinity }
    for (const other of this.#groups) {
      if (other.group === waiter.group || compareTickets(other, waiter) > 0) continue
      if (conflicts(waiter, other)) alone.push(other)
      else if (waiter.slots !== null && overlap(waiter, other)) sharers.push(other)
    }
    let places = placesOf(waiter)
    for (const tickets of this.#byReach.values()) {
      const isCovered = covers(waiter, tickets.reach)
      if (waiter.mode === 'exclusive' && isCovered) continue
      alone.push(...tickets.lastBefore(waiter).filter((other) => conflicts(waiter, other)))
      if (waiter.slots === null || !overlap(waiter, tickets.reach)) continue
      if (isCovered) places = Math.min(places, tickets.placesBefore(waiter))
      else sharers.push(...tickets.countedBefore(waiter))
    }
    return { alone, sharers, places }
  }
}

/** The tickets of one reach, each queue in the order in which it is served. */
class TicketsOfReach {
  readonly reach: Reach
  readonly #exclusive: Ticket[] = []
  readonly #shared: Ticket[] = []
  readonly #counted: Ticket[] = []
  /** Of each counted ticket and all before it, with how many the one shares that shares with the fewest. */
  readonly #places: number[] = []

  constructor(reach: Reach) {
    this.reach = reach
  }

  /** The next in order. */
  add(ticket: Ticket): void {
    if (ticket.slots !== null) {
      this.#places.push(Math.min(this.#places.at(-1) ?? Infinity, ticket.slots))
      this.#counted.push(ticket)
    } else if (ticket.mode === 'shared') this.#shared.push(ticket)
    else this.#exclusive.push(ticket)
  }

  /** The last before a ticket of each kind. */
  lastBefore(ticket: Ticket): readonly Ticket[] {
    return [this.#exclusive, this.#shared, this.#counted].flatMap((queue) => {
      return queue[countBefore(queue, ticket) - 1] ?? []
    })
  }

  countedBefore(ticket: Ticket): readonly Ticket[] {
    return this.#counted.slice(0, countBefore(this.#counted, ticket))
  }

  placesBefore(ticket: Ticket): number {
    return this.#places[countBefore(this.#counted, ticket) - 1] ?? Infinity
  }
}

interface Blockers {
  /** All of them must go. */
  readonly alone: readonly Entry[]
  /** Of these, fewer may be left than `places`, and than those that are left share with. */
  readonly sharers: readonly Entry[]
  readonly places: number
}

export function reachName({ resource, extent }: Reach): string {
  return `${extent} ${resource}`
}

function countBefore(queue: readonly Ticket[], ticket: Ticket): number {
  let from = 0
  let to = queue.length
  while (from < to) {
    const middle = (from + to) >> 1
    const other = queue[middle]
    if (other !== undefined && compareTickets(other, ticket) < 0) from = middle + 1
    else to = middle
  }
  return from
}

/** A ticket with an offer waits no more. */
function isUnserved(entry: Entry, now: Now): entry is Ticket & { state: 'pending' } {
  return isWaiting(entry, now) && entry.offer === null
}

/** Those among a holder's entries that wait for something, found by what they are under. */
export class HolderWaits {
  readonly waiters: readonly Waiter[]
  readonly #byLease = new Map<LeaseId, Waiter[]>()
  readonly #byGroup = new Map<string, Ticket[]>()

  constructor(entries: readonly Entry[], now: Now) {
    this.waiters = entries.filter((entry): entry is Waiter => {
      return isUnserved(entry, now) || (isHeld(entry, now) && entry.upgrading)
    })
    for (const waiter of this.waiters) {
      for (const leaseId of waiter.under?.leaseIds ?? []) add(this.#byLease, leaseId, waiter)
      if (waiter.kind === 'lease') add(this.#byLease, waiter.id, waiter)
      else if (waiter.group !== null) add(this.#byGroup, waiter.group, waiter)
    }
  }

  /** The requests that must end before the holder can release this lease of its. */
  under(lease: Lease): readonly Waiter[] {
    const own = lease.adopted ? (this.#byLease.get(lease.id) ?? NONE) : this.waiters
    return own.filter((waiter) => waiter.id === lease.id || isUnder(waiter, lease))
  }

  /** A request for several resources waits in all their queues at once. */
  membersOf(waiter: Waiter): readonly Waiter[] {
    if (waiter.kind === 'lease' || waiter.group === null) return [waiter]
    return this.#byGroup.get(waiter.group) ?? [waiter]
  }
}

const NONE: readonly never[] = []

function add<Item>(lists: Map<string, Item[]>, name: string, item: Item): void {
  const list = lists.get(name)
  if (list === undefined) lists.set(name, [item])
  else list.push(item)
}

/** What a search needs to read before it can go on. */
export interface Unread {
  readonly reaches: readonly Reach[]
  readonly holders: readonly string[]
}

/** Gathers what a search needs to read. */
class Needs {
  readonly #reaches = new Map<string, Reach>()
  readonly #holders = new Set<string>()

  place(reach: Reach): void {
    this.#reaches.set(reachName(reach), reach)
  }

  holder({ holder }: Entry): void {
    this.#holders.add(holder)
  }

  get unread(): Unread | null {
    if (this.#reaches.size + this.#holders.size === 0) return null
    return { reaches: [...this.#reaches.values()], holders: [...this.#holders] }
  }
}

/** A search from one request for a way back to it. It goes on whenever what it asked for has been read. */
export class CycleSearch {
  readonly #start: Waiter
  readonly #readings: Readings
  /** By name; those that are reached, nearest first. */
  readonly #reached = new Map<string, readonly Waiter[]>()

  constructor(start: Waiter, readings: Readings) {
    this.#start = start
    this.#readings = readings
  }

  /** What has to be read first, or null: then everything within reach is known, and `cycle` is final. */
  unread(): Unread | null {
    const needs = new Needs()
    this.#reached.clear()
    let level: readonly Waiter[] = [this.#start]
    for (let depth = 0; depth < CYCLE_MAX && level.length > 0; depth += 1) {
      level = level.flatMap((waiter) => this.#reach(waiter, needs))
    }
    return needs.unread
  }

  /** The requests that one that has just been reached waits for, as far as that has been read. */
  #reach(waiter: Waiter, needs: Needs): readonly Waiter[] {
    const name = waiterName(waiter)
    if (this.#reached.has(name)) return NONE
    const members = this.#membersOf(waiter)
    if (members === undefined) {
      needs.holder(waiter)
      return NONE
    }
    this.#reached.set(name, members)
    return members.flatMap((member) => this.#waitersBefore(member, needs))
  }

  #waitersBefore(member: Waiter, needs: Needs): readonly Waiter[] {
    const place = this.#readings.placeOf(member)
    if (place === undefined) {
      needs.place(member)
      return NONE
    }
    const { alone, sharers } = place.blockersOf(member)
    return [...alone, ...sharers].flatMap((entry) => {
      const waiters = this.#waitersBehind(entry, member)
      if (waiters === undefined) needs.holder(entry)
      return waiters ?? NONE
    })
  }

  /** The shortest cycle that the request is part of. */
  cycle(): Cycle | null {
    const stuck = this.#stuckNames()
    const home = waiterName(this.#start)
    const seen = new Set<string>()
    let ways: readonly Way[] = [{ to: home, path: [], implied: NO_NAMES }]
    for (let length = 1; length <= CYCLE_MAX && ways.length > 0; length += 1) {
      const longer: Way[] = []
      for (const way of ways.flatMap((shorter) => this.#stepsFrom(shorter, stuck))) {
        if (way.to === home) return cycleOf(way)
        if (seen.has(way.to)) continue
        seen.add(way.to)
        longer.push(way)
      }
      ways = longer
    }
    return null
  }

  #membersOf(waiter: Waiter): readonly Waiter[] | undefined {
    if (waiter.kind === 'lease' || waiter.group === null) return [waiter]
    return this.#readings.waitsOf(waiter.holder)?.membersOf(waiter)
  }

  /**
   * The requests that must end before an entry does that blocks `blocked`. What is only implied does not count where a
   * client waits for itself: its tasks take turns, and one that is busy need not make calls.
   */
  #waitersBehind(entry: Entry, blocked: Waiter): readonly Waiter[] | undefined {
    if (entry.kind === 'ticket') return [entry]
    const waiters = this.#readings.waitsOf(entry.holder)?.under(entry)
    if (entry.session !== blocked.session) return waiters
    return waiters?.filter(({ under }) => under?.implied !== true)
  }

  /** The requests that no holder outside the cycles can end: those are taken away that a running holder may end. */
  #stuckNames(): ReadonlySet<string> {
    const stuck = new Set(this.#reached.keys())
    for (let before = -1; before !== stuck.size;) {
      before = stuck.size
      for (const name of [...stuck]) {
        const members = this.#reached.get(name) ?? []
        if (!members.some((member) => this.#keptBy(member, stuck).length > 0)) stuck.delete(name)
      }
    }
    return stuck
  }

  /** What keeps a request waiting and is itself kept by requests that are stuck; nothing if the request is not stuck. */
  #keptBy(member: Waiter, stuck: ReadonlySet<string>): readonly Entry[] {
    const blockers = this.#readings.placeOf(member)?.blockersOf(member)
    if (blockers === undefined) return NONE
    const isBlocked = (entry: Entry): boolean => {
      return (
        this.#waitersBehind(entry, member)?.some((waiter) => stuck.has(waiterName(waiter))) === true
      )
    }
    const alone = blockers.alone.filter(isBlocked)
    const left = blockers.sharers.filter(isBlocked)
    const isFull = left.length >= Math.min(blockers.places, ...left.map(placesOf))
    return isFull ? [...alone, ...left] : alone
  }

  #stepsFrom({ to, path, implied }: Way, stuck: ReadonlySet<string>): readonly Way[] {
    const members = this.#reached.get(to) ?? []
    return members.flatMap((member) => {
      return this.#keptBy(member, stuck)
        .flatMap((entry) => this.#waitersBehind(entry, member) ?? [])
        .filter((waiter) => stuck.has(waiterName(waiter)))
        .map((waiter) => ({
          to: waiterName(waiter),
          path: [...path, member],
          implied: isImplied(waiter) ? new Set([...implied, waiterName(waiter)]) : implied,
        }))
    })
  }
}

interface Way {
  readonly to: string
  readonly path: readonly Waiter[]
  /** Those on it that are only taken to be under a lease. A later reading of the same request may no longer show that. */
  readonly implied: ReadonlySet<string>
}

const NO_NAMES: ReadonlySet<string> = new Set()

function isImplied({ under }: Waiter): boolean {
  return under?.implied === true
}

function waiterName(waiter: Waiter): string {
  return waiter.kind === 'ticket' ? (waiter.group ?? waiter.id) : waiter.id
}

function cycleOf({ path, implied }: Way): Cycle {
  const tickets = path.filter((entry) => entry.kind === 'ticket')
  const [youngest = null] = tickets.toSorted(compareAge)
  return {
    steps: path.map((waiter) => {
      const { holder, session, resource } = waiter
      const step = { holder, session, resource }
      return implied.has(waiterName(waiter)) || isImplied(waiter)
        ? { ...step, implied: true }
        : step
    }),
    ids: path.map(({ id }) => id),
    // A ticket that was dropped and filed anew under its id is another one, and was not there all the time.
    name: path.map((one) => (one.kind === 'ticket' ? `${one.id} ${one.orderUs}` : one.id)).join(),
    youngest,
  }
}

/** The latest first, whatever its priority. */
function compareAge(a: Ticket, b: Ticket): number {
  if (a.createdAtMs !== b.createdAtMs) return b.createdAtMs - a.createdAtMs
  return a.id < b.id ? 1 : -1
}
