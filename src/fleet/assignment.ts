/**
 * Who should own which session. Pure: the same nodes and sessions give the same answer on every instance, in whatever
 * order they are listed.
 *
 * Every session ranks the nodes by weighted rendezvous. `preferredNode` is the first of that ranking. The assignment
 * adds a bound: no node gets more than ⌈1.2 × its share⌉. A node that more sessions prefer keeps those with the highest
 * scores, and the others go to the next node of their ranking. Sessions and nodes rank each other by the same scores,
 * so there is exactly one stable matching.
 *
 * What moves when a node joins or leaves: a session whose first choice stays and that is at its first choice before
 * and after does not move. So at most the sessions whose first choice changed move (those that plain rendezvous moves),
 * and those that the bound keeps from their first choice before or after.
 */
import { SlotHeap, type Slot } from '../client/renewal-scheduler.ts'
import { invalid } from '../core/errors.ts'
import { NAME_BYTES_MAX } from '../core/limits.ts'
import { requireShortText } from '../core/input.ts'
import { parseWeight } from './fleet-options.ts'

export interface Candidate {
  readonly instanceId: string
  /** Its share relative to the other nodes. */
  readonly weight: number
}

/** How far above its share a node may be. */
export const LOAD_BOUND = 1.2

/** Nodes in the one order that all instances use, laid out for the innermost loop. */
interface Ranking {
  readonly ids: readonly string[]
  readonly high: Int32Array
  readonly low: Int32Array
  readonly weights: Float64Array
  /** All nodes weigh the same; then the logarithm keeps the order, and would cost most of the time. */
  readonly isEven: boolean
}

/** Cached, because callers pass the same nodes for many sessions. */
const rankings = new WeakMap<readonly Candidate[], Ranking>()

/** Weighted rendezvous without a bound; null if there is no node. */
export function preferredNode(sessionId: string, nodes: readonly Candidate[]): string | null {
  const ranking = rankingOf(nodes)
  return ranking.ids[bestBelow(hashName(sessionId), ranking, NO_CEILING).index] ?? null
}

/** Session to node, for all sessions; empty if there is no node. */
export function assignSessions(
  sessionIds: readonly string[],
  nodes: readonly Candidate[],
): ReadonlyMap<string, string> {
  const ranking = rankingOf(nodes)
  if (ranking.ids.length === 0) return new Map()
  const sessions = [...new Set(sessionIds)].sort()
  const capacities = capacitiesOf(sessions.length, ranking.weights)
  const places = match(sessions.map(hashName), ranking, capacities)
  return new Map(sessions.map((id, index) => [id, ranking.ids[places[index] ?? 0] ?? '']))
}

/** The most that each node may get, in the order of their weights. */
export function capacitiesOf(sessions: number, weights: Iterable<number>): readonly number[] {
  const each = [...weights]
  const total = each.reduce((sum, weight) => sum + weight, 0)
  return each.map((weight) => Math.ceil((LOAD_BOUND * sessions * weight) / total - ROUNDING))
}

/** 1.2 × 5 is a hair more than 6 in binary. */
const ROUNDING = 1e-9

/** In one order, each once: the answer must not depend on how a store lists them. */
function rankingOf(nodes: readonly Candidate[]): Ranking {
  const known = rankings.get(nodes)
  if (known !== undefined) return known
  const unique = new Map(nodes.map((node) => [node.instanceId, node]))
  const sorted = [...unique.values()].sort((a, b) => (a.instanceId < b.instanceId ? -1 : 1))
  const hashes = sorted.map(({ instanceId }) => hashName(instanceId))
  const ranking: Ranking = {
    ids: sorted.map(({ instanceId }) => instanceId),
    high: Int32Array.from(hashes, ({ high }) => high),
    low: Int32Array.from(hashes, ({ low }) => low),
    weights: Float64Array.from(sorted, ({ weight }) => weight),
    isEven: sorted.every(({ weight }) => weight === sorted[0]?.weight),
  }
  rankings.set(nodes, ranking)
  return ranking
}

interface Choice {
  /** -1: none is left. */
  readonly index: number
  readonly score: number
}

const NO_CEILING: Choice = { index: -1, score: Infinity }

