/**
 * The OpenAPI 3.1 document, made from the table of routes and the descriptions of their requests and answers: nothing of it
 * is written a second time.
 */
import { ERROR_CODES, ERROR_TABLE } from '../core/errors.ts'
import {
  NAMESPACE_HEADER,
  SESSION_HEADER,
  SESSIONS_PER_STREAM_MAX,
  WAKES_PATH,
} from '../protocol/http.ts'
import { answerSchemaOf, schemaOf, type JsonSchema } from '../protocol/json-schema.ts'
import { REQUESTS, type RequestName } from '../protocol/requests.ts'
import { DONE, isNamedByKey } from './api-calls.ts'
import type { Route } from './call.ts'
import { ROUTES } from './routes.ts'
import { ROLES } from './token.ts'

type Schema = JsonSchema | { readonly $ref: string }
type Loose = Readonly<Record<string, unknown>>

const TEXT: JsonSchema = { type: 'string' }
const NOW: JsonSchema = {
  type: 'integer',
  description: 'The wall time of the store when it answered, in milliseconds',
}
const POSITION: JsonSchema = {
  type: 'string',
  description: 'Where the ledger stood before this was read: what is streamed after it is news',
}
const LEASE_REF = { $ref: '#/components/schemas/Lease' }
const WAITED: JsonSchema = {
  type: 'integer',
  description:
    'After a wait: milliseconds from reading the request to sending the claim. A holder counts from its own send plus this',
}

const [LEASE = {}] = answerSchemaOf('get').anyOf ?? []
const BLOCKER = answerSchemaOf('inspect').properties?.['blockers']?.items ?? {}

function objectOf(
  properties: Readonly<Record<string, Schema>>,
  optional: readonly string[] = [],
): Loose {
  const required = Object.keys(properties).filter((name) => !optional.includes(name))
  return { type: 'object', properties, required }
}

const LEASE_WAITED = {
  allOf: [LEASE_REF, { type: 'object', properties: { waitedMs: WAITED } }],
}

/** Of the routes whose answer is not that of the library. */
const ANSWERS: Readonly<Partial<Record<RequestName, Loose>>> = {
  acquire: objectOf({ lease: LEASE_WAITED as Schema, nowMs: NOW }),
  acquireAll: objectOf({ leases: { type: 'array', items: LEASE_WAITED } as Schema, nowMs: NOW }),
  get: objectOf({ lease: LEASE_REF, nowMs: NOW }, ['nowMs']),
  list: withPosition(answerSchemaOf('list')),
  inspect: withPosition(maskedInspection()),
  history: objectOf({ events: answerSchemaOf('history'), next: TEXT }, ['next']),
  settings: settingsAnswer(),
  configure: settingsAnswer(),
  revokeAll: objectOf({ revoked: { type: 'integer', description: 'How many leases ended' } }),
  batch: objectOf({ answers: answerSchemaOf('batch') }),
  fleet: answerSchemaOf('fleet') as Loose,
  authorize: answerSchemaOf('authorize') as Loose,
}

function settingsAnswer(): Loose {
  return objectOf({
    settings: answerSchemaOf('settings'),
    overrides: answerSchemaOf('settingRows'),
  })
}

function withPosition({ properties = {}, required = [], ...schema }: JsonSchema): Loose {
  return {
    ...schema,
    properties: { ...properties, position: POSITION, nowMs: NOW },
    required: [...required, 'position'],
  }
}

/** Whoever may not see a resource hears who is in the way, and nothing else. */
function maskedInspection(): JsonSchema {
  const schema = answerSchemaOf('inspect')
  const hidden = objectOf({ holder: TEXT }) as JsonSchema
  const blockers: JsonSchema = { type: 'array', items: { anyOf: [BLOCKER, hidden] } }
  const step = schema.properties?.['cycles']?.items?.items ?? {}
  const cycle: JsonSchema = { type: 'array', items: { anyOf: [step, hidden] } }
  return {
    ...schema,
    properties: { ...schema.properties, blockers, cycles: { type: 'array', items: cycle } },
  }
}

/** What comes of a change that is not refused: a refusal is a problem, and needs no `kind` to be known by. */
function doneSchema(name: RequestName): Loose {
  const done = (answerSchemaOf(name).anyOf ?? []).filter(({ properties }) => {
    return DONE.has(properties?.['kind']?.const)
  })
  const plain = done.map(({ properties = {}, required = [], ...schema }) => {
    const { kind: _kind, ...rest } = properties
    return {
      ...schema,
      properties: { ...rest, nowMs: NOW },
      required: required.filter((field) => field !== 'kind'),
    }
  })
  return plain.length === 1 ? (plain[0] ?? {}) : { anyOf: plain }
}

/** Wherever the schema of a lease stands, its name stands instead. */
function withLeaseByName(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withLeaseByName)
  if (typeof schema !== 'object' || schema === null) return schema
  const { description, ...rest } = schema as Loose
  if (JSON.stringify(rest) === LEASE_TEXT) {
    return description === undefined ? LEASE_REF : { ...LEASE_REF, description }
  }
  return Object.fromEntries(
    Object.entries(schema).map(([name, part]) => [name, withLeaseByName(part)]),
  )
}

