/**
 * Payloads of the registrar's events. Each says by `kind` what it is, so that an event whose type and payload disagree
 * is noticed. Their fields are read and checked when they are applied, not when they are made.
 *
 * As JSON a payload has its signature in base64url, and nanoseconds and large ticks as decimal text; the reducer takes
 * that form as well, and the canonical bytes (`payload-bytes.ts`).
 */
import { invalid } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import { jsonOf } from './json-form.ts'
import type { LogicalTick } from './logical-tick.ts'
import type { WallTime } from './wall-time.ts'

/** Bytes, or a list of them. */
export type Signature = Uint8Array | readonly number[]

export interface LeaseIssuedFacts {
  readonly leaseId: string
  readonly workId: string
  readonly actorId: string
  readonly issuedAt: WallTime
  readonly expiresAt: WallTime
  /**
   * 1..512 bytes. The reducer asks for it and does not verify it: the process that appends to the ledger does (`verifyEvent`). Left
   * out of what is yet to be signed (`signEvent`, `RegistrarLedger.append`).
   */
  readonly registrarSignature?: Signature
  /** Given together with `expiresAtTick` or not at all. */
  readonly issuedAtTick?: LogicalTick
  readonly expiresAtTick?: LogicalTick
}

export interface LeaseRenewedFacts {
  readonly leaseId: string
  readonly newExpiresAt: WallTime
  readonly registrarSignature?: Signature
  /** Needed when the lease has ticks. */
  readonly newExpiresAtTick?: LogicalTick
}

export interface LeaseReleasedFacts {
  readonly leaseId: string
  readonly releaseReason: string
  /** Not asked for: what ends a lease or tells of a conflict is signed where the registrar signs everything. */
  readonly registrarSignature?: Signature
}

export interface LeaseExpiredFacts {
  readonly leaseId: string
  readonly expiredAt: WallTime
  /** Needed when the lease has ticks: it alone proves the expiry then. */
  readonly expiredAtTick?: LogicalTick
  readonly registrarSignature?: Signature
}

export interface LeaseConflictFacts {
  readonly workId: string
  readonly conflictingLeaseIds: readonly string[]
  readonly resolution: string
  readonly registrarSignature?: Signature
}

/** Whatever the signature was given as, a payload has it as bytes. */
type Made<Kind extends string, Facts> = Omit<Facts, 'registrarSignature'> & {
  readonly kind: Kind
  readonly registrarSignature?: Uint8Array
}

export type LeaseIssuedPayload = Made<'lease_issued', LeaseIssuedFacts>
export type LeaseRenewedPayload = Made<'lease_renewed', LeaseRenewedFacts>
export type LeaseReleasedPayload = Made<'lease_released', LeaseReleasedFacts>
export type LeaseExpiredPayload = Made<'lease_expired', LeaseExpiredFacts>
export type LeaseConflictPayload = Made<'lease_conflict', LeaseConflictFacts>

/** An event of a Tenure store, as its ledger has it. */
export interface LedgerEventPayload {
  readonly kind: 'ledger_event'
  readonly event: LeaseEvent
}

/** What a registrar itself tells. */
export type OwnPayload =
  | LeaseIssuedPayload
  | LeaseRenewedPayload
  | LeaseReleasedPayload
  | LeaseExpiredPayload
  | LeaseConflictPayload

export type RegistrarPayload = OwnPayload | LedgerEventPayload

type NamesOf<Payload> = Payload extends OwnPayload ? Exclude<keyof Payload, 'kind'> : never
export type FactName = NamesOf<OwnPayload>

/** The facts of each kind, in the order of the canonical bytes. */
export const FACTS: Readonly<Record<OwnPayload['kind'], readonly FactName[]>> = {
  lease_issued: [
    ...(['leaseId', 'workId', 'actorId', 'issuedAt', 'expiresAt', 'registrarSignature'] as const),
    ...(['issuedAtTick', 'expiresAtTick'] as const),
  ],
  lease_renewed: ['leaseId', 'newExpiresAt', 'registrarSignature', 'newExpiresAtTick'],
  lease_released: ['leaseId', 'releaseReason', 'registrarSignature'],
  lease_expired: ['leaseId', 'expiredAt', 'expiredAtTick', 'registrarSignature'],
  lease_conflict: ['workId', 'conflictingLeaseIds', 'resolution', 'registrarSignature'],
}

