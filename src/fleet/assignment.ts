/**
 * Who should own which session. Pure: the same nodes and sessions give the same answer on every instance, in whatever
 * order they are listed.
 *
 * Every session ranks the nodes by weighted rendezvous. `preferredNode` is the first of that ranking. The assignment
 * adds a bound: no node gets more than ⌈1.2 × its share⌉. A node that more sessions prefer keeps those with the highest
 * scores, and the others go on to the next node of their ranking. Sessions and nodes rank each other by the same
 * scores, so there is exactly one assignment in which nobody would rather be elsewhere and could be.
 *
 * What moves when a node joins or leaves: a session whose first choice stays and that is at its first choice before
 * and after does not move. So at most the sessions whose first choice changed move (those that plain rendezvous moves),
 * and those that the bound keeps from their first choice before or after.
 */
import { KeyedHeap } from '../client/keyed-heap.ts'
import { hashName, unitOf, type NameHash } from './mixing-hash.ts'

export interface Candidate {
  readonly instanceId: string
  /** Its share relative to the others'. */
  readonly weight: number
}

/** How far above its share a node may be. */
export const LOAD_BOUND = 1.2

interface Ranked extends Candidate {
  readonly hash: NameHash
  /** All nodes weigh the same. */
  readonly isEven: boolean
}

/** Weighted rendezvous without a bound; null if there is no node. */
export function preferredNode(sessionId: string, nodes: readonly Candidate[]): string | null {
  const ranked = rankable(nodes)
  return ranked[bestBelow(hashName(sessionId), ranked, NO_CEILING).index]?.instanceId ?? null
}

/** Session to node, for all sessions; empty if there is no node. */
export function assignSessions(
  sessionIds: readonly string[],
  nodes: readonly Candidate[],
): ReadonlyMap<string, string> {
  const ranked = rankable(nodes)
  if (ranked.length === 0) return new Map()
  const sessions = [...new Set(sessionIds)].sort()
  const capacities = capacitiesOf(sessions.length, ranked)
  const places = match(sessions.map(hashName), ranked, capacities)
  return new Map(sessions.map((id, index) => [id, ranked[places[index] ?? 0]?.instanceId ?? '']))
}

/** The most that each node may get, in the order of the nodes. */
export function capacitiesOf(sessions: number, nodes: readonly Candidate[]): readonly number[] {
  const total = nodes.reduce((sum, { weight }) => sum + weight, 0)
  return nodes.map(({ weight }) => Math.ceil((LOAD_BOUND * sessions * weight) / total - ROUNDING))
}

/** 1.2 × 5 is a hair more than 6 in binary. */
const ROUNDING = 1e-9

/** In one order, each once: the answer must not depend on how a store lists them. */
function rankable(nodes: readonly Candidate[]): readonly Ranked[] {
  const unique = new Map(nodes.map((node) => [node.instanceId, node]))
  const sorted = [...unique.values()].sort((a, b) => (a.instanceId < b.instanceId ? -1 : 1))
  const isEven = sorted.every(({ weight }) => weight === sorted[0]?.weight)
  return sorted.map((node) => ({ ...node, hash: hashName(node.instanceId), isEven }))
}

interface Choice {
  /** -1: none is left. */
  readonly index: number
  readonly score: number
}

const NO_CEILING: Choice = { index: -1, score: Infinity }

/** The best node that ranks after `ceiling`; of equal scores the one that is listed first. */
function bestBelow(session: NameHash, nodes: readonly Ranked[], ceiling: Choice): Choice {
  let best = -1
  let bestScore = -Infinity
  for (let index = 0; index < nodes.length; index += 1) {
    const node = nodes[index]
    if (node === undefined) continue
    const unit = unitOf(session, node.hash)
    // Of nodes that weigh the same the logarithm keeps the order, and costs most of the time.
    const score = node.isEven ? unit : -node.weight / Math.log(unit)
    if (score <= bestScore || score > ceiling.score) continue
    if (score === ceiling.score && index <= ceiling.index) continue
    best = index
    bestScore = score
  }
  return { index: best, score: bestScore }
}

/** Each session asks its best node; a node that is full turns its lowest away, which asks its next. */
function match(
  sessions: readonly NameHash[],
  nodes: readonly Ranked[],
  capacities: readonly number[],
): readonly number[] {
  const choices = sessions.map((): Choice => NO_CEILING)
  const taken = nodes.map(() => new KeyedHeap<number>())
  for (const first of sessions.keys()) {
    let asking: number | undefined = first
    while (asking !== undefined) {
      const session: NameHash | undefined = sessions[asking]
      if (session === undefined) break
      const choice: Choice = bestBelow(session, nodes, choices[asking] ?? NO_CEILING)
      choices[asking] = choice
      const group: KeyedHeap<number> | undefined = taken[choice.index]
      if (group === undefined) break
      group.set(asking, choice.score)
      asking = group.size > (capacities[choice.index] ?? 0) ? group.first?.item : undefined
      if (asking !== undefined) group.delete(asking)
    }
  }
  return choices.map(({ index }) => index)
}