const LEASE_TEXT = JSON.stringify(LEASE)

const PROBLEM = objectOf({
  type: { type: 'string', description: 'Where the code is explained' },
  title: TEXT,
  status: { type: 'integer' },
  detail: { type: 'string', description: 'One line: what was expected and what came' },
  code: { type: 'string', enum: ERROR_CODES },
  retryable: { type: 'boolean', description: 'Whether the same request may succeed later' },
  effect: {
    type: 'string',
    enum: ['none', 'unknown'],
    description: 'Whether it may have happened',
  },
  details: { type: 'object' },
})

const HTTP_ONLY: Readonly<Record<number, string>> = {
  401: 'No token, or one that is not valid',
  405: 'The route has no such method',
  413: 'The body is too long',
  414: 'The URL is too long',
  415: 'The body is not application/json',
  500: 'The server made a mistake',
}

/** Every status that a route may answer with, and what it means there. */
function problems(): Loose {
  const statuses = new Map<number, string[]>(
    Object.entries(HTTP_ONLY).map(([status, text]) => [Number(status), [text]]),
  )
  for (const code of ERROR_CODES) {
    const { httpStatus, summary } = ERROR_TABLE[code]
    const texts = statuses.get(httpStatus) ?? []
    statuses.set(httpStatus, [...texts, `${code}: ${summary}`])
  }
  return Object.fromEntries(
    [...statuses].map(([status, texts]) => [`Problem${status}`, problemResponse(texts.join('; '))]),
  )
}

/** By their names, for every route. */
function problemRefs(): Loose {
  return Object.fromEntries(
    Object.keys(PROBLEMS).map((name) => {
      return [name.slice('Problem'.length), { $ref: `#/components/responses/${name}` }]
    }),
  )
}

function problemResponse(description: string): Loose {
  const schema = { $ref: '#/components/schemas/Problem' }
  const retry = { description: 'Seconds after which to ask again', schema: { type: 'integer' } }
  return {
    description,
    headers: { 'Retry-After': retry },
    content: { 'application/problem+json': { schema } },
  }
}

function jsonResponse(description: string, schema: unknown): Loose {
  return { description, content: { 'application/json': { schema } } }
}

function parameter(name: string, where: 'path' | 'query' | 'header', schema: JsonSchema): Loose {
  const { description, ...rest } = schema
  return {
    name,
    in: where,
    required: where === 'path',
    ...(description === undefined ? {} : { description }),
    schema: rest,
  }
}

const NAMESPACE = parameter(NAMESPACE_HEADER, 'header', {
  type: 'string',
  pattern: '^[a-z0-9._-]{1,64}$',
  description: 'The namespace; default: that of the token',
})
const IDEMPOTENCY_KEY = parameter('Idempotency-Key', 'header', {
  type: 'string',
  minLength: 1,
  maxLength: 128,
  description:
    'Names the request: repeating it with the same key has the first effect and no other',
})

function operation(route: Route): Loose {
  const { name, method, path, status = 200 } = route
  const { role, says } = REQUESTS[name]
  const { properties = {}, required = [] } = schemaOf(name, 'http')
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, field = '']) => field)
  const fields = Object.entries(properties).filter(([field]) => {
    return !inPath.includes(field) && field !== 'requestId'
  })
  const parts = inPath.map((field) => {
    return parameter(
      field,
      'path',
      field === 'parent' ? { type: 'string', format: 'uuid' } : (properties[field] ?? TEXT),
    )
  })
  const isQuestion = method === 'GET'
  const query = isQuestion
    ? fields.map(([field, schema]) => queryParameter(field, schema, required))
    : []
  const filled = Object.keys(route.defaults ?? {})
  const needed = required.filter((field) => {
    const isOptional =
      filled.includes(field) ||
      (name === 'withdraw' && field === 'resource') ||
      (role === 'operator' && field === 'by')
    return !inPath.includes(field) && !isOptional
  })
  const body = {
    type: 'object',
    properties: Object.fromEntries(fields),
    additionalProperties: false,
  }
  const bodySchema = needed.length === 0 ? body : { ...body, required: needed }
  return {
    operationId: name,
    summary: `${says}.`,
    description: `Needs the role ${role}.`,
    parameters: [
      ...[...parts, ...query, ...(name === 'history' ? streamParameters(properties) : [])],
      ...[NAMESPACE, ...(isNamedByKey(name) ? [IDEMPOTENCY_KEY] : [])],
    ],
    ...(isQuestion
      ? {}
      : { requestBody: { content: { 'application/json': { schema: bodySchema } } } }),
    responses: {
      [status]: { ...jsonResponse('Done', withLeaseByName(ANSWERS[name] ?? doneSchema(name))) },
      ...problemRefs(),
      ...(name === 'history' ? { 200: eventsResponse() } : {}),
    },
  }
}

/** A list of values stands in one parameter, with commas between them. */
function queryParameter(field: string, schema: JsonSchema, required: readonly string[]): Loose {
  const isList = schema.type === 'array'
  const list = isList ? { style: 'form', explode: false } : {}
  return { ...parameter(field, 'query', schema), required: required.includes(field), ...list }
}

