import { describe, expect, it } from 'vitest'
import { TTL_MS_MAX } from '../../src/core/limits.ts'
import { hasPassed, isEarlierBootOfSameHost, remainingMs, tickAfter } from '../../src/core/time.ts'
import { tickAt } from './builders.ts'

describe('a deadline', () => {
  it.each([
    [-1, false],
    [0, true],
    [1, true],
  ])('%i ticks from it has passed: %s', (us, passed) => {
    expect(hasPassed(tickAt(100), tickAt(100, { us }))).toBe(passed)
  })

  it('of another domain has always passed', () => {
    expect(hasPassed(tickAt(100), tickAt(0, { domain: 'host-a/boot-1/0#2' }))).toBe(true)
    expect(remainingMs(tickAt(100), tickAt(0, { domain: 'host-a/boot-1/0#2' }))).toBe(0)
  })

  it.each([
    [0, 100],
    [99, 1],
    [100, 0],
    [200, 0],
  ])('at %i ms of 100 leaves %i ms', (ms, left) => {
    expect(remainingMs(tickAt(100), tickAt(ms))).toBe(left)
  })

  it.each([2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1, TTL_MS_MAX])(
    'after %i ms, which are more than 32 bits hold, is so far away',
    (spanMs) => {
      expect(remainingMs(tickAfter(tickAt(7), spanMs), tickAt(7))).toBe(spanMs)
    },
  )

  it('leaves a millisecond as long as a tick is left', () => {
    expect(remainingMs(tickAt(100), tickAt(100, { us: -1 }))).toBe(1)
  })

  it('keeps its domain and stays a whole number for the longest of spans', () => {
    const late = tickAfter({ domain: 'd', us: 9_000_000_000_000 }, 31_536_000_000)
    expect(late.domain).toBe('d')
    expect(Number.isSafeInteger(late.us)).toBe(true)
  })
})

describe('sessions of an earlier boot', () => {
  it.each([
    ['another boot of this host', 'a/1/0#1', 'a/2/0#2', true],
    ['this boot', 'a/1/0#1', 'a/1/0#2', false],
    ['another time namespace of this boot', 'a/1/0#1', 'a/1/5.0#2', false],
    ['another host', 'a/1/0#1', 'b/2/0#2', false],
    ['another host with the same boot id', 'a/1/0#1', 'b/1/0#2', false],
    ['a domain without a boot', 'a', 'a/2/0#2', false],
    ['an empty host', '/1/0', '/2/0', false],
    ['an empty boot', 'a//0', 'a/2/0', false],
  ])('%s: dead %s', (_, earlier, present, dead) => {
    expect(isEarlierBootOfSameHost(earlier, present)).toBe(dead)
  })
})
