/**
 * A `LeaseApi` whose store is behind a server. Whatever is asked of the same servers under the same token goes over the
 * same connections and the same stream of wake-ups, however many clients a process has.
 */
import { closedError, isLeaseError, LeaseError } from '../core/errors.ts'
import { NAMESPACE_HEADER, BATCH_BYTES_MAX, BATCH_PATH } from '../protocol/http.ts'
import { isApiCall, REQUEST_NAMES, type RequestName, REQUESTS } from '../protocol/requests.ts'
import { newAbortController } from '../runtime/abort-listeners.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type {
  LeaseApi,
  StoreDescription,
  Unsubscribe,
  WatchFilter,
  WatchLocals,
} from '../service/lease-api.ts'
import { WakeStreams, watchEvents } from './event-streams.ts'
import { HttpServers, toldError, type RequestEffect } from './http-servers.ts'
import { readAnswer, type AnswerOf } from '../protocol/answers.ts'
import { BATCH_CALLS_MAX } from '../protocol/changes.ts'
import { afterTurn } from '../runtime/system-runtime.ts'

export interface HttpApiOptions {
  /** As the user wrote them. */
  readonly url: string
  /** The servers before one store. */
  readonly urls: readonly URL[]
  readonly token: string | null
  /** Null: the token's. */
  readonly namespace: string | null
  /** How long one call may take. */
  readonly callMs: number
  readonly runtime: Runtime
}

/** Nothing is sent yet: the first call connects. */
export function openHttpApi(options: HttpApiOptions): LeaseApi {
  const connection = connectionFor(options)
  return apiOf(connection, descriptionOf(options), options.runtime)
}

function descriptionOf({ url }: HttpApiOptions): StoreDescription {
  const whose = 'that of the store behind the server'
  return { url, clock: whose, durability: whose }
}

/** What all clients of one token have in common. */
interface Connection {
  readonly servers: HttpServers
  readonly calls: CallBatches
  readonly wakes: WakeStreams
  users: number
  readonly key: string
}

const connections = new Map<string, Connection>()

function connectionFor({ urls, token, namespace, callMs, runtime }: HttpApiOptions): Connection {
  const key = JSON.stringify([urls.map(({ href }) => href), token, namespace, callMs])
  const known = connections.get(key)
  if (known !== undefined) {
    known.users += 1
    return known
  }
  const headers = {
    ...(token === null ? {} : { Authorization: `Bearer ${token}` }),
    ...(namespace === null ? {} : { [NAMESPACE_HEADER]: namespace }),
  }
  const servers = new HttpServers({ urls, headers, callMs, runtime })
  const wakes = new WakeStreams(servers, runtime)
  const made = { servers, calls: new CallBatches(servers), wakes, users: 1, key }
  connections.set(key, made)
  return made
}

async function leave(connection: Connection): Promise<void> {
  connection.users -= 1
  if (connection.users > 0) return
  connections.delete(connection.key)
  connection.wakes.close()
  await connection.calls.ended()
  connection.servers.close()
}

type Calls = Omit<LeaseApi, 'store' | 'watch' | 'onWake' | 'standBy' | 'close'>

/** Requests and answers are those of `src/protocol`: nothing here knows what they say. */
function apiOf(connection: Connection, store: StoreDescription, runtime: Runtime): LeaseApi {
  const { servers, calls, wakes } = connection
  const stop = newAbortController()
  const subscriptions = new Set<Unsubscribe>()
  let closing: Promise<void> | null = null
  const call = (name: RequestName) => (request?: object) =>
    closing === null ? calls.call(name, request) : Promise.reject(closedError())
  const named = REQUEST_NAMES.filter(isApiCall).map((name) => [name, call(name)])
  return {
    store,
    ...(Object.fromEntries(named) as Calls),
    watch: (filter: WatchFilter, { signal, observer }: WatchLocals = {}) => {
      if (closing !== null) throw closedError()
      const either = signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal])
      return watchEvents({ servers, runtime, signal: either, observer }, filter)
    },
    onWake: async ({ session }, listener) => {
      if (closing !== null) throw closedError()
      const unsubscribe = await wakes.subscribe(session, listener)
      const once = (): void => {
        if (subscriptions.delete(once)) unsubscribe()
      }
      subscriptions.add(once)
      // It was closed before the stream stood, which may go on for others.
      if (closing !== null) once()
      return once
    },
    close: () => {
      if (closing !== null) return closing
      stop.abort()
      for (const unsubscribe of [...subscriptions]) unsubscribe()
      closing = leave(connection)
      return closing
    },
  }
}

interface PendingCall {
  readonly name: RequestName
  /** As it stands in the body. */
  readonly text: string
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
}

/** Requests of one lane under way at once. What is called meanwhile goes together in the next. */
const UNDER_WAY_MAX = 4
/** Beside the calls themselves: what their list is written with. */
const FRAME_BYTES = 64

/**
 * Every call of a process that is under way at the same moment, in one request: renewals above all. Calls of one turn of
 * the event loop are sent at its end.
 *
 * Calls travel in one of three lanes, so that none delays or endangers another: a long page of history must not hold up a
 * renewal, and a call that must not be sent twice must not keep the others from being sent again.
 */
