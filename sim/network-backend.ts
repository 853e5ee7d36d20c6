/**
 * The optimistic server as one process sees it, with a network in between. It cannot be held for one caller (`holding`):
 * no simulated contention lasts so long that a process would ask for that.
 */
import type { CountedRefusal } from '../src/core/refusal.ts'
import type { SettingRow } from '../src/core/settings.ts'
import type { Backend, FoundEntries, Group, GroupReply } from '../src/store/optimistic/backend.ts'
import type {
  EntryQuery,
  HistoryQuery,
  LedgerEntry,
  Position,
  Pruned,
  PrunePolicy,
  RefusalQuery,
  SettingChange,
  StoreDescription,
  Unsubscribe,
  WakeSignal,
} from '../src/store-port/store.ts'
import { AttemptShapes } from './attempt-shapes.ts'
import { Network, type NetworkOptions } from './network.ts'
import type { OptimisticServer } from './optimistic-server.ts'

export interface NetworkBackendOptions extends NetworkOptions {
  readonly server: OptimisticServer
  /** Some servers answer before a turn is over. */
  readonly isQuick: boolean
}

export class NetworkBackend implements Backend {
  readonly description: StoreDescription
  readonly clockDomain: string
  readonly isQuick: boolean
  readonly #server: OptimisticServer
  readonly #network: Network
  readonly #shapes: AttemptShapes

  constructor(options: NetworkBackendOptions) {
    const { server, incarnation, isQuick } = options
    const { description, clockDomain } = server.backend
    this.description = { ...description, url: 'sim:' }
    this.clockDomain = clockDomain
    this.isQuick = isQuick
    this.#server = server
    this.#network = new Network(options)
    this.#shapes = new AttemptShapes(incarnation.process.log)
  }

  attempt(group: Group): Promise<GroupReply> {
    const places = group.attempts.flatMap((attempt) => attempt.places)
    const leaseIds = [...new Set(places.map(({ readSet }) => readSet.leaseId))]
    return this.#network.send(
      async (isEcho) => {
        const reply = await this.#server.attempt(group, isEcho)
        this.#shapes.note(group, reply)
        return reply
      },
      leaseIds.length === 0 ? null : leaseIds,
    )
  }

  find(query: EntryQuery): Promise<FoundEntries> {
    return this.#network.send(() => this.#server.backend.find(query), null)
  }

  history(query: HistoryQuery): Promise<readonly LedgerEntry[]> {
    return this.#network.send(() => this.#server.backend.history(query), null)
  }

  end(): Promise<Position> {
    return this.#network.send(() => this.#server.backend.end(), null)
  }

  countRefusals(refusals: readonly CountedRefusal[]): Promise<void> {
    return this.#network.send(() => this.#server.backend.countRefusals(refusals), null)
  }

  refusals(query: RefusalQuery): Promise<readonly CountedRefusal[]> {
    return this.#network.send(() => this.#server.backend.refusals(query), null)
  }

  settings(): Promise<readonly SettingRow[]> {
    return this.#network.send(() => this.#server.backend.settings(), null)
  }

  configure(change: SettingChange): Promise<void> {
    return this.#network.send(() => this.#server.backend.configure(change), null)
  }

  prune(policy: PrunePolicy): Promise<Pruned> {
    return this.#network.send(() => this.#server.backend.prune(policy), null)
  }

  subscribe(session: string, listener: (signal: WakeSignal) => void): Promise<Unsubscribe> {
    const onSignal = (signal: WakeSignal): void => this.#network.deliverWake(() => listener(signal))
    return this.#network.send(() => this.#server.backend.subscribe(session, onSignal), null)
  }

  follow(listener: () => void): Unsubscribe {
    return this.#server.backend.follow(() => this.#network.deliverWake(listener))
  }

  async close(): Promise<void> {
    this.#network.close()
  }
}
