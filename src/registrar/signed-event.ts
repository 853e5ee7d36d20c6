/**
 * A registrar's signature of its events. The reducer asks that one is there; who appends to a ledger verifies it with
 * `verifyEvent` first. It is over everything that the event says but itself.
 */
import { invalid, LeaseError, show } from '../core/errors.ts'
import { ByteWriter } from './canonical-bytes.ts'
import { SIGNATURE_BYTES, SigningKey, verifySignature } from './ed25519.ts'
import { unsignedBytes } from './payload-bytes.ts'
import {
  requireFacts,
  unknownFact,
  withSignature,
  type EventRecord,
  type OwnPayload,
} from './payloads.ts'
import { disagreement, readPayload, requireOrigin, requireRecord } from './read-payload.ts'
import { finderOf, requireVerifier, type VerificationKeys } from './verification-key.ts'
import { requireNow } from './wall-time.ts'

const TAG = 'tenure-registrar-event'
const VERSION = 1
/** A key id is 32 hexadecimal digits, and stands before the signature as bytes. */
const KEY_ID_BYTES = 16
const KEY_ID_PATTERN = /^[0-9a-f]{32}$/

/** The bytes that are signed. */
export function eventBytes(event: EventRecord, keyId: string): Uint8Array {
  const payload = ownPayload(event)
  if (typeof keyId !== 'string' || !KEY_ID_PATTERN.test(keyId)) {
    throw invalid('keyId', `must be ${2 * KEY_ID_BYTES} hexadecimal digits`, keyId)
  }
  const writer = new ByteWriter().text(TAG).integer(VERSION).text(keyId).text(event.eventType)
  writer.optional(event.sessionId, (sessionId) => writer.text(sessionId))
  writer.text(event.actorId).integer(event.atMs)
  return writer.bytes(unsignedBytes(payload)).toBytes()
}

/** The event with the registrar's signature in its payload, whatever signature it had before. */
export function signEvent(event: EventRecord, key: SigningKey): EventRecord {
  if (!(key instanceof SigningKey)) throw invalid('key', 'must be a SigningKey', key)
  const payload = ownPayload(event)
  requireFacts(payload.kind, payload)
  const signature = key.sign(eventBytes(event, key.keyId))
  const registrarSignature = Buffer.concat([Buffer.from(key.keyId, 'hex'), signature])
  return { ...event, payload: withSignature(payload, Uint8Array.from(registrarSignature)) }
}

export interface VerifyEventOptions {
  /** When the keys must be good, in milliseconds: the present for an event that is to be appended. */
  readonly now: number
}

/**
 * Throws `MISSING_SIGNATURE` for an event without one, `INVALID_SIGNATURE` for keys and signatures that do not hold,
 * `DECODE_ERROR` for what is no event of a registrar, and `INVALID_INPUT` for fields, keys or a time that are none.
 */
export function verifyEvent(
  event: EventRecord,
  keys: VerificationKeys,
  options: VerifyEventOptions,
): { readonly keyId: string } {
  const now = requireNow(options)
  const payload = ownPayload(event)
  const { registrarSignature } = payload
  if (registrarSignature === undefined || registrarSignature.length === 0) {
    throw new LeaseError('MISSING_SIGNATURE', `${event.eventType} must carry a signature, got none`)
  }
  if (registrarSignature.length !== KEY_ID_BYTES + SIGNATURE_BYTES) {
    throw badSignature(
      event,
      `must be ${KEY_ID_BYTES + SIGNATURE_BYTES} bytes, got ${registrarSignature.length}`,
    )
  }
  const unknown = unknownFact(payload.kind, payload)
  if (unknown !== undefined) throw badSignature(event, `is not over ${show(unknown)}`)
  const keyId = Buffer.from(registrarSignature.subarray(0, KEY_ID_BYTES)).toString('hex')
  const { publicKey } = requireVerifier(finderOf(keys), keyId, now)
  const signature = registrarSignature.subarray(KEY_ID_BYTES)
  if (verifySignature(eventBytes(event, keyId), signature, publicKey)) return { keyId }
  throw badSignature(event, 'does not fit the event')
}

function ownPayload(event: EventRecord): OwnPayload {
  requireOrigin(requireRecord(event))
  const payload = readPayload(event)
  if (payload.kind !== 'ledger_event') return payload
  throw disagreement(event.eventType, 'one of a store, which its chain proves')
}

function badSignature({ eventType }: EventRecord, problem: string): LeaseError {
  return new LeaseError('INVALID_SIGNATURE', `the signature of ${eventType} ${problem}`, {
    details: { eventType },
  })
}
