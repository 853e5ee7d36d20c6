/**
 * The payload of a record, in whatever form it comes: made by a helper, through JSON, or as canonical bytes. Whether its
 * fields are what they must be is asked where they are used; here it is brought into the one form that is used.
 */
import { invalid, LeaseError, show } from '../core/errors.ts'
import { jsonOf } from './json-form.ts'
import { parsePayload, payloadFromJson } from './payload-bytes.ts'
import { isOwnKind, type EventRecord, type RegistrarPayload } from './payloads.ts'
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

/** Throws `DECODE_ERROR` for what cannot be read, or is not of the kind that the type of the event promises. */
export function readPayload({ eventType, payload }: EventRecord): RegistrarPayload {
  const given = payload instanceof Uint8Array ? parsePayload(payload) : payload
  const kind = typeof given === 'object' && given !== null && 'kind' in given ? given.kind : null
  if (typeof kind !== 'string') throw disagreement(eventType, 'none that says its kind')
  const read = given as RegistrarPayload
  const type = read.kind === 'ledger_event' ? read.event?.type : typeOf(kind)
  if (type !== eventType) throw disagreement(eventType, `one of ${show(type ?? kind)}`)
  return read.kind === 'ledger_event' ? read : payloadFromJson(read)
}

/** The type of a registrar's own events is in the name of their kind. */
function typeOf(kind: string): string | undefined {
  return isOwnKind(kind) ? kind.replace('_', '.') : undefined
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
