/**
 * Stores that several users of one process share, so that what they do at the same moment shares one commit. A store is
 * closed when the last of them closes; its background sweep runs once, however many there are.
 */
import { closedError, invalid } from './core/errors.ts'
import type { ReadSet } from './core/realm.ts'
import type { CountedRefusal } from './core/refusal.ts'
import type { SettingRow } from './core/settings.ts'
import type { Runtime } from './runtime/runtime.ts'
import type { LeaseService } from './service/lease-service.ts'
import type { Address } from './store-address.ts'
import type {
  Decide,
  EntryQuery,
  Found,
  HistoryQuery,
  LedgerEntry,
  Position,
  Pruned,
  PrunePolicy,
  RefusalQuery,
  SettingChange,
  Store,
  StoreDescription,
  Unsubscribe,
  WakeSignal,
} from './store-port/store.ts'

/** Makes what sweeps a store in the background. */
export type Keep = (store: Store) => LeaseService

interface SharedStore {
  /** What it goes by, if not the real time. */
  readonly runtime: Runtime | undefined
  readonly opened: Promise<Store>
  /** Which file it is, once it is open; null for a store that is none. */
  identity: string | null
  store: Store | null
  /** Runs the background sweep as soon as a client needs it. Closed last, it closes the store. */
  sweeper: LeaseService | null
  users: number
}

const sharedStores = new Map<string, SharedStore>()

/** One user's part of a store that others of the process use as well, and what sweeps it for all of them. */
export interface Share {
  readonly store: Store
  readonly sweeper: LeaseService | null
}

export async function share(address: Address, key: string, keep: Keep | null): Promise<Share> {
  const known = sharedStores.get(key)
  // A store whose file was removed or replaced is not shared any more: the path now means another file.
  const shared: SharedStore =
    known !== undefined && (known.identity === null || known.identity === address.identity())
      ? known
      : newShared(address)
  refuseOtherTime(shared, address)
  sharedStores.set(key, shared)
  shared.users += 1
  const leave = async (): Promise<void> => {
    shared.users -= 1
    if (shared.users > 0) return
    if (sharedStores.get(key) === shared) sharedStores.delete(key)
    await (shared.sweeper ?? shared.store)?.close()
  }
  try {
    const store = await shared.opened
    shared.identity ??= address.identity()
    shared.store = store
    if (keep !== null) shared.sweeper ??= keep(store)
    return { store: new StoreShare(store, leave), sweeper: shared.sweeper }
  } catch (error) {
    await leave()
    throw error
  }
}

function newShared(address: Address): SharedStore {
  const { runtime } = address
  return { runtime, opened: address.open(), identity: null, store: null, sweeper: null, users: 0 }
}

/** Two times for one store: a lease of the one user would run out by a clock that the other one does not see. */
function refuseOtherTime({ runtime }: SharedStore, address: Address): void {
  if (runtime === address.runtime) return
  const expected = runtime === undefined ? 'left out' : 'the same'
  const given = address.runtime === undefined ? 'none' : 'another one'
  throw invalid(
    'runtime',
    `must be ${expected} as for the clients that have this store open`,
    given,
  )
}

/** One user's part of a store that others use as well. Closing it ends only what this user started. */
class StoreShare implements Store {
  readonly description: StoreDescription
  readonly #shared: Store
  readonly #leave: () => Promise<void>
  readonly #subscriptions = new Set<Unsubscribe>()
  #closing: Promise<void> | null = null

  constructor(shared: Store, leave: () => Promise<void>) {
    this.description = shared.description
    this.#shared = shared
    this.#leave = leave
  }

  get #store(): Store {
    if (this.#closing === null) return this.#shared
    throw closedError()
  }

  /** Passes the promise on as it is: an asynchronous function in between would cost every command. */
  transact<Outcome>(readSets: readonly ReadSet[], decide: Decide<Outcome>): Promise<Outcome> {
    if (this.#closing !== null) return Promise.reject(closedError())
    return this.#shared.transact(readSets, decide)
  }

  async find(query: EntryQuery): Promise<Found> {
    return this.#store.find(query)
  }

  async history(query: HistoryQuery): Promise<readonly LedgerEntry[]> {
    return this.#store.history(query)
  }

  async end(): Promise<Position> {
    return this.#store.end()
  }

  async countRefusals(refusals: readonly CountedRefusal[]): Promise<void> {
    return this.#store.countRefusals(refusals)
  }

  async refusals(query: RefusalQuery): Promise<readonly CountedRefusal[]> {
    return this.#store.refusals(query)
  }

  async settings(): Promise<readonly SettingRow[]> {
    return this.#store.settings()
  }

  async configure(change: SettingChange): Promise<void> {
    return this.#store.configure(change)
  }

  async prune(policy: PrunePolicy): Promise<Pruned> {
    return this.#store.prune(policy)
  }

  async subscribe(session: string, listener: (signal: WakeSignal) => void): Promise<Unsubscribe> {
    return this.#track(await this.#store.subscribe(session, listener))
  }

  follow(listener: () => void): Unsubscribe {
    return this.#track(this.#store.follow(listener))
  }

  async close(): Promise<void> {
    this.#closing ??= this.#leave()
    for (const unsubscribe of [...this.#subscriptions]) unsubscribe()
    return this.#closing
  }

  #track(unsubscribe: Unsubscribe): Unsubscribe {
    const once = (): void => {
      if (this.#subscriptions.delete(once)) unsubscribe()
    }
    this.#subscriptions.add(once)
    return once
  }
}
