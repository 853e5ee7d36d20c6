/** Which marks an act is measured by, and which it raises. */
import { describe, expect, it } from 'vitest'
import { readAct, readCheck, type Act, type GuardedLease } from '../../src/guard/act.ts'
import { judge, markKey, measuresOf, type Mark } from '../../src/guard/marks.ts'
import { id } from '../core/builders.ts'

const FLAT: GuardedLease = { id: id(1), resource: 'work:W', fence: 7 }
const TREE: GuardedLease = { id: id(1), resource: 'file:/s', fence: 7, extent: 'subtree' }

/** As what it looks at, what it raises, or both. */
function measured(act: Act): readonly string[] {
  return measuresOf(act).map((measure) => {
    const uses = [...(measure.checked ? ['looks at'] : []), ...(measure.raised ? ['raises'] : [])]
    return `${uses.join(' and ')} ${markKey(measure)}`
  })
}

describe('the marks of an act', () => {
  it.each<[string, GuardedLease, string | undefined, readonly string[]]>([
    ['what has nothing below it', FLAT, undefined, ['looks at and raises own work:W']],
    [
      'the same under a lease of all below it',
      { ...FLAT, extent: 'subtree' },
      undefined,
      ['looks at and raises own work:W'],
    ],
    [
      'a file',
      { ...TREE, resource: 'file:/s/a', extent: 'exact' },
      undefined,
      [
        'raises below file:/',
        'raises below file:/s',
        'looks at and raises own file:/s/a',
        'looks at subtree file:/',
        'looks at subtree file:/s',
        'looks at subtree file:/s/a',
      ],
    ],
    [
      'a file under the lease of its directory',
      TREE,
      'file:/s/a',
      [
        'raises below file:/',
        'raises below file:/s',
        'looks at and raises own file:/s/a',
        'looks at subtree file:/',
        'looks at and raises subtree file:/s',
        'looks at subtree file:/s/a',
      ],
    ],
    [
      'a whole directory',
      TREE,
      undefined,
      [
        'raises below file:/',
        'looks at below file:/s',
        'looks at and raises own file:/s',
        'looks at subtree file:/',
        'looks at and raises subtree file:/s',
      ],
    ],
  ])('on %s are these, in the order in which they are locked', (_, lease, resource, expected) => {
    const marks = measured(readAct(lease, resource === undefined ? {} : { resource }))
    expect(marks).toEqual(expected)
    const keys = marks.map((mark) => mark.replace(/^.*(?=(own|subtree|below) )/, ''))
    expect(keys).toEqual(keys.toSorted())
  })
})

describe('a judgement', () => {
  const none = { fence: 0, leaseId: null }

  /** What an act makes of marks, by key. */
  function raises(act: Act, marks: ReadonlyMap<string, Mark>): ReadonlyMap<string, Mark> {
    const judgement = judge(act, marks)
    if (judgement.kind === 'stale') throw judgement.error
    return judgement.raises
  }

  it('raises the mark of its own kind, and leaves the other as it was', () => {
    const first = raises(readAct({ ...FLAT, mode: 'shared' }), new Map())
    const shared = { fence: 7, leaseId: id(1) }
    expect(first).toEqual(new Map([['own work:W', { exclusive: none, shared }]]))
    const exclusive = { fence: 8, leaseId: id(2) }
    const second = raises(readAct({ ...FLAT, id: id(2), fence: 8 }), first)
    expect(second).toEqual(new Map([['own work:W', { exclusive, shared }]]))
  })

  it('of a fence learns whose it is, once', () => {
    const unnamed = readCheck(['work:W', 7])
    const seen = raises(unnamed, new Map())
    expect(seen.get('own work:W')?.exclusive).toEqual({ fence: 7, leaseId: null })
    expect(raises(unnamed, seen)).toEqual(new Map())
    const named = raises(readAct(FLAT), seen)
    expect(named.get('own work:W')?.exclusive).toEqual({ fence: 7, leaseId: id(1) })
    expect(raises(readAct(FLAT), named)).toEqual(new Map())
    expect(raises(unnamed, named)).toEqual(new Map())
  })
})
