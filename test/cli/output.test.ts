import { describe, expect, it } from 'vitest'
import { cut, formatTable, painter, plain, relativeTime, visible } from '../../src/cli/output.ts'

describe('a table', () => {
  it('lines its columns up and leaves no trailing spaces', () => {
    const columns = [{ title: 'NAME' }, { title: 'N', align: 'right' as const }, { title: 'NOTE' }]
    const rows = [
      [{ text: 'é' }, { text: '7' }, { text: '' }],
      [{ text: 'longer' }, { text: '1234' }, { text: 'x' }],
    ]
    expect(formatTable(columns, rows, plain)).toBe(
      ['NAME       N  NOTE', 'é          7', 'longer  1234  x'].join('\n'),
    )
  })

  it('keeps its columns when it is painted', () => {
    const paint = painter(true, { TERM: 'xterm' })
    const table = formatTable(
      [{ title: 'A' }, { title: 'B' }],
      [[{ text: 'x', colour: 'red' }, { text: 'y' }]],
      paint,
    )
    expect(table.split('\n')[1]).toBe('\u001b[31mx\u001b[0m  y')
  })

  it('shows text that would move the cursor as what it is', () => {
    const row = [{ text: 'a\u001b[2Jb\nc\u202e' }]
    expect(formatTable([{ title: 'A' }], [row], plain)).toBe('A\na\\u001b[2Jb\\u000ac\\u202e')
    expect(visible('a\u061c\u200bb\u2060\ufeff\u00ad')).toBe(
      'a\\u061c\\u200bb\\u2060\\ufeff\\u00ad',
    )
    expect(visible('👩‍👧 plain')).toBe('👩‍👧 plain')
    expect(visible('plain – text, ünïcode 日本')).toBe('plain – text, ünïcode 日本')
  })
})

describe('colours', () => {
  it.each([
    ['on a terminal', true, {}, true],
    ['not on a pipe', false, {}, false],
    ['not with NO_COLOR', true, { NO_COLOR: '1' }, false],
    ['with an empty NO_COLOR, which counts as not set', true, { NO_COLOR: '' }, true],
    ['not on a dumb terminal', true, { TERM: 'dumb' }, false],
  ])('are used %s', (_case, isTerminal, env, painted) => {
    expect(painter(isTerminal, env)('x', 'red') !== 'x').toBe(painted)
  })
})

describe('a relative time', () => {
  it.each([
    [0, 'now'],
    [999, 'now'],
    [-999, 'now'],
    [29_000, 'in 29s'],
    [-180_000, '3m ago'],
    [-90_061_000, '1d 1h ago'],
  ])('%d ms away reads %s', (deltaMs, text) => {
    expect(relativeTime(1_000_000_000_000 + deltaMs, 1_000_000_000_000)).toBe(text)
  })
})

describe('text that is too long', () => {
  it('is cut between characters, not within one', () => {
    expect(cut('😀😀😀', 2)).toBe('😀…')
    expect(cut('abc', 3)).toBe('abc')
  })
})
