/** Everything that a server has of one namespace: the store, those who wait there, its ledger, and what is live in it. */
import { LeaseError } from '../core/errors.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import { endsWithin } from '../runtime/ends-within.ts'
import { pause } from '../runtime/pause.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import { LedgerFeed } from './ledger-feed.ts'
import { LiveIndex } from './live-index.ts'
import { ServerWaits, type ServerWaitsOptions } from './server-waits.ts'
import { CALL_NAMES } from '../service/traced-api.ts'

export interface ServedStore {
  readonly namespace: string
  readonly api: LeaseApi
  readonly waits: ServerWaits
  readonly feed: LedgerFeed
  readonly live: LiveIndex
  /** Resolves once `live` tells of everything. */
  readonly loaded: () => Promise<void>
}

interface ServedStoreOptions {
  readonly open: (namespace: string) => Promise<LeaseApi>
  readonly runtime: Runtime
  readonly observe: Observe
  readonly onGrant: ServerWaitsOptions['onGrant']
  /** Hears of a namespace that is opened, once. */
  readonly onOpen: (store: ServedStore) => void
}

/** Each has connections and a watch of its own. */
const NAMESPACES_MAX = 64
/** After the list of what is live could not be read. */
const AGAIN_MS = 1_000

/** The namespaces that were asked for. One that could not be opened is tried again by the next request. */
export class ServedStores {
  readonly #options: ServedStoreOptions
  readonly #stores = new Map<string, Promise<ServedStore>>()
  /** Those of them that are open by now: nobody who stops a server waits for a store that is away. */
  readonly #opened = new Set<ServedStore>()
  #isStopping = false
  #isClosed = false

  constructor(options: ServedStoreOptions) {
    this.#options = options
  }

  of(namespace: string): Promise<ServedStore> {
    const known = this.#stores.get(namespace)
    if (known !== undefined) return known
    if (this.#isClosed) throw closedServerError()
    if (this.#stores.size >= NAMESPACES_MAX) {
      const message = `at most ${NAMESPACES_MAX} namespaces are served at once`
      throw new LeaseError('LIMIT_EXCEEDED', message, { details: { limit: NAMESPACES_MAX } })
    }
    const opening = this.#open(namespace)
    this.#stores.set(namespace, opening)
    // No fault: whoever asked hears it.
    opening.catch(() => this.#stores.delete(namespace))
    return opening
  }

  /** Also of a namespace that is opened later, for a request that came before. */
  stopWaits(): void {
    this.#isStopping = true
    for (const { waits } of this.#opened) waits.stop()
  }

  /** A store that is away may be long in being closed: it is waited for no longer than this. */
  async close(withinMs: number): Promise<void> {
    this.#isClosed = true
    const { runtime } = this.#options
    const endMs = runtime.monotonicMs() + withinMs
    const halfMs = withinMs / 2
    const closing = [...this.#opened].map(async ({ api, waits, feed }) => {
      await Promise.all([waits.close(halfMs), endsWithin(runtime, halfMs, feed.close())])
      await endsWithin(runtime, endMs - runtime.monotonicMs(), api.close())
    })
    await Promise.all(closing)
  }

  async #open(namespace: string): Promise<ServedStore> {
    const { open, runtime, observe, onGrant, onOpen } = this.#options
    const opened = await open(namespace)
    if (this.#isClosed) {
      await opened.close()
      throw closedServerError()
    }
    const api = measuredApi(opened, runtime, observe)
    const feed = new LedgerFeed(api, runtime)
    const live = new LiveIndex()
    feed.onEvent((event) => live.apply(event))
    let loading: Promise<void> | null = null
    const loaded = (): Promise<void> => {
      const listing = loading ?? feed.position().then(() => live.load(api))
      loading = listing
      // No fault: whoever asked hears it; the next one tries again.
      listing.catch(() => (loading = null))
      return listing
    }
    const fault = new RepeatedFault('server/live-index', runtime)
    // A store that is away at first is waited for: gauges would else tell only of what came after.
    const load = async (): Promise<void> => {
      while (!this.#isClosed) {
        try {
          await loaded()
          return fault.succeeded()
        } catch (error) {
          fault.failed(error)
        }
        await pause(runtime, AGAIN_MS, { keepAlive: false })
      }
    }
    feed.onLoss(() => {
      live.forget()
      loading = null
      void load()
    })
    const waits = new ServerWaits({ api, runtime, onGrant })
    if (this.#isStopping) waits.stop()
    const store = { namespace, api, waits, feed, live, loaded }
    this.#opened.add(store)
    onOpen(store)
    void load()
    return store
  }
}

function closedServerError(): LeaseError {
  return new LeaseError('CLOSED', 'the server was closed')
}

type AnyCall = (...args: readonly unknown[]) => unknown

/** `answer` is undefined where the call failed. */
type Observe = (call: string, seconds: number, answer: unknown) => void

/** A `LeaseApi` that says how long each of its calls took, and what came of it. */
function measuredApi(
  api: LeaseApi,
  runtime: Pick<Runtime, 'monotonicMs'>,
  observe: Observe,
): LeaseApi {
  const measure = (name: string, call: () => unknown): unknown => {
    const startMs = runtime.monotonicMs()
    const result = call()
    if (!(result instanceof Promise)) return result
    const tell = (answer: unknown): void => {
      observe(name, (runtime.monotonicMs() - startMs) / 1_000, answer)
    }
    // No fault: whoever made the call hears it.
    result.then(tell, () => tell(undefined))
    return result
  }
  const measured = CALL_NAMES.filter((name) => api[name] !== undefined).map((name) => {
    const call = (api[name] as AnyCall).bind(api)
    return [name, (...args: readonly unknown[]) => measure(name, () => call(...args))]
  })
  return { store: api.store, ...Object.fromEntries(measured) } as LeaseApi
}
