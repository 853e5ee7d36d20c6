import { afterAll, describe, expect, it } from 'vitest'
import { parseInstant } from '../../src/cli/instant.ts'

// Far from UTC, or nobody could tell the one from the other.
const zone = process.env['TZ']
process.env['TZ'] = 'America/New_York'
afterAll(() => {
  if (zone === undefined) delete process.env['TZ']
  else process.env['TZ'] = zone
})

const NOW = new Date(2026, 2, 29, 12, 0, 0).getTime()

function read(text: string): number {
  return parseInstant('at', text, NOW)
}

describe('a point in time', () => {
  it('is read far from UTC here', () => {
    expect(new Date(NOW).getTimezoneOffset()).toBe(240)
  })

  it.each([
    ['2026-03-01', new Date(2026, 2, 1)],
    ['2026-03-01T14:03', new Date(2026, 2, 1, 14, 3)],
    ['2026-03-01 14:03:07', new Date(2026, 2, 1, 14, 3, 7)],
    ['2026-03-01 14:03:07.250', new Date(2026, 2, 1, 14, 3, 7, 250)],
    ['2024-02-29', new Date(2024, 1, 29)],
    ['0099-12-31', new Date(new Date(2000, 11, 31).setFullYear(99))],
    ['14:03', new Date(2026, 2, 29, 14, 3)],
    ['14:03:07', new Date(2026, 2, 29, 14, 3, 7)],
  ])('without a zone is local: %s', (text, meant) => {
    expect(read(text)).toBe(meant.getTime())
  })

  it.each([
    ['2026-03-01T14:03:07Z', Date.UTC(2026, 2, 1, 14, 3, 7)],
    ['2026-03-01T14:03:07.5Z', Date.UTC(2026, 2, 1, 14, 3, 7, 500)],
    ['2026-03-01t14:03z', Date.UTC(2026, 2, 1, 14, 3)],
    ['2026-03-01T14:03:07+02:00', Date.UTC(2026, 2, 1, 12, 3, 7)],
    ['2026-03-01T14:03:07-0530', Date.UTC(2026, 2, 1, 19, 33, 7)],
    ['1770000000000', 1_770_000_000_000],
  ])('with a zone, or counted, is the same everywhere: %s', (text, meantMs) => {
    expect(read(text)).toBe(meantMs)
  })

  it.each([
    '2026-02-30',
    '2026-02-29',
    '2026-04-31T00:00:00Z',
    '2026-13-01',
    '2026-00-10',
    '2026-03-00',
    '2026-03-01T24:00',
    '2026-03-01T12:60',
    '2026-03-01T12:00:60Z',
    '2026-03-01T12:00+25:00',
    '2026-03-01T12:00+02:60',
    '2026-03-01Z',
    '2026-03-01T12',
    '2026-03-01 12:00 GMT+1',
    '2026-3-1',
    '25:00',
    'yesterday',
    '',
  ])('that does not exist, or is none, is refused: %j', (text) => {
    expect(() => read(text)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }))
  })
})
