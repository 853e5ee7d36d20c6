import { describe, expect, it } from 'vitest'
import {
  ancestorsOf,
  checkSharing,
  covers,
  isTree,
  kindOf,
  nameOf,
  overlap,
  parseNamespace,
  parseResource,
  realmOf,
  type Extent,
} from '../../src/core/resource.ts'
import { file } from './builders.ts'

const COMPOSED = '\u00e9'
const DECOMPOSED = 'e\u0301'

describe('a resource', () => {
  it.each([
    ['work:W-17', 'work:W-17'],
    ['a:x', 'a:x'],
    [`${'k'.repeat(32)}:x`, `${'k'.repeat(32)}:x`],
    ['work:a:b', 'work:a:b'],
    ['work:../up', 'work:../up'],
    ['work: spaces stay ', 'work: spaces stay '],
    [`work:${'x'.repeat(1024)}`, `work:${'x'.repeat(1024)}`],
    [`work:${DECOMPOSED}`, `work:${COMPOSED}`],
    [`work:${DECOMPOSED.repeat(512)}`, `work:${COMPOSED.repeat(512)}`],
    ['work:😀', 'work:😀'],
    ['file:/', 'file:/'],
    ['file:/a/', 'file:/a'],
    ['file://a//b', 'file:/a/b'],
    ['file:/a/./b', 'file:/a/b'],
    ['file:/a/../b', 'file:/b'],
    ['file:/a/b/../..', 'file:/'],
    ['file:/a/...', 'file:/a/...'],
    [`file:/${DECOMPOSED}`, `file:/${COMPOSED}`],
  ])('%s reads as %s', (text, resource) => {
    expect(parseResource(text)).toBe(resource)
  })

  it.each([
    ['no kind', 'W-17', 'resource must be kind:name, got "W-17"'],
    ['an empty kind', ':x', 'kind must match [a-z][a-z0-9-]{0,31}, got ""'],
    ['a kind in capitals', 'Work:x', 'got "Work"'],
    ['a kind that starts with a digit', '1work:x', 'got "1work"'],
    ['a kind of 33 characters', `${'k'.repeat(33)}:x`, 'kind must match'],
    ['a kind with a line break', 'work\n:x', 'must not contain control characters'],
    ['an empty name', 'work:', 'name must be 1..1024 bytes, got ""'],
    [
      'a name of 1025 bytes',
      `work:${'x'.repeat(1025)}`,
      'name must be 1..1024 bytes, got "1025 bytes"',
    ],
    ['a name of 513 times two bytes', `work:${COMPOSED.repeat(513)}`, 'got "1026 bytes"'],
    ['a file name of 1025 bytes', `file:/${'x'.repeat(1024)}`, 'got "1025 bytes"'],
    ['NUL', 'work:a\0b', 'must not contain control characters, got "work:a\\u0000b"'],
    ['a line break', 'work:a\nb', 'must not contain control characters'],
    ['DEL', 'work:a\u007f', 'must not contain control characters'],
    ['a C1 control character', 'work:a\u0085', 'must not contain control characters'],
    ['a lone high surrogate', 'work:\ud83d', 'must not contain lone surrogates'],
    ['a lone low surrogate', 'work:a\ude00', 'must not contain lone surrogates'],
    ['surrogates in the wrong order', 'work:\ude00\ud83d', 'must not contain lone surrogates'],
    ['a low surrogate after a pair', 'work:\ud83d\ude00\ude00', 'must not contain lone surrogates'],
    [
      'a relative file name',
      'file:src/a.ts',
      'must be an absolute path (path.resolve makes it one; on the command line, write it without file:), got "src/a.ts"',
    ],
    ['.. that climbs above the root', 'file:/a/../../etc', 'must not climb above the root'],
    ['.. at the root', 'file:/..', 'must not climb above the root'],
    ['a number', 17, 'resource must be text, got 17'],
    ['nothing', undefined, 'resource must be text, got undefined'],
  ])('is refused with %s', (_, text, message) => {
    expect(() => parseResource(text)).toThrow(
      expect.objectContaining({
        code: 'INVALID_INPUT',
        message: expect.stringContaining(message),
        details: expect.objectContaining({ field: 'resource' }),
      }),
    )
  })

  it('has a kind and a name', () => {
    expect(kindOf(parseResource('work:a:b'))).toBe('work')
    expect(nameOf(parseResource('work:a:b'))).toBe('a:b')
  })

  it('is its own realm, unless its kind is a tree', () => {
    expect(realmOf(parseResource('work:a'))).toBe('work:a')
    expect(realmOf(file('/a/b'))).toBe('file:')
    expect(isTree(parseResource('files:/a'))).toBe(false)
  })

  it('knows what contains it, nearest first', () => {
    expect(ancestorsOf(file('/a/b/c'))).toEqual(['file:/a/b', 'file:/a', 'file:/'])
    expect(ancestorsOf(file('/'))).toEqual([])
    expect(ancestorsOf(parseResource('work:/a/b'))).toEqual([])
  })
})