const STREAM_ONLY = 'With Accept: text/event-stream only'

/** Of the same route when it streams; what pages alone have is refused there. */
function streamParameters(ofPages: Readonly<Record<string, JsonSchema>>): readonly Loose[] {
  const { properties = {} } = schemaOf('watch', 'http')
  const fields = Object.entries(properties).filter(([field]) => !Object.hasOwn(ofPages, field))
  const query = fields.map(([field, schema]) => {
    const description = `${schema.description ?? ''} ${STREAM_ONLY}.`
    return queryParameter(field, { ...schema, description }, [])
  })
  const description = `The id of the last event that was read, in place of \`after\`. ${STREAM_ONLY}.`
  return [...query, parameter('Last-Event-ID', 'header', { ...TEXT, description })]
}

function eventsResponse(): Loose {
  const page = { schema: withLeaseByName(ANSWERS.history) }
  const schema = {
    type: 'string',
    description:
      'Server-sent events: `id` is the position, `event` the type, `data` JSON with `position`, `event` and the `lease` after it. `Last-Event-ID` goes on after an event; 410: start afresh',
  }
  return {
    description: 'A page of events; with Accept: text/event-stream, events as they are committed',
    content: { 'application/json': page, 'text/event-stream': { schema } },
  }
}

function streamOperation(): Loose {
  const { says } = REQUESTS.wakes
  const session = parameter(SESSION_HEADER, 'header', {
    type: 'string',
    description: `1 to ${SESSIONS_PER_STREAM_MAX} sessions, separated by commas, each escaped as in a URL: they are secrets`,
  })
  return {
    operationId: 'wakes',
    summary: `${says}.`,
    description: 'Needs the role holder.',
    parameters: [{ ...session, required: true }, NAMESPACE],
    responses: {
      200: {
        description: 'Server-sent events of the type `wake`',
        content: { 'text/event-stream': { schema: TEXT } },
      },
      ...problemRefs(),
    },
  }
}

function openOperation(operationId: string, summary: string, responses: Loose): Loose {
  return { get: { operationId, summary, security: [], responses } }
}

const STATUS = objectOf({ status: TEXT })
const INTEGER: JsonSchema = { type: 'integer' }
const CHECKPOINT = objectOf({ sequence: INTEGER, atMs: INTEGER, events: INTEGER })
const LEDGER = objectOf({
  checkpoint: { anyOf: [CHECKPOINT as JsonSchema, { type: 'null' }] },
  verifiedAtMs: INTEGER,
  problem: { anyOf: [TEXT, { type: 'null' }] },
})
const CALLER = objectOf({
  name: TEXT,
  role: { type: 'string', enum: ROLES },
  namespace: { type: 'string', description: 'The namespace of its token; `*`: any' },
})

function openPaths(): Loose {
  return {
    '/healthz': openOperation('healthz', 'Whether the server runs.', {
      200: jsonResponse('It does', STATUS),
    }),
    '/readyz': openOperation('readyz', 'Whether the store answers.', {
      ...{ 200: jsonResponse('It does', STATUS), 503: problemResponse('It does not') },
    }),
    '/openapi.json': openOperation('openapi', 'This document.', {
      200: jsonResponse('OpenAPI 3.1', { type: 'object' }),
    }),
    '/v1/caller': {
      get: {
        ...{ operationId: 'caller', summary: 'Who asks, and what that one may.' },
        responses: {
          200: jsonResponse('Its name, role and namespace', CALLER),
          401: problemResponse(HTTP_ONLY[401] ?? ''),
          403: problemResponse('A grant, which is for its lease alone'),
        },
      },
    },
    '/v1/ledger': {
      get: {
        ...{ operationId: 'ledger', summary: 'How the sealed ledger stands.' },
        responses: {
          200: jsonResponse('Its last checkpoint, and what verifying it found', LEDGER),
          401: problemResponse(HTTP_ONLY[401] ?? ''),
          403: problemResponse('A grant, which is for its lease alone'),
          404: problemResponse('The server was started without a ledger'),
        },
      },
    },
    '/metrics': {
      get: {
        ...{ operationId: 'metrics', summary: 'What Prometheus reads.' },
        responses: {
          200: { description: 'Metrics', content: { 'text/plain': { schema: TEXT } } },
          401: problemResponse(HTTP_ONLY[401] ?? ''),
          403: problemResponse('A grant, which is for its lease alone'),
        },
      },
    },
  }
}

const PROBLEMS = problems()

let made: object | null = null

export function openApiDocument(): object {
  made ??= document()
  return made
}

function document(): object {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const route of ROUTES) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operation(route) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Tenure',
      version: '1',
      summary: 'Leases with fences: who owns this right now, and can they prove it?',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    security: [{ token: [] }, {}],
    paths: { ...paths, [WAKES_PATH]: { get: streamOperation() }, ...openPaths() },
    components: {
      schemas: { Lease: LEASE, Problem: PROBLEM },
      responses: PROBLEMS,
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
    },
  }
}
