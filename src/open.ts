/**
 * From a URL to a client: which store, shared with whom, and the service and client on top of it.
 *
 * Stores, the service and the client are loaded when they are asked for: a command that only looks must not pay for
 * what decides and what holds.
 */
import type { Tenure } from './client/contract.ts'
import type { GrantSigner } from './client/grant-signer.ts'
import { invalid } from './core/errors.ts'
import { parseFlag, parseHolder, parseSession, refuseUnknown } from './core/input.ts'
import type { SigningKey } from './registrar/ed25519.ts'
import { type Fault, onFault } from './runtime/diagnostics.ts'
import type { Runtime } from './runtime/runtime.ts'
import { systemRuntime } from './runtime/system-runtime.ts'
import type { LeaseApi } from './service/lease-api.ts'
import type { Questions } from './service/lease-questions.ts'
import type { LeaseService } from './service/lease-service.ts'
import {
  type Address,
  readAddress,
  STORE_OPTIONS,
  type StoreOptions,
  type StoreSource,
} from './store-address.ts'
import type { Store } from './store-port/store.ts'

export interface OpenOptions extends StoreOptions {
  /** Who holds what this client acquires: 1..128 bytes. */
  readonly holder: string
  /** Proves what is this client's; a process that knows it can act for the client. Default: a new one for each client. */
  readonly session?: string
  /**
   * The session does one thing after another, as an agent or a person at a shell does: a request that the session itself
   * blocks is refused at once, and what it holds counts as held until its wait has ended. Default false.
   */
  readonly sequential?: boolean
  /** How long a waiter that is not heard of keeps its place: 50..60000, default 5000. */
  readonly claimWindowMs?: number
  /** Signs the grants of what this client holds and derives (`lease.grant`). */
  readonly signingKey?: SigningKey
  /** Instead of a key: a file made by `tenure keys`, whose active key signs, also after it was rotated. */
  readonly keyFile?: string
  /** Hears what fails in the background of this process, until the client is closed. */
  readonly onDiagnostic?: (fault: Fault) => void
  /**
   * What becomes of a lease that renews itself although nothing references its handle any more: it is reported as a fault,
   * and renewed on (default) or released. A handle whose `signal` was read counts as referenced.
   */
  readonly orphans?: 'renew' | 'release'
  /** `configured`: leases renew themselves for no longer than the store's `max_hold_seconds`. Default `none`: no such limit. */
  readonly maxHold?: 'none' | 'configured'
  /** For tests: time, timers and ids to go by instead of the real ones, such as `FakeRuntime`. Only embedded stores take one. */
  readonly runtime?: Runtime
}

const OPEN_OPTIONS = [
  ...STORE_OPTIONS,
  'holder',
  'session',
  'sequential',
  'claimWindowMs',
  'signingKey',
  'keyFile',
  'onDiagnostic',
  'orphans',
  'maxHold',
  'runtime',
] as const satisfies readonly (keyof OpenOptions)[]

/**
 * Opens a client on `memory:`, `memory:NAME` (shared within the process), `sqlite:PATH`, `postgres://…`, `redis://…`, on
 * `http://…` (a server of Tenure, or several: `http://a:7420,b:7420`), or on a pool or client that the program already has.
 */
export async function openTenure(store: StoreSource, options: OpenOptions): Promise<Tenure> {
  requireOptions(options)
  const { session, sequential = false, claimWindowMs, runtime = systemRuntime } = options
  const holder = parseHolder(options.holder)
  if (session !== undefined) parseSession(session)
  parseFlag('sequential', sequential)
  const { readClaimWindow, readKeeping, TenureClient } = await import('./client/tenure-client.ts')
  readClaimWindow(claimWindowMs)
  const keeping = readKeeping(options)
  const signer = await signerOf(options)
  const api = await openApi(store, options)
  return new TenureClient({
    ...{ api, runtime, holder, sequential, ...keeping },
    ...(session === undefined ? {} : { session }),
    ...(claimWindowMs === undefined ? {} : { claimWindowMs }),
    ...(signer === null ? {} : { signer }),
  })
}

/** A client without a key does not load the code that signs. */
async function signerOf({ signingKey, keyFile }: OpenOptions): Promise<GrantSigner | null> {
  if (signingKey === undefined && keyFile === undefined) return null
  const { LeaseSigner } = await import('./delegation/lease-signer.ts')
  if (signingKey !== undefined && keyFile !== undefined) {
    throw invalid('keyFile', 'must not be given beside signingKey', keyFile)
  }
  return signingKey === undefined ? LeaseSigner.ofFile(keyFile) : LeaseSigner.of(signingKey)
}

/** Who holds has no default, so the options of a client cannot be left out. */
function requireOptions(options: unknown): void {
  if (options === undefined) throw invalid('options', 'must be an object with a holder', options)
  refuseUnknown(options, OPEN_OPTIONS)
}

/** Opens the API below the client, for callers that neither wait nor hold. */
export async function openApi(
  source: StoreSource,
  options: StoreOptions & Partial<OpenOptions> = {},
): Promise<LeaseApi> {
  refuseUnknown(options, OPEN_OPTIONS)
  const { onDiagnostic, runtime } = options
  const address = readAddress(source, options, requireRuntime(runtime))
  if (onDiagnostic === undefined) return openAddress(address)
  if (typeof onDiagnostic !== 'function') {
    throw invalid('onDiagnostic', 'must be a function', onDiagnostic)
  }
  return openHeard(address, onDiagnostic)
}

