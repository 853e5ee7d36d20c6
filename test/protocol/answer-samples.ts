/** Answers that have every field that they can have, with the types of the core: what a server of any version may send. */
import type { Blocker } from '../../src/core/conflict.ts'
import type { Delegation } from '../../src/core/delegation.ts'
import type { LeaseEvent } from '../../src/core/event.ts'
import type { CycleStep, LeaseInfo } from '../../src/core/lease.ts'
import type { Refusal } from '../../src/core/outcome.ts'
import { parseResource } from '../../src/core/resource.ts'
import { UNLIMITED_SCOPE } from '../../src/core/scope.ts'
import { DEFAULT_SETTINGS } from '../../src/core/settings.ts'
import type { AnswerOf } from '../../src/protocol/answers.ts'
import type { RequestName } from '../../src/protocol/requests.ts'
import { id } from '../core/builders.ts'

const WHO = { holder: 'ann', session: 'a digest' }
const WORDS = { reason: 'a reason', metadata: { ticket: 'T-1', size: 2.5, isLast: true } }
const RESOURCE = parseResource('file:/src')

const DELEGATION: Required<Delegation> = {
  line: [id(1)],
  rootFence: 3,
  rootMode: 'shared',
  scope: UNLIMITED_SCOPE,
  limits: { tokens: 10 },
  audience: 'ci',
  used: { tokens: 4 },
  children: [id(3)],
}

export const LEASE: Required<LeaseInfo> = {
  id: id(2),
  resource: RESOURCE,
  mode: 'shared',
  extent: 'subtree',
  ...WHO,
  ...WORDS,
  state: 'active',
  fence: 4,
  ttlMs: 30_000,
  createdAtMs: 1,
  grantedAtMs: 2,
  renewedAtMs: 3,
  changedAtMs: 4,
  expiresAtMs: 30_003,
  terminatedAtMs: 5,
  deadline: { domain: 'boot', us: 7.5 },
  remainingMs: 29_000.5,
  renewals: 1,
  maxRenewals: -1,
  maxHoldMs: 60_000,
  slots: 2,
  lockDelayMs: 10,
  breakable: true,
  revoking: { by: 'operator', reason: 'deploy' },
  upgrading: false,
  epoch: 12,
  adopted: true,
  group: id(9),
  priority: -5,
  releaseReason: 'voluntary',
  parentId: id(1),
  depth: 1,
  scope: UNLIMITED_SCOPE,
  budget: { tokens: 10 },
  budgetLeft: { tokens: 6 },
  delegation: DELEGATION,
  tokenName: 'ci',
}

export const BLOCKER: Blocker = {
  kind: 'lease',
  leaseId: id(4),
  resource: RESOURCE,
  ...WHO,
  ...WORDS,
  mode: 'exclusive',
  extent: 'exact',
  slots: 2,
  fence: 3,
  sinceMs: 1,
  expiresAtMs: 9,
  remainingMs: 7.5,
}

const STEP: CycleStep = { ...WHO, resource: RESOURCE, implied: true }
const ONE = { leaseId: id(2) }
const SHORTAGE = { dimension: 'tokens', asked: 5, left: 2.5 } as const

const REFUSALS: readonly Refusal[] = [
  {
    kind: 'held',
    resource: RESOURCE,
    blockers: [BLOCKER],
    retryAfterMs: 7.5,
    notWaiting: 'own_transfer',
    difference: 'its mode',
  },
  { kind: 'not_found', ...ONE },
  { kind: 'not_holder', ...ONE, holder: 'bob' },
  {
    kind: 'terminal',
    ...ONE,
    state: 'revoked',
    releaseReason: 'transferred',
    revokedBy: 'operator',
    revokedFor: 'deploy',
    revokedAtMs: 3,
  },
  { kind: 'expired', ...ONE, terminatedAtMs: 3 },
  { kind: 'id_taken', ...ONE, resource: RESOURCE },
  { kind: 'request_reused', ...ONE },
  { kind: 'renewal_limit', ...ONE, limit: 'its maxRenewals of 3', parentId: id(1) },
  { kind: 'does_not_extend', ...ONE, expiresAtMs: 9 },
  { kind: 'deadlock', ...ONE, cycle: [STEP] },
  { kind: 'stale_epoch', ...ONE, from: 3, epoch: 4 },
  { kind: 'no_epoch', ...ONE, why: 'it is shared' },
  { kind: 'nobody_waiting', ...ONE },
  { kind: 'already_adopted', ...ONE },
  { kind: 'queue_full', resource: RESOURCE, limit: 10 },
  { kind: 'malformed_setting', problem: 'max_renewals is no number' },
  { kind: 'invalid_derivation', ...ONE, problem: 'its budget', shortage: SHORTAGE },
  { kind: 'budget_exhausted', ...ONE, ...SHORTAGE },
  { kind: 'look_further', unseen: [{ ...ONE, resource: RESOURCE }] },
]

