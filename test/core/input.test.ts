import { describe, expect, it } from 'vitest'
import { isLeaseError, type ErrorCode } from '../../src/core/errors.ts'
import {
  parseExtent,
  parseFlag,
  parseHolder,
  parseLeaseId,
  parseLockDelayMs,
  parseMaxHoldMs,
  parseMaxRenewals,
  parseMetadata,
  parseMode,
  parseNote,
  parsePriority,
  parseSession,
  parseSlots,
  parseTtlMs,
  parseWaitMs,
  refuseUnknown,
  utf8Length,
} from '../../src/core/input.ts'
import { TTL_MS_MAX } from '../../src/core/limits.ts'
import { parseReleaseReason, parseState } from '../../src/core/lease.ts'
import { id } from './builders.ts'

function refusal(read: () => unknown): { code: ErrorCode; message: string; field: unknown } {
  try {
    read()
  } catch (error) {
    if (!isLeaseError(error)) throw error
    return { code: error.code, message: error.message, field: error.details['field'] }
  }
  throw new Error('it was accepted')
}

describe.each([
  ['holder', parseHolder],
  ['session', parseSession],
] as const)('a %s', (field, parse) => {
  it.each(['a', 'agent-7', 'x'.repeat(128), 'é'.repeat(64), '😀'.repeat(32)])(
    'may be %s',
    (name) => {
      expect(parse(name)).toBe(name)
    },
  )

  it.each([
    ['empty', '', 'must be 1..128 bytes, got ""'],
    ['129 bytes', 'x'.repeat(129), 'must be 1..128 bytes, got "129 bytes"'],
    ['130 bytes in 65 characters', 'é'.repeat(65), 'got "130 bytes"'],
    ['a control character', 'a\u0007b', 'must not contain control characters, got "a\\u0007b"'],
    ['a lone surrogate', 'a\ud800', 'must not contain lone surrogates'],
    ['the second half of a character, first', '\udc00a', 'must not contain lone surrogates'],
    ['a number', 7, 'must be text, got 7'],
    ['nothing', undefined, 'must be text, got undefined'],
    ['null', null, 'must be text, got null'],
    ['an object', {}, 'must be text, got an object'],
  ])('may not be %s', (_, value, message) => {
    const refused = refusal(() => parse(value))
    expect(refused).toMatchObject({ code: 'INVALID_INPUT', field })
    expect(refused.message).toMatch(new RegExp(`^${field} must `))
    expect(refused.message).toContain(message)
  })
})

it.each([
  '\u007f',
  '\u0080',
  '\u07ff',
  '\u0800',
  '\ud7ff',
  '\ue000',
  '\uffff',
  '\u{10000}',
  '\u{10ffff}',
])('text with %s has as many bytes as its UTF-8', (character) => {
  const text = `a${character}z`
  expect(utf8Length(text)).toBe(Buffer.byteLength(text))
})

const notSpans = [
  -1,
  1.5,
  Number.NaN,
  Infinity,
  -Infinity,
  1e99,
  2 ** 53,
  '30',
  null,
  undefined,
  1n,
]

