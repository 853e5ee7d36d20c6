/**
 * The configuration keys of the store: their types, limits and defaults, and how an override for a kind or a single
 * resource beats the global value. Values are kept as text and read here, so that no store interprets them.
 */
import { invalid, isLeaseError, show } from './errors.ts'
import {
  MAX_HOLD_MS_MAX,
  MAX_RENEWALS_MAX,
  REQUEST_MEMORY_MS_MIN,
  RETENTION_DAYS_MAX,
  RENEWED_TTL_MS_DEFAULT,
  TTL_MS_MAX,
  WAIT_MS_MAX,
} from './limits.ts'
import { kindOf, type Resource } from './resource.ts'

export type SettingScope = 'global' | 'kind' | 'resource'
export const SETTING_SCOPES: readonly SettingScope[] = ['global', 'kind', 'resource']

interface IntegerSetting {
  readonly type: 'int'
  readonly initial: number
  readonly min: number
  readonly max: number
  readonly description: string
}

interface BooleanSetting {
  readonly type: 'bool'
  readonly initial: boolean
  readonly description: string
}

interface ChoiceSetting {
  readonly type: 'string'
  readonly initial: string
  readonly choices: readonly string[]
  readonly description: string
}

/** What a hook does with an edit where it cannot ask the store: denies it, or lets it through. */
export type HookOnFailure = 'closed' | 'open'

export type SettingValue = number | boolean | string

export interface SettingValues {
  readonly default_ttl_seconds: number
  readonly max_renewals: number
  readonly acquisition_timeout_ms: number
  readonly cleanup_interval_seconds: number
  readonly auto_expire_enabled: boolean
  readonly blocking_mode_enabled: boolean
  readonly keep_history: boolean
  readonly history_retention_days: number
  readonly record_renewals: boolean
  readonly max_hold_seconds: number
  readonly hook_ttl_seconds: number
  readonly hook_idle_seconds: number
  readonly hook_on_failure: HookOnFailure
}

export type SettingKey = keyof SettingValues
export type SettingDefinition = IntegerSetting | BooleanSetting | ChoiceSetting

export const SETTING_TABLE: Readonly<Record<SettingKey, SettingDefinition>> = {
  default_ttl_seconds: {
    type: 'int',
    initial: 3600,
    min: 1,
    max: TTL_MS_MAX / 1000,
    description: 'TTL of a lease that names none (30 s until configured if it renews itself)',
  },
  max_renewals: {
    type: 'int',
    initial: -1,
    min: -1,
    max: MAX_RENEWALS_MAX,
    description: 'Renewals of a lease that names no limit (-1 = unlimited)',
  },
  acquisition_timeout_ms: {
    type: 'int',
    initial: 30_000,
    min: 0,
    max: WAIT_MS_MAX,
    description: 'How long a blocking acquire waits when it does not say',
  },
  cleanup_interval_seconds: {
    type: 'int',
    initial: 300,
    min: 1,
    max: 86_400,
    description: 'Time between two background sweeps',
  },
  auto_expire_enabled: {
    type: 'bool',
    initial: true,
    description: 'Whether open processes sweep expired leases in the background',
  },
  blocking_mode_enabled: {
    type: 'bool',
    initial: true,
    description: 'Whether an acquire may wait',
  },
  keep_history: {
    type: 'bool',
    initial: true,
    description: 'Whether anything is kept beyond live leases',
  },
  history_retention_days: {
    type: 'int',
    initial: 30,
    min: 0,
    max: RETENTION_DAYS_MAX,
    description: 'How long ended leases and their history are kept',
  },
  record_renewals: {
    type: 'bool',
    initial: true,
    description: 'Whether each renewal is an event of the ledger',
  },
  max_hold_seconds: {
    type: 'int',
    initial: 86_400,
    min: 0,
    max: MAX_HOLD_MS_MAX / 1000,
    description: 'How long a client that obeys it renews a lease by itself (0 = no limit)',
  },
  hook_ttl_seconds: {
    type: 'int',
    initial: 900,
    min: 1,
    max: TTL_MS_MAX / 1000,
    description: 'TTL of a lease that the hook of a coding agent takes',
  },
  hook_idle_seconds: {
    type: 'int',
    initial: 600,
    min: 0,
    max: TTL_MS_MAX / 1000,
    description: 'How long after its last edit a hook goes on renewing the lease of a file',
  },
  hook_on_failure: {
    type: 'string',
    initial: 'closed',
    choices: ['closed', 'open'],
    description: 'Whether a hook that cannot ask the store denies an edit (closed) or not (open)',
  },
}

