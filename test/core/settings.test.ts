import { describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import {
  DEFAULT_SETTINGS,
  defaultTtlMs,
  parseSettingKey,
  parseSettingValue,
  refuseMeaninglessOverride,
  resolveSettings,
  retentionMs,
  SETTING_KEYS,
  SETTING_TABLE,
  type SettingKey,
  type SettingRow,
} from '../../src/core/settings.ts'

const W1 = parseResource('work:W-1')
const W2 = parseResource('work:W-2')
const FILE = parseResource('file:/a')

function row(key: string, value: string, target: Partial<SettingRow> = {}): SettingRow {
  return { key: key as SettingKey, value, scope: 'global', resourceId: null, ...target }
}

describe('the settings', () => {
  it('have the defaults of the file-leasing design', () => {
    expect(DEFAULT_SETTINGS).toMatchObject({
      ...{ default_ttl_seconds: 3600, max_renewals: -1, acquisition_timeout_ms: 30_000 },
      ...{ cleanup_interval_seconds: 300, auto_expire_enabled: true, keep_history: true },
      ...{ blocking_mode_enabled: true, history_retention_days: 30, malformed: null },
      ...{ record_renewals: true, max_hold_seconds: 86_400, hook_on_failure: 'closed' },
    })
  })

  it('say in a sentence what they are', () => {
    for (const key of SETTING_KEYS) expect(SETTING_TABLE[key].description).toMatch(/^[A-Z].{15,}/)
  })

  it('say of what type their values are', () => {
    const types = { number: 'int', boolean: 'bool', string: 'string' } as const
    for (const key of SETTING_KEYS) {
      const { type, initial } = SETTING_TABLE[key]
      expect(type).toBe(types[typeof initial as keyof typeof types])
    }
  })

  it('are the defaults where nobody set anything, and nothing is made for them', () => {
    expect(resolveSettings([], W1)).toBe(DEFAULT_SETTINGS)
    expect(resolveSettings([], null)).toBe(DEFAULT_SETTINGS)
  })

  it('are the narrowest row that applies, in whatever order the rows come', () => {
    const global = row('default_ttl_seconds', '10')
    const kind = row('default_ttl_seconds', '20', { scope: 'kind', resourceId: 'work' })
    const one = row('default_ttl_seconds', '30', { scope: 'resource', resourceId: 'work:W-1' })
    for (const rows of [
      [global, kind, one],
      [one, kind, global],
      [kind, one, global],
    ]) {
      const ttl = [W1, W2, FILE, null].map((target) => {
        return resolveSettings(rows, target).default_ttl_seconds
      })
      expect(ttl).toEqual([30, 20, 10, 10])
    }
  })

  it('of a kind leave other keys alone', () => {
    const kind = row('keep_history', 'false', { scope: 'kind', resourceId: 'file' })
    expect(resolveSettings([kind], FILE)).toEqual({ ...DEFAULT_SETTINGS, keep_history: false })
    expect(resolveSettings([kind], W1)).toEqual(DEFAULT_SETTINGS)
  })
})

describe('a value', () => {
  it.each([
    ['default_ttl_seconds', '1', 1],
    ['default_ttl_seconds', 2_592_000, 2_592_000],
    ['max_renewals', '-1', -1],
    ['history_retention_days', '0', 0],
    ['keep_history', 'false', false],
    ['keep_history', false, false],
    ['keep_history', 'true', true],
    ['keep_history', true, true],
    ['hook_ttl_seconds', '900', 900],
    ['hook_on_failure', 'open', 'open'],
  ] as const)('%s may be %s', (key, text, value) => {
    expect(parseSettingValue(key, text)).toBe(value)
  })

  it.each([
    ['default_ttl_seconds', '0', 'must be an integer 1..2592000, got "0"'],
    ['default_ttl_seconds', '2592001', 'got "2592001"'],
    ['default_ttl_seconds', '1e3', 'got "1e3"'],
    ['default_ttl_seconds', '5s', 'got "5s"'],
    ['default_ttl_seconds', ' 5', 'got " 5"'],
    ['default_ttl_seconds', '', 'got ""'],
    ['default_ttl_seconds', '0x10', 'got "0x10"'],
    ['default_ttl_seconds', 1.5, 'got 1.5'],
    ['default_ttl_seconds', Number.NaN, 'got NaN'],
    ['default_ttl_seconds', true, 'got true'],
    ['default_ttl_seconds', '9999999999999999', 'got "9999999999999999"'],
    ['default_ttl_seconds', ['5'], 'got an array'],
    ['max_hold_seconds', 31_536_001, 'must be an integer 0..31536000, got 31536001'],
    ['hook_ttl_seconds', 2_592_001, 'must be an integer 1..2592000, got 2592001'],
    ['hook_idle_seconds', 2_592_001, 'must be an integer 0..2592000, got 2592001'],
    ['max_renewals', '-2', 'must be an integer -1..2147483647, got "-2"'],
    ['cleanup_interval_seconds', '0', 'must be an integer 1..86400'],
    ['keep_history', 'yes', 'must be true or false, got "yes"'],
    ['keep_history', 1, 'must be true or false, got 1'],
    ['keep_history', 'TRUE', 'must be true or false'],
    ['hook_on_failure', 'Open', 'must be closed or open, got "Open"'],
    ['hook_on_failure', true, 'must be closed or open, got true'],
  ] as const)('%s may not be %s', (key, value, message) => {
    expect(() => parseSettingValue(key, value)).toThrow(
      expect.objectContaining({
        code: 'INVALID_INPUT',
        message: expect.stringContaining(message),
        details: expect.objectContaining({ field: key }),
      }),
    )
  })

  it.each(['cleanup_interval_seconds', 'auto_expire_enabled', 'history_retention_days'] as const)(
    '%s is of the whole store',
    (key) => {
      expect(() => refuseMeaninglessOverride(key, 'global')).not.toThrow()
      for (const scope of ['kind', 'resource'] as const) {
        const message = `scope must be global for ${key}, which is about the whole store, got "${scope}"`
        expect(() => refuseMeaninglessOverride(key, scope)).toThrow(message)
        expect(() => refuseMeaninglessOverride('max_renewals', scope)).not.toThrow()
      }
    },
  )

  it('of a TTL holds for leases that renew themselves once it was configured', () => {
    const configured = resolveSettings([row('default_ttl_seconds', '9')], W1)
    for (const isRenewed of [true, false]) {
      expect(defaultTtlMs(configured, { isRenewed })).toBe(9_000)
    }
    expect(defaultTtlMs(DEFAULT_SETTINGS, { isRenewed: true })).toBe(30_000)
    expect(defaultTtlMs(DEFAULT_SETTINGS, { isRenewed: false })).toBe(3_600_000)
  })

  it('of a retention is a day at least, for as long as requests are remembered', () => {
    const days = [0, 1, 2].map((one) => retentionMs(one) / 86_400_000)
    expect(days).toEqual([1, 1, 2])
  })

  it('is the default of its key, and every default is acceptable', () => {
    for (const key of SETTING_KEYS) {
      expect(parseSettingValue(key, SETTING_TABLE[key].initial)).toBe(SETTING_TABLE[key].initial)
    }
  })

  it('belongs to a key that exists', () => {
    expect(parseSettingKey('keep_history')).toBe('keep_history')
    for (const key of ['', 'Keep_History', 'toString', '__proto__', 7, null]) {
      expect(() => parseSettingKey(key)).toThrow(
        /^key must be one of default_ttl_seconds, max_renewals, .*, hook_on_failure, got /,
      )
    }
  })
})

describe('nonsense that somebody wrote into the store', () => {
  it.each([
    ['a value', row('max_renewals', 'many'), 'max_renewals must be an integer'],
    ['a key', row('colour', 'blue'), 'key must be one of'],
    ['a key of every object', row('toString', 'x'), 'key must be one of'],
  ])('is named, and everything else keeps its value: %s', (_, bad, problem) => {
    const settings = resolveSettings([bad, row('default_ttl_seconds', '9')], W1)
    expect(settings).toEqual({
      ...DEFAULT_SETTINGS,
      default_ttl_seconds: 9,
      isTtlConfigured: true,
      malformed: expect.stringContaining(problem),
    })
  })

  it('for one kind does not trouble another', () => {
    const bad = row('max_renewals', 'many', { scope: 'kind', resourceId: 'work' })
    expect(resolveSettings([bad], W1).malformed).not.toBeNull()
    expect(resolveSettings([bad], FILE).malformed).toBeNull()
  })
})
