/**
 * Payloads of a registrar's events as canonical bytes: one way to write each, so that they can be signed, hashed and
 * kept, and read by programs in other languages. `docs/ledger.md` describes the layout.
 */
import { invalid, isLeaseError } from '../core/errors.ts'
import { ByteReader, ByteWriter, fromBase64Url, undecodable } from './canonical-bytes.ts'
import { parseTick, type LogicalTick } from './logical-tick.ts'
import { FACTS, isOwnKind, made, type FactName, type OwnPayload } from './payloads.ts'
import { requireId, requireIds, requireWords } from './registrar-id.ts'
import { parseWallTime } from './wall-time.ts'

const TAG = 'tenure-registrar-payload'
const VERSION = 1

type Loose = Readonly<Record<string, unknown>>

/** How a fact is checked and written, read, and brought from its JSON form into the one that is used. */
interface FactForm {
  readonly write: (writer: ByteWriter, field: string, value: unknown) => unknown
  /** Null: it was left out. */
  readonly read: (reader: ByteReader) => unknown
  readonly fromJson?: (value: unknown) => unknown
}

const ID: FactForm = {
  write: (writer, field, value) => writer.text(requireId(field, value)),
  read: (reader) => reader.text(),
}
const IDS: FactForm = {
  write: (writer, field, value) => writer.texts(requireIds(field, value)),
  read: (reader) => reader.texts(),
}
const WORDS: FactForm = {
  write: (writer, field, value) => writer.text(requireWords(field, value)),
  read: (reader) => reader.text(),
}
const TIME: FactForm = {
  write: (writer, field, value) => writer.count(parseWallTime(field, value)),
  read: (reader) => reader.count(),
  fromJson: integerOf,
}
const TICK: FactForm = { write: writeTick, read: readTick, fromJson: tickFromJson }
/** It stands behind all other facts, and is not over itself. */
const SIGNATURE: FactForm = {
  write: () => undefined,
  read: () => null,
  fromJson: signatureFromJson,
}

const FORMS: Readonly<Record<FactName, FactForm>> = {
  ...{ leaseId: ID, workId: ID, actorId: ID, conflictingLeaseIds: IDS },
  ...{ releaseReason: WORDS, resolution: WORDS },
  ...{ issuedAt: TIME, expiresAt: TIME, newExpiresAt: TIME, expiredAt: TIME },
  ...{ issuedAtTick: TICK, expiresAtTick: TICK, newExpiresAtTick: TICK, expiredAtTick: TICK },
  registrarSignature: SIGNATURE,
}

/**
 * Of a payload as its helper has made it, or as JSON has it. Throws `INVALID_INPUT` with the field that is not what it must
 * be, and `DECODE_ERROR` for a signature that is no base64url.
 */
export function payloadBytes(payload: OwnPayload): Uint8Array {
  if (!isOwnKind((payload as Partial<OwnPayload> | null | undefined)?.kind)) {
    throw invalid('payload', "must be one of a registrar's own events", payload)
  }
  const read = payloadFromJson(payload)
  const { registrarSignature } = read
  if (registrarSignature !== undefined && !(registrarSignature instanceof Uint8Array)) {
    throw invalid('registrarSignature', 'must be a Uint8Array, or base64url', registrarSignature)
  }
  return writeFacts(read)
    .bytes(registrarSignature ?? Buffer.alloc(0))
    .toBytes()
}

/** The same bytes without their end, the signature: what a signature is over. */
export function unsignedBytes(payload: OwnPayload): Uint8Array {
  return writeFacts(payload).toBytes()
}

function writeFacts(payload: OwnPayload): ByteWriter {
  const writer = new ByteWriter().text(TAG).integer(VERSION).text(payload.kind)
  const facts = payload as unknown as Loose
  for (const name of FACTS[payload.kind]) FORMS[name].write(writer, name, facts[name])
  return writer
}

function writeTick(writer: ByteWriter, field: string, tick: unknown): void {
  writer.optional(tick, (given) => {
    const { value, rateHz, domain } = parseTick(field, given)
    writer.count(value).integer(rateHz).text(domain)
  })
}

/** Throws `DECODE_ERROR` for bytes that `payloadBytes` does not write, and `INVALID_INPUT` for what is no bytes. */
export function parsePayload(bytes: Uint8Array): OwnPayload {
  if (!(bytes instanceof Uint8Array)) throw invalid('bytes', 'must be a Uint8Array', bytes)
  try {
    const reader = new ByteReader(bytes)
    const payload = readFacts(reader)
    const isWhole = reader.isAtEnd() && Buffer.from(payloadBytes(payload)).equals(bytes)
    if (isWhole) return payload
  } catch (error) {
    if (!isLeaseError(error) || error.code === 'DECODE_ERROR') throw error
    throw undecodable(`a field of the payload: ${error.message}`, error)
  }
  throw undecodable('the payload is not in its canonical form')
}

function readFacts(reader: ByteReader): OwnPayload {
  if (reader.text() !== TAG) throw undecodable('this is no payload of a registrar')
  if (reader.integer() !== VERSION) throw undecodable(`a payload must be of version ${VERSION}`)
  const kind = reader.text()
  if (!isOwnKind(kind)) {
    throw undecodable(`a payload of kind ${JSON.stringify(kind)} is not known`)
  }
  const facts = FACTS[kind].map((name) => [name, FORMS[name].read(reader)] as const)
  const signature = reader.bytes()
  return made({
    kind,
    ...Object.fromEntries(facts.filter(([, value]) => value !== null)),
    ...(signature.length === 0 ? {} : { registrarSignature: Uint8Array.from(signature) }),
  })
}

function readTick(reader: ByteReader): LogicalTick | null {
  return reader.optional(() => {
    return { value: reader.count(), rateHz: reader.integer(), domain: reader.text() }
  })
}

/** Text stands for bytes and large integers in JSON, and for nothing else in these fields. */
export function payloadFromJson(payload: OwnPayload): OwnPayload {
  let facts = payload as unknown as Loose
  for (const name of FACTS[payload.kind]) {
    const { fromJson } = FORMS[name]
    const read = fromJson?.(facts[name])
    if (read !== undefined && read !== facts[name]) facts = { ...facts, [name]: read }
  }
  return facts as unknown as OwnPayload
}

function signatureFromJson(value: unknown): unknown {
  if (typeof value !== 'string') return value
  return Uint8Array.from(fromBase64Url('registrarSignature', value))
}

function tickFromJson(tick: unknown): unknown {
  const value = (tick as Partial<LogicalTick> | null | undefined)?.value
  return typeof value === 'string' ? { ...(tick as LogicalTick), value: integerOf(value) } : tick
}

const DECIMAL_PATTERN = /^(0|[1-9]\d{0,19})$/

/** What is no number stays what it is, and is refused by the reader of the field. */
function integerOf(value: unknown): unknown {
  return typeof value === 'string' && DECIMAL_PATTERN.test(value) ? BigInt(value) : value
}
