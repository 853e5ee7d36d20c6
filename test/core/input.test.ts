import { describe, expect, it } from 'vitest'
import { isLeaseError, type ErrorCode } from '../../src/core/errors.ts'
import {
  parseHolder,
  parseLeaseId,
  parseMaxHoldMs,
  parseMaxRenewals,
  parseNote,
  parseSession,
  parseTtlMs,
  parseWaitMs,
  refuseUnknown,
} from '../../src/core/input.ts'
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
      expect(refusal(() => parseMaxRenewals(value)).field).toBe('maxRenewals')
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

  it.each(['', 'x', id(1).slice(1), `${id(1)}0`, `${id(1)}\n`, 7, null, undefined])(
    'is not %s',
    (value) => {
      expect(refusal(() => parseLeaseId(value))).toMatchObject({
        code: 'INVALID_INPUT',
        field: 'leaseId',
      })
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
    expect(refusal(() => parseReleaseReason(word)).code).toBe('INVALID_REASON')
  })

  it.each(['active', 'pending', 'released', 'expired', 'revoked', 'failed'])(
    '%s is a state',
    (word) => {
      expect(parseState(word)).toBe(word)
    },
  )

  it.each(['held', 'Active', '', undefined])('%s is none', (word) => {
    expect(refusal(() => parseState(word)).code).toBe('INVALID_STATE')
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
    expect(refusal(() => parseNote('r'.repeat(1025), undefined))).toMatchObject({
      code: 'LIMIT_EXCEEDED',
      field: 'reason',
    })
  })

  it.each([
    ['a list', [1]],
    ['text', 'x'],
    ['a nested object', { a: {} }],
    ['null inside', { a: null }],
    ['NaN', { a: Number.NaN }],
    ['a function', { a: () => 1 }],
    ['a control character in a value', { a: 'x\0' }],
    ['a control character in a name', { 'a\0': 1 }],
  ])('has no metadata of %s', (_, metadata) => {
    expect(refusal(() => parseNote(null, metadata)).code).toBe('INVALID_INPUT')
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
    expect(refusal(() => refuseUnknown(options, ['ttlMs'])).field).toBe('options')
  })
})
