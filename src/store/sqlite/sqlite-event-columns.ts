/** Events as rows of `lease_history`, and back, by the names of sqlite-columns.ts. */
import { eventWord, LEASE_EVENT_TYPES, type LeaseEventType } from '../../core/event.ts'
import { endedAtMs } from '../../core/lease.ts'
import { decodeEvent, encodeEvent, type RecordBody, type RecordedEvent } from '../../core/record.ts'
import type { SqliteRow, SqliteValue } from '../../drivers/sqlite-driver.ts'
import { idOf, keyOf, leaseNumberOf, pathOf, resourceOf, type RowNames } from './sqlite-columns.ts'

const EVENT_COLUMNS_LIST = [
  'seq',
  'lease_id',
  'agent_id',
  'file_path',
  'session',
  'event_type',
  'event_at',
  'clock',
  'fence',
  'request_id',
  'data',
]

export const EVENT_COLUMNS: string = EVENT_COLUMNS_LIST.join(', ')
export const EVENT_VALUES_COUNT: number = EVENT_COLUMNS_LIST.length + 2

export function insertEvents(rows: number): string {
  const row = `(${Array.from({ length: EVENT_VALUES_COUNT }, () => '?').join(', ')})`
  const all = Array.from({ length: rows }, () => row).join(', ')
  return `INSERT INTO lease_history (${EVENT_COLUMNS}, lease_number, ended_at) VALUES ${all}`
}

/** The seed's words, where a refused request is a failed one to whoever reads. */
export function wordOf(type: LeaseEventType): string {
  return type === 'lease.denied' ? 'failed' : eventWord(type)
}

const TYPES: ReadonlyMap<string, LeaseEventType> = new Map(
  LEASE_EVENT_TYPES.filter((type) => type !== 'lease.denied').map((type) => [wordOf(type), type]),
)

/** What a word means; `failed` that holds a ticket was a refusal. */
export function typeOf(word: string, body: RecordBody = {}): LeaseEventType {
  const type = TYPES.get(word)
  if (type === undefined) throw new Error(`event ${word} is not known`)
  return type === 'lease.failed' && 'entry' in body ? 'lease.denied' : type
}

/** An acquire is known by the id of its lease, which the row has already; no index need have it twice. */
const OWN_ID = ''

export function eventValues(
  recorded: RecordedEvent,
  { sequence, domain }: { readonly sequence: number; readonly domain: string },
  names: RowNames,
): SqliteValue[] {
  const record = encodeEvent(recorded, domain)
  const { requestId, leaseId } = record
  return [
    sequence,
    keyOf(leaseId, names),
    record.holder,
    pathOf(record.resource),
    record.session,
    wordOf(record.type),
    record.atMs,
    names.generationOf(domain),
    record.fence,
    requestId === null || requestId === leaseId ? requestId && OWN_ID : keyOf(requestId, names),
    JSON.stringify(record.body),
    leaseNumberOf(leaseId),
    recorded.ended === null ? null : endedAtMs(recorded.ended),
  ]
}

export function eventOf(row: SqliteRow, names: RowNames): RecordedEvent {
  const body = JSON.parse(row[10] as string) as RecordBody
  const leaseId = idOf(row[1] as string)
  const requestKey = row[9] as string | null
  const requestId = requestKey === OWN_ID ? leaseId : requestKey && idOf(requestKey)
  return decodeEvent(
    {
      leaseId,
      resource: resourceOf(row[3] as string),
      holder: row[2] as string,
      session: row[4] as string,
      type: typeOf(row[5] as string, body),
      atMs: row[6] as number,
      requestId,
      fence: row[8] as number,
      body,
    },
    names.domainOf(row[7] as number),
  )
}
