/**
 * The wait-for graph of holders and resources: an edge from a waiter to the resource that it waits for, and from there to its
 * holders. A node that can be reached from itself is part of a cycle.
 */
import { excludes } from '../../core/conflict.ts'
import type { LeaseInfo } from '../../core/lease.ts'
import { ancestorsOf, isTree, overlap, type Resource } from '../../core/resource.ts'

export interface GraphNode {
  readonly id: string
  readonly kind: 'holder' | 'resource'
  readonly name: string
}

export interface GraphEdge {
  readonly from: string
  readonly to: string
  readonly kind: 'waits' | 'held_by'
}

export interface WaitEdges {
  readonly nodes: readonly GraphNode[]
  readonly edges: readonly GraphEdge[]
  /** The ids of those in a cycle. */
  readonly stuck: ReadonlySet<string>
  /** Requests that wait, of which not all may be in the graph. */
  readonly waiting: number
}

/** A picture of more cannot be read. */
const WAITS_MAX = 60

export function waitEdgesOf(leases: Iterable<LeaseInfo>): WaitEdges {
  const held = new Map<Resource, LeaseInfo[]>()
  const waits: LeaseInfo[] = []
  for (const lease of leases) {
    if (lease.state === 'pending' || lease.upgrading) waits.push(lease)
    if (lease.state !== 'active') continue
    const own = held.get(lease.resource)
    if (own === undefined) held.set(lease.resource, [lease])
    else own.push(lease)
  }
  const nodes = new Map<string, GraphNode>()
  const edges = new Map<string, GraphEdge>()
  const node = (kind: GraphNode['kind'], name: string): string => {
    const id = `${kind} ${name}`
    nodes.set(id, { id, kind, name })
    return id
  }
  const edge = (from: string, to: string, kind: GraphEdge['kind']): void => {
    edges.set(`${from}\n${to}`, { from, to, kind })
  }
  for (const wait of drawn(waits, held)) {
    for (const blocker of blockersOf(wait, held)) {
      const place = node('resource', blocker.resource)
      edge(node('holder', wait.holder), place, 'waits')
      edge(place, node('holder', blocker.holder), 'held_by')
    }
  }
  const all = [...edges.values()]
  return { nodes: [...nodes.values()], edges: all, stuck: stuckIn(all), waiting: waits.length }
}

/** Those of holders that hold something others wait for come first: only they make chains. */
function drawn(
  waits: readonly LeaseInfo[],
  held: ReadonlyMap<Resource, readonly LeaseInfo[]>,
): readonly LeaseInfo[] {
  if (waits.length <= WAITS_MAX) return waits
  const places = new Set(waits.flatMap(({ resource }) => [resource, ...ancestorsOf(resource)]))
  const leases = [...places].flatMap((place) => held.get(place) ?? [])
  const inTheWay = new Set(leases.map(({ holder }) => holder))
  const isLink = ({ holder }: LeaseInfo): boolean => inTheWay.has(holder)
  return [...waits.filter(isLink), ...waits.filter((one) => !isLink(one))].slice(0, WAITS_MAX)
}

function blockersOf(
  wait: LeaseInfo,
  held: ReadonlyMap<Resource, readonly LeaseInfo[]>,
): readonly LeaseInfo[] {
  const places = [wait.resource, ...ancestorsOf(wait.resource)]
  const near = places.flatMap((place) => held.get(place) ?? [])
  const isWide = wait.extent === 'subtree' && isTree(wait.resource)
  const candidates = isWide ? [...near, ...[...held.values()].flat()] : near
  const asked = { ...wait, mode: wait.upgrading ? ('exclusive' as const) : wait.mode }
  return [...new Set(candidates)].filter((lease) => {
    if (lease.id === wait.id || !overlap(lease, asked)) return false
    // The holders of a counted resource block together: a release by any one of them is enough.
    return excludes(lease, asked) || asked.slots !== null
  })
}

/** The nodes that can be reached from themselves: what is left when everything that leads nowhere is taken away. */
function stuckIn(edges: readonly GraphEdge[]): ReadonlySet<string> {
  const next = new Map<string, string[]>()
  for (const { from, to } of edges) next.set(from, [...(next.get(from) ?? []), to])
  const reaches = (start: string): boolean => {
    const seen = new Set<string>()
    const open = [...(next.get(start) ?? [])]
    for (let one = open.pop(); one !== undefined; one = open.pop()) {
      if (one === start) return true
      if (seen.has(one)) continue
      seen.add(one)
      open.push(...(next.get(one) ?? []))
    }
    return false
  }
  return new Set([...next.keys()].filter(reaches))
}

export interface PlacedNode extends GraphNode {
  readonly column: number
  readonly row: number
}

/** Each node in the column after the last that leads to it; what closes a cycle leads back. */
export function placed({ nodes, edges }: WaitEdges): readonly PlacedNode[] {
  const columns = new Map<string, number>()
  const next = new Map<string, string[]>()
  const isLedTo = new Set<string>()
  for (const { from, to } of edges) {
    next.set(from, [...(next.get(from) ?? []), to])
    isLedTo.add(to)
  }
  const place = (id: string, column: number, path: ReadonlySet<string>): void => {
    if (path.has(id) || (columns.get(id) ?? -1) >= column) return
    columns.set(id, column)
    for (const one of next.get(id) ?? []) place(one, column + 1, new Set([...path, id]))
  }
  for (const { id } of nodes) if (!isLedTo.has(id)) place(id, 0, new Set())
  for (const { id } of nodes) if (!columns.has(id)) place(id, 0, new Set())
  return rowsOf(nodes, columns, edges)
}

/** Each column in the order of those that lead to it, so that few edges cross. */
function rowsOf(
  nodes: readonly GraphNode[],
  columns: ReadonlyMap<string, number>,
  edges: readonly GraphEdge[],
): readonly PlacedNode[] {
  const rows = new Map<string, number>()
  const before = new Map<string, string[]>()
  for (const { from, to } of edges) before.set(to, [...(before.get(to) ?? []), from])
  const weightOf = ({ id }: GraphNode): number => {
    const known = (before.get(id) ?? []).flatMap((one) => rows.get(one) ?? [])
    return known.length === 0 ? -1 : known.reduce((sum, row) => sum + row, 0) / known.length
  }
  const next = new Map<string, string>()
  for (const { from, to } of edges) next.set(from, to)
  const placedNodes: PlacedNode[] = []
  for (let column = 0; column <= Math.max(...columns.values()); column += 1) {
    const own = nodes
      .filter(({ id }) => columns.get(id) === column)
      .map((node) => ({ node, weight: weightOf(node), aim: next.get(node.id) ?? '' }))
      .toSorted((one, other) => one.weight - other.weight || (one.aim < other.aim ? -1 : 1))
    for (const [row, { node }] of own.entries()) {
      rows.set(node.id, row)
      placedNodes.push({ ...node, column, row })
    }
  }
  return placedNodes
}
