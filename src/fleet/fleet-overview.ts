/** A fleet as `tenure fleet` shows it: owner, preferred owner and last renewal of each session, and the nodes. */
import { preferredNode } from './assignment.ts'
import type { FleetLayout, FleetNode, OwnedRow, Survey } from './fleet-layout.ts'

/**
 * `owned`: its owner is running and has renewed it in time. `uncertain`: its owner is running, but a renewal is overdue.
 * `orphaned`: its owner has no heartbeat; another instance takes it when it expires.
 */
export type SessionState = 'owned' | 'uncertain' | 'orphaned'

/** `not_ready`: it runs and receives no sessions yet. `silent`: it owns sessions and has no heartbeat: dead, or cut off. */
export type NodeState = 'ready' | 'not_ready' | 'draining' | 'silent'

export interface SessionRow {
  readonly sessionId: string
  readonly ownerId: string
  readonly preferredOwnerId: string | null
  readonly state: SessionState
  readonly lastRenewedAtMs: number | null
  readonly remainingMs: number | null
}

export interface NodeRow {
  readonly instanceId: string
  readonly name: string | null
  readonly state: NodeState
  readonly isForeign: boolean
  readonly weight: number | null
  readonly sessions: number
}

export interface Overview {
  readonly nodes: readonly NodeRow[]
  readonly sessions: readonly SessionRow[]
}

export interface OverviewFacts {
  readonly nowMs: number
  /** The TTL of a lease, where neither the store nor its owner has it. */
  readonly leaseTtlMs: number
}

export async function readOverview(layout: FleetLayout, facts: OverviewFacts): Promise<Overview> {
  const { nodes } = await layout.nodes()
  return overviewOf(nodes, await layout.survey(), facts)
}

export function overviewOf(
  nodes: readonly FleetNode[],
  { owned, draining, hidden }: Survey,
  facts: OverviewFacts,
): Overview {
  const isDraining = new Set(draining)
  const isReady = new Set(nodes.map(({ instanceId }) => instanceId))
  const known = new Map([...nodes, ...hidden].map((node) => [node.instanceId, node]))
  const candidates = nodes.filter(({ instanceId }) => !isDraining.has(instanceId))
  const counts = new Map<string, number>()
  for (const { owner } of owned) counts.set(owner, (counts.get(owner) ?? 0) + 1)
  const nodeStateOf = (id: string): NodeState => {
    if (isDraining.has(id)) return 'draining'
    if (isReady.has(id)) return 'ready'
    return known.has(id) ? 'not_ready' : 'silent'
  }
  const rowOf = (instanceId: string): NodeRow => {
    const { name = null, isForeign = false, weight = null } = known.get(instanceId) ?? {}
    const sessions = counts.get(instanceId) ?? 0
    return { instanceId, name, state: nodeStateOf(instanceId), isForeign, weight, sessions }
  }
  const sessionOf = ({ sessionId, owner: ownerId, ...row }: OwnedRow): SessionRow => {
    const { remainingMs } = row
    const ttlMs = row.ttlMs ?? known.get(ownerId)?.leaseTtlMs ?? facts.leaseTtlMs
    const state = nodeStateOf(ownerId) === 'silent' ? 'orphaned' : stateOf(remainingMs, ttlMs)
    const preferredOwnerId = preferredNode(sessionId, candidates)
    const lastRenewedAtMs = remainingMs === null ? null : facts.nowMs - (ttlMs - remainingMs)
    return { sessionId, ownerId, preferredOwnerId, state, lastRenewedAtMs, remainingMs }
  }
  const ids = new Set([...known.keys(), ...draining, ...counts.keys()])
  return {
    nodes: [...ids].toSorted().map(rowOf),
    sessions: owned.map(sessionOf).toSorted((a, b) => (a.sessionId < b.sessionId ? -1 : 1)),
  }
}

/** A renewal comes before half of the TTL is over. */
function stateOf(remainingMs: number | null, ttlMs: number): SessionState {
  return remainingMs !== null && remainingMs < ttlMs / 2 ? 'uncertain' : 'owned'
}