type FleetAnswer = AnswerOf<'fleet'>

export const NODE: FleetAnswer['nodes'][number] = {
  instanceId: 'i-1',
  name: 'one',
  state: 'ready',
  isForeign: false,
  weight: 1.5,
  sessions: 2,
}

export const SESSION: FleetAnswer['sessions'][number] = {
  sessionId: 's-1',
  ownerId: 'i-1',
  preferredOwnerId: 'i-2',
  state: 'owned',
  lastRenewedAtMs: 1.5,
  remainingMs: 2.5,
}

const EVENT: LeaseEvent = {
  type: 'lease.downgraded',
  ...ONE,
  resource: RESOURCE,
  ...WHO,
  atMs: 5,
  before: 'active',
  after: 'active',
  renewals: 1,
  reason: 'a reason',
  requestId: id(8),
}

const TIMES = { waitMs: 60_000, waitedMs: 1.5, keepAliveMs: 1_666.5, checkAfterMs: 500.5 }

type Samples = { readonly [Name in RequestName]?: readonly AnswerOf<Name>[] }

const BY_REQUEST: Samples = {
  get: [LEASE],
  list: [{ leases: [LEASE], more: true, next: '12' }],
  inspect: [
    { resource: RESOURCE, leases: [LEASE], queue: [LEASE], blockers: [BLOCKER], cycles: [[STEP]] },
  ],
  history: [[{ position: '12', event: EVENT, count: 2 }]],
  watch: [{ position: '12', event: EVENT }],
  settings: [{ ...DEFAULT_SETTINGS, malformed: 'max_renewals is no number' }],
  settingRows: [[{ key: 'max_renewals', value: '5', scope: 'kind', resourceId: 'work' }]],
  acquire: [
    { kind: 'granted', lease: LEASE, repeated: true },
    { kind: 'queued', ...ONE, position: 2, orderUs: -7.5, blockers: [BLOCKER], ...TIMES },
    ...REFUSALS,
  ],
  acquireAll: [
    { kind: 'granted_all', leases: [LEASE], repeated: false },
    { kind: 'queued_all', leaseIds: [id(2)], blockers: [BLOCKER], ...TIMES },
    { kind: 'dropped', ...ONE },
  ],
  claim: [
    { kind: 'waiting', ...ONE, waitedMs: 1.5, keepAliveMs: 2.5 },
    { kind: 'dropped', ...ONE },
    { kind: 'granted', lease: LEASE, repeated: true },
  ],
  withdraw: [{ kind: 'withdrawn', released: true }],
  renew: [{ kind: 'renewed', lease: LEASE }],
  release: [{ kind: 'released', lease: LEASE }],
  revoke: [{ kind: 'revoked', ...ONE }],
  upgrade: [
    { kind: 'upgraded', lease: LEASE, changed: true },
    { kind: 'upgrading', ...ONE, blockers: [BLOCKER], checkAfterMs: 5.5 },
  ],
  withdrawUpgrade: [{ kind: 'upgrade_withdrawn', ...ONE }],
  downgrade: [{ kind: 'downgraded', lease: LEASE, changed: false }],
  update: [{ kind: 'updated', lease: LEASE }],
  trespass: [{ kind: 'trespassed', lease: LEASE }],
  transfer: [{ kind: 'transferred', lease: LEASE }],
  spend: [{ kind: 'spent', lease: LEASE }],
  advance: [{ kind: 'advanced', lease: LEASE, from: 3, to: 5 }],
  revokeAll: [3],
  cleanup: [{ expired: 1, prunedLeases: 2, prunedEvents: 3 }],
  wakes: [{ session: 'a digest', leaseIds: [id(2)] }],
  fleet: [{ nodes: [NODE], sessions: [SESSION] }],
  authorize: [{ allowed: true, ...ONE, holder: 'ann', resource: RESOURCE, expiresAtMs: 9 }],
}

interface Sample {
  readonly name: RequestName
  /** Of what kind the answer is, if there are several. */
  readonly kind: string
  readonly answer: unknown
}

export const ANSWER_SAMPLES: readonly Sample[] = Object.entries(BY_REQUEST).flatMap(
  ([name, answers]) => {
    return answers.map((answer): Sample => {
      const isKinded = typeof answer === 'object' && answer !== null && 'kind' in answer
      const kind = isKinded ? answer.kind : 'all it has'
      return { name: name as RequestName, kind, answer }
    })
  },
)
