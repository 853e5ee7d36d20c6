/**
 * The host that keeps the leases: the production `MemoryStore` on a simulated clock, and beside it a record of when,
 * in true time, each commit happened. It forgets nothing when it reboots, as a store on disk would not; only its
 * clock is another one then.
 *
 * Under a server (optimistic-server.ts) its tick is wall time, which never steps: that is what such stores assume.
 */
import type { Commit } from '../src/core/commit.ts'
import type { LeaseDenied, LeaseEvent } from '../src/core/event.ts'
import type { Entry, LeaseId } from '../src/core/lease.ts'
import type { ReadSet } from '../src/core/realm.ts'
import { latestTick, type Now, type Tick } from '../src/core/time.ts'
import type { TickSource } from '../src/runtime/tick-source.ts'
import { MemoryStore } from '../src/store/memory/memory-store.ts'
import type { Decide, EntryQuery, Found, Store } from '../src/store-port/store.ts'
import { allEntries } from '../src/testing/all-entries.ts'
import type { World } from './world.ts'

/** An event of the ledger with the moment of its commit. */
export interface TimedEvent {
  readonly event: LeaseEvent
  readonly atUs: number
  readonly tick: Tick
  /** How much later the decision could have been committed: what it gave counts from there. */
  readonly slackUs: number
  /** Events of one commit share a number; later commits have greater ones. */
  readonly commit: number
  /** The request was delivered again, or after its sender had given it up. */
  readonly isEcho: boolean
}

/** Why the deciding clock became another one, and since when. */
export interface ClockChange {
  readonly atUs: number
  readonly why: 'store_reboot' | 'store_clock_change'
}

/** A waiter was heard of, and its ticket lives until `deadline`. The ledger does not record this. */
export interface Heard {
  readonly atUs: number
  readonly deadline: Tick
}

interface CommitRecord {
  readonly atUs: number
  readonly isEcho: boolean
  tick: Tick | null
  slackUs: number
  /** The length of the ledger after the commit. */
  end: number
  /** What it refused, of which the ledger does not tell. */
  refusals: readonly LeaseDenied[]
}

/** The wall time at which all worlds begin. */
export const WORLD_WALL_MS: number = Date.UTC(2030, 0, 1)

/** `memory`: decisions are made where the store is. `optimistic`: each process decides on its cached view. */
export const STORE_KINDS = ['memory', 'optimistic'] as const
export type StoreKind = (typeof STORE_KINDS)[number]

/** From when on leases that name no TTL have this one. */
export interface ConfiguredTtl {
  readonly atUs: number
  readonly ttlMs: number
}

const UPTIME_US = 3_600_000_000

/**
 * What a process decided before it asked the server. It goes along with the read set, of which the server may get a copy
 * that reads less.
 */
interface Decision {
  /** Until which tick it may be committed, as it was decided last. */
  latestUs: number
  /** The same of every time that it was decided: what its sender has given up may still be on its way. */
  everLatestUs: number
  refused: readonly LeaseDenied[]
}

const DECISION = Symbol('decision')
type DecidedElsewhere = ReadSet & { readonly [DECISION]?: Decision }

export class StoreHost {
  readonly store: MemoryStore
  readonly clockChanges: ClockChange[] = []
  readonly heard = new Map<LeaseId, Heard[]>()
  /** No process reaches it; it has lost nothing when it is back. */
  isAway = false
  /** Until then it takes requests and does nothing about them. */
  pausedUntilUs = 0
  readonly ticks: TickSource
  readonly #world: World
  readonly #commits: CommitRecord[] = []
  readonly #origins = new Map<string, number>()
  #boot = 1
  #clock = 0
  #originUs: number
  #wallOffsetMs = 0

  constructor(world: World, kind: StoreKind) {
    this.#world = world
    this.#originUs = kind === 'memory' ? -UPTIME_US : -WORLD_WALL_MS * 1000
    this.ticks = this.#ticks()
    this.store = new MemoryStore({ ticks: this.ticks })
  }

  /** Another boot of the same host: its processes are dead. */
  reboot(): void {
    this.#boot += 1
    this.#originUs = this.#world.nowUs - 20_000_000
    this.#changed('store_reboot')
  }

  /** The same store under another monotonic clock, while all processes live on. */
  changeClock(uptimeMs: number): void {
    this.#clock += 1
    this.#originUs = this.#world.nowUs - uptimeMs * 1000
    this.#changed('store_clock_change')
  }

  stepWall(byMs: number): void {
    this.#wallOffsetMs += byMs
  }

  async transact<Outcome>(
    readSets: readonly ReadSet[],
    decide: Decide<Outcome>,
    isEcho: boolean,
  ): Promise<Outcome> {
    const record: CommitRecord = {
      atUs: this.#world.nowUs,
      isEcho,
      tick: null,
      slackUs: 0,
      end: 0,
      refusals: [],
    }
    this.#commits.push(record)
    const outcome = this.store.transact(readSets, (views, now) => {
      const ruling = decide(views, now)
      record.tick = now.tick
      record.slackUs = slackUs(readSets, now, isEcho)
      if (!isEcho) record.refusals = refusalsOf(ruling.outcome, readSets)
      this.#remember(now, ruling.commit)
      return ruling
    })
    // Both calls run before any other, so this is where the ledger ends after this very commit.
    const end = this.store.end()
    const answer = await outcome
    record.end = Number(await end)
    return answer
  }