describe('a span', () => {
  it.each([
    ['ttlMs', parseTtlMs, [1, 2_592_000_000], [0, 2_592_000_001]],
    ['maxHoldMs', parseMaxHoldMs, [1, 31_536_000_000], [0, 31_536_000_001]],
  ] as const)(
    '%s is a whole number of milliseconds within its limits',
    (field, parse, good, bad) => {
      for (const value of good) expect(parse(value)).toBe(value)
      for (const value of [...bad, ...notSpans]) {
        const refused = refusal(() => parse(value))
        expect(refused).toMatchObject({ code: 'INVALID_INPUT', field })
        expect(refused.message).toMatch(
          new RegExp(`^${field} must be an integer \\d+\\.\\.\\d+, got `),
        )
      }
    },
  )

  it('waitMs may be without end, too', () => {
    for (const value of [0, 86_400_000, Infinity]) expect(parseWaitMs(value)).toBe(value)
    for (const value of [86_400_001, ...notSpans].filter((one) => one !== Infinity)) {
      const refused = refusal(() => parseWaitMs(value))
      expect(refused).toMatchObject({ code: 'INVALID_INPUT', field: 'waitMs' })
      expect(refused.message).toMatch(/^waitMs must be an integer 0\.\.86400000, or Infinity, got /)
    }
  })

  it('says what came', () => {
    expect(refusal(() => parseTtlMs(-5)).message).toBe(
      'ttlMs must be an integer 1..2592000000, got -5',
    )
    expect(refusal(() => parseTtlMs(Number.NaN)).message).toContain('got NaN')
    expect(refusal(() => parseTtlMs('30 parsecs')).message).toContain('got "30 parsecs"')
  })

  it('of renewals starts at -1, which means no limit', () => {
    for (const value of [-1, 0, 2_147_483_647]) expect(parseMaxRenewals(value)).toBe(value)
    for (const value of [-2, 2_147_483_648, 0.5, Number.NaN]) {
      const refused = refusal(() => parseMaxRenewals(value))
      expect(refused.field).toBe('maxRenewals')
      expect(refused.message).toMatch(/^maxRenewals must be an integer -1\.\.2147483647, got /)
    }
  })
})

describe('a choice, a count and a flag', () => {
  it.each<[string, (value: unknown) => unknown, readonly unknown[], readonly unknown[], string]>([
    ['mode', parseMode, ['exclusive', 'shared'], ['', 'Shared', 1], 'exclusive or shared'],
    ['extent', parseExtent, ['exact', 'subtree'], ['', 'tree', null], 'exact or subtree'],
    ['slots', parseSlots, [1, 10_000], [0, 10_001, 1.5, '2'], 'an integer 1..10000'],
    ['priority', parsePriority, [-100, 0, 100], [-101, 101, '0'], 'an integer -100..100'],
    ['lockDelayMs', parseLockDelayMs, [0, TTL_MS_MAX], [-1], `an integer 0..${TTL_MS_MAX}`],
    ['flag', (value) => parseFlag('flag', value), [true, false], ['true', 1], 'true or false'],
  ])('%s is what it may be, and nothing else', (field, parse, good, bad, expected) => {
    for (const value of good) expect(parse(value)).toBe(value)
    for (const value of bad) {
      const refused = refusal(() => parse(value))
      expect(refused).toMatchObject({ code: 'INVALID_INPUT', field })
      expect(refused.message).toMatch(new RegExp(`^${field} must be ${expected}, got `))
    }
  })
})

describe('a lease id', () => {
  it('is a UUID, in lower case whatever case it came in', () => {
    expect(parseLeaseId(id(1))).toBe(id(1))
    expect(parseLeaseId('ABCDEF00-0000-4000-8000-000000000001')).toBe(
      'abcdef00-0000-4000-8000-000000000001',
    )
  })

  it.each(['', 'x', id(1).slice(1), `0${id(1)}`, `${id(1)}0`, `${id(1)}\n`, 7, null, undefined])(
    'is not %s',
    (value) => {
      const refused = refusal(() => parseLeaseId(value))
      expect(refused).toMatchObject({ code: 'INVALID_INPUT', field: 'leaseId' })
      expect(refused.message).toMatch(/^leaseId must be a UUID, got /)
    },
  )

  it('is named as the caller named it', () => {
    expect(refusal(() => parseLeaseId('x', 'requestId')).field).toBe('requestId')
  })
})

