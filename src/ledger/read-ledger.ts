/**
 * Reads a ledger that was exported, and believes nothing: each line must be the next of its chain, hold an event, and
 * that event must follow from those before it. The first that does not is named by its number.
 */
import { isLeaseError, LeaseError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import { realmOf } from '../core/resource.ts'
import { CheckedFold } from './checked-fold.ts'
import { LeaseTable } from './lease-table.ts'
import { parseLeaseEvent } from './parse-event.ts'
import { reduceLedgerEvent } from './reduce-ledger-event.ts'
import { digestOf } from './reducer-checkpoint.ts'
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
    reduceLedgerEvent(table, event)
    return event
  } catch (error) {
    throw isLeaseError(error) ? badLine(number, error.message, error) : error
  }
}

function badLine(line: number, problem: string, cause?: unknown): LeaseError {
  const details = isLeaseError(cause) ? { ...cause.details, line } : { line }
  const message = `line ${line} cannot be taken: ${problem}`
  return new LeaseError('DECODE_ERROR', message, { details, cause })
}
