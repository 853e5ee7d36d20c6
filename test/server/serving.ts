/** A server for a test, and a caller of it. Every answer is checked against the OpenAPI document of the server. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { expect, onTestFinished } from 'vitest'
import { openApi } from '../../src/open.ts'
import { openApiDocument } from '../../src/server/openapi.ts'
import {
  startServer,
  type ServerOptions,
  type TenureServer,
} from '../../src/server/start-server.ts'
import { createToken, type TokenRequest } from '../../src/server/token-file.ts'

export interface Answer<Body = Record<string, never>> {
  readonly status: number
  readonly headers: Headers
  readonly body: Body
}

export interface Asked {
  readonly token?: string | null
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export interface Serving {
  readonly url: string
  readonly server: TenureServer
  readonly tokenFile: string
  /** Makes a token and gives its secret. */
  token(request: TokenRequest): string
  ask<Body = Record<string, never>>(line: string, asked?: Asked): Promise<Answer<Body>>
}

let names = 0

export function temporaryDirectory(): string {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-server-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  return directory
}

export type ServingOptions = Partial<ServerOptions> & {
  readonly withTokens?: boolean
  readonly store?: string
}

/** A server of one test, which ends with it. */
export async function serving(options: ServingOptions = {}): Promise<Serving> {
  const started = await startServing(options, temporaryDirectory())
  onTestFinished(() => started.server.close())
  return started
}

/** A server that its starter closes; its tokens are in the directory. */
export async function startServing(options: ServingOptions, directory: string): Promise<Serving> {
  const {
    withTokens = false,
    store = `memory:server-${process.pid}-${(names += 1)}`,
    ...rest
  } = options
  const tokenFile = path.join(directory, 'tokens.json')
  if (withTokens) createToken(tokenFile, { name: 'root', role: 'operator', namespace: '*' }, 0)
  const server = await startServer({
    open: (namespace) => openApi(store, { namespace }),
    port: 0,
    ...(withTokens ? { tokens: tokenFile } : {}),
    ...rest,
  })
  return {
    ...{ url: server.url, server, tokenFile },
    token: (request) => createToken(tokenFile, request, 0).secret,
    ask: (line, asked) => ask(server.url, line, asked),
  }
}

/** `line` is a method and a path: `POST /v1/leases`. */
export async function ask<Body>(
  url: string,
  line: string,
  asked: Asked = {},
): Promise<Answer<Body>> {
  const [method = '', place = ''] = line.split(' ')
  const { token = null, body, headers } = asked
  const response = await fetch(`${url}${place}`, {
    method,
    headers: {
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...(token === null ? {} : { Authorization: `Bearer ${token}` }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  const isJson = /json/.test(response.headers.get('content-type') ?? '')
  const answer = {
    status: response.status,
    headers: response.headers,
    body: isJson ? JSON.parse(text) : text,
  }
  checkAnswer(method, place, answer)
  return answer as Answer<Body>
}

interface Operation {
  readonly responses: Readonly<Record<string, unknown>>
}

const DOCUMENT = openApiDocument() as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}
const ajv = new Ajv2020({ strict: false, validateFormats: false })
ajv.addSchema(JSON.parse(JSON.stringify(DOCUMENT)) as object, 'openapi.json')

function pathOf(place: string): string | undefined {
  const [pathname = ''] = place.split('?')
  return Object.keys(DOCUMENT.paths).find((known) => {
    return (
      new RegExp(`^${known.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(pathname) &&
      isExact(known, pathname)
    )
  })
}

/** `/v1/leases/all` is not a lease of the id `all`. */
function isExact(known: string, pathname: string): boolean {
  return known === pathname || !Object.hasOwn(DOCUMENT.paths, pathname)
}

const validators = new Map<string, ValidateFunction>()

/** The status must be one that the route has, and the body what is described for it. */
function checkAnswer(
  method: string,
  place: string,
  { status, headers, body }: Answer<unknown>,
): void {
  const known = pathOf(place)
  const operation = known === undefined ? undefined : DOCUMENT.paths[known]?.[method.toLowerCase()]
  const type = (headers.get('content-type') ?? '').split(';')[0] ?? ''
  if (status >= 400) {
    expect(type).toBe('application/problem+json')
    validate('#/components/schemas/Problem', body)
  }
  if (known === undefined || operation === undefined) return
  expect(Object.keys(operation.responses)).toContain(String(status))
  if (status >= 400 || type !== 'application/json') return
  const parts = ['paths', known, method.toLowerCase(), 'responses', String(status)]
  const pointer = [...parts, 'content', type, 'schema'].map((part) => {
    return encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))
  })
  validate(`#/${pointer.join('/')}`, body)
}

function validate(pointer: string, body: unknown): void {
  const validator = validators.get(pointer) ?? ajv.compile({ $ref: `openapi.json${pointer}` })
  validators.set(pointer, validator)
  expect(validator(body) ? [] : validator.errors, pointer).toEqual([])
}
