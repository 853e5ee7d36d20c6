/** A fleet as people want to see it: who owns what, who should, and when each was last heard of. */
import { preferredNode } from './assignment.ts'
import type { FleetLayout, FleetNode, OwnedRow, Survey } from './fleet-layout.ts'

/**
 * `owned`: renewed of late by an instance that is there. `uncertain`: it is there, but a renewal is overdue.
 * `orphaned`: its instance shows no heartbeat; another takes it when it is over.
 */
export type SessionState = 'owned' | 'uncertain' | 'orphaned'

/** `silent`: it owns something and shows no heartbeat: dead, or not ready. */
export type NodeState = 'ready' | 'draining' | 'silent'

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
  /** What a lease is granted for, where the store does not say. */
  readonly leaseTtlMs: number
}

export async function readOverview(layout: FleetLayout, facts: OverviewFacts): Promise<Overview> {
  const [{ nodes }, survey] = await Promise.all([layout.nodes(), layout.survey()])
  return overviewOf(nodes, survey, facts)
}

export function overviewOf(
  nodes: readonly FleetNode[],
  { owned, draining }: Survey,
  facts: OverviewFacts,
): Overview {
  const isDraining = new Set(draining)
  const candidates = nodes.filter(({ instanceId }) => !isDraining.has(instanceId))
  const present = new Set([...nodes.map(({ instanceId }) => instanceId), ...draining])
  const sessions = owned.map((row): SessionRow => {
    const state = present.has(row.owner) ? stateOf(row, facts) : 'orphaned'
    const { sessionId, owner: ownerId, remainingMs } = row
    const preferredOwnerId = preferredNode(sessionId, candidates)
    const lastRenewedAtMs = renewedAtMs(row, facts)
    return { sessionId, ownerId, preferredOwnerId, state, lastRenewedAtMs, remainingMs }
  })
  return {
    nodes: nodeRows(nodes, { owned, draining }),
    sessions: sessions.toSorted((a, b) => (a.sessionId < b.sessionId ? -1 : 1)),
  }
}

function nodeRows(nodes: readonly FleetNode[], { owned, draining }: Survey): readonly NodeRow[] {
  const known = new Map(nodes.map((node) => [node.instanceId, node]))
  const isDraining = new Set(draining)
  const counts = new Map<string, number>()
  for (const { owner } of owned) counts.set(owner, (counts.get(owner) ?? 0) + 1)
  const ids = new Set([...known.keys(), ...draining, ...owned.map(({ owner }) => owner)])
  return [...ids].toSorted().map((instanceId): NodeRow => {
    const node = known.get(instanceId)
    const isReady = node !== undefined && !isDraining.has(instanceId)
    return {
      instanceId,
      name: node?.name ?? null,
      state: isReady ? 'ready' : isDraining.has(instanceId) ? 'draining' : 'silent',
      isForeign: node?.isForeign ?? false,
      weight: node?.weight ?? null,
      sessions: counts.get(instanceId) ?? 0,
    }
  })
}

function renewedAtMs(
  { remainingMs, ttlMs }: OwnedRow,
  { nowMs, leaseTtlMs }: OverviewFacts,
): number | null {
  return remainingMs === null ? null : nowMs - ((ttlMs ?? leaseTtlMs) - remainingMs)
}

/** A renewal comes before half of the TTL is over. */
function stateOf({ remainingMs, ttlMs }: OwnedRow, { leaseTtlMs }: OverviewFacts): SessionState {
  return remainingMs !== null && remainingMs < (ttlMs ?? leaseTtlMs) / 2 ? 'uncertain' : 'owned'
}
