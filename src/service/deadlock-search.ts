/**
 * Looks for cycles of requests that wait for each other, across resources, realms and processes, and refuses the
 * youngest ticket of each. One search serves all clients of a process.
 *
 * When it looks. Only a request that says what it is under, a lease that is transferred to a holder who waits, or a ticket that
 * passes others can close a cycle; the process in which that happens looks. A ticket that has waited for a keep-alive is
 * looked at as well, which finds what a failed or a dead process has left. No look is repeated without a cause.
 *
 * What it costs. Requests that are to be looked at together share what is read: each place and each holder once, in pages.
 * After each page the search rests for as long as the page took, so that renewals and keep-alives go first, and in the long
 * run for a multiple of it: a short search is over soon, a long one takes a small part of the time.
 *
 * What it is worth. What is read is not one snapshot, so a cycle counts only if a second look finds the same ids. The
 * search is no part of safety: if it fails it is reported and tried again.
 */
import type { Entry, LeaseId, Ticket } from '../core/lease.ts'
import { LIST_LIMIT_MAX } from '../core/limits.ts'
import type { Refusal } from '../core/outcome.ts'
import { isTree, type Reach } from '../core/resource.ts'
import type { Now } from '../core/time.ts'
import { afterTurn } from '../runtime/system-runtime.ts'
import { RepeatedFault, report } from '../runtime/diagnostics.ts'
import { backOffMs } from '../runtime/pause.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { EntryQuery, Found, LedgerEntry, Store } from '../store-port/store.ts'
import type { CommandRunner } from './commands.ts'
import {
  CycleSearch,
  HolderWaits,
  reachName,
  WaitPlace,
  type Cycle,
  type Readings,
  type Waiter,
} from './wait-graph.ts'

const PAGE = 1_000
/** An upgrade under another lease of the same holder is looked for among so many of the holder's leases. */
const UPGRADES_LOOKED_THROUGH_MAX = 256
/** In the long run, this many times as long as the pages take passes between them. */
const REST_FACTOR = 4
/** So much rest may be owed before it is taken: what most searches come to altogether. */
const OWED_MS_MAX = 1_000
/** Requests that are looked at before the search rests: what is read already is looked through without a pause. */
const STARTS_AT_ONCE = 50
const BETWEEN_STARTS_MS = 5
/** So many pages are one stretch; a search that needs more is reported, and goes on. */
const STRETCH_PAGES = 256
const RETRY = { firstMs: 100, maxMs: 5_000 } as const
/** Beyond this many requests that wait to be looked at, the keep-alives of the others bring them up again. */
const STARTS_MAX = 20_000

export interface DeadlockSearchOptions {
  readonly store: Store
  readonly runner: CommandRunner
  readonly runtime: Runtime
}

export class DeadlockSearch {
  readonly #options: DeadlockSearchOptions
  readonly #fault: RepeatedFault
  readonly #pace: Pace
  readonly #starts = new Set<LeaseId>()
  readonly #receivers = new Set<string>()
  #running: Promise<void> | null = null
  #retry: Timer | null = null
  #closed = false

  constructor(options: DeadlockSearchOptions) {
    this.#options = options
    this.#fault = new RepeatedFault('service/deadlock-search', options.runtime)
    this.#pace = new Pace(options.runtime)
  }

