import { describe, expect, it } from 'vitest'
import { ERROR_CODES, invalid, isLeaseError, LeaseError, show } from '../../src/core/errors.ts'

describe('a lease error', () => {
  it('knows from its code whether to try again and whether it may have happened', () => {
    const held = new LeaseError('RESOURCE_HELD', 'x')
    expect(held).toMatchObject({ retryable: true, effect: 'none', details: {} })
    const unknown = new LeaseError('STORE_OUTCOME_UNKNOWN', 'x')
    expect(unknown).toMatchObject({ retryable: true, effect: 'unknown' })
  })

  it('has an unknown effect for one code only', () => {
    const unknown = ERROR_CODES.filter((code) => new LeaseError(code, 'x').effect === 'unknown')
    expect(unknown).toEqual(['STORE_OUTCOME_UNKNOWN'])
  })

  it('keeps its cause and says everything in JSON but that', () => {
    const cause = new Error('disk')
    const error = new LeaseError('STORE_UNAVAILABLE', 'no disk', { cause, details: { path: 'p' } })
    expect(error.cause).toBe(cause)
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      ...{ code: 'STORE_UNAVAILABLE', message: 'no disk', retryable: true, effect: 'none' },
      details: { path: 'p' },
    })
  })

  it('is told apart from any other error', () => {
    expect(isLeaseError(invalid('ttlMs', 'must be 1', 0))).toBe(true)
    expect(isLeaseError(new Error('x'))).toBe(false)
    expect(isLeaseError({ code: 'CLOSED' })).toBe(false)
  })
})

describe('a value in a message', () => {
  it.each([
    ['text', '"text"'],
    ['a"b\\c', '"a\\"b\\\\c"'],
    ['line\nbreak', '"line\\nbreak"'],
    ['\u001b[31mred', '"\\u001b[31mred"'],
    ['\u0085\u2028', '"\\u0085\\u2028"'],
    ['\ud800', '"\\ud800"'],
    [5, '5'],
    [Number.NaN, 'NaN'],
    [-0.5, '-0.5'],
    [10n, '10n'],
    [true, 'true'],
    [null, 'null'],
    [undefined, 'undefined'],
    [[1, 2], 'an array'],
    [{ secret: 1 }, 'an object'],
    [() => 1, 'a function'],
    [Symbol('x'), 'a symbol'],
  ])('%s is shown as one line of visible characters', (value, shown) => {
    expect(show(value)).toBe(shown)
  })

  it('is cut when it is long', () => {
    expect(show('x'.repeat(1_000_000))).toHaveLength(81)
  })
})
