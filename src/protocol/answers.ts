/**
 * What every request is answered with. The types are the core's own: a field that the core adds, drops or changes does
 * not compile here until it is described. Answers may grow, so their readers leave unknown fields alone.
 */
import type { Blocker } from '../core/conflict.ts'
import { DIMENSIONS, type Dimension, type Shortage } from '../core/budget.ts'
import type { Delegation } from '../core/delegation.ts'
import { ERROR_CODES, invalid } from '../core/errors.ts'
import { LEASE_EVENT_TYPES, type EventCommon, type LeaseEvent } from '../core/event.ts'
import {
  ENTRY_STATES,
  RELEASE_REASONS,
  type CycleStep,
  type EntryState,
  type LeaseInfo,
  type Revoking,
} from '../core/lease.ts'
import type {
  Dropped,
  Queued,
  QueuedAll,
  Refusal,
  Revoked,
  MissingRead,
  UpgradeWithdrawn,
  Upgrading,
  Waiting,
  Withdrawn,
} from '../core/outcome.ts'
import type { Mode } from '../core/resource.ts'
import {
  SETTING_SCOPES,
  SETTING_TABLE,
  type SettingDefinition,
  type SettingKey,
  type SettingRow,
  type Settings,
} from '../core/settings.ts'
import type { Tick } from '../core/time.ts'
import { EXTENT } from './questions.ts'
import type { RequestName } from './requests.ts'
import {
  BUDGET,
  choice,
  FLAG,
  integer,
  list,
  literal,
  METADATA,
  nullable,
  object,
  OPAQUE,
  optional,
  required,
  RESOURCE,
  SCOPE,
  UUID,
  type Field,
  type Fields,
  type Shape,
} from './shape.ts'

/** The fields that describe a type of the core: all of them, and no other. */
type FieldsOf<Type> = {
  readonly [Name in keyof Type]-?: undefined extends Type[Name]
    ? Field<Exclude<Type[Name], undefined>, true>
    : Field<Type[Name], false>
}

/** An object of a type of the core. */
function described<Type>(fields: FieldsOf<Type>): Shape<Type> {
  return object(fields as unknown as Fields, 'answer') as unknown as Shape<Type>
}

interface Kinded {
  readonly kind: string
}

/** One of several outcomes, told apart by `kind`. */
interface Outcomes<Type> extends Shape<Type> {
  readonly byKind: ReadonlyMap<unknown, Shape<unknown>>
}

function outcomes<Type extends Kinded>(kinds: {
  readonly [Kind in Type['kind']]: FieldsOf<Omit<Extract<Type, { readonly kind: Kind }>, 'kind'>>
}): Outcomes<Type> {
  const shapes = Object.entries(kinds).map(([kind, fields]) => {
    const own = { kind: required(literal(kind), 'What came of it'), ...(fields as Fields) }
    return [kind, object(own, 'answer')] as const
  })
  return oneOf(new Map(shapes))
}

function oneOf<Type>(byKind: ReadonlyMap<unknown, Shape<unknown>>): Outcomes<Type> {
  return {
    read: (value, name) => {
      const kind: unknown =
        typeof value === 'object' && value !== null && 'kind' in value ? value.kind : undefined
      const shape = byKind.get(kind)
      if (shape !== undefined) return shape.read(value, name) as Type
      throw invalid(name, `must be of a kind among ${[...byKind.keys()].join(', ')}`, kind)
    },
    schema: {},
    anyOf: [...byKind.values()],
    byKind,
  }
}

/** One of these outcomes or of those. */
function either<One, Other>(one: Outcomes<One>, other: Outcomes<Other>): Outcomes<One | Other> {
  return oneOf(new Map([...one.byKind, ...other.byKind]))
}

const SAFE = Number.MAX_SAFE_INTEGER
const COUNT = integer(0, SAFE)
const SPAN_MS = integer(0, SAFE, 'ms')
const AT_MS = integer(0, SAFE, 'ms')
const WHOLE = integer(-SAFE, SAFE)
/** A time that may have fractions, and of a clock that was set back be negative. */
const NUMBER: Shape<number> = {
  read: (value, name) => {
    if (typeof value === 'number') return value
    throw invalid(name, 'must be a number', value)
  },
  schema: { type: 'number' },
}
/** Null stands for infinite: JSON has no word for it. */
const AMOUNT = nullable(NUMBER) as unknown as Shape<number>
const STATE = choice<EntryState>(ENTRY_STATES)
const MODE = choice<Mode>(['exclusive', 'shared'])
const NAME = OPAQUE
const ID = required(UUID, 'The id of the lease or ticket')

