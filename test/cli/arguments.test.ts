import { describe, expect, it } from 'vitest'
import {
  asksFor,
  durationOption,
  flag,
  integerOption,
  nearest,
  parseArguments,
  textOption,
} from '../../src/cli/arguments.ts'
import { isLeaseError } from '../../src/core/errors.ts'

const shape = {
  options: {
    ttl: durationOption({ field: 'ttl', minMs: 1, maxMs: 60_000 }, ''),
    reason: textOption('TEXT', ''),
    'max-renewals': integerOption({ field: 'max-renewals', min: -1, max: 9 }, ''),
    json: flag(''),
  },
  positionals: [
    { name: 'RESOURCE', help: '' },
    { name: 'KEY', help: '', optional: true },
  ],
}
const withRest = { ...shape, rest: { name: 'COMMAND…', help: '' } }

describe('a command line', () => {
  it('gives options before, between and after positionals', () => {
    const { options, positionals } = parseArguments(shape, ['--ttl', '5s', 'a', '--json', 'b'])
    expect(options).toEqual({ ttl: 5_000, json: true })
    expect(positionals).toEqual(['a', 'b'])
  })

  it('takes a value after a space or an equals sign', () => {
    expect(parseArguments(shape, ['a', '--reason=x=y']).options.reason).toBe('x=y')
    expect(parseArguments(shape, ['a', '--reason', 'x y']).options.reason).toBe('x y')
    expect(parseArguments(shape, ['a', '--reason=']).options.reason).toBe('')
    expect(parseArguments(shape, ['a', '--reason=--odd']).options.reason).toBe('--odd')
  })

  it('takes a negative number for a value, as an option and as a positional', () => {
    expect(parseArguments(shape, ['a', '--max-renewals', '-1']).options['max-renewals']).toBe(-1)
    expect(parseArguments(shape, ['a', '-1']).positionals).toEqual(['a', '-1'])
  })

  it('takes the last positional several times where the command says so', () => {
    const several = { ...withRest, positionals: [{ name: 'RESOURCE', help: '', several: true }] }
    const { positionals, rest } = parseArguments(several, ['a', '--json', 'b', 'c', '--', 'x'])
    expect([positionals, rest]).toEqual([['a', 'b', 'c'], ['x']])
    expect(() => parseArguments(several, ['--', 'x'])).toThrow('RESOURCE must be given')
  })

  it('leaves what follows -- to the command, options and all', () => {
    const { options, rest } = parseArguments(withRest, ['a', '--', 'x', '--ttl', '--', '-h'])
    expect(rest).toEqual(['x', '--ttl', '--', '-h'])
    expect(options.ttl).toBeUndefined()
  })

  it('lets -- protect a positional that begins with a minus', () => {
    expect(parseArguments(shape, ['--', '-odd']).positionals).toEqual(['-odd'])
  })

  it.each([
    [
      ['a', '--tll', '5s'],
      'option must be one that --help lists, got "--tll" (did you mean --ttl?)',
    ],
    [['a', '--constructor'], 'option must be one that --help lists, got "--constructor"'],
    [['a', '--__proto__=1'], 'option must be one that --help lists, got "--__proto__"'],
    [['a', '-t'], 'option must be one that --help lists, got "-t"'],
    [['a', '--ttl'], 'ttl must be followed by DURATION, got nothing'],
    [['a', '--ttl', '--json'], 'ttl must be followed by DURATION, got nothing'],
    [['a', '--ttl', '1s', '--ttl', '2s'], 'ttl must be given once, got "2s"'],
    [['a', '--json=yes'], 'json must be given without a value, got "yes"'],
    [['a', '--max-renewals', '-2'], 'max-renewals must be an integer -1..9, got "-2"'],
    [['a', '--max-renewals', '1.5'], 'max-renewals must be an integer -1..9, got "1.5"'],
    [['a', '--max-renewals', '1e3'], 'max-renewals must be an integer -1..9, got "1e3"'],
    [['a', '--max-renewals', ''], 'max-renewals must be an integer -1..9, got ""'],
    [[], 'RESOURCE must be given, got nothing (see --help)'],
    [['a', 'b', 'c'], 'arguments must be RESOURCE KEY and no more, got "c"'],
    [['a\ufffdb'], 'argument must be valid UTF-8, got "a\ufffdb"'],
  ])('%j is refused: %s', (argv, message) => {
    expect(refusal(() => parseArguments(shape, argv))).toBe(message)
  })

  it('refuses a command that needs another one and got none', () => {
    const expected = 'COMMAND… must be given after --, got nothing (see --help)'
    expect(refusal(() => parseArguments(withRest, ['a']))).toBe(expected)
    expect(refusal(() => parseArguments(withRest, ['a', '--']))).toBe(expected)
  })

  it('asks for help only before the --', () => {
    expect(asksFor(['a', '--help'], '--help')).toBe(true)
    expect(asksFor(['a', '--', '--help'], '--help')).toBe(false)
  })
})

describe('the word that was probably meant', () => {
  it.each([
    ['--tll', '--ttl'],
    ['--max-renewal', '--max-renewals'],
    ['--resaon', '--reason'],
    ['--xyzzy', null],
    ['-'.repeat(1_000_000), null],
  ])('for %.20s is %s', (word, meant) => {
    const known = Object.keys(shape.options).map((name) => `--${name}`)
    expect(nearest(word, known)).toBe(meant)
  })
})

function refusal(work: () => unknown): string {
  try {
    work()
  } catch (error) {
    if (isLeaseError(error) && error.code === 'INVALID_INPUT') return error.message
    throw error
  }
  throw new Error('it was accepted')
}