  /** A store whose decisions are made before they come here. */
  overhear(store: Store): Store {
    return sameStore(store, (readSets, decide) => {
      const decision: Decision = { latestUs: 0, everLatestUs: 0, refused: [] }
      const tagged = readSets.map((one): DecidedElsewhere => ({ ...one, [DECISION]: decision }))
      return store.transact(tagged, (views, now) => {
        const ruling = decide(views, now)
        decision.latestUs = latestTick(now).us
        decision.everLatestUs = Math.max(decision.everLatestUs, decision.latestUs)
        decision.refused = refusalsIn(ruling.outcome)
        return ruling
      })
    })
  }

  find(query: EntryQuery): Promise<Found> {
    return this.store.find(query)
  }

  async ledger(): Promise<readonly TimedEvent[]> {
    const timed: TimedEvent[] = []
    let commit = 0
    for (const { position, event } of await readAll(this.store)) {
      const sequence = Number(position)
      while ((this.#commits[commit]?.end ?? Infinity) < sequence) commit += 1
      const record = this.#commits[commit]
      if (record?.tick == null) throw new Error(`no commit is known for event ${position}`)
      const { atUs, tick, slackUs, isEcho } = record
      timed.push({ event, atUs, tick, slackUs, commit, isEcho })
    }
    return timed
  }

  /** What was refused, each as an event of the commit that confirmed it. */
  refusals(): readonly TimedEvent[] {
    return this.#commits.flatMap(({ refusals, atUs, tick, slackUs, isEcho }, commit) => {
      if (tick === null) return []
      return refusals.map((event) => ({ event, atUs, tick, slackUs, commit, isEcho }))
    })
  }

  entries(): Promise<readonly Entry[]> {
    return allEntries(this.store)
  }

  /** When, in true time, a tick is or was. */
  trueUs(tick: Tick): number {
    const originUs = this.#origins.get(tick.domain)
    if (originUs === undefined) throw new Error(`no process has met the clock ${tick.domain}`)
    return tick.us + originUs
  }

  #changed(why: ClockChange['why']): void {
    this.clockChanges.push({ atUs: this.#world.nowUs, why })
  }

  #remember(now: Now, commit: Commit): void {
    if (!this.#origins.has(now.tick.domain)) this.#origins.set(now.tick.domain, this.#originUs)
    for (const { id, after } of commit.changes) {
      if (after?.kind !== 'ticket' || after.state !== 'pending') continue
      const heard = this.heard.get(id) ?? []
      heard.push({ atUs: this.#world.nowUs, deadline: after.deadline })
      this.heard.set(id, heard)
    }
  }

  #ticks(): TickSource {
    const currentDomain = (): string => `host/boot${this.#boot}/clock${this.#clock}`
    return {
      host: 'host',
      get domain() {
        return currentDomain()
      },
      tickUs: () => this.#world.nowUs - this.#originUs,
      wallMs: () => WORLD_WALL_MS + Math.floor(this.#world.nowUs / 1000) + this.#wallOffsetMs,
    }
  }
}

function slackUs(readSets: readonly DecidedElsewhere[], { tick }: Now, isEcho: boolean): number {
  const latest = readSets.map((readSet) => {
    const decision = readSet[DECISION]
    return (isEcho ? decision?.everLatestUs : decision?.latestUs) ?? tick.us
  })
  return Math.max(0, ...latest.map((us) => us - tick.us))
}

/** An outcome of the service says what was refused; a server's reply to an attempt only that it was committed. */
function refusalsOf(
  outcome: unknown,
  [first]: readonly DecidedElsewhere[],
): readonly LeaseDenied[] {
  if (first === undefined || !isCommitted(outcome)) return refusalsIn(outcome)
  return first[DECISION]?.refused ?? []
}

function refusalsIn(outcome: unknown): readonly LeaseDenied[] {
  const { refusals = [] } = outcome as { readonly refusals?: readonly LeaseDenied[] }
  return refusals
}

function isCommitted(outcome: unknown): boolean {
  return (outcome as { readonly kind?: string }).kind === 'committed'
}

async function readAll(store: Store): Promise<Awaited<ReturnType<Store['history']>>> {
  return store.history({ limit: Number.MAX_SAFE_INTEGER })
}

/** The same store with another `transact`. */
export function sameStore(store: Store, transact: Store['transact']): Store {
  return {
    description: store.description,
    transact,
    find: (query) => store.find(query),
    history: (query) => store.history(query),
    end: () => store.end(),
    countRefusals: (refusals) => store.countRefusals(refusals),
    refusals: (query) => store.refusals(query),
    settings: () => store.settings(),
    configure: (change) => store.configure(change),
    prune: (policy) => store.prune(policy),
    subscribe: (session, listener) => store.subscribe(session, listener),
    follow: (listener) => store.follow(listener),
    close: () => store.close(),
  }
}
