import { describe, expect, it } from 'vitest'
import {
  assignSessions,
  capacitiesOf,
  LOAD_BOUND,
  preferredNode,
  type Candidate,
} from '../../src/fleet/assignment.ts'
import { hashName, unitOf } from '../../src/fleet/assignment.ts'
import { fc } from '../fast-check.ts'

const nodesNamed = (count: number, weight = 1): readonly Candidate[] =>
  Array.from({ length: count }, (_, index) => ({ instanceId: `api-${index}`, weight }))
const sessionsNamed = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `session-${index + 1}`)

function loads(assignment: ReadonlyMap<string, string>): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const node of assignment.values()) counts.set(node, (counts.get(node) ?? 0) + 1)
  return counts
}

const someNodes = fc.uniqueArray(
  fc.record({
    instanceId: fc.string({ minLength: 1, maxLength: 8 }),
    weight: fc.constantFrom(0.25, 0.5, 1, 1, 1, 2, 4),
  }),
  { minLength: 1, maxLength: 12, selector: ({ instanceId }) => instanceId },
)
const someSessions = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 8 }), { maxLength: 150 })

/** Chi-square of counts against an even spread. */
function chiSquare(counts: readonly number[]): number {
  const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length
  return counts.reduce((sum, count) => sum + (count - mean) ** 2 / mean, 0)
}

describe('the hash', () => {
  it('is the same on every instance, whatever version it runs', () => {
    const vectors = [
      ['', ''],
      ['session-1', 'api-0'],
      ['session-2', 'api-0'],
      ['3f2504e0-4f89-41d3-9a0c-0305e82c3301', 'api-7fd8c9-1736598400000000000-a1b2c3d4'],
    ].map(([session = '', node = '']) => {
      const { high, low } = hashName(node)
      return unitOf(hashName(session), high, low)
    })
    expect(vectors).toMatchInlineSnapshot(`
      [
        0.10364300194469511,
        0.8498036586556822,
        0.9254206880155206,
        0.33021335044430355,
      ]
    `)
  })

  it('flips about half of the bits when one bit of a name changes', () => {
    const flips = Array.from({ length: 2_000 }, (_, index) => {
      const a = hashName(`session-${index}`)
      const b = hashName(`session-${index ^ 1}`)
      return bits(a.high ^ b.high) + bits(a.low ^ b.low)
    })
    const mean = flips.reduce((sum, flip) => sum + flip, 0) / flips.length
    expect(mean).toBeGreaterThan(31)
    expect(mean).toBeLessThan(33)
  })
})

function bits(word: number): number {
  return (word >>> 0).toString(2).replaceAll('0', '').length
}

describe('the preferred node', () => {
  it('of session-1..9 is not always the same: 100 fleets of 3 spread as random ids do', () => {
    // 100 × 9 sessions on 3 nodes each. For an even spread, each of 300 nodes has 3 sessions on average.
    const counts = Array.from({ length: 100 }, (_, fleet) => {
      const nodes = [0, 1, 2].map((index) => ({ instanceId: `f${fleet}-${index}`, weight: 1 }))
      const chosen = sessionsNamed(9).map((id) => preferredNode(id, nodes))
      return nodes.map(({ instanceId }) => chosen.filter((one) => one === instanceId).length)
    })
    const fleetsOnOneNode = counts.filter((count) => Math.max(...count) === 9)
    expect(fleetsOnOneNode).toEqual([])
    // 200 degrees of freedom: 99.99 % of random spreads are below 282.
    expect(chiSquare(counts.flat())).toBeLessThan(282)
  })

  it('of names that are alike is as even as of random ones', () => {
    const nodes = nodesNamed(10)
    const chosen = sessionsNamed(10_000).map((id) => preferredNode(id, nodes))
    const counts = nodes.map(({ instanceId }) => chosen.filter((id) => id === instanceId).length)
    // 9 degrees of freedom: 99.99 % of random spreads are below 33.7.
    expect(chiSquare(counts)).toBeLessThan(33.7)
  })

  it('follows the weights', () => {
    const nodes = [
      { instanceId: 'small', weight: 1 },
      { instanceId: 'large', weight: 3 },
    ]
    const chosen = sessionsNamed(8_000).map((id) => preferredNode(id, nodes))
    const large = chosen.filter((id) => id === 'large').length
    expect(large).toBeGreaterThan(5_840)
    expect(large).toBeLessThan(6_160)
  })

  it('changes only for the sessions that the newcomer gets', () => {
    fc.assert(
      fc.property(someNodes, someSessions, (nodes, sessions) => {
        const [newcomer, ...rest] = nodes
        for (const id of sessions) {
          const after = preferredNode(id, nodes)
          expect([newcomer?.instanceId, preferredNode(id, rest)]).toContain(after)
        }
      }),
    )
  })

  it('is nobody where there is no node', () => {
    expect(preferredNode('a', [])).toBeNull()
    expect(assignSessions(['a'], []).size).toBe(0)
  })
})

