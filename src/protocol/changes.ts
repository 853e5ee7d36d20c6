/**
 * The requests that change something. Each names who sends it (`holder`, or for an operator `by`), and where the entry
 * is known by its session, that too; the core compares both with the entry in the commit that makes the change.
 */
import { DIMENSIONS } from '../core/budget.ts'
import { invalid } from '../core/errors.ts'
import { checkNote } from '../core/input.ts'
import { parseReleaseReason, RELEASE_REASONS } from '../core/lease.ts'
import {
  ALL_MEMBERS_MAX,
  CLAIM_WINDOW_MS_DEFAULT,
  CLAIM_WINDOW_MS_MAX,
  CLAIM_WINDOW_MS_MIN,
  EPOCHS_PER_ADVANCE_MAX,
  MAX_HOLD_MS_MAX,
  MAX_RENEWALS_MAX,
  NAME_BYTES_MAX,
  PRIORITY_MAX,
  PRIORITY_MIN,
  SCOPE_ITEM_BYTES_MAX,
  SLOTS_MAX,
  TTL_MS_MAX,
  TTL_MS_MIN,
  UNDER_MAX,
  WAIT_MS_MAX,
} from '../core/limits.ts'
import {
  checkExtent,
  checkSharing,
  overlap,
  type Extent,
  type Mode,
  type Resource,
} from '../core/resource.ts'
import {
  parseSettingKey,
  SETTING_SCOPES,
  SETTING_TABLE,
  type SettingKey,
} from '../core/settings.ts'
import { EXTENT, HOLDER_NAME, SESSION_NAME } from './questions.ts'
import {
  BUDGET,
  checked,
  choice,
  FLAG,
  integer,
  integerOr,
  list,
  METADATA,
  nullable,
  object,
  OPAQUE,
  optional,
  request,
  required,
  RESOURCE,
  reworded,
  SCOPE,
  text,
  UUID,
  WORDS,
  type Shape,
} from './shape.ts'

/** How long a request may wait on a server, and how many calls one batch has. */
export const HTTP_WAIT_MS_MAX = 60_000
export const BATCH_CALLS_MAX = 1_000

const MODE: Shape<Mode> = choice(['exclusive', 'shared'])

/** Bounds and defaults of an acquire, which others refer to. */
const TTL_MS = integer(TTL_MS_MIN, TTL_MS_MAX, 'ms')
const GRACE_MS = integer(0, TTL_MS_MAX, 'ms')

const ID = required(UUID, 'The id of the lease or ticket')
const HOLDER = required(HOLDER_NAME, 'Who holds it')
const SESSION = required(
  SESSION_NAME,
  'What proves that a lease or a place in the queue is this client’s; answers show a digest of it',
  { http: { isOptional: true } },
)
const REQUEST_ID = optional(
  UUID,
  'Repeating a request with the same id has the first effect and no other',
)
const REASON = optional(nullable(WORDS), 'Shown to blocked requests', {
  more: '1 KiB together with `metadata`.',
})
const METADATA_FIELD = optional(
  nullable(METADATA),
  'Text, numbers and truth values by name, beside `reason`; shown to blocked requests',
)
const WHY = reworded(REASON, 'Kept in the history', { more: 'At most 1 KiB.' })
const WHY_OF_OPERATOR = reworded(WHY, 'Kept in the history; by default it says who did it', {
  more: 'At most 1 KiB.',
})

/** Where a lease is: who knows the resource saves a look-up, and no right depends on it. */
const PLACE = {
  id: ID,
  resource: optional(
    RESOURCE,
    'The resource of the lease, where the caller knows it: it saves a look-up',
  ),
  extent: optional(EXTENT, 'The extent of the lease, where the resource is given', {
    default: { value: 'exact' },
  }),
}
const OWN_LEASE = { ...PLACE, holder: HOLDER }

const LEASE_IDS = list(UUID, {
  max: UNDER_MAX,
  expectation: `must be at most ${UNDER_MAX} lease ids`,
})

/** What is the same for all of several resources. */
const TOKEN_NAME = optional(HOLDER_NAME, 'The name of the token with which a server was asked', {
  http: { isAbsent: true },
})

