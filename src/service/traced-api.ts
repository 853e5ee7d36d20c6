/**
 * Publishes every call of a `LeaseApi` on a tracing channel of Node's `diagnostics_channel` (`tenure:acquire`,
 * `tenure:renew` and so on), for programs that measure or log what Tenure does. A call without a subscriber costs one
 * look at its channel.
 *
 * What is published names the lease, the resource and the holder, never the session: that is a secret of its client.
 */
import { tracingChannel, type TracingChannel } from 'node:diagnostics_channel'
import type { LeaseApi } from './lease-api.ts'

type CallName = Exclude<keyof LeaseApi, 'store'>

/** The message of a call; Node adds `result` or `error` once there is one. */
export interface CallTrace {
  readonly call: CallName
  /** The URL of the store, without its password. */
  readonly store: string
  readonly leaseId?: string
  readonly resource?: string | null
  readonly holder?: string
  readonly result?: unknown
  readonly error?: unknown
}

type Subject = Pick<CallTrace, 'leaseId' | 'resource' | 'holder'>

/** Every call, and whether its request names what it is about. */
const CALLS: Readonly<Record<CallName, 'named' | 'unnamed'>> = {
  acquire: 'named',
  claim: 'named',
  acquireAll: 'named',
  claimAll: 'unnamed',
  withdraw: 'named',
  renew: 'named',
  release: 'named',
  releaseAll: 'named',
  revoke: 'named',
  upgrade: 'named',
  withdrawUpgrade: 'named',
  downgrade: 'named',
  update: 'named',
  trespass: 'named',
  transfer: 'named',
  adopt: 'named',
  derive: 'named',
  spend: 'named',
  advance: 'named',
  revokeAll: 'named',
  get: 'named',
  list: 'named',
  inspect: 'named',
  history: 'named',
  watch: 'named',
  cleanup: 'unnamed',
  settingRows: 'unnamed',
  settings: 'named',
  configure: 'unnamed',
  onWake: 'unnamed',
  standBy: 'unnamed',
  close: 'unnamed',
}

export const CALL_NAMES: readonly CallName[] = Object.keys(CALLS) as CallName[]

/** These answer at once; whatever comes of them later belongs to no call. */
const AT_ONCE: ReadonlySet<CallName> = new Set<CallName>(['watch', 'standBy'])

type AnyCall = (...args: readonly unknown[]) => unknown

const channels = new Map<CallName, TracingChannel>()

/** Made when a call is first made: a command that makes two calls does not pay for the channels of all. */
function channelOf(call: CallName): TracingChannel {
  const known = channels.get(call)
  if (known !== undefined) return known
  const made = tracingChannel(`tenure:${call}`)
  channels.set(call, made)
  return made
}

export function tracedApi(api: LeaseApi): LeaseApi {
  const own = CALL_NAMES.filter((name) => api[name] !== undefined)
  const calls = own.map((name) => [name, tracedCall(api, name)])
  return { store: api.store, ...Object.fromEntries(calls) } as LeaseApi
}

function tracedCall(api: LeaseApi, call: CallName): AnyCall {
  const untraced = (api[call] as AnyCall).bind(api)
  let channel: TracingChannel | null = null
  return (...args) => {
    channel ??= channelOf(call)
    if (!channel.hasSubscribers) return untraced(...args)
    const trace: CallTrace = { call, store: api.store.url, ...subjectOf(call, args[0]) }
    const make = (): unknown => untraced(...args)
    if (AT_ONCE.has(call)) return channel.traceSync(make, trace)
    return channel.tracePromise(make as () => Promise<unknown>, trace)
  }
}

function subjectOf(call: CallName, request: unknown): Subject {
  if (CALLS[call] === 'unnamed' || typeof request !== 'object' || request === null) return {}
  const { id, resource, holder } = request as Omit<Subject, 'leaseId'> & { readonly id?: string }
  return {
    ...(id === undefined ? {} : { leaseId: id }),
    ...(resource === undefined ? {} : { resource }),
    ...(holder === undefined ? {} : { holder }),
  }
}
