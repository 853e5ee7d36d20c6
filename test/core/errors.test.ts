import { describe, expect, it } from 'vitest'
import {
  closedError,
  ERROR_CODES,
  invalid,
  isLeaseError,
  isMistake,
  LeaseError,
  messageOf,
  pathError,
  show,
  showData,
} from '../../src/core/errors.ts'

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

  it('has no cause where nothing caused it', () => {
    expect(Object.hasOwn(closedError(), 'cause')).toBe(false)
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
    expect(show('x'.repeat(1_000_000))).toBe(`"${'x'.repeat(79)}…`)
    expect(show('x'.repeat(79))).toBe(`"${'x'.repeat(79)}…`)
    expect(show('x'.repeat(78))).toBe(`"${'x'.repeat(78)}"`)
  })

  it.each(['😀', '\u{10000}', '\u{10ffff}'])('is never cut in the middle of %s', (character) => {
    expect(show(`${'x'.repeat(77)}${character}y`)).toBe(`"${'x'.repeat(77)}${character}…`)
    expect(show(`${'x'.repeat(78)}${character}y`)).toBe(`"${'x'.repeat(78)}…`)
  })
})

describe('a path that could not be looked at', () => {
  const failed = (code: string): Error => {
    return Object.assign(new Error(`${code}: no luck`), { code, syscall: 'lstat' })
  }

  it.each(['ELOOP', 'EACCES', 'ENAMETOOLONG'])('is the fault of whoever named it: %s', (code) => {
    const cause = failed(code)
    const error = pathError('path', '/a\n', cause)
    expect(error).toMatchObject({
      code: 'INVALID_INPUT',
      message: `path must be a path that can be followed, got "/a\\n": ${code}: no luck`,
      details: { field: 'path', path: '/a\n' },
      cause,
    })
  })

  it('is one for the system, which may do better later', () => {
    const cause = failed('EIO')
    expect(pathError('path', '/a', cause)).toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: 'path "/a" cannot be looked at: EIO: no luck',
      details: { field: 'path', path: '/a' },
      cause,
    })
  })

  it.each([
    new Error('x'),
    Object.assign(new Error('x'), { code: 'EIO' }),
    Object.assign(new Error('x'), { syscall: 'lstat' }),
    { code: 'EIO', syscall: 'lstat' },
    'EIO',
  ])('is no answer of the operating system: %s', (cause) => {
    expect(pathError('path', '/a', cause)).toBe(cause)
  })
})

describe('what a program may ask of an error', () => {
  it('is which one it is', () => {
    const closed = closedError()
    expect(closed).toMatchObject({ code: 'CLOSED', message: 'the store was closed' })
    expect(closedError('the client was closed').message).toBe('the client was closed')
    expect([isLeaseError(closed, 'CLOSED'), isLeaseError(closed, 'ABORTED')]).toEqual([true, false])
  })

  it('is what it says, also of what is no error', () => {
    expect([new Error('x'), 'y', 7, null].map(messageOf)).toEqual(['x', 'y', '7', 'null'])
  })

  it('is whether the program itself is wrong', () => {
    const mistakes = [new TypeError('x'), new RangeError('x'), new SyntaxError('x')]
    for (const error of [...mistakes, new ReferenceError('x')]) expect(isMistake(error)).toBe(true)
    for (const error of [new Error('x'), closedError(), 'x']) expect(isMistake(error)).toBe(false)
  })

  it('is its data, in one line that is not long', () => {
    expect(showData({ a: '\u2028', b: 1 })).toBe('{"a":"\\u2028","b":1}')
    expect(showData({ a: 'x'.repeat(99) })).toMatch(/^\{"a":"x{74}…$/)
  })
})