  /** Looks around these requests soon, in the background: a request that is refused is woken. */
  lookAround(ids: readonly LeaseId[]): void {
    for (const id of ids) if (this.#starts.size < STARTS_MAX) this.#starts.add(id)
    this.#begin()
  }

  /** A lease was transferred to a holder: what it waits for may now never end. */
  lookAtWaitsOf(holder: string): void {
    this.#receivers.add(holder)
    this.#begin()
  }

  /** Ends when nothing more is to be looked at, or what is waits for a store that is away. */
  async idle(): Promise<void> {
    while (this.#running !== null) await this.#running
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#retry?.cancel()
    this.#retry = null
    this.#pace.stop()
    await this.idle()
  }

  #begin(): void {
    if (this.#closed || this.#running !== null || this.#retry !== null) return
    this.#running = this.#run().finally(() => {
      this.#running = null
      // Something may have come while this was ending.
      if (this.#starts.size + this.#receivers.size > 0) this.#begin()
    })
  }

  async #run(): Promise<void> {
    while (this.#starts.size + this.#receivers.size > 0 && !this.#closed) {
      // Requests that are filed in one turn are looked at together: an embedded store answers each of them at once.
      await new Promise<void>((resolve) => afterTurn(resolve))
      const starts = [...this.#starts]
      const receivers = [...this.#receivers]
      this.#starts.clear()
      this.#receivers.clear()
      try {
        await this.#look(starts, receivers)
        this.#fault.succeeded()
      } catch (error) {
        if (this.#closed) return
        for (const id of starts) this.#starts.add(id)
        for (const holder of receivers) this.#receivers.add(holder)
        this.#retryLater(error)
        return
      }
    }
  }

  #retryLater(error: unknown): void {
    this.#fault.failed(error)
    const delayMs = backOffMs(this.#fault.count, RETRY)
    const again = (): void => {
      this.#retry = null
      this.#begin()
    }
    this.#retry = this.#options.runtime.setTimer(delayMs, again, { keepAlive: false })
  }

  async #look(ids: readonly LeaseId[], receivers: readonly string[]): Promise<void> {
    const readings = this.#newReadings()
    const starts = new Map<LeaseId, Waiter>()
    for (const waiter of await readings.waitersByIds(ids)) starts.set(waiter.id, waiter)
    for (const holder of receivers) {
      const { waiters } = await readings.readHolder(holder)
      for (const waiter of waiters) starts.set(waiter.id, waiter)
    }
    const left = [...starts.values()]
    while (left.length > 0 && !this.#closed) {
      const some = left.splice(0, STARTS_AT_ONCE)
      await this.#breakAround(some, readings)
      if (left.length > 0) await this.#pace.rest(BETWEEN_STARTS_MS)
    }
  }

  async #breakAround(starts: readonly Waiter[], readings: StoreReadings): Promise<void> {
    for (const start of starts) {
      const cycle = await cycleOf(start, readings)
      if (cycle === null) continue
      const again = await this.#confirm(start)
      const isSame = again?.name === cycle.name
      const isRefused = isSame && (await this.#refuse(again, start))
      // One that was confirmed and broken may not have been the only one.
      if (isRefused || (again !== null && !isSame)) this.#starts.add(start.id)
      // What was read is no longer so for the requests that are still to be looked at.
      readings.forget()
    }
  }

  /** The cycle once more, from what is there now. */
  async #confirm({ id }: Waiter): Promise<Cycle | null> {
    const readings = this.#newReadings()
    const [waiter] = await readings.waitersByIds([id])
    return waiter === undefined ? null : cycleOf(waiter, readings)
  }

  /**
   * As `lookAround`, at once, for a lease that is being upgraded: no ticket of it could be refused, so its holder hears
   * in the answer to its own question.
   */
  async refusalOf(leaseId: LeaseId): Promise<Refusal | null> {
    try {
      const readings = this.#newReadings()
      const [start] = await readings.waitersByIds([leaseId])
      const cycle = start === undefined ? null : await cycleOf(start, readings)
      if (start === undefined || cycle === null) return null
      const again = await this.#confirm(start)
      if (again?.name !== cycle.name) return null
      const isRefused = await this.#refuse(again, start)
      const isOwn = isRefused && again.youngest === null
      return isOwn ? { kind: 'deadlock', leaseId, cycle: again.steps } : null
    } catch (error) {
      // The holder goes on waiting, and looks again with its next question.
      this.#fault.failed(error)
      return null
    }
  }

  #newReadings(): StoreReadings {
    return new StoreReadings(this.#options.store, this.#pace)
  }

  /**
   * Refuses the youngest ticket, with all that can only be served together with it. Where all in the cycle are upgrades
   * it is the one that was asked for last, and its own holder takes it back when it looks: if every holder took back its
   * own, two that were asked for in the same moment would both be refused. What was served since the look stays. Says
   * whether anything was refused: of upgrades only the one from which the search started is.
   */
  async #refuse({ youngest, ids, steps: cycle }: Cycle, start: Waiter): Promise<boolean> {
    const { runner, store } = this.#options
    if (youngest === null) {
      const { id: leaseId, resource, extent, holder } = start
      if ((await lastUpgrade(store, ids)) !== leaseId) return false
      const upgrade = { leaseId, resource, extent, holder }
      const { outcome } = await runner.run({ kind: 'withdraw_upgrade', ...upgrade })
      return outcome.kind === 'upgrade_withdrawn'
    }
    let isRefused = false
    for (const { id: leaseId, resource, extent, orderUs } of await this.#togetherWith(youngest)) {
      const ticket = { leaseId, resource, extent, orderUs }
      const { hadEffect } = await runner.run({ kind: 'refuse_deadlock', ...ticket, cycle })
      isRefused ||= hadEffect
    }
    return isRefused
  }

