/** A request on its way from the route to the store. */
import type { CallerConnection } from '../client/caller-connection.ts'
import type { Overview } from '../fleet/fleet-overview.ts'
import type { RequestName } from '../protocol/requests.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { Caller } from './caller.ts'
import type { ServedStore } from './served-store.ts'
import type { KeyRing } from '../registrar/key-ring.ts'

/** What a request was read into: fields by name, as `src/protocol` describes them. */
export type Fields = Readonly<Record<string, unknown>>

/** Who asks, of which store, and all else that is needed to answer. */
export interface Call {
  readonly caller: Caller
  readonly store: ServedStore
  readonly connection: CallerConnection
  readonly runtime: Runtime
  /** Names the request of a holder, or what it makes, so that repeating it has no second effect. */
  readonly requestIdOf: (holder: string, made?: string) => string
  /** Counts a request that is part of another one. */
  readonly count: () => void
  /** Hears why a part of a request was refused. */
  readonly onRefused: (error: unknown) => void
  /** Of the registrar whose grants are believed; null: of none. */
  readonly keys: (() => KeyRing) | null
  /** Null: the store is not Redis. */
  readonly pollFleet: PollFleet | null
}

/** Reads the fleet whose keys of polling services begin with `prefix`. */
export type PollFleet = (prefix: string) => Promise<Overview>

export interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH'
  /** With `{name}` for what becomes a field of the request. */
  readonly path: string
  readonly name: RequestName
  /** Of success; default 200. */
  readonly status?: 201
  /** Fields that may be left out over HTTP. */
  readonly defaults?: Fields
  readonly bodyBytesMax?: number
  readonly answer: (call: Call, request: Fields) => Promise<object>
}
