/** Every request of `LeaseApi` by its name, and the reader of each. */
import { BATCH_CALLS_MAX, CHANGES } from './changes.ts'
import { QUESTIONS } from './questions.ts'
import {
  ANY_OBJECT,
  choice,
  list,
  object,
  request,
  requestReader,
  required,
  type Fields,
  type ObjectOf,
  type RequestDescription,
} from './shape.ts'

const CALLS = { ...QUESTIONS, ...CHANGES }
type CallName = keyof typeof CALLS

/** What is no call of `LeaseApi` with one answer: streams, and a server's own. */
const BY_SERVERS = ['watch', 'wakes', 'authorize', 'fleet', 'batch'] as const
const CALL_NAMES = (Object.keys(CALLS) as CallName[]).filter((name) => !isByServer(name))

function isByServer(name: string): boolean {
  return BY_SERVERS.some((other) => other === name)
}

const CALL = object({
  call: required(choice(CALL_NAMES), 'Which request'),
  request: required(ANY_OBJECT, 'Its fields'),
})

export const REQUESTS = {
  ...CALLS,
  batch: request(
    {
      role: 'reader',
      says: 'Several calls that do not depend on each other, with their answers in the same order; not atomic',
    },
    {
      calls: required(
        list(CALL, {
          min: 1,
          max: BATCH_CALLS_MAX,
          expectation: `must be 1..${BATCH_CALLS_MAX} calls`,
        }),
        'The calls; each needs the role that it needs alone, and does not wait',
      ),
    },
  ),
}

export type RequestName = keyof typeof REQUESTS
export const REQUEST_NAMES: readonly RequestName[] = Object.keys(REQUESTS) as RequestName[]

/** Whether a request is one call of `LeaseApi` with one answer; the others are streams, or a server's own. */
export function isApiCall(
  name: RequestName,
): name is Exclude<RequestName, (typeof BY_SERVERS)[number]> {
  return !isByServer(name)
}

/** The type of a request, as it follows from its description. */
export type RequestOf<Name extends RequestName> =
  (typeof REQUESTS)[Name] extends RequestDescription<infer Described> ? ObjectOf<Described> : never

/** Reads a request by its name. */
export function readRequest<Name extends RequestName>(name: Name, value: unknown): RequestOf<Name> {
  return REQUESTS[name].read(value) as RequestOf<Name>
}

const httpReaders = new Map<RequestName, (value: unknown) => unknown>()

/** The same in the bounds of HTTP, and without what the server fills in. */
export function readHttpRequest<Name extends RequestName>(
  name: Name,
  value: unknown,
): HttpRequestOf<Name> {
  let read = httpReaders.get(name)
  if (read === undefined) {
    read = requestReader(REQUESTS[name] as RequestDescription<Fields>, 'http')
    httpReaders.set(name, read)
  }
  return read(value) as HttpRequestOf<Name>
}

/** What the server fills in may be absent. */
export type HttpRequestOf<Name extends RequestName> = Partial<
  Pick<RequestOf<Name>, Extract<keyof RequestOf<Name>, ServerFilled>>
> &
  Omit<RequestOf<Name>, ServerFilled>
type ServerFilled = 'id' | 'session' | 'group' | 'newId' | 'mayWait'