function unlimited<Item>(of: Shape<Item>): Shape<readonly Item[]> {
  return list(of, { max: Infinity, expectation: 'must be a list' })
}

const TICK: Shape<Tick> = described<Tick>({
  domain: required(NAME, 'The clock'),
  us: required(NUMBER, 'Microseconds on it'),
})

const DELEGATION = described<Delegation>({
  line: required(unlimited(UUID), 'From the root to the parent; empty for a root'),
  rootFence: required(nullable(COUNT), 'The fence of the root; null for a root itself'),
  rootMode: optional(literal('shared'), 'When the root was shared as the lease was derived'),
  scope: required(SCOPE as Shape<Delegation['scope']>, 'What the lease may be used for'),
  limits: required(BUDGET, 'How much of it'),
  audience: optional(NAME, 'The audience of its grants; absent: any'),
  used: required(
    BUDGET,
    'Spent, allocated to live children, and spent by children that have ended',
  ),
  children: required(unlimited(UUID), 'The live leases that were derived from this lease'),
})

const REVOKING = described<Revoking>({
  by: required(NAME, 'Who asked'),
  reason: required(nullable(NAME), 'Why'),
})

/** A lease or ticket as answers show it. */
export const LEASE_INFO: Shape<LeaseInfo> = described<LeaseInfo>({
  id: ID,
  resource: required(RESOURCE, 'What is held or waited for'),
  mode: required(MODE, '`exclusive` or `shared`'),
  extent: required(EXTENT, '`exact`, or `subtree`: everything below as well'),
  holder: required(NAME, 'Who holds it, or waits'),
  session: required(NAME, 'A digest of the session of its holder'),
  state: required(STATE, 'As it stands at the moment of the answer'),
  fence: required(
    nullable(COUNT),
    'The order number of the grant; null while waiting; a pending entry that has one is an offer',
  ),
  ttlMs: required(SPAN_MS, 'How long it lives without renewal'),
  createdAtMs: required(AT_MS, 'When it was asked for'),
  grantedAtMs: required(nullable(AT_MS), 'When it was granted'),
  renewedAtMs: required(nullable(AT_MS), 'When it was renewed last'),
  changedAtMs: optional(AT_MS, 'When it was changed otherwise since; absent: not at all'),
  expiresAtMs: required(nullable(AT_MS), 'When it expires, for people: the deadline decides'),
  terminatedAtMs: required(nullable(AT_MS), 'When it ended'),
  deadline: required(nullable(TICK), 'The tick of the store’s clock that decides'),
  remainingMs: required(NUMBER, 'What was left of it, counted by the store when it answered'),
  renewals: required(COUNT, 'How often it was renewed'),
  maxRenewals: required(WHOLE, 'How often it may be renewed; -1: no limit'),
  maxHoldMs: required(nullable(SPAN_MS), 'How long it may be held in all'),
  slots: required(nullable(COUNT), 'How many share a counted resource; null for any other'),
  lockDelayMs: required(
    SPAN_MS,
    'How long the resource stays free after this lease expired or was revoked',
  ),
  breakable: required(FLAG, 'A waiter may ask its holder to finish'),
  revoking: required(nullable(REVOKING), 'Its holder was asked to finish'),
  upgrading: required(FLAG, 'Its holder waits for the other sharers to leave'),
  epoch: required(nullable(COUNT), 'The next epoch, for the lease of a workflow'),
  adopted: required(
    FLAG,
    'False: it was transferred to this holder, who has not taken it over yet',
  ),
  group: required(nullable(UUID), 'What the tickets of one request for several have in common'),
  priority: required(nullable(WHOLE), 'Of a ticket; null for a lease'),
  releaseReason: required(nullable(choice(RELEASE_REASONS)), 'Why its holder ended it'),
  reason: required(nullable(NAME), 'The holder’s own words'),
  metadata: required(nullable(METADATA), 'The holder’s own words by name'),
  parentId: optional(nullable(UUID), 'The lease that it was derived from; null: none'),
  depth: optional(COUNT, 'How many derivations it is below the root'),
  scope: optional(
    SCOPE as Shape<Delegation['scope']>,
    'What it may be used for; absent: everything',
  ),
  budget: optional(BUDGET, 'How much of it; a dimension that is absent is unlimited'),
  budgetLeft: optional(BUDGET, 'What is left of it, in the dimensions that are limited'),
  delegation: optional(DELEGATION, 'Its derivation and its account'),
  tokenName: optional(
    NAME,
    'The name of the token with which it was asked for; absent: without one',
  ),
})

