import { describe, expect, it } from 'vitest'
import {
  addBudgets,
  derivedShortage,
  parseBudget,
  remainingBudget,
  shortageOf,
  subtractBudgets,
} from '../../src/core/budget.ts'

describe('a budget', () => {
  it('is unlimited where it is absent, and empty at 0', () => {
    expect(shortageOf({}, {}, { tokens: 10 ** 12 })).toBeNull()
    expect(shortageOf({ tokens: 0 }, {}, { tokens: 1 })).toEqual({
      dimension: 'tokens',
      asked: 1,
      left: 0,
    })
    expect(shortageOf({ tokens: 0 }, {}, { tokens: 0, toolCalls: 5 })).toBeNull()
  })

  it('is used up to the last, and not beyond', () => {
    const limits = { tokens: 10, toolCalls: 2 }
    expect(shortageOf(limits, { tokens: 4 }, { tokens: 6 })).toBeNull()
    expect(shortageOf(limits, { tokens: 4 }, { tokens: 7 })).toMatchObject({ asked: 7, left: 6 })
    expect(remainingBudget(limits, { tokens: 4, episodes: 9 })).toEqual({ tokens: 6, toolCalls: 2 })
  })

  it('of a child is refused where it is larger than what is left, or unlimited where that is not', () => {
    const limits = { tokens: 10 }
    expect(derivedShortage(limits, { tokens: 4 }, { tokens: 6 })).toBeNull()
    expect(derivedShortage(limits, { tokens: 4 }, { tokens: 7 })).toMatchObject({ left: 6 })
    expect(derivedShortage(limits, {}, { toolCalls: 1 })).toEqual({
      dimension: 'tokens',
      asked: Infinity,
      left: 10,
    })
    expect(derivedShortage({}, {}, {})).toBeNull()
  })

  it('adds and subtracts without leaving anything behind, and saturates', () => {
    expect(addBudgets({ tokens: 1 }, { tokens: 2, episodes: 1 })).toEqual({
      episodes: 1,
      tokens: 3,
    })
    expect(subtractBudgets({ tokens: 3, episodes: 1 }, { tokens: 3 })).toEqual({ episodes: 1 })
    const most = Number.MAX_SAFE_INTEGER
    expect(addBudgets({ tokens: most }, { tokens: most })).toEqual({ tokens: most })
  })

  const amount = 'budget.tokens must be an integer 0..2^53-1, got'
  const known = 'durationMs, episodes, tokens, toolCalls'
  it.each([
    [7, `budget must be an object of ${known}, got 7`],
    [[], `budget must be an object of ${known}, got an array`],
    [{ colour: 1 }, `budget must be of ${known}, got "colour"`],
    [{ tokens: -1 }, `${amount} -1`],
    [{ tokens: 1.5 }, `${amount} 1.5`],
    [{ tokens: 2 ** 53 }, `${amount} 9007199254740992`],
    [{ tokens: '1' }, `${amount} "1"`],
  ])('is not read from %j', (value, message) => {
    expect(() => parseBudget('budget', value)).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', message }),
    )
  })

  it.each([[undefined], [null], [{}], [{ tokens: undefined }]])('is unlimited as %j', (value) => {
    expect(parseBudget('budget', value)).toEqual({})
  })

  it('is read in one order, with all that it names', () => {
    const given = { toolCalls: 0, tokens: 2 ** 53 - 1, episodes: 1, durationMs: 3 }
    expect(JSON.stringify(parseBudget('budget', given))).toBe(
      '{"durationMs":3,"episodes":1,"tokens":9007199254740991,"toolCalls":0}',
    )
  })
})