class CallBatches {
  readonly #servers: HttpServers
  readonly #questions = new Lane((calls) => this.#send(calls, 'none'))
  readonly #changes = new Lane((calls) => this.#send(calls, 'repeatable'))
  readonly #unrepeatable = new Lane((calls) => this.#send(calls, 'once'))

  constructor(servers: HttpServers) {
    this.#servers = servers
  }

  call(name: RequestName, request: object = {}): Promise<unknown> {
    const lane = this.#laneOf(name, request)
    return lane.add(name, JSON.stringify({ call: name, request }))
  }

  /** Resolves when nothing is under way. */
  async ended(): Promise<void> {
    await Promise.all(
      [this.#questions, this.#changes, this.#unrepeatable].map((one) => one.ended()),
    )
  }

  #laneOf(name: RequestName, request: object): Lane {
    if (REQUESTS[name].role === 'reader') return this.#questions
    return isRepeatable(name, request) ? this.#changes : this.#unrepeatable
  }

  async #send(calls: readonly PendingCall[], effect: RequestEffect): Promise<void> {
    try {
      const text = `{"calls":[${calls.map((call) => call.text).join()}]}`
      const answer = await this.#servers.post(BATCH_PATH, { text, effect })
      const answers = readAnswers(answer, calls.length)
      for (const [index, call] of calls.entries()) settle(call, answers[index])
    } catch (error) {
      const told = effect === 'none' ? withoutEffect(error) : error
      for (const { reject } of calls) reject(told)
    }
  }
}

/** Whatever became of a question, it has changed nothing. */
function withoutEffect(error: unknown): unknown {
  if (!isLeaseError(error, 'STORE_OUTCOME_UNKNOWN')) return error
  return new LeaseError('STORE_UNAVAILABLE', error.message, { cause: error })
}

/** Their ids, or those of what they are about, make them the same request whenever they come. */
const KNOWN_BY_ID: ReadonlySet<RequestName> = new Set<RequestName>([
  ...(['acquire', 'acquireAll', 'claim', 'claimAll', 'withdraw'] as const),
  ...(['renew', 'releaseAll', 'derive'] as const),
])

function isRepeatable(name: RequestName, request: object): boolean {
  return KNOWN_BY_ID.has(name) || ('requestId' in request && request.requestId !== undefined)
}

class Lane {
  readonly #send: (calls: readonly PendingCall[]) => Promise<void>
  #waiting: PendingCall[] = []
  #underWay = 0
  #isPlanned = false
  #onEnded: (() => void)[] = []

  constructor(send: (calls: readonly PendingCall[]) => Promise<void>) {
    this.#send = send
  }

  add(name: RequestName, text: string): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ name, text, resolve, reject })
      if (this.#isPlanned) return
      this.#isPlanned = true
      afterTurn(() => {
        this.#isPlanned = false
        this.#flush()
      })
    })
  }

  async ended(): Promise<void> {
    if (this.#waiting.length === 0 && this.#underWay === 0) return
    await new Promise<void>((resolve) => this.#onEnded.push(resolve))
  }

  #flush(): void {
    while (this.#waiting.length > 0 && this.#underWay < UNDER_WAY_MAX) {
      const calls = this.#waiting.splice(0, fitting(this.#waiting))
      this.#underWay += 1
      void this.#send(calls).then(() => {
        this.#underWay -= 1
        this.#flush()
        if (this.#underWay === 0) for (const ended of this.#onEnded.splice(0)) ended()
      })
    }
  }
}

/** How many of them one request takes; one at least, so that the server says what is too long. */
function fitting(calls: readonly PendingCall[]): number {
  let bytes = FRAME_BYTES
  let count = 0
  for (const { text } of calls) {
    bytes += Buffer.byteLength(text) + 1
    if (count === BATCH_CALLS_MAX || (count > 0 && bytes > BATCH_BYTES_MAX)) break
    count += 1
  }
  return count
}

type BatchAnswers = AnswerOf<'batch'>

function readAnswers(body: unknown, count: number): BatchAnswers {
  const { answers } = body as { readonly answers?: unknown }
  const read = understood(() => readAnswer('batch', answers))
  if (read.length === count) return read
  throw misunderstood(`${read.length} answers to ${count} calls`)
}

function settle(call: PendingCall, told: BatchAnswers[number] | undefined): void {
  const { name, resolve, reject } = call
  const { error, answer = null } = told ?? {}
  if (error !== undefined) return reject(toldError(error))
  try {
    resolve(understood(() => readAnswer(name, answer)))
  } catch (thrown) {
    reject(thrown)
  }
}

/** What is no answer leaves open what happened: it is not the caller's input that was wrong. */
function understood<Read>(read: () => Read): Read {
  try {
    return read()
  } catch (cause) {
    throw misunderstood(cause instanceof Error ? cause.message : String(cause), cause)
  }
}

function misunderstood(why: string, cause?: unknown): LeaseError {
  const message = `the server's answer cannot be read: ${why}`
  return new LeaseError('STORE_OUTCOME_UNKNOWN', message, { cause })
}