export function isOwnKind(kind: unknown): kind is OwnPayload['kind'] {
  return typeof kind === 'string' && Object.hasOwn(FACTS, kind)
}

export function leaseIssuedPayload(facts: LeaseIssuedFacts): LeaseIssuedPayload {
  return made({ kind: 'lease_issued', ...requireFacts('lease_issued', facts) })
}

export function leaseRenewedPayload(facts: LeaseRenewedFacts): LeaseRenewedPayload {
  return made({ kind: 'lease_renewed', ...requireFacts('lease_renewed', facts) })
}

export function leaseReleasedPayload(facts: LeaseReleasedFacts): LeaseReleasedPayload {
  return made({ kind: 'lease_released', ...requireFacts('lease_released', facts) })
}

export function leaseExpiredPayload(facts: LeaseExpiredFacts): LeaseExpiredPayload {
  return made({ kind: 'lease_expired', ...requireFacts('lease_expired', facts) })
}

export function leaseConflictPayload(facts: LeaseConflictFacts): LeaseConflictPayload {
  return made({ kind: 'lease_conflict', ...requireFacts('lease_conflict', facts) })
}

/** A call with the facts one after the other would make a payload of the letters of the first. */
export function requireFacts<Facts extends object>(kind: OwnPayload['kind'], facts: Facts): Facts {
  const names = FACTS[kind]
  if (typeof facts !== 'object' || facts === null || Array.isArray(facts)) {
    throw invalid('facts', `must be an object of ${names.join(', ')}`, facts)
  }
  const unknown = unknownFact(kind, facts)
  if (unknown !== undefined) throw invalid('facts', `must be of ${names.join(', ')}`, unknown)
  return facts
}

/** The first that no signature is over. */
export function unknownFact(kind: OwnPayload['kind'], facts: object): string | undefined {
  const known: readonly string[] = FACTS[kind]
  return Object.keys(facts).find((name) => name !== 'kind' && !known.includes(name))
}

/** Gives a payload its JSON form, which JSON alone could not write. */
class PayloadForm {
  toJSON(): object {
    return jsonOf(this)
  }
}

export function made<Payload extends OwnPayload>(
  facts: Omit<Payload, 'registrarSignature'> & { readonly registrarSignature?: Signature },
): Payload {
  const payload = Object.assign(new PayloadForm(), facts)
  const { registrarSignature } = payload
  if (!Array.isArray(registrarSignature)) return payload as unknown as Payload
  const isBytes = registrarSignature.every(
    (byte) => Number.isInteger(byte) && byte >= 0 && byte < 256,
  )
  if (!isBytes) throw invalid('registrarSignature', 'must be bytes', registrarSignature)
  return Object.assign(payload, {
    registrarSignature: Uint8Array.from(registrarSignature),
  }) as unknown as Payload
}

/** The payload with this signature, whatever it had before. */
export function withSignature<Payload extends OwnPayload>(
  payload: Payload,
  registrarSignature: Uint8Array,
): Payload {
  return made<Payload>({ ...payload, registrarSignature })
}

/** What the reducer applies. */
export interface EventRecord {
  readonly eventType: string
  /** Of which process the actor was, for the audit; nothing depends on it. */
  readonly sessionId?: string
  /** Who caused it: the registrar that issues, the holder that releases. */
  readonly actorId: string
  /** When it happened, by the wall clock of the ledger: a renewal or release after the end of the lease is refused. */
  readonly atMs: number
  /**
   * What a payload helper has made, the JSON form of it, or its canonical bytes; of events that are not about leases,
   * anything.
   */
  readonly payload: unknown
}

/** A store's event in the form that the reducer applies. */
export function ledgerRecord(event: LeaseEvent): EventRecord {
  const payload: LedgerEventPayload = { kind: 'ledger_event', event }
  return { eventType: event.type, actorId: event.holder, atMs: event.atMs, payload }
}