describe('words', () => {
  it.each(['completed', 'aborted', 'voluntary'])('%s is a reason to release', (word) => {
    expect(parseReleaseReason(word)).toBe(word)
  })

  it.each(['transferred', 'done', '', null, 1])('%s is none', (word) => {
    const refused = refusal(() => parseReleaseReason(word))
    expect(refused).toMatchObject({ code: 'INVALID_REASON', field: 'releaseReason' })
    expect(refused.message).toMatch(/^releaseReason must be completed, aborted or voluntary, got /)
  })

  it.each(['active', 'pending', 'released', 'expired', 'revoked', 'failed'])(
    '%s is a state',
    (word) => {
      expect(parseState(word)).toBe(word)
    },
  )

  it.each(['held', 'Active', '', undefined])('%s is none', (word) => {
    const refused = refusal(() => parseState(word))
    expect(refused).toMatchObject({ code: 'INVALID_STATE', field: 'state' })
    expect(refused.message).toContain('state must be one of active, pending, ')
  })
})

describe('a note', () => {
  it('is a reason, metadata, both or neither', () => {
    expect(parseNote(undefined, null)).toEqual({ reason: null, metadata: null })
    expect(parseNote('why', { pr: 7, draft: true, branch: 'x' })).toEqual({
      reason: 'why',
      metadata: { pr: 7, draft: true, branch: 'x' },
    })
  })

  it('is 1 KiB together', () => {
    const metadata = { k: 'x'.repeat(100) }
    const room = 1024 - JSON.stringify(metadata).length
    expect(parseNote('r'.repeat(room), metadata).reason).toHaveLength(room)
    expect(refusal(() => parseNote('r'.repeat(room + 1), metadata))).toMatchObject({
      code: 'LIMIT_EXCEEDED',
      field: 'metadata',
    })
    const wordless = { k: 'x'.repeat(1024 - JSON.stringify({ k: '' }).length) }
    expect(parseNote(null, wordless).metadata).toEqual(wordless)
    expect(refusal(() => parseNote('r'.repeat(1025), undefined))).toMatchObject({
      code: 'LIMIT_EXCEEDED',
      field: 'reason',
      message: 'reason and metadata must be at most 1024 bytes together, got 1025 bytes',
    })
  })

  const whole = 'metadata must be an object of text, numbers and booleans, got'
  const control = 'must not contain control characters, got "'
  const item = 'metadata.a must be text, a finite number or a boolean, got'
  it.each([
    ['a list', [1], 'metadata', `${whole} an array`],
    ['text', 'x', 'metadata', `${whole} "x"`],
    ['a nested object', { a: {} }, 'metadata.a', `${item} an object`],
    ['null inside', { a: null }, 'metadata.a', `${item} null`],
    ['NaN', { a: Number.NaN }, 'metadata.a', `${item} NaN`],
    ['a function', { a: () => 1 }, 'metadata.a', `${item} a function`],
    [
      'a control character in a value',
      { a: 'x\0' },
      'metadata.a',
      `metadata.a ${control}x\\u0000"`,
    ],
    ['a control character in a name', { 'a\0': 1 }, 'metadata', `metadata ${control}a\\u0000"`],
  ])('has no metadata of %s', (_, metadata, field, message) => {
    const refused = refusal(() => parseNote(null, metadata))
    expect(refused).toEqual({ code: 'INVALID_INPUT', field, message })
  })

  it('is no metadata where that is asked for and null comes', () => {
    expect(refusal(() => parseMetadata(null)).message).toBe(`${whole} null`)
  })

  it('has no control characters in its reason', () => {
    expect(refusal(() => parseNote('a\u001b[31m', null)).field).toBe('reason')
  })
})

describe('options', () => {
  it('are refused when nobody knows them, by name', () => {
    expect(refusal(() => refuseUnknown({ ttl: 5 }, ['ttlMs', 'waitMs'])).message).toBe(
      'options must be among ttlMs, waitMs, got "ttl"',
    )
  })

  it('may be missing or empty', () => {
    expect(() => refuseUnknown(undefined, ['ttlMs'])).not.toThrow()
    expect(() => refuseUnknown({}, ['ttlMs'])).not.toThrow()
  })

  it.each([null, 5, 'ttlMs'])('are not %s', (options) => {
    const refused = refusal(() => refuseUnknown(options, ['ttlMs']))
    expect(refused.field).toBe('options')
    expect(refused.message).toMatch(/^options must be an object, got /)
  })
})