export const SETTING_KEYS = Object.keys(SETTING_TABLE) as readonly SettingKey[]

/** One row of configuration, as text, exactly as a store keeps it. */
export interface SettingRow {
  readonly key: SettingKey
  readonly value: string
  readonly scope: SettingScope
  /** The kind or the resource that an override is for; null for a global value. */
  readonly resourceId: string | null
}

/** What holds for one resource. `malformed` says what is wrong when the store holds nonsense. */
export interface Settings extends SettingValues {
  /** Whether `default_ttl_seconds` was configured, be it to its default, so that it holds for leases that renew themselves. */
  readonly isTtlConfigured: boolean
  readonly malformed: string | null
}

export const DEFAULT_SETTINGS: Settings = {
  ...(Object.fromEntries(
    SETTING_KEYS.map((key) => [key, SETTING_TABLE[key].initial]),
  ) as unknown as SettingValues),
  isTtlConfigured: false,
  malformed: null,
}

/** The TTL of a lease that names none. */
export function defaultTtlMs(settings: Settings, { isRenewed }: { isRenewed: boolean }): number {
  return isRenewed && !settings.isTtlConfigured
    ? RENEWED_TTL_MS_DEFAULT
    : settings.default_ttl_seconds * 1000
}

export function parseSettingKey(text: unknown): SettingKey {
  const key = SETTING_KEYS.find((candidate) => candidate === text)
  if (key === undefined) throw invalid('key', `must be one of ${SETTING_KEYS.join(', ')}`, text)
  return key
}

/** Reads a value for a key, from text or from a value of the key's own type. */
export function parseSettingValue(key: SettingKey, value: unknown): SettingValue {
  const definition = SETTING_TABLE[key]
  if (definition.type === 'bool') {
    if (value === true || value === 'true') return true
    if (value === false || value === 'false') return false
    throw invalid(key, 'must be true or false', value)
  }
  if (definition.type === 'string') {
    const choice = definition.choices.find((candidate) => candidate === value)
    if (choice !== undefined) return choice
    throw invalid(key, `must be ${definition.choices.join(' or ')}`, value)
  }
  const { min, max } = definition
  const isText = typeof value === 'string' && /^-?\d{1,15}$/.test(value)
  // Whatever is no number is no integer either.
  const integer = (isText ? Number(value) : value) as number
  if (Number.isSafeInteger(integer) && integer >= min && integer <= max) return integer
  throw invalid(key, `must be an integer ${min}..${max}`, value)
}

/** Keys about the store as a whole; for a kind or a resource of it they would mean nothing. */
const STORE_WIDE_KEYS: ReadonlySet<SettingKey> = new Set<SettingKey>([
  'cleanup_interval_seconds',
  'auto_expire_enabled',
  'history_retention_days',
])

export function refuseMeaninglessOverride(key: SettingKey, scope: SettingScope): void {
  if (scope === 'global' || !STORE_WIDE_KEYS.has(key)) return
  throw invalid('scope', `must be global for ${key}, which is about the whole store`, scope)
}

const STRENGTH: Record<SettingScope, number> = { global: 0, kind: 1, resource: 2 }

const DAY_MS = 86_400_000

/** How long what has ended is kept. The history is also the memory of requests, which lasts a day whatever the retention. */
export function retentionMs(retentionDays: SettingValues['history_retention_days']): number {
  return Math.max(retentionDays * DAY_MS, REQUEST_MEMORY_MS_MIN)
}

/** The settings for one resource, or the global ones: the narrowest row that applies wins. */
export function resolveSettings(rows: readonly SettingRow[], resource: Resource | null): Settings {
  if (rows.length === 0) return DEFAULT_SETTINGS
  const applicable = rows.filter((row) => applies(row, resource))
  const weakestFirst = applicable.toSorted((a, b) => STRENGTH[a.scope] - STRENGTH[b.scope])
  const values: Record<string, SettingValue> = {}
  let malformed: string | null = null
  let isTtlConfigured = false
  for (const row of weakestFirst) {
    try {
      const key = parseSettingKey(row.key)
      values[key] = parseSettingValue(key, row.value)
      if (key === 'default_ttl_seconds') isTtlConfigured = true
    } catch (error) {
      malformed = isLeaseError(error) ? error.message : show(error)
    }
  }
  return { ...DEFAULT_SETTINGS, ...(values as Partial<SettingValues>), isTtlConfigured, malformed }
}

function applies(row: SettingRow, resource: Resource | null): boolean {
  if (row.scope === 'global') return true
  if (resource === null) return false
  return row.resourceId === (row.scope === 'kind' ? kindOf(resource) : resource)
}