function requireRuntime(runtime: unknown): Runtime | null {
  if (runtime === undefined) return null
  const isOne = typeof runtime === 'object' && runtime !== null && 'setTimer' in runtime
  if (isOne) return runtime as Runtime
  throw invalid('runtime', 'must be a runtime, such as FakeRuntime of tenure/testing', runtime)
}

/** Listens from before the store is opened until it is closed. */
async function openHeard(address: Address, listener: (fault: Fault) => void): Promise<LeaseApi> {
  const stop = onFault(listener)
  try {
    const api = await openAddress(address)
    return { ...api, close: () => api.close().finally(stop) }
  } catch (error) {
    stop()
    throw error
  }
}

async function openAddress(address: Address): Promise<LeaseApi> {
  if (address.openApi !== undefined) {
    const { tracedApi } = await import('./service/traced-api.ts')
    return tracedApi(await address.openApi())
  }
  const { LeaseService: Service } = await import('./service/lease-service.ts')
  const { tracedApi } = await import('./service/traced-api.ts')
  const { runtime = systemRuntime } = address
  const keep: Keep = (store) => new Service({ store, runtime, sweep: true })
  if (address.key === null) return tracedApi(keep(await address.open()))
  const { store, leave, sweeper } = await share(address, address.key, keep)
  const sharing = sweeper === null ? {} : { sharing: sweeper }
  return tracedApi(new Service({ store, leave, runtime, ...sharing }))
}

export interface ImportedLedger {
  readonly events: number
  /** Of the state that the ledger leads to: that of the store it came from, and that of the one it was put into. */
  readonly digest: string
}

export interface ImportOptions extends StoreOptions {
  /** Goes on with an import of the same ledger that was cut short. Default false. */
  readonly resume?: boolean
}

/**
 * Rebuilds an empty store, of whatever kind, from the lines of an exported ledger; up to 5,000 events in one commit, more
 * in several. Throws `DECODE_ERROR` with the number of the first line that cannot be taken, and `LEASE_EXISTS` for a
 * store that has a past already; either way nothing is written.
 */
export async function importLedger(
  source: StoreSource,
  text: string,
  options: ImportOptions = {},
): Promise<ImportedLedger> {
  refuseUnknown(options, [...STORE_OPTIONS, 'resume'])
  const { resume = false, ...where } = options
  if (typeof text !== 'string') throw invalid('text', 'must be the lines of a ledger', text)
  const address = readAddress(source, where)
  const { readLedger } = await import('./ledger/read-ledger.ts')
  const { events, digest } = readLedger(text)
  const { restoreLedger } = await import('./service/restore-ledger.ts')
  const { store, leave } = await openShared(address)
  try {
    await restoreLedger(store, events, { resume })
  } finally {
    await leave()
  }
  return { events: events.length, digest }
}

/** Opens a store for callers that only read: nothing is swept, and no deciding code is loaded. */
export async function openQuestions(
  source: StoreSource,
  options: StoreOptions = {},
): Promise<Questions> {
  refuseUnknown(options, STORE_OPTIONS)
  const address = readAddress(source, options)
  const { openToLook, openApi: openServer } = address
  if (openServer !== undefined) return openServer()
  const { LeaseQuestions } = await import('./service/lease-questions.ts')
  if (openToLook !== null) return new LeaseQuestions(await openToLook())
  const { store, leave } = await openShared(address)
  return new LeaseQuestions(store, leave)
}

/** A store of this process, which nothing sweeps for this user. */
async function openShared(address: Address): Promise<Omit<Share, 'sweeper'>> {
  if (address.key !== null) return share(address, address.key, null)
  const store = await address.open()
  return { store, leave: () => store.close() }
}

/** Makes what sweeps a store in the background. */
type Keep = (store: Store) => LeaseService

/**
 * Stores that several users of one process share, so that what they do at the same moment shares one commit. A store is
 * closed when the last of them closes; its background sweep runs once, however many there are.
 */
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
interface Share {
  readonly store: Store
  /** Closes it, if no other user is left. */
  readonly leave: () => Promise<void>
  readonly sweeper: LeaseService | null
}

async function share(address: Address, key: string, keep: Keep | null): Promise<Share> {
  const known = sharedStores.get(key)
  // A store whose file was removed or replaced is not shared any more: the path now means another file.
  const shared: SharedStore =
    known !== undefined && (known.identity === null || known.identity === address.identity())
      ? known
      : newShared(address)
  refuseOtherTime(shared, address)
  sharedStores.set(key, shared)
  shared.users += 1
  let isUser = true
  const leave = async (): Promise<void> => {
    if (isUser) shared.users -= 1
    isUser = false
    if (shared.users > 0) return
    if (sharedStores.get(key) === shared) sharedStores.delete(key)
    await (shared.sweeper ?? shared.store)?.close()
  }
  try {
    const store = await shared.opened
    shared.identity ??= address.identity()
    shared.store = store
    if (keep !== null) shared.sweeper ??= keep(store)
    return { store, leave, sweeper: shared.sweeper }
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
