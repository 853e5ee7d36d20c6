import { describe, expect, it } from 'vitest'
import {
  isScopeWithin,
  namespaceOf,
  NO_SCOPE,
  outsideScope,
  parseAct,
  parseScope,
  type Scope,
  UNLIMITED_SCOPE,
} from '../../src/core/scope.ts'
import { fc } from '../fast-check.ts'

const SRC: Scope = { unlimited: false, namespaces: ['src'], tools: ['edit'], workIds: ['W-1'] }

describe('a namespace', () => {
  it.each([
    ['project/', 'project'],
    ['project', 'project'],
    ['/', '/'],
    ['/etc/', '/etc'],
    ['a/b.c', 'a/b.c'],
    ['a/..b', 'a/..b'],
    ['e\u0301', '\u00e9'],
    ['100%/a%20b%c3%a4', '100%/a%20b%c3%a4'],
    ['a%C3%A4/%E6%97%A5', 'a%C3%A4/%E6%97%A5'],
    ['a/\u2026/b', 'a/\u2026/b'],
    ['100\uff05', '100\uff05'],
  ])('%j is %j', (text, canonical) => {
    expect(namespaceOf(text)).toBe(canonical)
  })

  it.each([
    '',
    '.',
    '..',
    'a/../b',
    'a//b',
    '//',
    './a',
    'a\\b',
    '%2e%2e/x',
    'a%2Fb',
    'a%5cb',
    '%00',
    'a\0b',
    'a\nb',
    'a\u0085b',
    'a\ud800',
    'a/%252e%252e/b',
    'a/%c0%ae%C0%AE/b',
    'a%0ab',
    'a%1Fb',
    'a%7fb',
    'a/%e0%80%ae%e0%80%ae/b',
    'a/%f0%80%80%ae./b',
    'a%c3%a4%2fb',
    'a%e6%97\uff05a5',
    'a/%u002e%u002e/b',
    'a/%U002E./b',
    'a%u2215b',
    'a/%%32e%%32e/b',
    'a/%2%65./b',
    'a/.%2E/b',
    'a/%e2%80%a5/b',
    'a/%ef%bc%8e%ef%bc%8e/b',
    'a/\uff0e\uff0e/b',
    'a/\u2025/b',
    'a/x\uff0f..\uff0fy/b',
    'a/\uff052e\uff052e/b',
    'a/%\uff12\uff45%2\uff45/b',
    'a\uff05\uff12\uff26b',
    'a/%ff',
    'a/%ed%a0%80',
    'a/%73rc',
    'a%c2%85b',
  ])('%j is refused', (text) => {
    expect(() => namespaceOf(text)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }))
  })
})