const BLOCKER = described<Blocker>({
  kind: required(choice(['lease', 'offer', 'ticket', 'lock_delay']), 'What stands in the way'),
  leaseId: required(UUID, 'Its id'),
  resource: required(NAME, 'Its resource'),
  holder: required(NAME, 'Who holds it, or waits'),
  session: required(NAME, 'A digest of its session'),
  mode: required(MODE, '`exclusive` or `shared`'),
  extent: required(EXTENT, '`exact` or `subtree`'),
  slots: required(nullable(COUNT), 'How many share a counted resource; null for any other'),
  fence: required(nullable(COUNT), 'Its fence, if it has one'),
  sinceMs: required(AT_MS, 'Since when: the grant of a lease, the arrival of a ticket'),
  expiresAtMs: required(nullable(AT_MS), 'Until when, unless it is renewed'),
  remainingMs: required(NUMBER, 'What is left of it'),
  reason: required(nullable(NAME), 'The holder’s own words'),
  metadata: required(nullable(METADATA), 'The holder’s own words by name'),
})
const BLOCKERS = required(unlimited(BLOCKER), 'What stands in the way')

const STEP = described<CycleStep>({
  holder: required(NAME, 'Who waits'),
  session: required(NAME, 'A digest of its session'),
  resource: required(NAME, 'For what'),
  implied: optional(literal(true), 'What the request is under was implied, not said'),
})
const CYCLE = required(unlimited(STEP), 'The requests that wait for each other')

const SHORTAGE_FIELDS: FieldsOf<Shortage> = {
  dimension: required(choice<Dimension>(DIMENSIONS), 'Of what there is too little'),
  asked: required(AMOUNT, 'How much was asked for; null: without limit'),
  left: required(AMOUNT, 'How much is left'),
}

const LEASE_ID = required(UUID, 'The lease or ticket')
const LEASE = required(LEASE_INFO, 'The lease')
const REPEATED = required(FLAG, 'The request was heard before, and this is its first effect again')

/** Why a request was refused. */
const REFUSAL: Outcomes<Refusal> = outcomes<Refusal>({
  held: {
    resource: required(NAME, 'What was asked for'),
    blockers: BLOCKERS,
    retryAfterMs: required(NUMBER, 'When it may be worth asking again'),
    notWaiting: required(
      choice(['not_asked', 'own', 'own_transfer', 'waiting_disabled']),
      'Why the request did not wait',
    ),
    difference: optional(NAME, 'In what a transferred lease is not what was asked for'),
  },
  not_found: { leaseId: LEASE_ID },
  not_holder: { leaseId: LEASE_ID, holder: required(NAME, 'Who holds it') },
  terminal: {
    leaseId: LEASE_ID,
    state: required(STATE, 'How it ended'),
    releaseReason: optional(literal('transferred'), 'It was transferred to another holder'),
    revokedBy: optional(NAME, 'Who revoked it'),
    revokedFor: optional(nullable(NAME), 'Why it was revoked'),
    revokedAtMs: optional(nullable(AT_MS), 'When it was revoked'),
  },
  expired: { leaseId: LEASE_ID, terminatedAtMs: required(AT_MS, 'When it ran out') },
  id_taken: { leaseId: LEASE_ID, resource: required(NAME, 'What the id stands for') },
  request_reused: { leaseId: LEASE_ID },
  renewal_limit: {
    leaseId: LEASE_ID,
    limit: required(NAME, 'Which limit'),
    parentId: optional(UUID, 'The lease that must be renewed first'),
  },
  does_not_extend: { leaseId: LEASE_ID, expiresAtMs: required(AT_MS, 'Its end, which stays') },
  deadlock: { leaseId: LEASE_ID, cycle: CYCLE },
  stale_epoch: {
    leaseId: LEASE_ID,
    from: required(COUNT, 'The epoch that the holder believed to be next'),
    epoch: required(COUNT, 'The epoch that is next'),
  },
  no_epoch: { leaseId: LEASE_ID, why: required(NAME, 'Why it has no epochs') },
  nobody_waiting: { leaseId: LEASE_ID },
  already_adopted: { leaseId: LEASE_ID },
  queue_full: {
    resource: required(NAME, 'What was asked for'),
    limit: required(COUNT, 'How many may wait'),
  },
  malformed_setting: { problem: required(NAME, 'What is wrong in the configuration') },
  invalid_derivation: {
    leaseId: LEASE_ID,
    problem: required(NAME, 'In what it is larger than its parent'),
    shortage: optional(described<Shortage>(SHORTAGE_FIELDS), 'Of what there is too little'),
  },
  budget_exhausted: { leaseId: LEASE_ID, ...SHORTAGE_FIELDS },
  look_further: {
    unseen: required(
      unlimited(
        described<MissingRead>({ leaseId: LEASE_ID, resource: required(RESOURCE, 'Of its realm') }),
      ),
      'What would have to be read as well',
    ),
  },
})

