import { describe, expect, it } from 'vitest'
import { formatExact, formatSpan, parseDuration } from '../../src/cli/duration.ts'
import { isLeaseError } from '../../src/core/errors.ts'
import { TTL_MS_MAX } from '../../src/core/limits.ts'

const ttl = { field: 'ttl', minMs: 1, maxMs: TTL_MS_MAX }

describe('a duration on the command line', () => {
  it.each([
    ['1ms', 1],
    ['500ms', 500],
    ['30s', 30_000],
    ['5m', 300_000],
    ['1h', 3_600_000],
    ['2d', 172_800_000],
    ['30d', TTL_MS_MAX],
    ['2592000000ms', TTL_MS_MAX],
    ['007s', 7_000],
  ])('%s is %i ms', (text, ms) => {
    expect(parseDuration(ttl, text)).toBe(ms)
  })

  it.each(['0', '0s', '0ms'])('%s is none at all, where there may be none', (text) => {
    expect(parseDuration({ field: 'wait', minMs: 0, maxMs: 1_000 }, text)).toBe(0)
  })

  it('may be for ever where a wait is meant, and nowhere else', () => {
    const wait = { field: 'wait', minMs: 0, maxMs: 1_000, orForever: true }
    expect([parseDuration(wait, 'forever'), formatExact(Infinity)]).toEqual([Infinity, 'forever'])
    expect(() => parseDuration(wait, 'for ever')).toThrow('1h or 2d, or forever, got "for ever"')
    expect(() => parseDuration(ttl, 'forever')).toThrow('got "forever"')
  })

  it.each([
    '',
    '0',
    '00',
    '30',
    '30 s',
    ' 30s',
    '30s ',
    '30S',
    '30 parsecs',
    '30parsecs',
    '1e99',
    '1e3s',
    '-5s',
    '+5s',
    '0s',
    '0ms',
    'NaN',
    'Infinity',
    '1.5h',
    '0x10s',
    '1h30m',
    '31d',
    '2592000001ms',
    '999999999999999d',
    '9999999999999999s',
    '٣s',
  ])('%j is refused with field, expectation and value', (text) => {
    const error = caught(() => parseDuration(ttl, text))
    expect(isLeaseError(error) && error.code).toBe('INVALID_INPUT')
    expect(String(error)).toContain(
      'ttl must be a duration of 1ms..30d such as 500ms, 30s, 5m, 1h or 2d, got ',
    )
    expect(String(error)).toContain(JSON.stringify(text))
  })

  it('may be nothing where nothing is a sensible answer', () => {
    expect(parseDuration({ field: 'wait', minMs: 0, maxMs: 1_000 }, '0s')).toBe(0)
  })
})

describe('a span shown to people', () => {
  it.each([
    [0, '0ms'],
    [-5, '0ms'],
    [999.9, '999ms'],
    [1_000, '1s'],
    [1_990, '1.9s'],
    [9_999, '9.9s'],
    [10_000, '10s'],
    [59_999, '59s'],
    [60_000, '1m'],
    [61_000, '1m 1s'],
    [3_599_999, '59m 59s'],
    [3_600_000, '1h'],
    [5_400_000, '1h 30m'],
    [86_399_999, '23h 59m'],
    [86_400_000, '1d'],
    [2_592_000_000, '30d'],
    [90_000_000, '1d 1h'],
  ])('%d ms is %s, never more than there is', (ms, text) => {
    expect(formatSpan(ms)).toBe(text)
  })

  it.each([0, 1, 500, 1_000, 90_000, 3_600_000, 86_400_000, 2_592_000_000])(
    '%d ms survives being written exactly and read again',
    (ms) => {
      const limit = { field: 'span', minMs: 0, maxMs: Number.MAX_SAFE_INTEGER }
      expect(parseDuration(limit, formatExact(ms))).toBe(ms)
    },
  )
})

function caught(work: () => unknown): unknown {
  try {
    work()
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}
