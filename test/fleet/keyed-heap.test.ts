import { describe, expect, it } from 'vitest'
import { KeyedHeap } from '../../src/fleet/assignment.ts'
import { fc } from '../fast-check.ts'

const item = fc.integer({ min: 0, max: 20 })
const step = fc.oneof(
  fc.record({ kind: fc.constant('set' as const), item, key: fc.integer({ min: 0, max: 100 }) }),
  fc.record({ kind: fc.constant('delete' as const), item, key: fc.constant(0) }),
)

describe('a keyed heap', () => {
  it('always has an item with the smallest key first, whatever was put in, moved and taken out', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const heap = new KeyedHeap<number>()
        const model = new Map<number, number>()
        for (const { kind, item: name, key } of steps) {
          if (kind === 'set') {
            heap.set(name, key)
            model.set(name, key)
          } else {
            heap.delete(name)
            model.delete(name)
          }
          expect(heap.size).toBe(model.size)
          expect(heap.first?.key).toBe(model.size === 0 ? undefined : Math.min(...model.values()))
          if (heap.first !== undefined) expect(model.get(heap.first.item)).toBe(heap.first.key)
        }
        expect(new Set(heap.items())).toEqual(new Set(model.keys()))
      }),
    )
  })

  it('gives all items in order of their keys', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 50 }), { maxLength: 60 }), (keys) => {
        const heap = new KeyedHeap<number>()
        keys.forEach((key, index) => heap.set(index, key))
        const order: number[] = []
        for (let next = heap.first; next !== undefined; next = heap.first) {
          order.push(next.key)
          heap.delete(next.item)
        }
        expect(order).toEqual(keys.toSorted((a, b) => a - b))
      }),
    )
  })

  it('is empty after it was cleared', () => {
    const heap = new KeyedHeap<string>()
    heap.set('a', 1)
    heap.clear()
    expect(heap.size).toBe(0)
    expect(heap.first).toBeUndefined()
    heap.set('a', 2)
    expect(heap.first).toMatchObject({ item: 'a', key: 2 })
  })
})