const ACQUIRE_COMMON = {
  holder: reworded(HOLDER, 'Who is to hold it'),
  session: SESSION,
  ttlMs: optional(TTL_MS, 'How long the lease lives without renewal', {
    default: {
      words:
        'the configured `default_ttl_seconds`; where none is configured 30 s for a lease that is renewed automatically, else one hour',
    },
  }),
  isRenewed: optional(
    FLAG,
    'Its holder renews it by itself, so that its default TTL is 30 s unless another was configured',
    { default: { value: false } },
  ),
  maxRenewals: optional(
    integer(-1, MAX_RENEWALS_MAX),
    'How often it may be renewed; -1: no limit',
    {
      default: { words: 'the configured `max_renewals`' },
    },
  ),
  maxHoldMs: optional(
    integer(TTL_MS_MIN, MAX_HOLD_MS_MAX, 'ms'),
    'No renewal carries the lease beyond this time since its grant',
  ),
  priority: optional(
    integer(PRIORITY_MIN, PRIORITY_MAX),
    'In the queue, a point counts like having come ten seconds sooner',
    { default: { value: 0 } },
  ),
  lockDelayMs: optional(
    integer(0, TTL_MS_MAX, 'ms'),
    'How long the resource is not granted after this lease has expired or was revoked',
    { default: { value: 0 } },
  ),
  breakable: optional(FLAG, 'A waiter may ask this holder to finish', {
    default: { value: false },
  }),
  breakGraceMs: optional(
    GRACE_MS,
    'If it has to wait, asks the holders that are `breakable` to finish within so long',
  ),
  reason: REASON,
  metadata: METADATA_FIELD,
  waitMs: optional(
    integerOr(integer(0, WAIT_MS_MAX, 'ms'), 'configured'),
    'How long to wait for the resource; 0: not at all',
    {
      default: { words: 'the configured `acquisition_timeout_ms`' },
      http: { shape: integer(0, HTTP_WAIT_MS_MAX, 'ms'), default: { value: 0 } },
    },
  ),
  claimWindowMs: optional(
    integer(CLAIM_WINDOW_MS_MIN, CLAIM_WINDOW_MS_MAX, 'ms'),
    'How long a waiter that is not heard of keeps its place',
    { default: { value: CLAIM_WINDOW_MS_DEFAULT } },
  ),
  under: optional(
    LEASE_IDS,
    'Leases of the same holder that cannot be released before this request ends',
    {
      more: 'A request that one of them blocks is refused at once (`RESOURCE_HELD`), and a cycle of requests that wait under what the next one waits for is refused with `DEADLOCK`.',
    },
  ),
  sequential: optional(
    FLAG,
    'The session does one thing after another: a request that the session itself blocks is refused at once',
    { default: { value: false } },
  ),
  tokenName: TOKEN_NAME,
}

const MEMBER = {
  id: reworded(
    ID,
    'The id of the new lease, chosen by the requester, so that a repeated request is recognised',
    { http: { isOptional: true } },
  ),
  resource: required(RESOURCE, 'What is to be held, as `kind:name`'),
  mode: optional(
    MODE,
    '`shared` leases exclude exclusive ones, and `exclusive` excludes all others',
    {
      default: { words: '`exclusive`, or `shared` with `slots`' },
    },
  ),
  extent: optional(EXTENT, '`subtree`: the lease covers everything below as well', {
    default: { value: 'exact' },
    more: 'Only tree kinds (`file:`) have subtrees.',
  }),
}

/** What concerns one resource alone. */
const ACQUIRE_ONE = {
  ...MEMBER,
  slots: optional(
    integer(1, SLOTS_MAX),
    'Makes the resource one that takes so many shared leases at once',
    {
      more: 'Where leases name different numbers, the smallest among the live leases and the request counts.',
    },
  ),
  scope: optional(SCOPE, 'What the lease, and all that is derived from it, may be used for', {
    default: { words: 'everything' },
    more: 'A set that is left out allows nothing.',
  }),
  budget: optional(BUDGET, 'How much of it', {
    default: { words: 'unlimited' },
    more: 'A dimension that is left out is unlimited.',
  }),
}

const BEHIND_OWN = optional(
  FLAG,
  'Earlier tickets of the same client wait in the same queue, and are kept alive each third of their claim window',
  {
    more: 'This one then lives up to 60 s, and is dropped with those before it if nothing is heard of any of them.',
    default: { value: false },
  },
)

const TICKET = {
  id: ID,
  resource: required(RESOURCE, 'What the ticket waits for'),
  extent: PLACE.extent,
  holder: reworded(HOLDER, 'Who waits'),
  session: SESSION,
}

const CLAIMED = {
  ...TICKET,
  expects: optional(
    choice(['offer', 'nothing']),
    'What its waiter expects: an `offer`, because it was woken by name; or `nothing` new, when it only keeps its ticket alive',
    { more: 'Either saves the store a look at the whole queue.' },
  ),
  implied: optional(
    LEASE_IDS,
    'Leases of the same holder that the ticket is taken to be under from now on, because its client stands still',
    {
      more: 'Empty when it no longer does. Without effect where the request said what it is under.',
    },
  ),
  behindOwn: BEHIND_OWN,
}

