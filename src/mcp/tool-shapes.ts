/** What the tools are called with and what they answer, in the vocabulary of `src/protocol`. Every word is paid for in tokens. */
import { ALL_MEMBERS_MAX, NAME_BYTES_MAX, TTL_MS_MAX, TTL_MS_MIN } from '../core/limits.ts'
import { HOLDER_NAME, HTTP_ROWS_MAX } from '../protocol/questions.ts'
import {
  ANY_OBJECT,
  choice,
  FLAG,
  integer,
  list,
  object,
  OPAQUE,
  optional,
  required,
  text,
  UUID,
  WORDS,
  type Shape,
} from '../protocol/shape.ts'

/** Clients give a call up after 60 s. */
export const TOOL_WAIT_MS_MAX = 45_000
export const LISTED_DEFAULT = 50

/** The reader refuses what is no such text; a model that is told so once needs no pattern. */
function brief<Value>(shape: Shape<Value>): Shape<Value> {
  return { ...shape, schema: { type: 'string' } }
}

const KIND_BYTES_MAX = 33
const NAME = brief(text(NAME_BYTES_MAX + KIND_BYTES_MAX))
const HOLDER_TEXT = brief(HOLDER_NAME)
const NOTE = brief(WORDS)
const ID = brief(UUID)
const SOME = { min: 1, max: ALL_MEMBERS_MAX, expectation: `must be 1..${ALL_MEMBERS_MAX}` }
const RESOURCES = required(list(NAME, SOME), 'Paths (`src/` means all below) or `kind:name`')
const HOLDER = optional(HOLDER_TEXT, 'Who you are, if the client does not say')
const TTL_MS = optional(integer(TTL_MS_MIN, TTL_MS_MAX, 'ms'), 'Lifetime without renewal')
const LEASES = optional(list(ID, SOME), 'Ids', { default: { words: 'all of yours' } })

export const ACQUIRE = object({
  resources: RESOURCES,
  waitMs: optional(integer(0, TOOL_WAIT_MS_MAX, 'ms'), 'Stand in the queue so long'),
  mode: optional(choice(['exclusive', 'shared']), 'Default exclusive'),
  ttlMs: TTL_MS,
  reason: optional(NOTE, 'Shown to blocked requests'),
  holder: HOLDER,
  parent: optional(HOLDER_TEXT, 'Whose leases yours may be inside'),
})
export const WAIT = object({
  tickets: required(list(ID, SOME), 'From lease_acquire'),
  waitMs: optional(integer(1, TOOL_WAIT_MS_MAX, 'ms'), 'How long'),
  holder: HOLDER,
})
export const RENEW = object({ leases: LEASES, ttlMs: TTL_MS, holder: HOLDER })
export const RELEASE = object({
  leases: LEASES,
  note: optional(NOTE, 'For the next holder'),
  holder: HOLDER,
})
export const STATUS = object({ resources: RESOURCES, holder: HOLDER })
export const LIST = object({
  heldBy: optional(HOLDER_TEXT, 'Only of this holder'),
  limit: optional(integer(1, HTTP_ROWS_MAX), `How many (${LISTED_DEFAULT})`),
  after: optional(OPAQUE, '`next` of the page before'),
  holder: HOLDER,
})

const ROWS: Shape<readonly Readonly<Record<string, unknown>>[]> = list(ANY_OBJECT, {
  max: Number.POSITIVE_INFINITY,
  expectation: 'must be a list of objects',
})
const REFUSED = required(ROWS, 'Id, code and why')
const NEXT = required(OPAQUE, 'What to do now')

export const GRANT_ANSWER = object(
  {
    granted: required(FLAG, 'All of them, or none'),
    leases: optional(ROWS, 'With id, fence and expiry'),
    blockers: optional(ROWS, 'Who, why, until when'),
    tickets: optional(list(ID, SOME), 'For lease_wait'),
    place: optional(integer(1, Number.MAX_SAFE_INTEGER), 'In the queue'),
    next: NEXT,
  },
  'answer',
)
export const RENEW_ANSWER = object(
  { renewed: required(ROWS, 'Leases'), refused: REFUSED },
  'answer',
)
export const RELEASE_ANSWER = object(
  { released: required(list(ID, { ...SOME, min: 0 }), 'Ids'), refused: REFUSED },
  'answer',
)
export const STATUS_ANSWER = object(
  { resources: required(ROWS, 'Free for you or not, leases, how many wait') },
  'answer',
)
export const LIST_ANSWER = object(
  { leases: required(ROWS, 'Leases and tickets'), next: optional(OPAQUE, 'For `after`') },
  'answer',
)
