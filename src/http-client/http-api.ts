/**
 * A `LeaseApi` whose store is behind a server. Whatever is asked of the same servers under the same token goes over the
 * same connections and the same stream of wake-ups, however many clients a process has.
 */
import { closedError } from '../core/errors.ts'
import { NAMESPACE_HEADER } from '../protocol/http.ts'
import { REQUEST_NAMES, type RequestName } from '../protocol/requests.ts'
import { newAbortController } from '../runtime/abort-listeners.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type {
  LeaseApi,
  StoreDescription,
  Unsubscribe,
  WatchFilter,
  WatchLocals,
} from '../service/lease-api.ts'
import { CallBatches } from './call-batches.ts'
import { watchEvents } from './event-watch.ts'
import { HttpServers } from './http-servers.ts'
import { WakeStreams } from './wake-streams.ts'

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

/** What is no call with one answer. */
const OTHERS: ReadonlySet<RequestName> = new Set<RequestName>([
  ...(['watch', 'wakes', 'authorize', 'fleet', 'batch'] as const),
])

type Calls = Omit<LeaseApi, 'store' | 'watch' | 'onWake' | 'standBy' | 'close'>

/** Requests and answers are those of `src/protocol`: nothing here knows what they say. */
function apiOf(connection: Connection, store: StoreDescription, runtime: Runtime): LeaseApi {
  const { servers, calls, wakes } = connection
  const stop = newAbortController()
  const subscriptions = new Set<Unsubscribe>()
  let closing: Promise<void> | null = null
  const call = (name: RequestName) => (request?: object) =>
    closing === null ? calls.call(name, request) : Promise.reject(closedError())
  const named = REQUEST_NAMES.filter((name) => !OTHERS.has(name)).map((name) => [name, call(name)])
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