interface Answered<Kind extends string> {
  readonly kind: Kind
  readonly lease: LeaseInfo
}
interface GrantedAnswer extends Answered<'granted'> {
  readonly repeated: boolean
}
interface GrantedAllAnswer {
  readonly kind: 'granted_all'
  readonly leases: readonly LeaseInfo[]
  readonly repeated: boolean
}
interface ChangedAnswer<Kind extends string> extends Answered<Kind> {
  readonly changed: boolean
}
interface AdvancedAnswer extends Answered<'advanced'> {
  readonly from: number
  readonly to: number
}
interface TransferredAnswer {
  readonly kind: 'transferred'
  readonly lease: LeaseInfo | null
}

const QUEUE_TIMES = {
  waitMs: required(NUMBER, 'How long this request is ready to wait'),
  waitedMs: required(NUMBER, 'How long it has waited'),
  keepAliveMs: required(NUMBER, 'How often the waiter must be heard of, or its ticket is dropped'),
  checkAfterMs: required(NUMBER, 'When to claim again, if no wake-up comes before'),
}

const ACQUIRED = either(
  outcomes<GrantedAnswer | Queued>({
    granted: { lease: LEASE, repeated: REPEATED },
    queued: {
      leaseId: LEASE_ID,
      position: required(COUNT, 'Its place in the queue; 0 is the head'),
      orderUs: required(NUMBER, 'By what it is served: the smallest first'),
      blockers: BLOCKERS,
      ...QUEUE_TIMES,
    },
  }),
  REFUSAL,
)

const ACQUIRED_ALL = either(
  outcomes<GrantedAllAnswer | QueuedAll | Dropped>({
    granted_all: {
      leases: required(
        unlimited(LEASE_INFO),
        'The leases, in the order in which they were asked for',
      ),
      repeated: REPEATED,
    },
    queued_all: {
      leaseIds: required(unlimited(UUID), 'The tickets'),
      blockers: BLOCKERS,
      ...QUEUE_TIMES,
    },
    dropped: { leaseId: LEASE_ID },
  }),
  REFUSAL,
)

const CLAIMED = either(
  outcomes<Waiting | Dropped>({
    waiting: {
      leaseId: LEASE_ID,
      waitedMs: QUEUE_TIMES.waitedMs,
      keepAliveMs: QUEUE_TIMES.keepAliveMs,
    },
    dropped: { leaseId: LEASE_ID },
  }),
  ACQUIRED,
)

const RELEASED = either(outcomes<Answered<'released'>>({ released: { lease: LEASE } }), REFUSAL)

const UPGRADED = either(
  outcomes<ChangedAnswer<'upgraded'> | Upgrading | UpgradeWithdrawn>({
    upgraded: { lease: LEASE, changed: required(FLAG, 'False: it was exclusive already') },
    upgrading: {
      leaseId: LEASE_ID,
      blockers: BLOCKERS,
      checkAfterMs: required(NUMBER, 'When to ask again'),
    },
    upgrade_withdrawn: { leaseId: LEASE_ID },
  }),
  REFUSAL,
)

