/**
 * What an optimistic store has to send, in the order in which it goes. Requests share a call unless one depends on what an
 * earlier one is about to change. Of those for one flat resource the first is taken together with the next ones, which
 * may all turn out to be tickets that are filed one behind the other (`ticketRow`).
 */
import type { LeaseId } from '../../core/lease.ts'
import type { ReadSet } from '../../core/realm.ts'
import { isTree, overlap, type Resource } from '../../core/resource.ts'
import { TransientMap } from '../../runtime/transient-map.ts'
import type { Requester, Decide } from '../../store-port/store.ts'
import { LiveIndex } from '../live-index.ts'
import { urgentFirst } from '../urgent-first.ts'
import type { CachedView } from './attempt-plan.ts'

const GROUP_MAX = 500
/** More than this are sent as two halves when nothing is in flight. */
const SPLIT_MIN = 16
/** Each is decided on all who wait before it, and nothing else runs meanwhile. */
const ROW_MAX = 50
const NOTHING_TAKEN: readonly TakenRow[] = []
const NOTHING_DROPPED: readonly PendingTransaction[] = []

/** What a caller asks of a store, and where it hears what came of it. */
interface AskedTransaction {
  readonly readSets: readonly ReadSet[]
  readonly decide: Decide<unknown>
  readonly requester: Requester | null
  readonly resolve: (outcome: unknown) => void
  readonly reject: (error: unknown) => void
}

/** A transaction that has not ended, however often it must be tried. A class, because each request makes one. */
export class PendingTransaction implements AskedTransaction {
  readonly readSets: readonly ReadSet[]
  readonly decide: Decide<unknown>
  readonly requester: Requester | null
  readonly resolve: (outcome: unknown) => void
  readonly reject: (error: unknown) => void
  sentSinceMs: number | null = null
  /** What the server said is there; null before it was asked. */
  views: readonly CachedView[] | null = null
  /**
   * The ticket behind which the last try went in vain. Something that is no ticket may have been made after that one, as
   * the lease of a transfer is: then the next try compares all that is there.
   */
  missedBehind: LeaseId | null = null
  tries = 0
  /** How many of the tries came too late: the way was longer than was allowed for. */
  lates = 0
  /** How long the latest of them was on its way, by the server's clock. */
  latestUs = 0
  /** What the server's clock said when it refused the last try as one from its future; it may be standing still. */
  refusedAtUs: number | null = null
  /** What a try would have written was there when it missed: the driver may have sent it twice. */
  mayBeDone = false
  /** It may be filed in the attempt of the request before it; false once that was in vain for a reason of its own. */
  mayJoin = true
  isInFlight = false
  isFinished = false

  constructor({ readSets, decide, requester, resolve, reject }: AskedTransaction) {
    this.readSets = readSets
    this.decide = decide
    this.requester = requester
    this.resolve = resolve
    this.reject = reject
  }
}

/** A request, and those for the same resource that came after it and may be filed behind it. */
export interface TakenRow {
  readonly request: PendingTransaction
  readonly next: PendingTransaction[]
}

export class RequestQueue {
  readonly #inFlight = new InFlight()
  #queue: PendingTransaction[] = []
  #again: PendingTransaction[] = []
  #dropped: PendingTransaction[] = []

  add(asked: AskedTransaction): void {
    this.#queue.push(new PendingTransaction(asked))
  }

  /** It is in flight still, and goes before all others. */
  addAgain(request: PendingTransaction): void {
    this.#again.push(request)
  }

  /** Taken and not sent: they are taken anew, before all that came later. */
  putBack(requests: readonly PendingTransaction[]): void {
    for (const request of requests) this.leaveFlight(request)
    this.#queue.unshift(...requests)
  }

  /** Others need not wait for it any more. */
  leaveFlight(request: PendingTransaction): void {
    if (request.isInFlight) this.#inFlight.end(request.readSets)
    request.isInFlight = false
  }

  /** Those that were to be taken, and that their callers did not want any more. */
  takeDropped(): readonly PendingTransaction[] {
    if (this.#dropped.length === 0) return NOTHING_DROPPED
    return this.#dropped.splice(0)
  }

  #begins(request: PendingTransaction): boolean {
    if (request.requester?.begins() !== false) return true
    this.leaveFlight(request)
    this.#dropped.push(request)
    return false
  }