describe('the assignment', () => {
  it('gives every session one node, and no node more than ⌈1.2 × its share⌉', () => {
    fc.assert(
      fc.property(someNodes, someSessions, (nodes, sessions) => {
        const assignment = assignSessions(sessions, nodes)
        expect([...assignment.keys()].toSorted()).toEqual(sessions.toSorted())
        const counts = loads(assignment)
        const total = nodes.reduce((sum, { weight }) => sum + weight, 0)
        for (const { instanceId, weight } of nodes) {
          const share = (sessions.length * weight) / total
          expect(counts.get(instanceId) ?? 0).toBeLessThanOrEqual(Math.ceil(1.2 * share))
        }
      }),
    )
  })

  it('binds: without the bound some nodes would have more', () => {
    const nodes = nodesNamed(20)
    const sessions = sessionsNamed(1_000)
    const plain = loads(new Map(sessions.map((id) => [id, preferredNode(id, nodes) ?? ''])))
    expect(Math.max(...plain.values())).toBeGreaterThan(60)
    expect(Math.max(...loads(assignSessions(sessions, nodes)).values())).toBeLessThanOrEqual(60)
  })

  it('does not depend on the order in which nodes and sessions are listed', () => {
    fc.assert(
      fc.property(someNodes, someSessions, fc.infiniteStream(fc.nat()), (nodes, sessions, keys) => {
        const shuffle = <Item>(items: readonly Item[]): readonly Item[] =>
          items
            .map((item) => ({ item, key: keys.next().value ?? 0 }))
            .toSorted((a, b) => a.key - b.key)
            .map(({ item }) => item)
        const first = assignSessions(sessions, nodes)
        const second = assignSessions(shuffle(sessions), shuffle(nodes))
        expect([...second]).toEqual([...first])
      }),
    )
  })

  it('leaves no session elsewhere that would rather be, and could be, at its preferred node', () => {
    fc.assert(
      fc.property(someNodes, someSessions, (nodes, sessions) => {
        const assignment = assignSessions(sessions, nodes)
        const counts = loads(assignment)
        const sorted = nodes.toSorted((a, b) => (a.instanceId < b.instanceId ? -1 : 1))
        const capacities = capacitiesOf(
          sessions.length,
          sorted.map(({ weight }) => weight),
        )
        for (const [index, { instanceId }] of sorted.entries()) {
          if ((counts.get(instanceId) ?? 0) >= (capacities[index] ?? 0)) continue
          const misplaced = sessions.filter(
            (id) => preferredNode(id, nodes) === instanceId && assignment.get(id) !== instanceId,
          )
          expect(misplaced).toEqual([])
        }
      }),
    )
  })

  it('moves, at a join or leave, only what changed its first choice and what the bound displaces', () => {
    fc.assert(
      fc.property(someNodes, someSessions, (nodes, sessions) => {
        const fewer = nodes.slice(1)
        if (fewer.length === 0) return
        const before = assignSessions(sessions, fewer)
        const after = assignSessions(sessions, nodes)
        for (const id of sessions) {
          if (before.get(id) === after.get(id)) continue
          const firstBefore = preferredNode(id, fewer)
          const firstAfter = preferredNode(id, nodes)
          const mayMove =
            firstBefore !== firstAfter ||
            before.get(id) !== firstBefore ||
            after.get(id) !== firstAfter
          expect(mayMove).toBe(true)
        }
      }),
    )
  })

  it.each([
    { nodes: 3, sessions: 100 },
    { nodes: 10, sessions: 1_000 },
    { nodes: 50, sessions: 10_000 },
  ])('$sessions sessions on $nodes nodes: a join moves little more than its share', (size) => {
    const sessions = sessionsNamed(size.sessions)
    const nodes = nodesNamed(size.nodes + 1)
    const before = assignSessions(sessions, nodes.slice(0, -1))
    const after = assignSessions(sessions, nodes)
    const moved = sessions.filter((id) => before.get(id) !== after.get(id)).length
    const share = size.sessions / (size.nodes + 1)
    expect(moved).toBeLessThanOrEqual(Math.ceil(LOAD_BOUND * share) * 1.5)
  })
})
