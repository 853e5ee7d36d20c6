import { describe, expect, it } from 'vitest'
import { canonicalJson } from '../../src/core/canonical-json.ts'

describe('canonical JSON', () => {
  it.each([
    ['null', null, 'null'],
    ['a text', 'b', '"b"'],
    ['a list, in its own order', ['b', 'a', null], '["b","a",null]'],
    ['nothing where there is nothing', { b: undefined, a: null }, '{"a":null}'],
    [
      'what is inside',
      { list: [{ y: 1, x: 2 }], a: { d: 3, c: 4 } },
      '{"a":{"c":4,"d":3},"list":[{"x":2,"y":1}]}',
    ],
  ])('is of %s', (_, value, text) => {
    expect(canonicalJson(value)).toBe(text)
  })

  it('is the same in whatever order a value was put together', () => {
    const names = ['a', 'b', 'c']
    for (const first of names) {
      for (const second of names) {
        const value = Object.fromEntries([first, second, ...names].map((name) => [name, 1]))
        expect(canonicalJson(value)).toBe('{"a":1,"b":1,"c":1}')
      }
    }
  })
})
