/**
 * From a URL to a client: which store, shared with whom, and the service and client on top of it.
 *
 * Within one process everybody who opens the same file, namespace and options shares one store, so that what they do
 * at the same moment shares one commit; it is closed when the last of them closes. The background sweep runs once
 * per store, however many share it.
 *
 * Stores, the service and the client are loaded when they are asked for: a command that only looks must not pay for
 * what decides and what holds.
 */
import path from 'node:path'
import type { Tenure } from './client/contract.ts'
import { invalid, LeaseError } from './core/errors.ts'
import { parseHolder, parseSession, refuseUnknown } from './core/input.ts'
import { parseNamespace } from './core/resource.ts'
import { requireShortText, requireText } from './core/text.ts'
import { fs } from './runtime/file-system.ts'
import { systemRuntime } from './runtime/system-runtime.ts'
import { systemTickSource } from './runtime/tick-source.ts'
import type { LeaseApi } from './service/lease-api.ts'
import type { Questions } from './service/lease-questions.ts'
import type { LeaseService } from './service/lease-service.ts'
import type {
  Decide,
  EntryQuery,
  Found,
  HistoryQuery,
  LedgerEntry,
  Position,
  Pruned,
  PrunePolicy,
  SettingChange,
  Store,
  StoreDescription,
  StoreQuestions,
  Unsubscribe,
  WakeSignal,
} from './store-port/store.ts'
import type { Footprint } from './core/realm.ts'
import type { SettingRow } from './core/settings.ts'

export interface StoreOptions {
  /** `[a-z0-9._-]{1,64}`; nothing crosses namespaces. Default `default`. */
  readonly namespace?: string
  /** SQLite only. `full` (the default): a granted lease survives power loss. `normal`: the last ones may not. */
  readonly synchronous?: 'full' | 'normal'
}

export interface OpenOptions extends StoreOptions {
  /** Who holds what this client acquires: 1..128 bytes. */
  readonly holder: string
  /** Who waits for whom. Default: a new one for each client. */
  readonly session?: string
  /** How long a waiter that is not heard of keeps its place: 50..60000, default 5000. */
  readonly claimWindowMs?: number
}

const STORE_OPTIONS = ['namespace', 'synchronous'] as const
const OPEN_OPTIONS = [...STORE_OPTIONS, 'holder', 'session', 'claimWindowMs'] as const
const EXPECTED_URL = 'must be memory:, memory:NAME or sqlite:PATH'

/** Opens a client on `memory:`, `memory:NAME` (shared within the process) or `sqlite:PATH`. */
export async function openTenure(url: string, options: OpenOptions): Promise<Tenure> {
  refuseUnknown(options, OPEN_OPTIONS)
  const { session, claimWindowMs } = options
  const holder = parseHolder(options.holder)
  if (session !== undefined) parseSession(session)
  const { readClaimWindow, TenureClient } = await import('./client/tenure-client.ts')
  readClaimWindow(claimWindowMs)
  const api = await openApi(url, options)
  return new TenureClient({
    ...{ api, runtime: systemRuntime, holder },
    ...(session === undefined ? {} : { session }),
    ...(claimWindowMs === undefined ? {} : { claimWindowMs }),
  })
}

/** Opens what the client stands on, for those who ask and end but neither wait nor hold. */
export async function openApi(
  url: string,
  options: StoreOptions & Partial<OpenOptions> = {},
): Promise<LeaseApi> {
  refuseUnknown(options, OPEN_OPTIONS)
  const address = readAddress(url, options)
  const { LeaseService: Service } = await import('./service/lease-service.ts')
  const keep: Keep = (store) => new Service({ store, runtime: systemRuntime, sweep: true })
  if (address.key === null) return keep(await openStore(address))
  return new Service({ store: await share(address, address.key, keep), runtime: systemRuntime })
}

/** Opens a store for those who only look: nothing is swept, and nothing that decides is loaded. */
export async function openQuestions(url: string, options: StoreOptions = {}): Promise<Questions> {
  refuseUnknown(options, STORE_OPTIONS)
  const address = readAddress(url, options)
  const { LeaseQuestions } = await import('./service/lease-questions.ts')
  return new LeaseQuestions(await openToLook(address))
}

interface Address {
  readonly scheme: 'memory' | 'sqlite'
  /** A name in memory, or an absolute path. */
  readonly place: string
  readonly namespace: string
  readonly synchronous: 'full' | 'normal'
  /** Whoever has the same key shares the store; null: nobody does. */
  readonly key: string | null
}

function readAddress(url: unknown, options: StoreOptions): Address {
  const text = requireText('store', url)
  const [, scheme, rest, query] = /^([a-z][a-z0-9+.-]*):([^?]*)(?:\?(.*))?$/s.exec(text) ?? []
  if ((scheme !== 'memory' && scheme !== 'sqlite') || rest === undefined) {
    throw invalid('store', EXPECTED_URL, text)
  }
  const known = scheme === 'sqlite' ? STORE_OPTIONS : (['namespace'] as const)
  const { namespace, synchronous } = merge(readParameters(query, known), options)
  const place = scheme === 'sqlite' ? readPath(rest, text) : readName(rest)
  const settled = {
    scheme,
    place,
    namespace: parseNamespace(namespace ?? 'default'),
    synchronous: readSynchronous(synchronous ?? 'full'),
  } as const
  const isPrivate = scheme === 'memory' && place === ''
  return { ...settled, key: isPrivate ? null : JSON.stringify(Object.values(settled)) }
}