/** The best node that ranks after `ceiling`; of equal scores the one that is listed first. */
function bestBelow(session: NameHash, ranking: Ranking, ceiling: Choice): Choice {
  const { high, low, weights, isEven } = ranking
  let best = -1
  let bestScore = -Infinity
  for (let index = 0; index < high.length; index += 1) {
    const unit = unitOf(session, high[index] ?? 0, low[index] ?? 0)
    const score = isEven ? unit : -(weights[index] ?? 1) / Math.log(unit)
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
  ranking: Ranking,
  capacities: readonly number[],
): readonly number[] {
  const choices = sessions.map((): Choice => NO_CEILING)
  const taken = ranking.ids.map(() => new KeyedHeap<number>())
  for (const first of sessions.keys()) {
    let asking: number | undefined = first
    while (asking !== undefined) {
      const session: NameHash | undefined = sessions[asking]
      if (session === undefined) break
      const choice: Choice = bestBelow(session, ranking, choices[asking] ?? NO_CEILING)
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

/*
 * The hash. Names of sessions and nodes are often alike (`session-1`, `session-2`), so every bit of the input must reach
 * every bit of the output: each name is folded into two words, and the words of a session and of a node are mixed again.
 *
 * All instances of a fleet must agree on it, whatever version they run. The values in its test are a contract.
 */

/** A name as two 32-bit words. */
export interface NameHash {
  readonly high: number
  readonly low: number
}

const HIGH_SEED = 0x9e3779b9
const LOW_SEED = 0x85ebca6b
const FOLD_PRIME = 0x01000193

export function hashName(name: string): NameHash {
  return { high: fold(name, HIGH_SEED), low: fold(name, LOW_SEED) }
}

/** The hash of a session and a node, uniform over the open interval from 0 to 1. */
export function unitOf(session: NameHash, nodeHigh: number, nodeLow: number): number {
  const high = avalanche(session.high ^ Math.imul(nodeHigh, 0x27d4eb2f))
  const low = avalanche(session.low + Math.imul(nodeLow, 0x165667b1) + high)
  return ((high >>> 6) * 0x4000000 + (low >>> 6) + 0.5) / 0x10000000000000
}

function fold(name: string, seed: number): number {
  let word = seed
  for (let index = 0; index < name.length; index += 1) {
    word = Math.imul(word ^ name.charCodeAt(index), FOLD_PRIME)
    word ^= word >>> 15
  }
  return avalanche(word ^ name.length)
}

/** A bijection of 32-bit words in which each input bit flips half of the output bits. */
function avalanche(word: number): number {
  let mixed = word
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x7feb352d)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x846ca68b)
  return (mixed ^ (mixed >>> 16)) | 0
}

/** An instance id, with or without a weight; the default is 1. */
export type RankedNode = string | { readonly instanceId: string; readonly weight?: number }

/**
 * The first choice of a session, by weighted rendezvous hashing and without a bound on load; null without nodes. For
 * programs without a manager: over instance ids as `getLiveNodes` returns them, or with weights. The arguments are
 * checked like any input.
 */
export function preferredOwner(sessionId: string, liveNodes: readonly RankedNode[]): string | null {
  return preferredNode(readId('sessionId', sessionId), readNodes(liveNodes))
}

/** Session to instance for all of them, none above ⌈1.2 × its share⌉, as `runFleet` does; empty without nodes. */
export function assignOwners(
  sessionIds: readonly string[],
  liveNodes: readonly RankedNode[],
): ReadonlyMap<string, string> {
  if (!Array.isArray(sessionIds)) throw invalid('sessionIds', 'must be an array', sessionIds)
  const ids = sessionIds.map((sessionId: unknown) => readId('sessionId', sessionId))
  return assignSessions(ids, readNodes(liveNodes))
}

function readNodes(nodes: unknown): readonly Candidate[] {
  if (!Array.isArray(nodes)) throw invalid('liveNodes', 'must be an array', nodes)
  return nodes.map((node: unknown): Candidate => {
    if (typeof node !== 'object' || node === null) {
      return { instanceId: readId('instanceId', node), weight: 1 }
    }
    const { instanceId, weight = 1 } = node as Readonly<Record<string, unknown>>
    return { instanceId: readId('instanceId', instanceId), weight: parseWeight(weight) }
  })
}

function readId(field: string, value: unknown): string {
  return requireShortText({ field, bytesMax: NAME_BYTES_MAX }, value)
}

/** A heap from which an item is moved or taken out by itself: it leaves at once, not when its time comes. */
export class KeyedHeap<Item> {
  readonly #heap = new SlotHeap<Item>()
  readonly #slots = new Map<Item, Slot<Item>>()

  get size(): number {
    return this.#heap.size
  }

  /** The item with the smallest key. */
  get first(): { readonly item: Item; readonly key: number } | undefined {
    return this.#heap.first
  }

  items(): Iterable<Item> {
    return this.#slots.keys()
  }

  /** Puts the item in, or moves it if it is in already. */
  set(item: Item, key: number): void {
    const slot = this.#slots.get(item)
    if (slot === undefined) this.#slots.set(item, this.#heap.add(item, key))
    else this.#heap.move(slot, key)
  }

  delete(item: Item): void {
    const slot = this.#slots.get(item)
    if (slot === undefined) return
    this.#slots.delete(item)
    this.#heap.remove(slot)
  }

  clear(): void {
    this.#heap.clear()
    this.#slots.clear()
  }
}
