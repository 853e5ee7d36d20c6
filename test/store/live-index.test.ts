import { expect, it } from 'vitest'
import { parseResource, type Extent, type Resource } from '../../src/core/resource.ts'
import { LiveIndex } from '../../src/store/live-index.ts'
import { fc } from '../fast-check.ts'

const DIRECTORIES = Array.from({ length: 30 }, (_, index) => `file:/tree/d${index}`)
const FLAT = Array.from({ length: 30 }, (_, index) => `work:W-${index}`)
const DEEP = Array.from({ length: 40 }, (_, index) => `file:/tree/e${index % 2}/f${index}/g`)
const NAMES = [...DIRECTORIES, ...DEEP, 'file:/', 'file:/tree', 'file:/tree/d1/a/b', ...FLAT]

const name = fc.constantFrom(...NAMES)
const step = fc.record({ id: fc.constantFrom('1', '2', '3'), name, adds: fc.boolean() })

function isNear(other: string, asked: string, extent: Extent): boolean {
  const isWithin = (inner: string, outer: string): boolean => {
    return inner === outer || inner.startsWith(outer.endsWith('/') ? outer : `${outer}/`)
  }
  return isWithin(asked, other) || (extent === 'subtree' && isWithin(other, asked))
}

it('finds all that is at a reach, above it and below it, whatever has come and gone', () => {
  const asked = fc.constantFrom('file:/tree', 'file:/tree/d1', 'file:/tree/d1/a/b', 'work:W-1')
  const extent = fc.constantFrom<Extent>('exact', 'subtree')
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 600, size: 'max' }),
      asked,
      extent,
      (steps, where, reach) => {
        const index = new LiveIndex()
        const live = new Map<string, string>()
        for (const { id, name: at, adds } of steps) {
          const key = `${id} of ${at}`
          if (adds) index.add(parseResource(at), key)
          else index.remove(parseResource(at), key)
          if (adds) live.set(key, at)
          else live.delete(key)
        }
        const resource: Resource = parseResource(where)
        const expected = [...live].filter(([, at]) => isNear(at, where, reach)).map(([key]) => key)
        const found = new Set(index.near({ resource, extent: reach }))
        expect([...found].toSorted()).toEqual(expected.toSorted())
      },
    ),
    { numRuns: 300 },
  )
})

it('finds what stays of many flat resources, and none of those that went or came back and went', () => {
  const index = new LiveIndex()
  const names = Array.from({ length: 100 }, (_, number) => parseResource(`work:many-${number}`))
  const isLeft = (number: number): boolean => number % 10 === 0
  for (const round of [1, 2, 3]) {
    for (const [number, name] of names.entries()) index.add(name, `${number} in ${round}`)
    for (const [number, name] of names.entries()) {
      if (!isLeft(number)) index.remove(name, `${number} in ${round}`)
    }
  }
  for (const [number, resource] of names.entries()) {
    const expected = isLeft(number) ? [1, 2, 3].map((round) => `${number} in ${round}`) : []
    expect([...index.near({ resource, extent: 'exact' })]).toEqual(expected)
  }
})