  /** None if they were asked for anew meanwhile: those are in no cycle that was found. */
  async #togetherWith(ticket: Ticket): Promise<readonly Ticket[]> {
    const { id, group, holder, orderUs } = ticket
    if (group === null) return [ticket]
    const { waiters } = await this.#newReadings().readHolder(holder)
    const together = waiters.filter((waiter): waiter is Ticket => {
      return waiter.kind === 'ticket' && waiter.group === group
    })
    const isStillThere = together.some((one) => one.id === id && one.orderUs === orderUs)
    return isStillThere ? together : []
  }
}

/** For `inspect`: the cycles that requests are part of at this moment, not confirmed by a second read. */
export async function findCycles(
  { store, runtime }: Pick<DeadlockSearchOptions, 'store' | 'runtime'>,
  starts: readonly Waiter[],
): Promise<readonly Cycle[]> {
  const readings = new StoreReadings(store, new Pace(runtime))
  const cycles: Cycle[] = []
  for (const start of starts) {
    const cycle = await cycleOf(start, readings)
    if (cycle !== null) cycles.push(cycle)
  }
  return cycles
}

async function cycleOf(start: Waiter, readings: StoreReadings): Promise<Cycle | null> {
  const search = new CycleSearch(start, readings)
  for (let unread = search.unread(); unread !== null; unread = search.unread()) {
    for (const reach of unread.reaches) await readings.readPlace(reach)
    for (const holder of unread.holders) await readings.readHolder(holder)
  }
  return search.cycle()
}

/** What one look has read of the store. */
class StoreReadings implements Readings {
  readonly #store: Store
  readonly #pace: Pace
  readonly #places = new Map<string, WaitPlace>()
  readonly #waits = new Map<string, HolderWaits>()
  #pages = 0

  constructor(store: Store, pace: Pace) {
    this.#store = store
    this.#pace = pace
  }

  placeOf(reach: Reach): WaitPlace | undefined {
    return this.#places.get(reachName(reach))
  }

  waitsOf(holder: string): HolderWaits | undefined {
    return this.#waits.get(holder)
  }

  forget(): void {
    this.#places.clear()
    this.#waits.clear()
  }

  async waitersByIds(ids: readonly LeaseId[]): Promise<readonly Waiter[]> {
    const found: Waiter[] = []
    for (let from = 0; from < ids.length; from += PAGE) {
      const part = ids.slice(from, from + PAGE)
      const { entries, now } = await this.#page({ ids: part, limit: part.length })
      found.push(...new HolderWaits(entries, now).waiters)
    }
    return found
  }

  /** A flat resource is read in pages; what overlaps a place in a tree cannot be. */
  async readPlace(reach: Reach): Promise<void> {
    const { resource, extent } = reach
    const live = { states: ['active', 'pending'], deadline: 'running' } as const
    const { entries, now } = isTree(resource)
      ? await this.#page({ overlapping: { resource, extent }, limit: LIST_LIMIT_MAX })
      : await this.#allPages({ resource, ...live })
    this.#places.set(reachName(reach), new WaitPlace(entries, now))
  }

