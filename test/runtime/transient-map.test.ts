import { describe, expect, it } from 'vitest'
import { TransientMap } from '../../src/runtime/transient-map.ts'
import { fc } from '../fast-check.ts'

interface Value {
  readonly name: string
}

const key = fc.integer({ min: 0, max: 8 })
const step = fc.record({ kind: fc.constantFrom('set', 'delete'), key, name: fc.string() })

describe('a transient map', () => {
  it('holds what a map would, in the same order', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150, size: 'max' }), (steps) => {
        const map = new TransientMap<number, Value>()
        const model = new Map<number, Value>()
        for (const { kind, key: at, name } of steps) {
          if (kind === 'delete') expect(map.delete(at)).toBe(model.delete(at))
          else {
            map.set(at, { name })
            model.set(at, { name })
          }
          expect(map.size).toBe(model.size)
          expect(map.has(at)).toBe(model.has(at))
          expect(map.get(at)).toEqual(model.get(at))
        }
        expect([...map.keys()]).toEqual([...model.keys()])
        expect([...map.values()]).toEqual([...model.values()])
      }),
    )
  })

  it('does not show what is taken out while somebody goes through it, however much that is', () => {
    const map = new TransientMap<number, Value>()
    const keys = Array.from({ length: 200 }, (_, index) => index)
    for (const at of keys) map.set(at, { name: String(at) })
    const shown: string[] = []
    for (const { name } of map.values()) {
      shown.push(name)
      if (shown.length === 1) for (const at of keys) if (at % 4 !== 0) map.delete(at)
    }
    expect(shown).toEqual(keys.filter((at) => at % 4 === 0).map(String))
    expect([...map.keys()]).toEqual(keys.filter((at) => at % 4 === 0))
  })
})
