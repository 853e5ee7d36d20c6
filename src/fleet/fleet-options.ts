/** The options of a manager and of `runFleet`: their defaults, their bounds, and how they must relate to each other. */
import { invalid } from '../core/errors.ts'
import { parseFlag, parseSpanMs, refuseUnknown, requireShortText } from '../core/input.ts'
import { HOLDER_BYTES_MAX } from '../core/limits.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { FleetOptions } from './contract.ts'

export type LayoutName = 'poll' | 'lease'

export interface LeaseManagerOptions {
  /** How many milliseconds a session stays with this instance without renewal. Default 30000. */
  readonly leaseTtlMs?: number
  /** How many milliseconds this instance is taken for alive without renewal. Default 30000. */
  readonly heartbeatTtlMs?: number
  /** How often leases and heartbeat are renewed, in milliseconds; less than half of either TTL. Default 10000. */
  readonly refreshMs?: number
  /** How often the nodes are read, in milliseconds; less than the heartbeat's TTL. Default: `refreshMs`. */
  readonly discoverMs?: number
  /** A call that takes more milliseconds has failed. Default 2000, or half of `refreshMs` if that is less. */
  readonly callMs?: number
  /** This instance's share relative to the others': 0.01..100, default 1. */
  readonly weight?: number
  /** Shown to people beside the instance id, never instead of it: 1..64 bytes. Default: none. */
  readonly name?: string
  /** By which other instances know this one: 1..128 bytes. Default: a new id. Two instances with one id would both claim the sessions of either. */
  readonly instanceId?: string
  /** False: the instance receives no sessions before `setReady(true)`. Default true: ready after the first read of the nodes. */
  readonly ready?: boolean
}

export interface FleetSettings extends Required<Omit<LeaseManagerOptions, 'name'>> {
  readonly name: string | null
}

export const LEASE_TTL_MS_DEFAULT = 30_000
export const HEARTBEAT_TTL_MS_DEFAULT = 30_000
const REFRESH_MS_DEFAULT = 10_000
const CALL_TIMEOUT_MS_DEFAULT = 2_000
const SPAN_MS_MIN = 10
const SPAN_MS_MAX = 86_400_000
const WEIGHT_MIN = 0.01
const WEIGHT_MAX = 100
const NAME_BYTES_MAX = 64

export const MANAGER_OPTIONS: readonly (keyof LeaseManagerOptions)[] = [
  'leaseTtlMs',
  'heartbeatTtlMs',
  'refreshMs',
  'discoverMs',
  'callMs',
  'weight',
  'name',
  'instanceId',
  'ready',
]

export interface SettingsSource extends Birth {
  readonly runtime: Runtime
}

/** Ignores the options that `openLeaseManager` checks. */
export function readSettings(options: LeaseManagerOptions, source: SettingsSource): FleetSettings {
  const refreshMs = span('refreshMs', options.refreshMs ?? REFRESH_MS_DEFAULT)
  const callDefaultMs = Math.min(CALL_TIMEOUT_MS_DEFAULT, Math.ceil(refreshMs / 2))
  const settings: FleetSettings = {
    leaseTtlMs: span('leaseTtlMs', options.leaseTtlMs ?? LEASE_TTL_MS_DEFAULT),
    heartbeatTtlMs: span('heartbeatTtlMs', options.heartbeatTtlMs ?? HEARTBEAT_TTL_MS_DEFAULT),
    refreshMs,
    discoverMs: span('discoverMs', options.discoverMs ?? refreshMs),
    callMs: parseSpanMs(
      { field: 'callMs', min: 1, max: SPAN_MS_MAX },
      options.callMs ?? callDefaultMs,
    ),
    weight: parseWeight(options.weight ?? 1),
    name:
      options.name === undefined
        ? null
        : requireShortText({ field: 'name', bytesMax: NAME_BYTES_MAX }, options.name),
    instanceId:
      options.instanceId === undefined
        ? newInstanceId(source.runtime, source)
        : parseInstanceId(options.instanceId),
    ready: parseFlag('ready', options.ready ?? true),
  }
  checkRelations(settings)
  return settings
}

