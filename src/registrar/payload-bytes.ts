/**
 * Payloads of a registrar's events as canonical bytes: one way to write each, so that they can be signed, hashed and
 * kept, and read by programs in other languages. `docs/ledger.md` describes the layout.
 */
import { invalid, isLeaseError, type LeaseError } from '../core/errors.ts'
import { requireWellFormed } from '../core/input.ts'
import { ByteReader, ByteWriter, fromBase64Url, undecodable } from './canonical-bytes.ts'
import { parseTick, type LogicalTick } from './logical-tick.ts'
import {
  leaseConflictPayload,
  leaseExpiredPayload,
  leaseIssuedPayload,
  leaseReleasedPayload,
  leaseRenewedPayload,
  type OwnPayload,
} from './payloads.ts'
import { requireId } from './registrar-id.ts'
import { parseWallTime, type WallTime } from './wall-time.ts'

const TAG = 'tenure-registrar-payload'
const VERSION = 1

/**
 * Of a payload as its helper has made it, or as JSON has it. Throws `INVALID_INPUT` with the field that is not what it must
 * be, and `DECODE_ERROR` for a signature that is no base64url.
 */
export function payloadBytes(payload: OwnPayload): Uint8Array {
  requirePayload(payload)
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
  switch (payload.kind) {
    case 'lease_issued':
      writer.text(requireId('leaseId', payload.leaseId)).text(requireId('workId', payload.workId))
      writer.text(requireId('actorId', payload.actorId))
      writeTime(writer, 'issuedAt', payload.issuedAt)
      writeTime(writer, 'expiresAt', payload.expiresAt)
      writeTick(writer, 'issuedAtTick', payload.issuedAtTick)
      return writeTick(writer, 'expiresAtTick', payload.expiresAtTick)
    case 'lease_renewed':
      writer.text(requireId('leaseId', payload.leaseId))
      writeTime(writer, 'newExpiresAt', payload.newExpiresAt)
      return writeTick(writer, 'newExpiresAtTick', payload.newExpiresAtTick)
    case 'lease_released':
      writer.text(requireId('leaseId', payload.leaseId))
      return writer.text(requireWords('releaseReason', payload.releaseReason))
    case 'lease_expired':
      writer.text(requireId('leaseId', payload.leaseId))
      writeTime(writer, 'expiredAt', payload.expiredAt)
      return writeTick(writer, 'expiredAtTick', payload.expiredAtTick)
    case 'lease_conflict':
      writer.text(requireId('workId', payload.workId)).texts(requireIds(payload))
      return writer.text(requireWords('resolution', payload.resolution))
    default:
      throw notOwn(payload)
  }
}

function requirePayload(payload: unknown): void {
  const isMade = typeof payload === 'object' && payload !== null && 'kind' in payload
  if (!isMade || typeof payload.kind !== 'string') throw notOwn(payload)
}

function notOwn(payload: unknown): LeaseError {
  return invalid('payload', "must be one of a registrar's own events", payload)
}

function requireIds({ conflictingLeaseIds }: { readonly conflictingLeaseIds: unknown }) {
  if (!Array.isArray(conflictingLeaseIds)) {
    throw invalid('conflictingLeaseIds', 'must be a list of ids', conflictingLeaseIds)
  }
  return conflictingLeaseIds.map((leaseId) => requireId('conflictingLeaseIds', leaseId))
}

function requireWords(field: string, value: unknown): string {
  if (typeof value === 'string') return requireWellFormed(field, value)
  throw invalid(field, 'must be text', value)
}

function writeTime(writer: ByteWriter, field: string, time: WallTime): void {
  writer.count(parseWallTime(field, time))
}

function writeTick(writer: ByteWriter, field: string, tick: LogicalTick | undefined): ByteWriter {
  return writer.optional(tick, (given) => {
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
  const text = (): string => reader.text()
  const signature = (): { readonly registrarSignature?: Uint8Array } => {
    const bytes = reader.bytes()
    return bytes.length === 0 ? {} : { registrarSignature: Uint8Array.from(bytes) }
  }
  switch (kind) {
    case 'lease_issued': {
      const ids = { leaseId: text(), workId: text(), actorId: text() }
      const times = { issuedAt: reader.count(), expiresAt: reader.count() }
      const ticks = { ...readTick(reader, 'issuedAtTick'), ...readTick(reader, 'expiresAtTick') }
      return leaseIssuedPayload({ ...ids, ...times, ...ticks, ...signature() })
    }
    case 'lease_renewed': {
      const facts = { leaseId: text(), newExpiresAt: reader.count() }
      const ticks = readTick(reader, 'newExpiresAtTick')
      return leaseRenewedPayload({ ...facts, ...ticks, ...signature() })
    }
    case 'lease_released': {
      const facts = { leaseId: text(), releaseReason: text() }
      return leaseReleasedPayload({ ...facts, ...signature() })
    }
    case 'lease_expired': {
      const facts = { leaseId: text(), expiredAt: reader.count() }
      const ticks = readTick(reader, 'expiredAtTick')
      return leaseExpiredPayload({ ...facts, ...ticks, ...signature() })
    }
    case 'lease_conflict': {
      const facts = { workId: text(), conflictingLeaseIds: reader.texts(), resolution: text() }
      return leaseConflictPayload({ ...facts, ...signature() })
    }
    default:
      throw undecodable(`a payload of kind ${JSON.stringify(kind)} is not known`)
  }
}

function readTick<Name extends string>(
  reader: ByteReader,
  name: Name,
): { readonly [Key in Name]?: LogicalTick } {
  const tick = reader.optional(() => {
    return { value: reader.count(), rateHz: reader.integer(), domain: reader.text() }
  })
  return tick === null ? {} : ({ [name]: tick } as { readonly [Key in Name]?: LogicalTick })
}

const TIMES = ['issuedAt', 'expiresAt', 'newExpiresAt', 'expiredAt'] as const
const TICKS = ['issuedAtTick', 'expiresAtTick', 'newExpiresAtTick', 'expiredAtTick'] as const
const DECIMAL_PATTERN = /^(0|[1-9]\d{0,19})$/

type Loose = Readonly<Record<string, unknown>>

/** Text stands for bytes and large integers in JSON, and for nothing else in these fields. */
export function payloadFromJson(payload: OwnPayload): OwnPayload {
  const facts = payload as unknown as Loose
  let read = facts
  const { registrarSignature } = facts
  if (typeof registrarSignature === 'string') {
    const bytes = fromBase64Url('registrarSignature', registrarSignature)
    read = { ...read, registrarSignature: Uint8Array.from(bytes) }
  }
  for (const name of TIMES) {
    const time = facts[name]
    if (typeof time === 'string') read = { ...read, [name]: integerOf(time) }
  }
  for (const name of TICKS) {
    const tick = facts[name] as Loose | null | undefined
    const value = tick?.['value']
    if (typeof value === 'string') read = { ...read, [name]: { ...tick, value: integerOf(value) } }
  }
  return read as unknown as OwnPayload
}

/** What is no number stays what it is, and is refused by the reader of the field. */
function integerOf(text: string): bigint | string {
  return DECIMAL_PATTERN.test(text) ? BigInt(text) : text
}