const NOTE = checked(
  object({
    reason: required(nullable(WORDS), 'The last `reason` of the lease; null: none'),
    metadata: required(nullable(METADATA), 'Its last `metadata`; null: none'),
  }),
  checkNote,
)

const RELEASE_REASON = optional(
  choice(
    RELEASE_REASONS.filter((reason) => reason !== 'transferred'),
    parseReleaseReason,
  ),
  'Why the lease ends',
  { default: { value: 'voluntary' } },
)

const RELEASER = {
  holder: HOLDER,
  session: optional(
    SESSION_NAME,
    'The session that releases; where it is not the lease’s own, the lease’s session hears of it',
  ),
  releaseReason: RELEASE_REASON,
}

const LAST_NOTE = optional(NOTE, 'A note of the holder for the next holder of the resource', {
  default: { words: 'those it has' },
})

const OPERATOR = required(HOLDER_NAME, 'The operator, as the history is to name it')

const SETTING_KEYS = Object.keys(SETTING_TABLE) as SettingKey[]

export const CHANGES = {
  acquire: request(
    {
      role: 'holder',
      says: 'Acquires a lease, or files a ticket for it where the request may wait',
      checks: [checkNote, checkSharing],
    },
    { ...ACQUIRE_ONE, ...ACQUIRE_COMMON, behindOwn: BEHIND_OWN },
  ),
  claim: request(
    {
      role: 'holder',
      says: 'Says that the waiter is still there, and turns its offer, if it has one, into a lease',
    },
    CLAIMED,
  ),
  acquireAll: request(
    {
      role: 'holder',
      says: 'Acquires several resources at once or none of them, or files a ticket for each',
      checks: [checkNote, ({ members }) => checkMembers(members)],
    },
    {
      group: required(
        UUID,
        'What the tickets have in common, chosen by the requester as the lease ids are',
        { http: { isOptional: true } },
      ),
      members: required(
        list(object(MEMBER), {
          min: 1,
          max: ALL_MEMBERS_MAX,
          expectation: `must be 1..${ALL_MEMBERS_MAX}`,
          label: 'resources',
        }),
        'The resources, none of which overlaps another',
        {
          http: {
            shape: list(object(MEMBER, 'http'), {
              min: 1,
              max: ALL_MEMBERS_MAX,
              expectation: `must be 1..${ALL_MEMBERS_MAX}`,
            }),
          },
        },
      ),
      ...ACQUIRE_COMMON,
    },
  ),
  claimAll: request(
    {
      role: 'holder',
      says: 'Says that the waiter for several resources is still there, and takes them all if they are all free',
    },
    {
      tickets: required(
        list(object({ ...CLAIMED, session: required(SESSION_NAME, SESSION.says) }), {
          min: 1,
          max: ALL_MEMBERS_MAX,
          expectation: `must be 1..${ALL_MEMBERS_MAX}`,
        }),
        'The tickets of the request',
      ),
    },
  ),
  withdraw: request(
    {
      role: 'holder',
      says: 'Ends a wait; if its claim was granted meanwhile, the lease is released',
    },
    {
      ...TICKET,
      why: required(
        choice(['timed_out', 'aborted']),
        'Whether its time was over or it was cancelled',
      ),
    },
  ),
  renew: request(
    { role: 'holder', says: 'Gives a lease its time anew, counted from the commit' },
    {
      ...OWN_LEASE,
      ttlMs: optional(TTL_MS, 'A new TTL', { default: { words: 'the one that the lease has' } }),
      requestId: REQUEST_ID,
    },
  ),
  release: request(
    {
      role: 'holder',
      says: 'Ends a lease before its time',
    },
    { ...PLACE, ...RELEASER, note: LAST_NOTE, requestId: REQUEST_ID },
  ),
  releaseAll: request(
    {
      role: 'holder',
      says: 'Ends several leases of one holder in one commit, and tells of each what became of it',
    },
    {
      ...RELEASER,
      members: required(
        list(
          object({
            id: ID,
            resource: required(RESOURCE, 'The resource of the lease'),
            extent: PLACE.extent,
            requestId: required(UUID, 'One for each lease: the effect is kept with each of them'),
            note: LAST_NOTE,
          }),
          {
            min: 1,
            max: ALL_MEMBERS_MAX,
            expectation: `must be 1..${ALL_MEMBERS_MAX}`,
            label: 'leases',
          },
        ),
        'The leases',
      ),
    },
  ),
  revoke: request(
    {
      role: 'operator',
      says: 'Ends a lease at once, or asks its holder to finish within a grace',
      checks: [checkNote],
    },
    {
      ...PLACE,
      by: OPERATOR,
      reason: WHY_OF_OPERATOR,
      graceMs: optional(
        GRACE_MS,
        'How long the holder may take to finish; it hears of it through `revoking`',
        { default: { value: 0 }, more: '0: the lease ends at once.' },
      ),
      requestId: REQUEST_ID,
    },
  ),
  upgrade: request(
    {
      role: 'holder',
      says: 'Makes a shared lease exclusive in place: done, under way, or refused; asking again tells how it stands',
    },
    {
      ...OWN_LEASE,
      mayWait: required(FLAG, 'Whether the upgrade waits until the others have left', {
        http: { isOptional: true },
      }),
      under: ACQUIRE_COMMON.under,
      implied: optional(FLAG, 'What the request is under was implied, not said', {
        default: { value: false },
      }),
      sequential: ACQUIRE_COMMON.sequential,
      requestId: REQUEST_ID,
    },
  ),
  withdrawUpgrade: request(
    { role: 'holder', says: 'Takes back an upgrade that waits; without effect once it is done' },
    { ...OWN_LEASE, requestId: REQUEST_ID },
  ),
  downgrade: request(
    {
      role: 'holder',
      says: 'Makes an exclusive lease shared in place, with the same id and fence',
    },
    { ...OWN_LEASE, requestId: REQUEST_ID },
  ),
  update: request(
    {
      role: 'holder',
      says: 'Replaces the reason and metadata of a lease; what is left out is gone',
      checks: [checkNote],
    },
    { ...OWN_LEASE, reason: REASON, metadata: METADATA_FIELD, requestId: REQUEST_ID },
  ),
  trespass: request(
    {
      role: 'holder',
      says: 'Records that `by` wrote to what the lease of another holder covers',
      checks: [checkNote],
    },
    {
      ...PLACE,
      by: required(HOLDER_NAME, 'Who wrote'),
      target: required(
        RESOURCE,
        'What was written to: the lease’s own resource, or one below its subtree',
      ),
      reason: WHY,
      requestId: REQUEST_ID,
    },
  ),
  transfer: request(
    {
      role: 'holder',
      says: 'Ends a lease and gives it to another holder in the same commit',
      checks: [
        ({ to, holder }) => {
          if (to === holder) throw invalid('to', 'must be another than the holder', to)
        },
      ],
    },
    {
      ...OWN_LEASE,
      to: required(nullable(HOLDER_NAME), 'The receiver; null: the next in the queue'),
      newId: required(UUID, 'The id of the lease that a named receiver gets', {
        http: { isOptional: true },
      }),
      requestId: REQUEST_ID,
    },
  ),
  adopt: request(
    {
      role: 'holder',
      says: 'Takes over, under this session, a lease that was transferred to this holder; its time runs anew',
    },
    { ...OWN_LEASE, session: SESSION, requestId: REQUEST_ID },
  ),
  derive: request(
    {
      role: 'holder',
      says: 'Makes a lease inside one that `by` holds, with less of everything',
      checks: [
        checkNote,
        ({ resource, extent }) => {
          if (resource !== undefined) checkExtent(resource, extent)
        },
      ],
    },
    {
      id: MEMBER.id,
      parent: required(object(PLACE), 'The lease that it is derived from'),
      by: required(HOLDER_NAME, 'The holder of the parent'),
      holder: reworded(HOLDER, 'Who holds the derived lease'),
      session: SESSION,
      resource: optional(RESOURCE, 'Within the parent’s', {
        default: { words: 'the parent’s own, shared with the others that are derived so' },
      }),
      extent: optional(EXTENT, '`subtree`: everything below as well, within the parent’s', {
        default: { words: '`exact`, or with the parent’s own resource the parent’s' },
      }),
      mode: optional(MODE, 'Whether it has its resource to itself', {
        default: { words: '`exclusive` for a resource of its own, else `shared`' },
      }),
      ttlMs: optional(TTL_MS, 'No longer than the parent has left', {
        default: { words: 'as long as that' },
      }),
      scope: optional(SCOPE, 'Within the parent’s', {
        default: { words: 'nothing is allowed' },
        more: 'A set that is left out allows nothing.',
      }),
      budget: optional(BUDGET, 'Taken out of the parent’s', {
        default: { words: 'unlimited' },
        more: 'A dimension that is left out is unlimited, which a limited parent refuses.',
      }),
      audience: optional(HOLDER_NAME, 'Who is to check the grant', {
        default: { words: 'as for the parent; no other than that, if it names one' },
      }),
      reason: REASON,
      tokenName: TOKEN_NAME,
    },
  ),
  spend: request(
    {
      role: 'holder',
      says: 'Uses up some of a lease’s budget, in all dimensions or in none',
      checks: [
        ({ amounts }) => {
          if (DIMENSIONS.some((dimension) => (amounts[dimension] ?? 0) > 0)) return
          const expectation = 'must name something to spend (budgetLeft tells what is left)'
          throw invalid('amounts', expectation, amounts)
        },
      ],
    },
    {
      ...OWN_LEASE,
      amounts: required(BUDGET, 'How much of each dimension'),
      requestId: REQUEST_ID,
    },
  ),
  advance: request(
    {
      role: 'holder',
      says: 'Uses up the next epochs of the workflow that the lease is of',
      checks: [
        checkNote,
        ({ from, count = 1 }) => {
          const max = Number.MAX_SAFE_INTEGER - count
          if (from > max) throw invalid('from', `must be an integer 0..${max}`, from)
        },
      ],
    },
    {
      ...OWN_LEASE,
      from: required(
        integer(0, Number.MAX_SAFE_INTEGER - 1),
        'The next epoch, as the holder believes',
      ),
      count: optional(integer(1, EPOCHS_PER_ADVANCE_MAX), 'How many epochs to use up', {
        default: { value: 1 },
      }),
      reason: WHY,
      requestId: REQUEST_ID,
    },
  ),
  revokeAll: request(
    {
      role: 'operator',
      says: 'Ends every live lease and ticket of a holder as `revoked`, and tells how many leases',
      checks: [checkNote],
    },
    {
      holder: reworded(HOLDER, 'Whose leases and tickets are ended'),
      by: OPERATOR,
      reason: WHY_OF_OPERATOR,
    },
  ),
  cleanup: request(
    {
      role: 'operator',
      says: 'Settles everything that is over and prunes what retention no longer keeps',
    },
    {},
  ),
  configure: request(
    { role: 'operator', says: 'Sets a value of the configuration, or removes it' },
    {
      key: required(choice(SETTING_KEYS, parseSettingKey), 'The key'),
      value: required(
        nullable(OPAQUE),
        'The value as text; null removes the override, or gives the global default back',
      ),
      scope: required(choice(SETTING_SCOPES), 'What the value is for'),
      resourceId: required(
        nullable(OPAQUE),
        'The kind or resource that it is for; null for the global value',
      ),
    },
  ),
  wakes: request(
    { role: 'holder', says: 'Listens for the wake-ups of a session' },
    { session: required(SESSION_NAME, 'The session that waits') },
  ),
  fleet: request(
    {
      role: 'reader',
      says: 'The instances of a fleet, the sessions that they poll, and which of them should',
    },
    {
      prefix: required(
        text(NAME_BYTES_MAX),
        'How the ids of the sessions begin that are shown; `*`: all of them',
        { more: 'With the layout `poll`: how the keys of the fleet begin.' },
      ),
      layout: optional(
        choice(['lease', 'poll']),
        '`lease`: instances and sessions are leases of the namespace; `poll`: they are keys of polling services on Redis',
        { default: { value: 'lease' } },
      ),
    },
  ),
  authorize: request(
    { role: 'reader', says: 'Tells whether a signed grant allows an act' },
    {
      grant: required(OPAQUE, 'The signed token'),
      act: required(
        object({
          workId: optional(text(SCOPE_ITEM_BYTES_MAX), 'The work that is to be done'),
          tool: optional(text(SCOPE_ITEM_BYTES_MAX), 'The tool that is to be used'),
          path: optional(OPAQUE, 'The path that is to be touched, as the scope spells it'),
        }),
        'What is to be done; everything that is named must be allowed',
      ),
      spending: optional(BUDGET, 'How much of the budget it will take', {
        default: { words: 'nothing' },
      }),
      audience: optional(HOLDER_NAME, 'Who checks'),
    },
  ),
} as const

interface Member {
  readonly resource: Resource
  readonly extent?: Extent
}

/** No two of several may overlap, or the request would stand in its own way. */
function checkMembers(members: readonly Member[]): void {
  const reaches = members.map(({ resource, extent = 'exact' }) => ({ resource, extent }))
  for (const [index, member] of reaches.entries()) {
    checkExtent(member.resource, member.extent)
    const other = reaches.slice(0, index).find((earlier) => overlap(earlier, member))
    if (other === undefined) continue
    throw invalid('resources', `must not overlap ${other.resource}`, member.resource)
  }
}