describe('a scope', () => {
  it.each([
    ['src', null],
    ['src/a/b.ts', null],
    ['src/', null],
    ['src_backup/a', 'path'],
    ['sr', 'path'],
    ['/src', 'path'],
    ['src/../etc', 'path'],
    ['src/%2e%2e/etc', 'path'],
    ['src\\..\\etc', 'path'],
    ['src/%252e%252e/etc', 'path'],
    ['src/%e0%80%ae%e0%80%ae/etc', 'path'],
    ['src/%u002e%u002e/etc', 'path'],
    ['src/a\0b', 'path'],
    ['src/a\nb', 'path'],
    ['src/\ud800', 'path'],
    ['', 'path'],
  ])('of src answers %j with %j', (path, outside) => {
    expect(outsideScope(SRC, { path })).toBe(outside)
  })

  it.each([
    ['/etc/passwd', null],
    ['/etcetera', 'path'],
    ['etc', 'path'],
  ])('of /etc answers %j with %j', (path, outside) => {
    expect(outsideScope(parseScope({ namespaces: ['/etc/'] }), { path })).toBe(outside)
  })

  it('allows what is named in each of its sets, and all of it must be', () => {
    for (const act of [{ path: 'src/a' }, { tool: 'edit' }, { workId: 'W-1' }]) {
      expect(outsideScope(SRC, act)).toBeNull()
    }
    expect(outsideScope(SRC, { path: 'src/a', tool: 'edit', workId: 'W-1' })).toBeNull()
    expect(outsideScope(SRC, { path: 'src/a', tool: 'shell' })).toBe('tool')
    expect(outsideScope(SRC, { workId: 'W-2', tool: 'edit' })).toBe('workId')
    expect(outsideScope(SRC, {})).toBe('act')
  })

  it('that is absent or empty allows nothing; an unlimited one everything but what cannot be read', () => {
    for (const nothing of [undefined, null, {}, { tools: [] }]) {
      const none = parseScope(nothing)
      expect(none).toEqual(NO_SCOPE)
      expect(outsideScope(none, { tool: 'edit' })).toBe('tool')
      expect(outsideScope(none, { path: '/etc/passwd' })).toBe('path')
    }
    expect(parseScope({ unlimited: true })).toEqual(UNLIMITED_SCOPE)
    expect(outsideScope(UNLIMITED_SCOPE, { path: '/etc', tool: 'x', workId: 'y' })).toBeNull()
    expect(outsideScope(UNLIMITED_SCOPE, { path: '../x' })).toBe('path')
  })

  it('is kept in order and without repeats', () => {
    const names = ['b', 'a', 'b']
    const scope = parseScope({ workIds: names, tools: names, namespaces: ['z/', 'z', 'a'] })
    const inOrder = ['a', 'b']
    const kept = { workIds: inOrder, tools: inOrder, namespaces: ['a', 'z'] }
    expect(scope).toEqual({ unlimited: false, ...kept })
  })

  const shape = 'scope must be { workIds, tools, namespaces } or { unlimited: true }, got'
  const list = 'scope.tools must be a list of at most 64, got'
  const encoded = 'must be a path without "\\" or encoded dots, slashes and controls'
  it.each<[unknown, string]>([
    [7, `${shape} 7`],
    [[], `${shape} an array`],
    [{ colour: [] }, 'scope must have workIds, tools, namespaces, got "colour"'],
    [{ unlimited: 'yes' }, 'scope.unlimited must be a boolean, got "yes"'],
    ...['workIds', 'tools', 'namespaces'].map((set) => {
      const message = 'scope.unlimited must stand alone, got "sets beside it"'
      return [{ unlimited: true, [set]: ['a'] }, message] as [unknown, string]
    }),
    [{ tools: 'a' }, `${list} "a"`],
    [{ workIds: [''] }, 'scope.workIds must be 1..256 bytes, got ""'],
    [{ tools: [''] }, 'scope.tools must be 1..256 bytes, got ""'],
    [{ tools: ['x'.repeat(257)] }, 'scope.tools must be 1..256 bytes, got "257 bytes"'],
    [{ tools: Array.from({ length: 65 }, (_, index) => `t${index}`) }, `${list} an array`],
    [{ namespaces: [''] }, 'scope.namespaces must be 1..256 bytes, got ""'],
    [{ namespaces: ['a\\b'] }, `scope.namespaces ${encoded}, got "a\\\\b"`],
    [
      { namespaces: ['..'] },
      'scope.namespaces must be a path without empty, "." or ".." components, got ".."',
    ],
  ])('is not read from %j', (value, message) => {
    expect(() => parseScope(value)).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', message }),
    )
  })

  it('is refused where its one spelling is longer than it may be, and could not be read again', () => {
    // Three bytes each, which are six in NFC.
    const scope = { namespaces: ['\u0958'.repeat(43)] }
    expect(() => parseScope(scope)).toThrow(
      'scope.namespaces must be 1..256 bytes, got "258 bytes"',
    )
    const longest = parseScope({ namespaces: ['\u0958'.repeat(42)] })
    expect(parseScope(longest)).toEqual(longest)
  })

  it('is read with as many names as it may have', () => {
    const tools = Array.from({ length: 64 }, (_, index) => `t${index + 10}`)
    expect(parseScope({ tools }).tools).toEqual(tools)
  })

  it.each([
    [7, 'act must have workId, tool, path, got 7'],
    [null, 'act must have workId, tool, path, got null'],
    [[], 'act must have workId, tool, path, got an array'],
    [{ tool: 'a', colour: 'b' }, 'act must have workId, tool, path, got "colour"'],
    [{ tool: 'a', path: 5 }, 'path must be text, got 5'],
  ])('judges no act that is %j', (value, message) => {
    expect(() => parseAct(value)).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', message }),
    )
  })

  it('judges an act of any of its fields', () => {
    for (const act of [{ workId: 'a' }, { tool: 'a' }, { path: 'a' }, {}]) {
      expect(parseAct(act)).toEqual(act)
    }
  })

  it('within another allows nothing that the other does not', () => {
    const word = fc.constantFrom('a', 'b', 'a/b', 'a/b/c', 'ab', 'b/a')
    const scope = fc
      .record({ tools: fc.array(word), workIds: fc.array(word), namespaces: fc.array(word) })
      .map(parseScope)
    const act = fc.record({ tool: word, workId: word, path: word }, { requiredKeys: [] })
    let within = 0
    fc.assert(
      fc.property(scope, scope, fc.array(act, { minLength: 20 }), (child, parent, acts) => {
        if (!isScopeWithin(child, parent)) return
        within += 1
        for (const one of acts) {
          if (outsideScope(child, one) === null) expect(outsideScope(parent, one)).toBeNull()
        }
      }),
      { numRuns: 3_000 },
    )
    expect(within).toBeGreaterThan(10)
    expect(isScopeWithin(UNLIMITED_SCOPE, SRC)).toBe(false)
    expect(isScopeWithin(SRC, UNLIMITED_SCOPE)).toBe(true)
    for (const part of [{ namespaces: ['src/a'] }, { tools: ['edit'] }, { workIds: ['W-1'] }]) {
      expect(isScopeWithin(parseScope(part), SRC)).toBe(true)
    }
    expect(isScopeWithin(parseScope({ namespaces: ['src_backup'] }), SRC)).toBe(false)
  })
})