/** After a renewal that failed there must be time for another before the TTL is over. */
function checkRelations(settings: FleetSettings): void {
  const { leaseTtlMs, heartbeatTtlMs, refreshMs, discoverMs, callMs } = settings
  requireMore('leaseTtlMs', leaseTtlMs, { than: 2 * refreshMs, meaning: 'twice refreshMs' })
  requireMore('heartbeatTtlMs', heartbeatTtlMs, { than: 2 * refreshMs, meaning: 'twice refreshMs' })
  requireMore('heartbeatTtlMs', heartbeatTtlMs, { than: discoverMs, meaning: 'discoverMs' })
  requireMore('leaseTtlMs', leaseTtlMs, {
    than: refreshMs + callMs,
    meaning: 'refreshMs and callMs together',
  })
}

function requireMore(
  field: string,
  value: number,
  { than, meaning }: { readonly than: number; readonly meaning: string },
): void {
  if (value <= than) throw invalid(field, `must be more than ${meaning} (${than})`, value)
}

function span(field: string, value: unknown): number {
  return parseSpanMs({ field, min: SPAN_MS_MIN, max: SPAN_MS_MAX }, value)
}

export function parseWeight(value: unknown): number {
  if (typeof value === 'number' && value >= WEIGHT_MIN && value <= WEIGHT_MAX) return value
  throw invalid('weight', `must be a number ${WEIGHT_MIN}..${WEIGHT_MAX}`, value)
}

/*
 * Instance ids: `{hostname}-{bootTimestamp}-{randomSuffix}`, one for each incarnation. The time is that of the start of
 * the process, in nanoseconds, and each manager draws a new suffix, so that neither a restarted process nor a second
 * manager in one process is taken for the same instance.
 */
const HOST_LENGTH_MAX = 64
const INSTANCE_ID_PATTERN = /^[A-Za-z0-9._-]+-\d{1,19}-[0-9a-f]{8}$/
const EXPECTATION = 'must be {hostname}-{bootTimestamp in ns}-{8 hex digits}'

/** Where and when an instance started. */
export interface Birth {
  readonly host: string
  /** Wall time at the start of the process. */
  readonly startedAtMs: number
}

export function newInstanceId(runtime: Runtime, { host, startedAtMs }: Birth): string {
  // A host name may contain anything; characters that are special in a key or a pattern are replaced.
  const name = host.replaceAll(/[^A-Za-z0-9._-]/g, '_').slice(0, HOST_LENGTH_MAX) || 'host'
  const bootUs = Math.round(startedAtMs * 1000)
  const suffix = runtime.uuid().replaceAll('-', '').slice(-8)
  return `${name}-${BigInt(bootUs) * 1000n}-${suffix}`
}

export function parseInstanceId(value: unknown, field = 'instanceId'): string {
  const id = requireShortText({ field, bytesMax: HOLDER_BYTES_MAX }, value)
  if (INSTANCE_ID_PATTERN.test(id)) return id
  throw invalid(field, EXPECTATION, id)
}

export type ReadFleetOptions = Required<FleetOptions>

const INTERVAL_MS_DEFAULT = 1_000
const POLL_TIMEOUT_MS_DEFAULT = 30_000
const STOP_TIMEOUT_MS_DEFAULT = 1_000

export function readFleetOptions(options: FleetOptions): ReadFleetOptions {
  refuseUnknown(options, ['poll', 'intervalMs', 'pollTimeoutMs', 'stopTimeoutMs'])
  if (typeof options?.poll !== 'function')
    throw invalid('poll', 'must be a function', options?.poll)
  const spanOf = (field: keyof ReadFleetOptions, value: unknown): number =>
    parseSpanMs({ field, min: 1, max: SPAN_MS_MAX }, value)
  return {
    poll: options.poll,
    intervalMs: spanOf('intervalMs', options.intervalMs ?? INTERVAL_MS_DEFAULT),
    pollTimeoutMs: spanOf('pollTimeoutMs', options.pollTimeoutMs ?? POLL_TIMEOUT_MS_DEFAULT),
    stopTimeoutMs: spanOf('stopTimeoutMs', options.stopTimeoutMs ?? STOP_TIMEOUT_MS_DEFAULT),
  }
}
