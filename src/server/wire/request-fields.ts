/**
 * What a request says: the fields of its URL, and its body as a server may trust it. `JSON.parse` alone takes the last of two
 * equal keys where a proxy in front may have looked at the first, and makes a field named `__proto__` that careless code
 * further in takes for a prototype. Both are refused, and so is nesting that no request of Tenure has.
 */
import type { IncomingMessage } from 'node:http'
import { invalid } from '../../core/errors.ts'
import { httpError, type HttpError } from '../problem.ts'
import { REQUESTS, type RequestName } from '../../protocol/requests.ts'
import type { Fields as DescribedFields, Shape } from '../../protocol/shape.ts'
import { hasCode } from '../../runtime/file-system.ts'
import type { Fields } from '../call.ts'

const DEPTH_MAX = 32

/** Reads UTF-8; throws `INVALID_INPUT`. */
function parseStrictJson(bytes: Uint8Array): unknown {
  const text = decode(bytes)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // No fault: this is the answer, and the parser's own words would repeat what was sent.
    throw invalid('body', 'must be JSON', `${bytes.length} bytes that are not`)
  }
  refuseTricks(text)
  return value
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    // No fault: this is the answer.
    throw invalid('body', 'must be UTF-8', `${bytes.length} bytes that are not`)
  }
}

/** The text is valid JSON: a string is a key exactly where a colon follows. Each string is passed over at once. */
function refuseTricks(text: string): void {
  const keys: Set<string>[] = []
  let [start, end] = [0, 0]
  for (let at = 0; at < text.length; at += 1) {
    const one = text[at]
    if (one === '"') {
      start = at
      at = end = endOfString(text, start)
    } else if (one === ':') {
      refuseKey(keys.at(-1), textOf(text.slice(start, end + 1)))
    } else if (one === '{' || one === '[') {
      keys.push(new Set())
      if (keys.length > DEPTH_MAX)
        throw invalid('body', `must nest at most ${DEPTH_MAX} deep`, 'more')
    } else if (one === '}' || one === ']') keys.pop()
  }
}

/** The first quote after an even number of backslashes. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; ; at += 1) {
    at = text.indexOf('"', at)
    let before = at
    while (text[before - 1] === '\\') before -= 1
    if ((at - before) % 2 === 0) return at
  }
}

function textOf(string: string): string {
  return string.includes('\\') ? (JSON.parse(string) as string) : string.slice(1, -1)
}

function refuseKey(keys: Set<string> | undefined, key: string): void {
  if (key === '__proto__') throw invalid('body', 'must have no field of this name', key)
  if (keys?.has(key) === true) throw invalid('body', 'must have each field once', key)
  keys?.add(key)
}

/** Nothing that a library of ours sends, and nothing that a page of another origin may send without being asked. */
const MEDIA_TYPE = /^application\/json(\s*;.*)?$/i

/** Reads no more than a request may have. An absent body is an empty object: many requests need nothing but their path. */
export async function readJsonBody(
  request: IncomingMessage,
  bytesMax: number,
  mediaType: RegExp = MEDIA_TYPE,
): Promise<unknown> {
  const { 'content-type': type, 'content-length': length } = request.headers
  if (request.headers['content-encoding'] !== undefined) {
    throw httpError(415, 'Content-Encoding must not be given')
  }
  if (length !== undefined && Number(length) > bytesMax) throw tooLong(bytesMax)
  const bytes = await readBytes(request, bytesMax)
  if (bytes.length === 0) return {}
  if (type === undefined || !mediaType.test(type)) {
    throw httpError(415, `Content-Type must be application/json, got ${type ?? 'none'}`)
  }
  return parseStrictJson(bytes)
}

async function readBytes(request: IncomingMessage, bytesMax: number): Promise<Uint8Array> {
  const parts: Buffer[] = []
  let length = 0
  try {
    for await (const part of request) {
      const bytes = part as Buffer
      length += bytes.length
      if (length > bytesMax) throw tooLong(bytesMax)
      parts.push(bytes)
    }
  } catch (error) {
    // Its sender has gone, or was too slow and has its answer: no mistake of ours, and nobody reads this one.
    throw hasCode(error, 'ECONNRESET') ? httpError(400, 'the body must arrive in full') : error
  }
  return Buffer.concat(parts, length)
}

function tooLong(bytesMax: number): HttpError {
  return httpError(413, `the body must be at most ${bytesMax} bytes`, { limit: bytesMax })
}

/** Text becomes what its field is; whatever does not fit stays as it is, and is refused by the reader. */
export function fieldsOfQuery(name: RequestName, query: URLSearchParams): Fields {
  const fields: DescribedFields = REQUESTS[name].fields
  const entries = [...query].map(([field, text]): readonly [string, unknown] => {
    if (query.getAll(field).length > 1) throw invalid(field, 'must be given once', text)
    const shape = Object.hasOwn(fields, field) ? fields[field]?.shape : undefined
    return [field, shape === undefined ? text : valueOf(shape, text)]
  })
  return Object.fromEntries(entries)
}

function valueOf({ schema: { type } }: Shape<unknown>, text: string): unknown {
  if (type === 'integer') return /^-?\d{1,16}$/.test(text) ? Number(text) : text
  if (type === 'array') return text.split(',')
  if (type === 'boolean' && /^(true|false)$/.test(text)) return text === 'true'
  return text
}