  async readHolder(holder: string): Promise<HolderWaits> {
    const running = { holder, deadline: 'running' } as const
    const tickets = await this.#allPages({ ...running, states: ['pending'] })
    const limit = UPGRADES_LOOKED_THROUGH_MAX
    const leases = await this.#page({ ...running, states: ['active'], limit })
    const waits = new HolderWaits([...tickets.entries, ...leases.entries], tickets.now)
    this.#waits.set(holder, waits)
    return waits
  }

  async #allPages(query: Omit<EntryQuery, 'limit' | 'after'>): Promise<Page> {
    const entries: Entry[] = []
    let after: string | null = null
    for (;;) {
      const from: { readonly after?: string } = after === null ? {} : { after }
      const page = await this.#page({ ...query, ...from, limit: PAGE })
      entries.push(...page.entries)
      after = page.next
      if (after === null) return { entries, now: page.now }
    }
  }

  async #page(query: EntryQuery): Promise<Page & { readonly next: string | null }> {
    const page = await this.#pace.work(() => this.#found(query))
    this.#pages += 1
    if (this.#pages % STRETCH_PAGES === 0) {
      const message = `the search for cycles has read ${this.#pages} pages and goes on`
      report('service/deadlock-search', new Error(message))
    }
    return page
  }

  /** One answer that is lost does not make a search begin anew. */
  async #found(query: EntryQuery): Promise<Found> {
    try {
      return await this.#store.find(query)
    } catch {
      // No fault: if the store is away, the second question says so.
      return this.#store.find(query)
    }
  }
}

interface Page {
  readonly entries: readonly Entry[]
  readonly now: Now
}

/** A rest that is shorter than this is not worth a timer: others have had their turn while the store was asked. */
const REST_MS_MIN = 1
/** A page that takes long waits for the store, not for this process: a longer rest would save nothing, and cycles would last. */
const REST_MS_MAX = 500

/** Rests between the pieces of work, so that the search takes no more than a small part of the time. */
class Pace {
  readonly #runtime: Runtime
  readonly #rests = new Set<() => void>()
  /** When all the rest that was owed so far has been taken. */
  #evenAtMs = 0
  #stopped = false

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  async work<Result>(work: () => Promise<Result>): Promise<Result> {
    const startMs = this.#runtime.monotonicMs()
    const result = await work()
    const nowMs = this.#runtime.monotonicMs()
    const tookMs = nowMs - startMs
    const owedMs = Math.min(REST_MS_MAX, tookMs * REST_FACTOR)
    this.#evenAtMs = Math.max(this.#evenAtMs + tookMs, nowMs) + owedMs
    const restMs = Math.max(Math.min(tookMs, owedMs), this.#evenAtMs - nowMs - OWED_MS_MAX)
    if (restMs >= REST_MS_MIN) await this.rest(restMs)
    return result
  }

  /** Ends every rest, and begins no other. */
  stop(): void {
    this.#stopped = true
    for (const end of this.#rests) end()
  }

  rest(restMs: number): Promise<void> {
    if (this.#stopped) return Promise.resolve()
    return new Promise((resolve) => {
      const end = (): void => {
        timer.cancel()
        this.#rests.delete(end)
        resolve()
      }
      const timer = this.#runtime.setTimer(restMs, end, { keepAlive: true })
      this.#rests.add(end)
    })
  }
}

/**
 * Which of these upgrades was asked for last: it closed the cycle. All who look must come to the same one, also where the
 * ledger does not tell: then it is the one with the greatest id. Positions are opaque, so the question is always which was
 * asked for after the last one known.
 */
async function lastUpgrade(store: Store, ids: readonly LeaseId[]): Promise<LeaseId | null> {
  let last: LedgerEntry | undefined
  for (const leaseId of ids) {
    const query = { leaseId, types: ['lease.upgrading'], limit: PAGE } as const
    const after = last === undefined ? {} : { after: last.position }
    last = (await store.history({ ...query, ...after })).at(-1) ?? last
  }
  return last?.event.leaseId ?? ids.toSorted().at(-1) ?? null
}
