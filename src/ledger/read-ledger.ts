/**
 * Reads a ledger that was exported, and believes nothing: each line must be the next of its chain, hold an event, and
 * that event must follow from those before it. The first that does not is named by its number.
 */
import { isLeaseError, LeaseError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import { LEDGER_NUMBER_MAX } from '../core/limits.ts'
import { realmOf } from '../core/resource.ts'
import { US_PER_MS } from '../core/time.ts'
import { CheckedFold } from './checked-fold.ts'
import { LeaseTable } from '../registrar/lease-table.ts'
import { parseLeaseEvent } from '../registrar/parse-event.ts'
import { reduceLedgerEvent } from '../registrar/reduce-ledger-event.ts'
import { digestOf } from '../registrar/reducer-checkpoint.ts'
import { entryOf, LedgerChain, linesOf, realmNamed } from './sealed-ledger.ts'

export interface ReadLedger {
  readonly events: readonly LeaseEvent[]
  /** Of the state that the events lead to. */
  readonly digest: string
}

/** Throws `DECODE_ERROR` with the number of the first line that cannot be taken. */
export function readLedger(text: string): ReadLedger {
  const lines = linesOf(text)
  const chain = new LedgerChain()
  const table = new LeaseTable()
  const fold = new CheckedFold()
  const events: LeaseEvent[] = []
  for (const [index, line] of lines.entries()) {
    const problem = chain.accept(line)
    if (problem !== null) throw badLine(index + 1, problem)
    // Which keys sealed a ledger is not part of what happened to leases.
    if (chain.isAtRotation) continue
    const event = eventOf(line, index + 1, table)
    if (realmNamed(line) !== realmOf(event.resource))
      throw badLine(index + 1, 'names another realm')
    const odd = fold.take(event, index + 1)
    if (odd !== null) throw badLine(index + 1, `${event.type} does not follow: ${odd}`)
    events.push(event)
  }
  if (!text.endsWith('\n') && text !== '') throw badLine(lines.length + 1, 'is cut off')
  const missing = fold.missing()
  if (missing !== null) throw badLine(missing.line, missing.problem)
  return { events, digest: digestOf(table) }
}

function eventOf(line: string, number: number, table: LeaseTable): LeaseEvent {
  try {
    const event = parseLeaseEvent(entryOf(line).event)
    const large = tooLarge(event)
    if (large !== null) throw new LeaseError('DECODE_ERROR', `${event.type}: ${large}`)
    reduceLedgerEvent(table, event)
    return event
  } catch (error) {
    throw isLeaseError(error) ? badLine(number, error.message, error) : error
  }
}

/** What a store counts on from, and the unit of it in microseconds or ones. */
const COUNTED: ReadonlyMap<string, number> = new Map([
  ...['fence', 'rootFence', 'epoch', 'from', 'to', 'renewals'].map((name) => [name, 1] as const),
  ...['us', 'orderUs', 'holdUntilUs'].map((name) => [name, 1] as const),
  ...['atMs', 'createdAtMs', 'grantedAtMs', 'renewedAtMs', 'expiresAtMs', 'terminatedAtMs'].map(
    (name) => [name, US_PER_MS] as const,
  ),
])

/** The number that leaves the store which takes it no room to go on; null if there is none. */
function tooLarge(value: object, place = ''): string | null {
  for (const [name, field] of Object.entries(value) as [string, unknown][]) {
    const unit = COUNTED.get(name)
    if (typeof field === 'number' && unit !== undefined) {
      const most = Math.floor(LEDGER_NUMBER_MAX / unit)
      if (Math.abs(field) > most) return `${place}${name} must be at most ${most}, got ${field}`
    }
    // What the holder wrote there is its own.
    if (typeof field !== 'object' || field === null || name === 'metadata') continue
    const inner = tooLarge(field, `${place}${name}.`)
    if (inner !== null) return inner
  }
  return null
}

function badLine(line: number, problem: string, cause?: unknown): LeaseError {
  const details = isLeaseError(cause) ? { ...cause.details, line } : { line }
  const message = `line ${line} cannot be taken: ${problem}`
  return new LeaseError('DECODE_ERROR', message, { details, cause })
}