type Parameters = Readonly<Record<string, string>>

function readParameters(query: string | undefined, known: readonly string[]): Parameters {
  const parameters: Record<string, string> = {}
  for (const [name, value] of new URLSearchParams(query ?? '')) {
    if (!known.includes(name)) {
      throw invalid('store', `parameters must be among ${known.join(', ')}`, name)
    }
    parameters[name] = value
  }
  return parameters
}

/** What the URL says and what the options say, which must not be two different things. */
function merge(
  parameters: Parameters,
  options: StoreOptions,
): { readonly namespace: unknown; readonly synchronous: unknown } {
  const pick = (name: keyof StoreOptions): unknown => {
    const [inUrl, inOptions] = [parameters[name], options[name]]
    if (inUrl === undefined || inOptions === undefined || inUrl === inOptions) {
      return inOptions ?? inUrl
    }
    throw invalid(name, `must not differ from ${inUrl} in the URL`, inOptions)
  }
  return { namespace: pick('namespace'), synchronous: pick('synchronous') }
}

function readName(name: string): string {
  return name === '' ? '' : requireShortText({ field: 'store', bytesMax: 128 }, name)
}

/**
 * `sqlite:a/b.db` is relative; `sqlite:/a/b.db` and `sqlite:///a/b.db` are absolute; a host makes no sense. A question
 * mark in a path is written `%3F`, and a percent sign that would be read so, `%25`.
 */
function readPath(encoded: string, url: string): string {
  const text = encoded.replaceAll('%3F', '?').replaceAll('%25', '%')
  if (text === '' || /^\/\/[^/]/.test(text)) throw invalid('store', EXPECTED_URL, url)
  if (text === ':memory:') throw invalid('store', `${EXPECTED_URL} (a file)`, url)
  return systemRuntime.canonicalPath(path.resolve(text))
}

function readSynchronous(value: unknown): 'full' | 'normal' {
  if (value === 'full' || value === 'normal') return value
  throw invalid('synchronous', 'must be full or normal', value)
}

/** A file is opened anew: sharing it with those who decide would gain nothing, and load all that decides. */
async function openToLook(address: Address): Promise<StoreQuestions> {
  const { scheme, place, namespace, synchronous, key } = address
  if (scheme === 'sqlite') {
    const { SqliteQuestions } = await import('./store/sqlite/sqlite-questions.ts')
    return SqliteQuestions.open({ path: place, namespace, synchronous })
  }
  return key === null ? openStore(address) : share(address, key, null)
}

async function openStore({ scheme, place, namespace, synchronous }: Address): Promise<Store> {
  if (scheme === 'memory') {
    const { MemoryStore } = await import('./store/memory/memory-store.ts')
    return new MemoryStore({ ticks: systemTickSource(), url: `memory:${place}` })
  }
  const { SqliteStore } = await import('./store/sqlite/sqlite-store.ts')
  return SqliteStore.open({ path: place, namespace, synchronous })
}

/** Makes what sweeps a store in the background. */
type Keep = (store: Store) => LeaseService

interface SharedStore {
  readonly opened: Promise<Store>
  /** Which file it is, once it is open; null for a store that is none. */
  identity: string | null
  /** Closed last, closes the store: the store itself, or what runs the background sweep as soon as anybody needs it. */
  keeper: Store | LeaseService | null
  sweeps: boolean
  users: number
}

const sharedStores = new Map<string, SharedStore>()

function identityOf({ scheme, place }: Address): string | null {
  if (scheme !== 'sqlite') return null
  const stat = fs.statSync(place, { throwIfNoEntry: false })
  return stat === undefined ? 'none' : `${stat.dev}/${stat.ino}`
}

async function share(address: Address, key: string, keep: Keep | null): Promise<Store> {
  const known = sharedStores.get(key)
  // A store whose file was removed or replaced serves nobody new: the path now means another file.
  const shared: SharedStore =
    known !== undefined && (known.identity === null || known.identity === identityOf(address))
      ? known
      : { opened: openStore(address), identity: null, keeper: null, sweeps: false, users: 0 }
  sharedStores.set(key, shared)
  shared.users += 1
  const leave = async (): Promise<void> => {
    shared.users -= 1
    if (shared.users > 0) return
    if (sharedStores.get(key) === shared) sharedStores.delete(key)
    await shared.keeper?.close()
  }
  try {
    const store = await shared.opened
    shared.identity ??= identityOf(address)
    shared.keeper ??= store
    if (keep !== null && !shared.sweeps) {
      shared.keeper = keep(store)
      shared.sweeps = true
    }
    return new StoreShare(store, leave)
  } catch (error) {
    await leave()
    throw error
  }
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
    throw new LeaseError('CLOSED', 'the store was closed')
  }

  async transact<Outcome>(
    footprints: readonly Footprint[],
    decide: Decide<Outcome>,
  ): Promise<Outcome> {
    return this.#store.transact(footprints, decide)
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