const FLEET_NODE = object(
  {
    instanceId: required(NAME, 'Its id'),
    name: required(nullable(NAME), 'Its name, if it has one'),
    state: required(
      choice(['ready', 'not_ready', 'draining', 'silent']),
      'Whether it takes sessions; `silent`: it owns sessions and has no heartbeat',
    ),
    isForeign: required(FLAG, 'Whether it is no instance of Tenure'),
    weight: required(nullable(NUMBER), 'Its share of the sessions beside those of the others'),
    sessions: required(COUNT, 'How many of the sessions that are shown it owns'),
  },
  'answer',
)

const FLEET_SESSION = object(
  {
    sessionId: required(NAME, 'Its id'),
    ownerId: required(NAME, 'The instance that polls it'),
    preferredOwnerId: required(nullable(NAME), 'The instance that should; null: none can'),
    state: required(
      choice(['owned', 'uncertain', 'orphaned']),
      '`uncertain`: a renewal is overdue; `orphaned`: its owner has no heartbeat',
    ),
    lastRenewedAtMs: required(nullable(NUMBER), 'When its owner was last heard of'),
    remainingMs: required(nullable(NUMBER), 'What is left of its lease'),
  },
  'answer',
)

/** Each type of event has fields of its own beside these. */
const EVENT = described<EventCommon & Pick<LeaseEvent, 'type'>>({
  type: required(choice(LEASE_EVENT_TYPES), 'What happened'),
  leaseId: LEASE_ID,
  resource: required(RESOURCE, 'Its resource'),
  holder: required(NAME, 'Its holder'),
  session: required(NAME, 'A digest of its session'),
  atMs: required(AT_MS, 'The wall time of the store'),
  before: required(nullable(STATE), 'The state before the event'),
  after: required(STATE, 'The state after the event'),
  renewals: required(COUNT, 'How often it was renewed'),
  reason: required(nullable(NAME), 'Why, in words'),
  requestId: required(nullable(UUID), 'The request that had this effect'),
}) as Shape<LeaseEvent>

const LEDGER_ENTRY = object(
  {
    position: required(OPAQUE, 'Its place in the ledger, for `after`'),
    event: required(EVENT, 'The event'),
  },
  'answer',
)

const HISTORY_ENTRY = object(
  {
    position: required(
      OPAQUE,
      'Its place in the ledger, for `after`; of a refusal, that of the event beside it',
    ),
    event: required(EVENT, 'The event; of refusals, the last one'),
    count: optional(COUNT, 'Of refusals only: how many there were'),
  },
  'answer',
)

const SETTING = described<SettingRow>({
  key: required(choice(Object.keys(SETTING_TABLE) as SettingKey[]), 'The key'),
  value: required(NAME, 'The value, as text'),
  scope: required(choice(SETTING_SCOPES), 'What it is for'),
  resourceId: required(nullable(NAME), 'The kind or resource that it is for'),
})

const SETTINGS = object(
  {
    ...Object.fromEntries(
      Object.entries(SETTING_TABLE).map(([key, definition]) => {
        return [key, required<unknown>(settingShape(definition), definition.description)]
      }),
    ),
    isTtlConfigured: required(FLAG, 'Whether `default_ttl_seconds` was configured'),
    malformed: required(nullable(NAME), 'What is wrong in the configuration'),
  },
  'answer',
) as unknown as Shape<Settings>

function settingShape(definition: SettingDefinition): Shape<unknown> {
  if (definition.type === 'string') return choice(definition.choices)
  return definition.type === 'bool' ? FLAG : WHOLE
}

const ANYTHING: Shape<unknown> = {
  read: (value) => value,
  schema: {},
}

const ERROR = object(
  {
    code: required(choice(ERROR_CODES), 'Which error'),
    message: required(NAME, 'One line'),
    retryable: required(FLAG, 'Whether asking again may help'),
    effect: required(choice(['none', 'unknown']), 'Whether it may have happened'),
    details: required({ ...ANYTHING, schema: { type: 'object' } }, 'Facts, by name'),
  },
  'answer',
)

const LEASES = required(unlimited(LEASE_INFO), 'Leases and tickets')

