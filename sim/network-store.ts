/** The store as one process sees it, with a network in between. Decisions are made where the store is. */
import type { ReadSet } from '../src/core/realm.ts'
import type { CountedRefusal } from '../src/core/refusal.ts'
import type { SettingRow } from '../src/core/settings.ts'
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
} from '../src/store-port/store.ts'
import { Network, type NetworkOptions } from './network.ts'
import type { StoreHost } from './store-host.ts'

export class NetworkStore implements Store {
  readonly description: StoreDescription
  readonly #host: StoreHost
  readonly #network: Network

  constructor(options: NetworkOptions) {
    const { host } = options
    this.description = { ...host.store.description, url: 'sim:' }
    this.#host = host
    this.#network = new Network(options)
  }

  transact<Outcome>(readSets: readonly ReadSet[], decide: Decide<Outcome>): Promise<Outcome> {
    const leaseIds = readSets.slice(0, 1).map(({ leaseId }) => leaseId)
    return this.#network.send((isEcho) => this.#host.transact(readSets, decide, isEcho), leaseIds)
  }

  find(query: EntryQuery): Promise<Found> {
    return this.#network.send(() => this.#host.find(query), null)
  }

  history(query: HistoryQuery): Promise<readonly LedgerEntry[]> {
    return this.#network.send(() => this.#host.store.history(query), null)
  }

  end(): Promise<Position> {
    return this.#network.send(() => this.#host.store.end(), null)
  }

  countRefusals(refusals: readonly CountedRefusal[]): Promise<void> {
    return this.#network.send(() => this.#host.store.countRefusals(refusals), null)
  }

  refusals(query: RefusalQuery): Promise<readonly CountedRefusal[]> {
    return this.#network.send(() => this.#host.store.refusals(query), null)
  }

  settings(): Promise<readonly SettingRow[]> {
    return this.#network.send(() => this.#host.store.settings(), null)
  }

  configure(change: SettingChange): Promise<void> {
    return this.#network.send(() => this.#host.store.configure(change), null)
  }

  prune(policy: PrunePolicy): Promise<Pruned> {
    return this.#network.send(() => this.#host.store.prune(policy), null)
  }

  subscribe(session: string, listener: (signal: WakeSignal) => void): Promise<Unsubscribe> {
    const onSignal = (signal: WakeSignal): void => this.#network.deliverWake(() => listener(signal))
    return this.#network.send(() => this.#host.store.subscribe(session, onSignal), null)
  }

  follow(listener: () => void): Unsubscribe {
    return this.#host.store.follow(() => this.#network.deliverWake(listener))
  }

  async close(): Promise<void> {
    this.#network.close()
  }
}