  /** All that are not on their way, for good. */
  drain(): readonly PendingTransaction[] {
    return [...this.#again.splice(0), ...this.#queue.splice(0)]
  }

  /**
   * Those that must be tried again, and of the others all that depend on no earlier one, or may be filed behind one that
   * is taken as well. `isIdle`: nothing is on its way.
   */
  take(isIdle: boolean): readonly TakenRow[] {
    const waiting = this.#again.length + this.#queue.length
    if (waiting === 0) return NOTHING_TAKEN
    const most = isIdle && waiting > SPLIT_MIN ? Math.ceil(waiting / 2) : GROUP_MAX
    const taken = new TakenRequests(
      this.#again.splice(0, most).filter((request) => this.#begins(request)),
    )
    if (waiting > most) this.#queue = urgentFirst(this.#queue)
    this.#fill(taken, (request) => taken.count < most && !this.#inFlight.concerns(request.readSets))
    return taken.all
  }

  /** A request that is in flight, with those that may be filed behind it. */
  takeRow(request: PendingTransaction): TakenRow {
    const taken = new TakenRequests([request])
    this.#fill(taken, () => false)
    return taken.all[0] ?? { request, next: [] }
  }

  /** `isFree`: whether one that joins no row may be taken. */
  #fill(taken: TakenRequests, isFree: (request: PendingTransaction) => boolean): void {
    const left: PendingTransaction[] = []
    let passedOver: InFlight | null = null
    for (const request of this.#queue) {
      const { readSets } = request
      if (taken.count >= GROUP_MAX) {
        left.push(request)
        continue
      }
      const isPassedOver = passedOver?.concerns(readSets) === true
      const row = isPassedOver ? null : taken.rowFor(request, this.#inFlight)
      if (isPassedOver || (row === null && !isFree(request))) {
        left.push(request)
        passedOver ??= new InFlight()
        passedOver.begin(readSets)
        continue
      }
      if (!this.#begins(request)) continue
      request.isInFlight = true
      this.#inFlight.begin(readSets)
      taken.add(request, row)
    }
    this.#queue = left
  }
}

/** The requests of a group. Those for one resource make a row, whose first one must be decided before the others. */
class TakenRequests {
  readonly all: TakenRow[] = []
  readonly #rows = new Map<Resource, TakenRow>()
  count = 0

  constructor(again: readonly PendingTransaction[]) {
    for (const request of again) this.add(request, null)
  }

  /** The row at whose end a request may be; null if there is none, or it is about something that is in flight. */
  rowFor({ readSets, mayJoin }: PendingTransaction, inFlight: InFlight): TakenRow | null {
    const place = mayJoin ? placeInRow(readSets) : null
    const row = place === null ? undefined : this.#rows.get(place.resource)
    if (place === null || row === undefined || row.next.length + 1 >= ROW_MAX) return null
    return inFlight.hasEntry(place.leaseId) ? null : row
  }

  add(request: PendingTransaction, row: TakenRow | null): void {
    this.count += 1
    if (row !== null) return void row.next.push(request)
    const one: TakenRow = { request, next: [] }
    this.all.push(one)
    const place = placeInRow(request.readSets)
    if (place !== null) this.#rows.set(place.resource, one)
  }
}

/** Requests for one flat resource may go one behind the other. */
function placeInRow(readSets: readonly ReadSet[]): ReadSet | null {
  const [only, ...others] = readSets
  if (only === undefined || others.length > 0) return null
  return only.depth === 'claims' && !isTree(only.resource) ? only : null
}

/**
 * Which read sets have a decision in flight. Decisions of one process that depend on each other go one after the other:
 * sent together, the later one would be made on what the earlier one is about to change, and miss.
 *
 * A decision about an entry alone waits only for others about the same entry: a renewal must not be late because
 * another request keeps missing in the same place.
 */
export class InFlight {
  /** Entries, and flat resources about which there is a decision that depends on all that is there. */
  readonly #names = new TransientMap<LeaseId | Resource, { count: number }>()
  readonly #trees = new LiveIndex<ReadSet>()

  /** Whether a decision about these read sets must wait for another. */
  concerns(readSets: readonly ReadSet[]): boolean {
    for (const readSet of readSets) {
      if (this.#names.has(readSet.leaseId)) return true
      if (readSet.depth === 'claims' && this.#touches(readSet)) return true
    }
    return false
  }

  #touches(readSet: ReadSet): boolean {
    if (!isTree(readSet.resource)) return this.#names.has(readSet.resource)
    for (const other of this.#trees.near(readSet)) if (overlap(other, readSet)) return true
    return false
  }

  hasEntry(leaseId: LeaseId): boolean {
    return this.#names.has(leaseId)
  }

  begin(readSets: readonly ReadSet[]): void {
    this.#count(readSets, 1)
  }

  end(readSets: readonly ReadSet[]): void {
    this.#count(readSets, -1)
  }

  #count(readSets: readonly ReadSet[], by: 1 | -1): void {
    for (const readSet of readSets) {
      const { leaseId, resource, depth } = readSet
      this.#countName(leaseId, by)
      if (depth === 'entry') continue
      if (!isTree(resource)) this.#countName(resource, by)
      else if (by > 0) this.#trees.add(resource, readSet)
      else this.#trees.remove(resource, readSet)
    }
  }

  #countName(name: LeaseId | Resource, by: 1 | -1): void {
    const known = this.#names.get(name) ?? { count: 0 }
    known.count += by
    if (known.count > 0) this.#names.set(name, known)
    else this.#names.delete(name)
  }
}