export const ANSWERS = {
  get: nullable(LEASE_INFO),
  list: object(
    {
      leases: LEASES,
      more: required(FLAG, 'There are more'),
      next: optional(OPAQUE, 'The `after` of the next page'),
    },
    'answer',
  ),
  inspect: object(
    {
      resource: required(RESOURCE, 'The resource'),
      leases: required(unlimited(LEASE_INFO), 'Who holds it'),
      queue: required(unlimited(LEASE_INFO), 'Who waits, in the order in which they are served'),
      blockers: required(unlimited(BLOCKER), 'What would stand in the way of an exclusive lease'),
      cycles: required(unlimited(unlimited(STEP)), 'Requests that wait for each other'),
    },
    'answer',
  ),
  history: unlimited(HISTORY_ENTRY),
  watch: LEDGER_ENTRY,
  settingRows: unlimited(SETTING),
  settings: SETTINGS,
  acquire: ACQUIRED,
  claim: CLAIMED,
  acquireAll: ACQUIRED_ALL,
  claimAll: ACQUIRED_ALL,
  withdraw: either(
    outcomes<Withdrawn>({
      withdrawn: { released: required(FLAG, 'It had been granted already, and was released') },
    }),
    REFUSAL,
  ),
  renew: either(outcomes<Answered<'renewed'>>({ renewed: { lease: LEASE } }), REFUSAL),
  release: RELEASED,
  releaseAll: unlimited(RELEASED),
  revoke: either(outcomes<Revoked>({ revoked: { leaseId: LEASE_ID } }), REFUSAL),
  upgrade: UPGRADED,
  withdrawUpgrade: UPGRADED,
  downgrade: either(
    outcomes<ChangedAnswer<'downgraded'>>({
      downgraded: { lease: LEASE, changed: required(FLAG, 'False: it was shared already') },
    }),
    REFUSAL,
  ),
  update: either(outcomes<Answered<'updated'>>({ updated: { lease: LEASE } }), REFUSAL),
  trespass: either(outcomes<Answered<'trespassed'>>({ trespassed: { lease: LEASE } }), REFUSAL),
  transfer: either(
    outcomes<TransferredAnswer>({
      transferred: {
        lease: required(
          nullable(LEASE_INFO),
          'What the named receiver got; null: it went to the queue',
        ),
      },
    }),
    REFUSAL,
  ),
  adopt: ACQUIRED,
  derive: ACQUIRED,
  spend: either(outcomes<Answered<'spent'>>({ spent: { lease: LEASE } }), REFUSAL),
  advance: either(
    outcomes<AdvancedAnswer>({
      advanced: {
        lease: LEASE,
        from: required(COUNT, 'The first epoch that is the holder’s to use'),
        to: required(COUNT, 'The first epoch that is not'),
      },
    }),
    REFUSAL,
  ),
  revokeAll: COUNT,
  cleanup: object(
    {
      expired: required(COUNT, 'Leases that were found to have expired'),
      prunedLeases: required(COUNT, 'Leases that are no longer kept'),
      prunedEvents: required(COUNT, 'Events that are no longer kept'),
    },
    'answer',
  ),
  configure: nullable(FLAG) as unknown as Shape<null>,
  wakes: object(
    {
      session: optional(OPAQUE, 'A digest of the session; absent: of every one'),
      leaseIds: required(
        nullable(unlimited(UUID)),
        'The tickets that have an offer or were ended; null: something may have changed',
      ),
    },
    'answer',
  ),
  fleet: object(
    {
      nodes: required(unlimited(FLEET_NODE), 'Every instance of the fleet'),
      sessions: required(unlimited(FLEET_SESSION), 'The sessions that an instance owns, by id'),
    },
    'answer',
  ),
  authorize: object(
    {
      allowed: required(literal(true), 'What is not allowed is an error'),
      leaseId: LEASE_ID,
      holder: required(NAME, 'Who holds it'),
      resource: required(RESOURCE, 'What is held'),
      expiresAtMs: required(AT_MS, 'Until when the grant is good'),
    },
    'answer',
  ),
  batch: unlimited(
    object(
      {
        answer: optional(ANYTHING, 'The answer of the call'),
        error: optional(ERROR, 'Or why there is none'),
      },
      'answer',
    ),
  ),
} as const satisfies Readonly<Record<RequestName, Shape<unknown>>>

/** The type of the answer to a request. */
export type AnswerOf<Name extends RequestName> =
  (typeof ANSWERS)[Name] extends Shape<infer Value> ? Value : never

/** Reads what another process answered. */
export function readAnswer<Name extends RequestName>(name: Name, value: unknown): AnswerOf<Name> {
  return ANSWERS[name].read(value, 'answer') as AnswerOf<Name>
}
