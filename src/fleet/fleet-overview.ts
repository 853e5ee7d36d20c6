/** A fleet as `tenure fleet` shows it: owner, preferred owner and last renewal of each session, and the nodes. */
import { preferredNode } from './assignment.ts'
import type { FleetLayout, FleetNode, Survey } from './fleet-layout.ts'

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
  survey: Survey,
  facts: OverviewFacts,
): Overview {
  const { owned, draining, hidden } = survey
  const isDraining = new Set(draining)
  const candidates = nodes.filter(({ instanceId }) => !isDraining.has(instanceId))
  const known = new Map([...nodes, ...hidden].map((node) => [node.instanceId, node]))
  const present = new Set([...known.keys(), ...draining])
  const sessions = owned.map((row): SessionRow => {
    const ttlMs = row.ttlMs ?? known.get(row.owner)?.leaseTtlMs ?? facts.leaseTtlMs
    const { sessionId, owner: ownerId, remainingMs } = row
    const state = present.has(ownerId) ? stateOf(remainingMs, ttlMs) : 'orphaned'
    const preferredOwnerId = preferredNode(sessionId, candidates)
    const lastRenewedAtMs = remainingMs === null ? null : facts.nowMs - (ttlMs - remainingMs)
    return { sessionId, ownerId, preferredOwnerId, state, lastRenewedAtMs, remainingMs }
  })
  return {
    nodes: nodeRows(nodes, survey),
    sessions: sessions.toSorted((a, b) => (a.sessionId < b.sessionId ? -1 : 1)),
  }
}

function nodeRows(nodes: readonly FleetNode[], survey: Survey): readonly NodeRow[] {
  const { owned, draining, hidden } = survey
  const known = new Map([...hidden, ...nodes].map((node) => [node.instanceId, node]))
  const isDraining = new Set(draining)
  const isReady = new Set(nodes.map(({ instanceId }) => instanceId))
  const counts = new Map<string, number>()
  for (const { owner } of owned) counts.set(owner, (counts.get(owner) ?? 0) + 1)
  const stateOfNode = (id: string): NodeState => {
    if (isDraining.has(id)) return 'draining'
    if (isReady.has(id)) return 'ready'
    return known.has(id) ? 'not_ready' : 'silent'
  }
  const ids = new Set([...known.keys(), ...draining, ...counts.keys()])
  return [...ids].toSorted().map((instanceId): NodeRow => {
    const node = known.get(instanceId)
    return {
      instanceId,
      name: node?.name ?? null,
      state: stateOfNode(instanceId),
      isForeign: node?.isForeign ?? false,
      weight: node?.weight ?? null,
      sessions: counts.get(instanceId) ?? 0,
    }
  })
}

/** A renewal comes before half of the TTL is over. */
function stateOf(remainingMs: number | null, ttlMs: number): SessionState {
  return remainingMs !== null && remainingMs < ttlMs / 2 ? 'uncertain' : 'owned'
}
