/** Requests as `src/protocol` names them, made of a `LeaseApi`; and what became of them, as an answer or an error. */
import { LeaseError } from '../core/errors.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { refusalError, type Refusal } from '../core/outcome.ts'
import type { Resource } from '../core/resource.ts'
import type { RequestName } from '../protocol/requests.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import type { Fields } from './call.ts'

type OneCall = (request: unknown) => Promise<unknown>

/** Makes a request that is one answer; `LeaseApi` reads it. A refusal is a value here. */
export function callApi(api: LeaseApi, name: RequestName, request: Fields): Promise<unknown> {
  if (!isCall(name)) {
    throw new LeaseError('INVALID_INPUT', `call must be one with an answer, got ${name}`, {
      details: { field: 'call' },
    })
  }
  return (api[name] as OneCall)(request)
}

const NO_CALLS: ReadonlySet<string> = new Set(['watch', 'wakes', 'authorize', 'fleet', 'batch'])

function isCall(
  name: RequestName,
): name is Exclude<RequestName, 'watch' | 'wakes' | 'authorize' | 'fleet' | 'batch'> {
  return !NO_CALLS.has(name)
}

const DONE: ReadonlySet<string> = new Set([
  ...['granted', 'granted_all', 'renewed', 'released', 'revoked', 'upgraded', 'upgrading'],
  ...[
    'upgrade_withdrawn',
    'downgraded',
    'updated',
    'transferred',
    'advanced',
    'withdrawn',
    'spent',
  ],
])

interface Outcome {
  readonly kind: string
  readonly lease?: LeaseInfo | null
}

/** What came of a change, with the store's time; throws what it was refused for. */
export function doneAnswer(outcome: unknown): object {
  const { kind, ...rest } = outcome as Outcome
  if (!DONE.has(kind)) throw refusalError(outcome as Refusal)
  return withNow(rest, rest.lease === undefined || rest.lease === null ? [] : [rest.lease])
}

const UNDER_WAY: ReadonlySet<string> = new Set(['queued', 'queued_all', 'waiting', 'dropped'])

/** Why a call was refused; null for every other answer. */
export function refusalIn(answer: unknown): LeaseError | null {
  const kind =
    typeof answer === 'object' && answer !== null && 'kind' in answer ? answer.kind : null
  if (typeof kind !== 'string' || DONE.has(kind) || UNDER_WAY.has(kind)) return null
  return refusalError(answer as Refusal)
}

/** Adds the store's time, where a lease tells it: one that is active says when it ends and how long that is from now. */
export function withNow(answer: object, leases: readonly LeaseInfo[]): object {
  const active = leases.find(({ state }) => state === 'active')
  if (active === undefined || active.expiresAtMs === null) return answer
  return { ...answer, nowMs: Math.round(active.expiresAtMs - active.remainingMs) }
}

/** Every resource that a request names. */
export function resourcesOf(request: Fields): readonly Resource[] {
  const { resource, members, tickets } = request
  const parts = [members, tickets].flatMap((list) => (Array.isArray(list) ? list : []))
  const named = [resource, ...parts.map((part: Fields) => part['resource'])]
  return named.filter((one): one is Resource => typeof one === 'string')
}
