/**
 * The registrar's reducer: applies events of a ledger one after the other and keeps what they add up to. It asks
 * whether an event may follow from the state; what an event means is the core's `evolve`, which stores use as well.
 *
 * It promises that the same events give the same state, and that an event which is refused changes nothing. It does
 * not verify signatures (`verifyEvent` does), and it does not recognise an event that a ledger delivers twice: those are refused as
 * whatever they then are (`LEASE_EXISTS`, `LEASE_TERMINAL`).
 */
import { LeaseError, show } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import { LeaseReducerState } from './lease-reducer-state.ts'
import { LeaseTable } from './lease-table.ts'
import { parseLeaseEvent } from './parse-event.ts'
import type { EventRecord, LedgerEventPayload } from './payloads.ts'
import { disagreement, readPayload, requireOrigin, requireRecord } from './read-payload.ts'
import { checkpointOf, restoreTable } from './reducer-checkpoint.ts'
import {
  reduceConflict,
  reduceExpired,
  reduceIssued,
  reduceReleased,
  reduceRenewed,
} from './reduce-registrar-event.ts'
import { LEDGER_EVENT_TYPES, reduceLedgerEvent } from './reduce-ledger-event.ts'

/** Where in the ledger an event stands; told in the details of a refusal. */
export interface ReducerContext {
  readonly sequence: number
}

export class LeaseReducer {
  readonly name = 'lease-registrar'
  readonly #table = new LeaseTable()
  readonly state: LeaseReducerState = new LeaseReducerState(this.#table)

  /** A reducer that goes on where the one of the checkpoint was. */
  static restore(checkpoint: string): LeaseReducer {
    const reducer = new LeaseReducer()
    restoreTable(reducer.#table, checkpoint)
    return reducer
  }

  /** Throws a `LeaseError`, and changes nothing, when the event does not follow from the state. */
  apply(event: EventRecord, context?: ReducerContext): void {
    try {
      this.#apply(event)
    } catch (error) {
      throw context === undefined ? error : placed(error, context)
    }
  }

  checkpoint(): string {
    return checkpointOf(this.#table)
  }

  reset(): void {
    this.#table.clear()
  }

  #apply(event: EventRecord): void {
    if (!isAboutLeases(event)) return
    requireOrigin(event)
    const payload = readPayload(event)
    switch (payload.kind) {
      case 'lease_issued':
        return reduceIssued(this.#table, event, payload)
      case 'lease_renewed':
        return reduceRenewed(this.#table, event, payload)
      case 'lease_released':
        return reduceReleased(this.#table, event, payload)
      case 'lease_expired':
        return reduceExpired(this.#table, payload)
      case 'lease_conflict':
        return reduceConflict(payload)
      case 'ledger_event':
        return reduceLedgerEvent(this.#table, toldEvent(event, payload))
    }
  }
}

/** Whether an event is about leases. One that is, of a type that is not known, might change any of them (INV-0503). */
function isAboutLeases(event: EventRecord | null | undefined): boolean {
  const { eventType } = requireRecord(event)
  if (eventType === 'lease.conflict' || LEDGER_EVENT_TYPES.has(eventType)) return true
  if (!eventType.startsWith('lease.')) return false
  const message = `eventType must be one that is known of leases, got ${show(eventType)}`
  throw new LeaseError('DECODE_ERROR', message, { details: { eventType } })
}

/** The event of a store, whole, and the one that the record says it is. */
function toldEvent(
  { eventType, actorId, atMs }: EventRecord,
  payload: LedgerEventPayload,
): LeaseEvent {
  const event = parseLeaseEvent(payload.event)
  if (event.holder !== actorId) throw disagreement(eventType, `one of ${show(event.holder)}`)
  if (event.atMs !== atMs) throw disagreement(eventType, `one of ${event.atMs} at ${atMs}`)
  return event
}

function placed(error: unknown, { sequence }: ReducerContext): unknown {
  if (!(error instanceof LeaseError)) return error
  const { code, message, details } = error
  return new LeaseError(code, message, { details: { ...details, sequence }, cause: error })
}
