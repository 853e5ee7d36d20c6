/** The options of a fleet: their defaults, their limits, and how they must relate to each other. */
import { invalid } from '../core/errors.ts'
import { parseSpanMs } from '../core/input.ts'
import { requireShortText } from '../core/text.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { newInstanceId, parseInstanceId, type Birth } from './instance-id.ts'

export type LayoutName = 'poll' | 'lease'

export interface LeaseManagerOptions {
  /** Default 30000. */
  readonly leaseTtlMs?: number
  /** Default 30000. */
  readonly heartbeatTtlMs?: number
  /** How often leases and heartbeat are renewed; less than half of either TTL. Default 10000. */
  readonly refreshMs?: number
  /** How often the nodes are read; less than the heartbeat's TTL. Default: `refreshMs`. */
  readonly discoverMs?: number
  /** A call that takes longer has failed. Default 2000, or half of `refreshMs` if that is less. */
  readonly callMs?: number
  /** This instance's share relative to the others': 0.01..100, default 1. */
  readonly weight?: number
  /** Shown to people beside the instance id, never instead of it: 1..64 bytes. */
  readonly name?: string
  /** Default: a new one. Two instances with one id would both believe to own what one of them does. */
  readonly instanceId?: string
  /** False: the instance is not given anything before `setReady(true)`. Default true: ready with its first view. */
  readonly ready?: boolean
}

export interface FleetSettings {
  readonly leaseTtlMs: number
  readonly heartbeatTtlMs: number
  readonly refreshMs: number
  readonly discoverMs: number
  readonly callMs: number
  readonly weight: number
  readonly name: string | null
  readonly instanceId: string
  readonly ready: boolean
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

/** Whatever else is among the options is for whoever opens the layout, and checked there. */
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
    name: options.name === undefined ? null : parseName(options.name),
    instanceId:
      options.instanceId === undefined
        ? newInstanceId(source.runtime, source)
        : parseInstanceId(options.instanceId),
    ready: parseFlag('ready', options.ready ?? true),
  }
  checkRelations(settings)
  return settings
}

/** A renewal that fails must leave time for another before the TTL is over. */
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

function parseName(value: unknown): string {
  return requireShortText({ field: 'name', bytesMax: NAME_BYTES_MAX }, value)
}

export function parseFlag(field: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value
  throw invalid(field, 'must be true or false', value)
}
