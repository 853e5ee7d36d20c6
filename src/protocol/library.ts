/**
 * The options of the library's methods: the fields of the requests that callers may name, and what never leaves the
 * process. `src/client/options.ts` and the tables of docs/library.md are written from it by `npm run protocol`.
 */
import { invalid } from '../core/errors.ts'
import { parseWaitMs } from '../core/input.ts'
import { parseReleaseReason, RELEASE_REASONS } from '../core/lease.ts'
import { UNDER_MAX, WAIT_MS_MAX } from '../core/limits.ts'
import { CHANGES } from './changes.ts'
import { QUESTIONS } from './questions.ts'
import {
  choice,
  FLAG,
  integer,
  object,
  optional,
  required,
  reworded,
  UUID,
  WORDS,
  METADATA,
  nullable,
  type Field,
  type Fields,
  type Shape,
} from './shape.ts'

const ACQUIRE = CHANGES.acquire.fields
const DERIVE = CHANGES.derive.fields
const LIST = QUESTIONS.list.fields
const HISTORY = QUESTIONS.history.fields
const WATCH = QUESTIONS.watch.fields

/** Null is as good as left out, although the type does not say so. */
function orNull<Value>(shape: Shape<Value>): Shape<Value> {
  return { ...shape, read: nullable(shape).read as Shape<Value>['read'] }
}

/** What only the process of the caller can have: it has a type, and no JSON. */
function local(type: string): Shape<unknown> {
  return { read: (value) => value, schema: {}, type }
}

const ABORT_SIGNAL: Shape<AbortSignal> = {
  type: 'AbortSignal',
  schema: {},
  read: (value, name) => {
    if (value instanceof AbortSignal) return value
    throw invalid(name, 'must be an AbortSignal', value)
  },
}

/** As callers spell it: the client resolves paths, and reads it then. */
const SPELT = local('string')

/** `Infinity` is a number of the language and not of JSON: only this process waits for so long. */
const WAIT: Shape<number> = {
  ...integer(0, WAIT_MS_MAX, 'ms'),
  read: (value) => parseWaitMs(value),
}

const WAIT_MS = optional(WAIT, 'How long to wait for the resource', {
  default: { words: 'the configured `acquisition_timeout_ms`' },
  more: '0: not at all; `Infinity`: until it is granted or cancelled. The wait ends exactly then, whatever call is under way; only for its first answer the store always has a second. A wait that is named here also covers a store that is away: it is asked again until the time is over, and then the error is `STORE_UNAVAILABLE` if every call failed, else `WAIT_TIMEOUT`, also when a call was still under way.',
})
const SIGNAL = optional(
  ABORT_SIGNAL,
  'Cancels the wait (`ABORTED`); has no effect once the lease is granted',
)
const AUTO_RENEW = optional(FLAG, 'False: the lease is not renewed unless `renew()` is called', {
  default: { value: true },
})
const REASON = optional(orNull(WORDS), 'Shown to blocked requests', {
  more: '1 KiB together with `metadata`.',
})
const METADATA_FIELD = optional(orNull(METADATA), ACQUIRE.metadata.says)
const WHY = optional(orNull(WORDS), 'Kept in the history; by default it says who did it')
const OF_RESOURCE = optional(SPELT, LIST.resource.says)
const MODE = typed(ACQUIRE.mode, 'Mode')
const EXTENT = reworded(typed(ACQUIRE.extent, 'Extent'), ACQUIRE.extent.says, {
  default: { value: 'exact' },
  more: 'Only tree kinds (`file:`) have subtrees. It is `exact` however the name is spelt: a trailing slash means a subtree on the command line only.',
})
const TYPES = typed(HISTORY.types, 'readonly LeaseEventType[]')
const AFTER = typed(HISTORY.after, 'Position')

