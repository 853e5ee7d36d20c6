/** Reads the body of a request, and no more of it than a request may have. */
import type { IncomingMessage } from 'node:http'
import { httpError, type HttpError } from './problem.ts'
import { parseStrictJson } from './wire/strict-json.ts'

/** Nothing that a library of ours sends, and nothing that a page of another origin may send without being asked. */
const MEDIA_TYPE = /^application\/json(\s*;.*)?$/i

/** An absent body is an empty object: many requests need nothing but their path. */
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
  for await (const part of request) {
    const bytes = part as Buffer
    length += bytes.length
    if (length > bytesMax) throw tooLong(bytesMax)
    parts.push(bytes)
  }
  return Buffer.concat(parts, length)
}

function tooLong(bytesMax: number): HttpError {
  return httpError(413, `the body must be at most ${bytesMax} bytes`, { limit: bytesMax })
}
