/**
 * The requests that only read. They are in a file of their own so that `tenure ls`, which only reads,
 * need not load the others.
 */
import { invalid } from '../core/errors.ts'
import { LEASE_EVENT_TYPES, type LeaseEventType } from '../core/event.ts'
import { parseState, ENTRY_STATES } from '../core/lease.ts'
import {
  HOLDER_BYTES_MAX,
  LIST_LIMIT_DEFAULT,
  LIST_LIMIT_MAX,
  SESSION_BYTES_MAX,
} from '../core/limits.ts'
import type { Extent } from '../core/resource.ts'
import {
  choice,
  FLAG,
  integer,
  list,
  nullable,
  OPAQUE,
  optional,
  request,
  required,
  RESOURCE,
  text,
  UUID,
  type Shape,
} from './shape.ts'

export const HOLDER_NAME: Shape<string> = text(HOLDER_BYTES_MAX)
export const SESSION_NAME: Shape<string> = text(SESSION_BYTES_MAX)
export const EXTENT: Shape<Extent> = choice(['exact', 'subtree'])
/** How many rows one page over HTTP has at most. */
export const HTTP_ROWS_MAX = 1_000

const TYPES: Shape<readonly LeaseEventType[]> = list(
  choice(LEASE_EVENT_TYPES, (value) => {
    const type = LEASE_EVENT_TYPES.find((candidate) => candidate === value)
    if (type !== undefined) return type
    throw invalid('types', `must be among ${LEASE_EVENT_TYPES.join(', ')}`, value)
  }),
  { max: LEASE_EVENT_TYPES.length, expectation: 'must be a list of event types' },
)

const TIME_MS = integer(0, Number.MAX_SAFE_INTEGER, 'ms')

/** What a list gave as `next`: a number, on some stores with another beside it; after a `~` and an id, where it tells what is still live. */
const CURSOR_PATTERN = /^(?:~[0-9a-f-]{0,36}|(?:~[0-9a-f-]{0,36} )?\d{1,16}(?: \d{1,16})?)$/

const CURSOR: Shape<string> = {
  read: (value, name) => {
    if (typeof value === 'string' && CURSOR_PATTERN.test(value)) return value
    throw invalid(name, 'must be what another list gave as next', value)
  },
  schema: { type: 'string', pattern: CURSOR_PATTERN.source },
}

const POSITION: Shape<string> = {
  ...OPAQUE,
  read: (value, name) => {
    if (typeof value === 'string') return value
    throw invalid(name, 'must be a position', value)
  },
}

const LIMIT = optional(integer(1, LIST_LIMIT_MAX), 'How many at most', {
  default: { value: LIST_LIMIT_DEFAULT },
  http: { shape: integer(1, HTTP_ROWS_MAX) },
})

const OF_RESOURCE = optional(RESOURCE, 'Of this resource only')
const OF_HOLDER = optional(HOLDER_NAME, 'Of this holder only')
const OF_TYPES = optional(TYPES, 'Only these types of events')

export const QUESTIONS = {
  get: request(
    {
      role: 'reader',
      says: 'One lease or ticket by its id, also after its end as long as history is kept; else null',
    },
    { id: required(UUID, 'The id of the lease or ticket') },
  ),
  list: request(
    { role: 'reader', says: 'Leases and tickets, by pages' },
    {
      resource: OF_RESOURCE,
      holder: OF_HOLDER,
      session: optional(
        SESSION_NAME,
        'What this session has; leases themselves tell only a digest of theirs',
      ),
      state: optional(choice(ENTRY_STATES, parseState), 'As it stands at the moment of reading', {
        default: { words: 'what is live, `active` and `pending`' },
      }),
      after: optional(CURSOR, 'Goes on where another list with the same filter ended: its `next`'),
      limit: LIMIT,
    },
  ),
  inspect: request(
    {
      role: 'reader',
      says: 'Who holds a resource, who waits for it, what stands in the way, and any cycle of waits',
    },
    {
      resource: required(RESOURCE, 'The resource'),
      extent: optional(EXTENT, '`subtree`: also what lies below it', {
        default: { value: 'exact' },
      }),
    },
  ),
  history: request(
    { role: 'reader', says: 'Events of the ledger, in order of commit' },
    {
      id: optional(UUID, 'Of this lease only'),
      resource: OF_RESOURCE,
      holder: OF_HOLDER,
      types: OF_TYPES,
      fromMs: optional(TIME_MS, 'Not before this wall time of the store'),
      toMs: optional(TIME_MS, 'Not after this wall time of the store'),
      after: optional(POSITION, 'Only what was committed after this position'),
      unbroken: optional(
        FLAG,
        'For a reader that has seen everything up to `after`: refused once an event behind it was pruned, beside renewals and advances that a later one supersedes. `details.prunedUpTo` is where nothing is missing',
        { default: { value: false }, http: { isAbsent: true } },
      ),
      newestFirst: optional(FLAG, 'The newest first', { default: { value: false } }),
      refusals: optional(
        FLAG,
        'Also what was refused: the last of each resource, holder and reason, with how often (`count`), as `lease.denied` in the order of time. It is counted beside the ledger, and comes on top of the limit, at most as many',
        { default: { value: true } },
      ),
      limit: LIMIT,
    },
  ),
  watch: request(
    { role: 'reader', says: 'Events as they are committed, without loss or repeat' },
    {
      resource: OF_RESOURCE,
      kinds: optional(
        list(text(32), { max: 64, expectation: 'must be at most 64 kinds' }),
        'Only of resources of these kinds',
      ),
      holder: OF_HOLDER,
      types: OF_TYPES,
      after: optional(POSITION, 'Goes on after this position', {
        default: { words: 'from now on' },
      }),
    },
  ),
  settingRows: request(
    { role: 'reader', says: 'Every value of the configuration that was set, with its scope' },
    {},
  ),
  settings: request(
    { role: 'reader', says: 'The configuration in force, globally or for a resource' },
    {
      resource: optional(nullable(RESOURCE), 'The resource that it is in force for', {
        default: { words: 'the global values' },
      }),
    },
  ),
} as const

type QuestionName = keyof typeof QUESTIONS

export type QuestionOf<Name extends QuestionName> = ReturnType<(typeof QUESTIONS)[Name]['read']>