/** What a client says of itself in every acquire, and callers do not. */
const {
  id: _id,
  resource: _resource,
  holder: _holder,
  session: _session,
  isRenewed: _isRenewed,
  claimWindowMs: _claimWindowMs,
  sequential: _sequential,
  behindOwn: _behindOwn,
  tokenName: _tokenName,
  ...ACQUIRE_OPTIONS
} = ACQUIRE

export const LIBRARY_OPTIONS = {
  AcquireOptions: options(
    'Of `acquire` and `withLease`. `tryAcquire` takes all but `waitMs`, `signal` and `breakGraceMs`; `acquireAll`, and `withLease` for several, all but `mode`, `extent`, `slots`, `leaseId`, `scope` and `budget`.',
    {
      ...ACQUIRE_OPTIONS,
      ttlMs: reworded(ACQUIRE.ttlMs, ACQUIRE.ttlMs.says, {
        default: {
          words:
            'the configured `default_ttl_seconds`; where none is configured 30 s, or with `autoRenew: false` one hour',
        },
      }),
      waitMs: WAIT_MS,
      mode: MODE,
      extent: EXTENT,
      reason: REASON,
      metadata: METADATA_FIELD,
      under: optional(
        local('readonly (Lease | LeaseId)[]'),
        `Leases of this client, or their ids, that cannot be released before this request ends, at most ${UNDER_MAX}`,
        {
          default: {
            words:
              'the leases of the `withLease` calls that this call is made inside of, and outside of any what follows from a standstill of the client; `[]`: none',
          },
          more: ACQUIRE.under.more ?? '',
        },
      ),
      autoRenew: AUTO_RENEW,
      signal: SIGNAL,
      leaseId: optional(
        UUID,
        'Chosen by the caller to make a retry of a whole acquire recognisable: if the lease exists and is still held, it is returned, with no more than what is left of it',
        { default: { words: 'a new UUID' } },
      ),
    },
  ),
  Wanted: options(
    'One of several resources that are acquired together, where a name is not enough.',
    {
      resource: required(SPELT, 'Its name'),
      mode: MODE,
      extent: EXTENT,
    },
  ),
  RenewOptions: options('Of `lease.renew` and `set.renew`.', {
    ttlMs: CHANGES.renew.fields.ttlMs,
  }),
  SpendOptions: options('Of `lease.spend`.', {
    requestId: optional(
      UUID,
      'A UUID of the caller’s own, such as that of its tool call: under one id amounts are spent once, however often',
    ),
  }),
  AdvanceOptions: options('Of `lease.advance`.', {
    count: CHANGES.advance.fields.count,
    reason: optional(orNull(WORDS), 'Kept in the history'),
  }),
  DeriveOptions: options('Of `lease.derive`.', {
    holder: DERIVE.holder,
    session: optional(DERIVE.session.shape, 'Where that holder hears of what others do to it', {
      default: { words: 'this client’s own' },
      more: 'Name the session of another process to let it take the lease over with `adopt`.',
    }),
    resource: optional(SPELT, DERIVE.resource.says, {
      default: { words: 'the parent’s own, shared with the others that are derived so' },
    }),
    extent: typed(DERIVE.extent, 'Extent'),
    mode: typed(DERIVE.mode, 'Mode'),
    ttlMs: DERIVE.ttlMs,
    scope: DERIVE.scope,
    budget: DERIVE.budget,
    reason: REASON,
    audience: DERIVE.audience,
    autoRenew: AUTO_RENEW,
  }),
  UpgradeOptions: options('Of `lease.upgrade`.', {
    waitMs: reworded(WAIT_MS, 'How long to wait for the others to leave', {
      default: { words: 'the configured `acquisition_timeout_ms`' },
    }),
    signal: reworded(SIGNAL, 'Takes the request back (`ABORTED`)'),
  }),
  AdoptOptions: options('Of `adopt`.', { autoRenew: AUTO_RENEW }),
  ReleaseOptions: options('Of `lease.release` and `set.release`.', {
    reason: optional(
      typedShape(choice(RELEASE_REASONS, parseReleaseReason), 'ReleaseReason'),
      'Why the lease ends',
      { default: { value: 'voluntary' } },
    ),
    metadata: optional(
      METADATA,
      'A note for the next holder of the resource (`previous()`), such as the last tick of a job',
      { default: { words: 'what it has' } },
    ),
  }),
  UpdateOptions: options('Of `lease.update` and `set.update`.', {
    reason: reworded(REASON, 'Shown to blocked requests', { default: { words: 'as it is' } }),
    metadata: reworded(METADATA_FIELD, 'In place of what it has', {
      default: { words: 'as it is' },
    }),
  }),
  ListOptions: options('Of `list`, and but for `limit` of `listAll`.', {
    resource: OF_RESOURCE,
    holder: LIST.holder,
    session: LIST.session,
    state: typed(LIST.state, 'EntryState'),
    limit: LIST.limit,
  }),
  HistoryOptions: options('Of `history`.', {
    leaseId: HISTORY.id,
    resource: OF_RESOURCE,
    holder: HISTORY.holder,
    types: TYPES,
    fromMs: HISTORY.fromMs,
    toMs: HISTORY.toMs,
    after: AFTER,
    unbroken: HISTORY.unbroken,
    newestFirst: HISTORY.newestFirst,
    refusals: HISTORY.refusals,
    limit: HISTORY.limit,
  }),
  WatchOptions: options('Of `watch`.', {
    resource: OF_RESOURCE,
    holder: WATCH.holder,
    types: TYPES,
    after: typed(WATCH.after, 'Position'),
    signal: reworded(SIGNAL, 'Ends the watch'),
  }),
  ReasonOptions: options('Of `releaseAll` and `revoke`.', { reason: WHY }),
  RevokeOptions: options('Of `revoke`.', { reason: WHY, graceMs: CHANGES.revoke.fields.graceMs }),
  SettingOptions: options('Of `config`.', {
    for: optional(SPELT, 'A kind (`work`) or a resource (`work:W-17`) whose value is meant', {
      default: { words: 'the global one' },
    }),
  }),
}