describe('a namespace', () => {
  it.each(['default', 'a', 'team-1.prod_eu', 'x'.repeat(64)])('%s is one', (name) => {
    expect(parseNamespace(name)).toBe(name)
  })

  it.each(['', 'Team', 'a/b', 'a b', 'x'.repeat(65), 7, null])('%s is none', (name) => {
    expect(() => parseNamespace(name)).toThrow(
      /^namespace must (match \[a-z0-9\._-\]\{1,64\}|be text), got /,
    )
  })
})

describe('a request that no lease can answer', () => {
  const [flat, tree] = [parseResource('work:a'), file('/a')]

  it.each([
    [
      { resource: flat, mode: 'exclusive', slots: 2 },
      'slots must not be given for an exclusive lease, got 2',
    ],
    [
      { resource: flat, extent: 'subtree' },
      'extent must be exact for a kind that is not a tree, got "subtree"',
    ],
  ] as const)('is refused: %o', (asked, message) => {
    expect(() => checkSharing(asked)).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', message }),
    )
  })

  it.each([
    { resource: flat },
    { resource: flat, mode: 'shared', slots: 2 },
    { resource: flat, mode: 'exclusive', extent: 'exact' },
    { resource: tree, extent: 'subtree' },
  ] as const)('is not %o', (asked) => {
    expect(() => checkSharing(asked)).not.toThrow()
  })
})

interface Pair {
  readonly a: string
  readonly aExtent: Extent
  readonly b: string
  readonly bExtent: Extent
  readonly touch: boolean
}

const pairs: readonly Pair[] = [
  { a: '/src', aExtent: 'exact', b: '/src', bExtent: 'exact', touch: true },
  { a: '/src', aExtent: 'subtree', b: '/src', bExtent: 'exact', touch: true },
  { a: '/src', aExtent: 'subtree', b: '/src/a', bExtent: 'exact', touch: true },
  { a: '/src', aExtent: 'exact', b: '/src/a', bExtent: 'exact', touch: false },
  { a: '/src', aExtent: 'exact', b: '/src/a', bExtent: 'subtree', touch: false },
  { a: '/src', aExtent: 'subtree', b: '/src/a/b', bExtent: 'subtree', touch: true },
  { a: '/src', aExtent: 'subtree', b: '/src_backup', bExtent: 'exact', touch: false },
  { a: '/src', aExtent: 'subtree', b: '/src_backup/a', bExtent: 'subtree', touch: false },
  { a: '/', aExtent: 'subtree', b: '/src/a', bExtent: 'exact', touch: true },
  { a: '/', aExtent: 'exact', b: '/src', bExtent: 'exact', touch: false },
  { a: '/a', aExtent: 'subtree', b: '/b', bExtent: 'subtree', touch: false },
]

describe('overlap', () => {
  it.each(pairs)('$aExtent $a and $bExtent $b: $touch', ({ a, aExtent, b, bExtent, touch }) => {
    const left = { resource: file(a), extent: aExtent }
    const right = { resource: file(b), extent: bExtent }
    expect(overlap(left, right)).toBe(touch)
    expect(overlap(right, left)).toBe(touch)
  })

  it('of flat resources is equality, whatever the extent', () => {
    const outer = { resource: parseResource('work:/a'), extent: 'subtree' } as const
    const inner = { resource: parseResource('work:/a/b'), extent: 'exact' } as const
    expect(overlap(outer, inner)).toBe(false)
    expect(overlap(outer, outer)).toBe(true)
  })
})

describe('a look at one reach shows all that can block another', () => {
  it.each([
    ['/src', 'exact', '/src', 'exact', true],
    ['/src', 'exact', '/src', 'subtree', false],
    ['/src', 'subtree', '/src', 'subtree', true],
    ['/src', 'subtree', '/src/a', 'exact', true],
    ['/src', 'subtree', '/src/a', 'subtree', true],
    ['/src/a', 'exact', '/src', 'subtree', false],
    ['/src/a', 'subtree', '/src', 'subtree', false],
  ] as const)('%s %s and %s %s: %s', (outer, outerExtent, inner, innerExtent, seen) => {
    const look = { resource: file(outer), extent: outerExtent }
    expect(covers(look, { resource: file(inner), extent: innerExtent })).toBe(seen)
  })
})
