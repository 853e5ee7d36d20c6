/**
 * The payload of a record, in whatever form it comes: made by a helper, through JSON, or as canonical bytes. Whether its
 * fields are what they must be is asked where they are used; here it is brought into the one form that is used.
 */
import { invalid, LeaseError, show } from '../core/errors.ts'
import { fromBase64Url } from './canonical-bytes.ts'
import { jsonOf } from './json-form.ts'
import { parsePayload } from './payload-bytes.ts'
import type { EventRecord, OwnPayload, RegistrarPayload } from './payloads.ts'
import { requireId } from './registrar-id.ts'

export function requireRecord(event: EventRecord | null | undefined): EventRecord {
  if (event === null || typeof event !== 'object') {
    const message = `event must be { eventType, actorId, atMs, payload }, got ${show(event)}`
    throw new LeaseError('DECODE_ERROR', message)
  }
  const { eventType }: { readonly eventType: unknown } = event
  if (typeof eventType !== 'string') throw invalid('eventType', 'must be text', eventType)
  return event
}

/** Who caused an event, and when. */
export function requireOrigin({ actorId, atMs, sessionId }: EventRecord): void {
  requireId('actorId', actorId)
  if (sessionId !== undefined) requireId('sessionId', sessionId)
  if (Number.isSafeInteger(atMs) && atMs >= 0) return
  throw invalid('atMs', 'must be when it happened, in whole milliseconds', atMs)
}

const TYPE_OF_KIND: Readonly<Record<OwnPayload['kind'], string>> = {
  lease_issued: 'lease.issued',
  lease_renewed: 'lease.renewed',
  lease_released: 'lease.released',
  lease_expired: 'lease.expired',
  lease_conflict: 'lease.conflict',
}

/** Throws `DECODE_ERROR` for what cannot be read, or is not of the kind that the type of the event promises. */
export function readPayload({ eventType, payload }: EventRecord): RegistrarPayload {
  const given = payload instanceof Uint8Array ? parsePayload(payload) : payload
  const kind = typeof given === 'object' && given !== null && 'kind' in given ? given.kind : null
  if (typeof kind !== 'string') throw disagreement(eventType, 'none that says its kind')
  const read = given as RegistrarPayload
  const type = read.kind === 'ledger_event' ? read.event?.type : TYPE_OF_KIND[read.kind]
  if (type !== eventType) throw disagreement(eventType, `one of ${show(type ?? kind)}`)
  return read.kind === 'ledger_event' ? read : fromJson(read)
}

/** A registrar's own event as JSON has it, in whatever form its payload came. */
export function jsonRecord(event: EventRecord): object {
  const { eventType, sessionId, actorId, atMs } = requireRecord(event)
  requireOrigin(event)
  const payload = jsonOf(readPayload(event))
  return { eventType, ...(sessionId === undefined ? {} : { sessionId }), actorId, atMs, payload }
}

export function disagreement(eventType: string, got: string): LeaseError {
  return new LeaseError('DECODE_ERROR', `payload must be of ${show(eventType)}, got ${got}`, {
    details: { eventType },
  })
}

const TIMES = ['issuedAt', 'expiresAt', 'newExpiresAt', 'expiredAt'] as const
const TICKS = ['issuedAtTick', 'expiresAtTick', 'newExpiresAtTick', 'expiredAtTick'] as const
const DECIMAL_PATTERN = /^(0|[1-9]\d{0,19})$/

type Loose = Readonly<Record<string, unknown>>

/** Text stands for bytes and large integers in JSON, and for nothing else in these fields. */
function fromJson(payload: OwnPayload): OwnPayload {
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

/** What is no number stays what it is, and is refused by whoever reads the field. */
function integerOf(text: string): bigint | string {
  return DECIMAL_PATTERN.test(text) ? BigInt(text) : text
}