export type OptionsName = keyof typeof LIBRARY_OPTIONS

const OF_A_WAIT = ['waitMs', 'signal', 'breakGraceMs'] as const
const OF_ONE_RESOURCE = ['mode', 'extent', 'slots', 'leaseId', 'scope', 'budget'] as const

/** What the methods take, by the names of its types. */
export const OPTION_SHAPES: ReadonlyMap<OptionShapeName, Shape<unknown>> = new Map([
  ...Object.entries(LIBRARY_OPTIONS).map(([name, { fields }]) => {
    return [name as OptionShapeName, object(fields)] as const
  }),
  ['TryAcquireOptions', object(acquireWithout(OF_A_WAIT))],
  ['AcquireAllOptions', object(acquireWithout(OF_ONE_RESOURCE))],
])

export type OptionShapeName = OptionsName | 'TryAcquireOptions' | 'AcquireAllOptions'

function acquireWithout(left: readonly string[]): Fields {
  const fields = Object.entries(LIBRARY_OPTIONS.AcquireOptions.fields)
  return Object.fromEntries(fields.filter(([name]) => !left.includes(name)))
}

/** The options of an acquire that the client sends on as they are: those that are fields of the request. */
export const SENT_OPTIONS = (
  Object.keys(ACQUIRE_OPTIONS) as (keyof typeof ACQUIRE_OPTIONS)[]
).filter((name) => name !== 'waitMs' && name !== 'under')

function options<const Described extends Fields>(
  says: string,
  fields: Described,
): { readonly says: string; readonly fields: Described } {
  return { says, fields }
}

/** The same field under the name that its type has in the library. */
function typed<Of extends Field<unknown, boolean>>(field: Of, type: string): Of {
  return { ...field, shape: typedShape(field.shape, type) }
}

function typedShape<Value>(shape: Shape<Value>, type: string): Shape<Value> {
  return { ...shape, type }
}
