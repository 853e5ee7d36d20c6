/**
 * A store behind a bad connection: calls that are late, calls that never arrive, commits whose answer is lost, and
 * requests that are delivered twice. The test says, call by call, what goes wrong; nothing does by itself.
 *
 * It keeps the promise of the port: `STORE_UNAVAILABLE` means that nothing was committed, `STORE_OUTCOME_UNKNOWN` that
 * it may have been. What it does not fake is the store's own misbehaviour.
 */
import { LeaseError } from '../core/errors.ts'
import type { Store, StoreDescription } from '../store-port/store.ts'

/** The calls that can go wrong; `description`, `follow` and `close` cannot. */
export type FaultyMethod = Exclude<keyof Store, 'description' | 'follow' | 'close'>

export interface StoreCall {
  readonly method: FaultyMethod
  /** 0 for the first call of all. */
  readonly number: number
}

/**
 * What goes wrong with one call. `lost_request`: the store never hears of it. `lost_answer`: the store carries it out
 * and the caller gets no answer. `delivered_twice`: the store carries it out twice, and the first answer is heard.
 */
export type Fault = 'lost_request' | 'lost_answer' | 'delivered_twice'

export interface CallWeather {
  readonly fault?: Fault
  /** The call reaches the store when this settles. */
  readonly before?: Promise<void>
  /** Its answer, or the news that it is lost, arrives when this settles. */
  readonly after?: Promise<void>
}

export interface FaultyStoreOptions {
  /** The store that is asked where nothing goes wrong. */
  readonly store: Store
  /** Asked once for every call, when it is made. Undefined: nothing goes wrong. */
  readonly weather: (call: StoreCall) => CallWeather | undefined
}

export class FaultyStore implements Store {
  readonly #store: Store
  readonly #weather: FaultyStoreOptions['weather']
  #calls = 0

  constructor({ store, weather }: FaultyStoreOptions) {
    this.#store = store
    this.#weather = weather
  }

  get description(): StoreDescription {
    return this.#store.description
  }

  readonly transact: Store['transact'] = (readSets, decide) => {
    return this.#call('transact', () => this.#store.transact(readSets, decide))
  }
  readonly find: Store['find'] = (query) => this.#call('find', () => this.#store.find(query))
  readonly history: Store['history'] = (query) => {
    return this.#call('history', () => this.#store.history(query))
  }
  readonly end: Store['end'] = () => this.#call('end', () => this.#store.end())
  readonly countRefusals: Store['countRefusals'] = (refusals) => {
    return this.#call('countRefusals', () => this.#store.countRefusals(refusals))
  }
  readonly refusals: Store['refusals'] = (query) => {
    return this.#call('refusals', () => this.#store.refusals(query))
  }
  readonly settings: Store['settings'] = () => this.#call('settings', () => this.#store.settings())
  readonly configure: Store['configure'] = (change) => {
    return this.#call('configure', () => this.#store.configure(change))
  }
  readonly prune: Store['prune'] = (policy) => this.#call('prune', () => this.#store.prune(policy))
  readonly subscribe: Store['subscribe'] = (session, listener) => {
    return this.#call('subscribe', () => this.#store.subscribe(session, listener))
  }
  readonly follow: Store['follow'] = (listener) => this.#store.follow(listener)
  readonly close: Store['close'] = () => this.#store.close()

  async #call<Answer>(method: FaultyMethod, send: () => Promise<Answer>): Promise<Answer> {
    const weather = this.#weather({ method, number: this.#calls }) ?? {}
    this.#calls += 1
    if (weather.before !== undefined) await weather.before
    try {
      return await deliver(send, weather.fault, WRITES.has(method))
    } finally {
      if (weather.after !== undefined) await weather.after
    }
  }
}

const WRITES: ReadonlySet<FaultyMethod> = new Set<FaultyMethod>([
  ...(['transact', 'configure', 'prune', 'countRefusals'] as const),
])

async function deliver<Answer>(
  send: () => Promise<Answer>,
  fault: Fault | undefined,
  isWrite: boolean,
): Promise<Answer> {
  if (fault === 'lost_request') throw unavailable('the request was lost')
  const answer = await send()
  if (fault === 'delivered_twice') await Promise.allSettled([send()])
  if (fault !== 'lost_answer') return answer
  throw isWrite ? outcomeUnknown() : unavailable('the answer was lost')
}

function unavailable(why: string): LeaseError {
  return new LeaseError('STORE_UNAVAILABLE', `the store could not be reached: ${why}`)
}

function outcomeUnknown(): LeaseError {
  return new LeaseError('STORE_OUTCOME_UNKNOWN', 'the answer of the store was lost')
}
