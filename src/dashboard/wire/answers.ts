/** What the server answers, read by the descriptions of `src/protocol`, and what HTTP adds to them. */
import type { LeaseEvent } from '../../core/event.ts'
import type { LeaseInfo } from '../../core/lease.ts'
import { ANSWERS, LEASE_INFO, readAnswer, type AnswerOf } from '../../protocol/answers.ts'
import {
  choice,
  integer,
  list,
  nullable,
  object,
  OPAQUE,
  optional,
  required,
  RESOURCE,
  type Shape,
  type ValueOf,
} from '../../protocol/shape.ts'

const AT_MS = integer(0, Number.MAX_SAFE_INTEGER, 'ms')

const STANDING = object(
  {
    position: required(OPAQUE, 'Where the ledger stood before this was read'),
    nowMs: optional(AT_MS, 'The wall time of the store when it answered'),
  },
  'answer',
)

export type LeasePage = AnswerOf<'list'> & ValueOf<typeof STANDING>

export function readPage(value: unknown): LeasePage {
  return { ...readAnswer('list', value), ...STANDING.read(value, 'answer') }
}

/** An event of the ledger with its place there. */
export interface LedgerRow {
  readonly position: string
  readonly event: LeaseEvent
}

export interface StreamedRow extends LedgerRow {
  /** As it was after the event; null where the ledger does not tell. */
  readonly lease: LeaseInfo | null
}

const AFTER = object({ lease: required(nullable(LEASE_INFO), 'The lease after it') }, 'answer')

export function readStreamed(text: string): StreamedRow {
  const value: unknown = JSON.parse(text)
  return { ...readAnswer('watch', value), ...AFTER.read(value, 'data') }
}

function unlimited<Item>(of: Shape<Item>): Shape<readonly Item[]> {
  return list(of, { max: Infinity, expectation: 'must be a list' })
}

const CALLER = object(
  {
    name: required(OPAQUE, 'The name of the token'),
    role: required(choice(['reader', 'holder', 'operator']), 'What it may'),
    namespace: required(OPAQUE, 'Its namespace; `*`: any'),
  },
  'answer',
)

export type CallerInfo = ValueOf<typeof CALLER>

export function readCaller(value: unknown): CallerInfo {
  return CALLER.read(value, 'answer')
}

const BATCH = object(
  {
    answers: required(
      unlimited(object({ answer: optional(nullable(LEASE_INFO), 'The lease') }, 'answer')),
      'In the order of the calls',
    ),
  },
  'answer',
)

/** The leases that were asked for by id, in that order; undefined where the answer is an error. */
export function readLeases(value: unknown): readonly (LeaseInfo | null | undefined)[] {
  return BATCH.read(value, 'answer').answers.map(({ answer }) => answer)
}

/** Of what a token may not see it hears the holder alone. */
const STEP = object(
  { holder: required(OPAQUE, 'Who waits'), resource: optional(OPAQUE, 'For what') },
  'answer',
)

const INSPECTION = object(
  {
    resource: required(RESOURCE, 'The resource'),
    leases: required(unlimited(LEASE_INFO), 'Who holds it'),
    queue: required(unlimited(LEASE_INFO), 'Who waits, in the order of service'),
    cycles: required(unlimited(unlimited(STEP)), 'Requests that wait for each other'),
    nowMs: optional(AT_MS, 'The wall time of the store when it answered'),
  },
  'answer',
)

export type InspectedResource = ValueOf<typeof INSPECTION>

export function readInspection(value: unknown): InspectedResource {
  return INSPECTION.read(value, 'answer')
}

export interface EventPage {
  readonly events: readonly LedgerRow[]
  /** The `after` of the next page; undefined after the last. */
  readonly next: string | undefined
}

const EVENTS = object(
  {
    events: required(ANSWERS.history, 'Events, in order of commit'),
    next: optional(OPAQUE, 'The `after` of the next page'),
  },
  'answer',
)

export function readEventPage(value: unknown): EventPage {
  const { events, next } = EVENTS.read(value, 'answer')
  return { events, next }
}

const COUNT = integer(0, Number.MAX_SAFE_INTEGER)
const CHECKPOINT = object(
  {
    sequence: required(COUNT, 'Its number'),
    atMs: required(AT_MS, 'When it was signed'),
    events: required(COUNT, 'How many events it seals'),
  },
  'answer',
)

const LEDGER = object(
  {
    checkpoint: required(nullable(CHECKPOINT), 'The last one'),
    verifiedAtMs: required(AT_MS, 'When the ledger was last verified'),
    problem: required(nullable(OPAQUE), 'What was wrong then'),
  },
  'answer',
)

export type LedgerStanding = ValueOf<typeof LEDGER>

export function readLedgerStanding(value: unknown): LedgerStanding {
  return LEDGER.read(value, 'answer')
}
