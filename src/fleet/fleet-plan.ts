/**
 * Decides what an instance should do now. Pure: the runner carries it out.
 *
 *  - A session that it owns and should not: hand it to the instance that should own it, or release it if there is none or
 *    if the session is not in the list any more.
 *  - A session that it should own and does not: acquire it.
 *  - A session that a foreign instance should own and does not take: the best instance of ours acquires it.
 */
import { assignSessions, preferredNode } from './assignment.ts'
import type { FleetNode } from './fleet-layout.ts'

export interface Situation {
  readonly self: string
  readonly sessionIds: ReadonlySet<string>
  readonly owned: readonly string[]
  /** Ready and not being drained. */
  readonly candidates: readonly FleetNode[]
  /** This instance is draining or stopping. */
  readonly isLeaving: boolean
  /** Sessions whose poll hangs or fails here. */
  readonly isUnhealthy: (sessionId: string) => boolean
}

export interface Handover {
  readonly sessionId: string
  readonly to: FleetNode
}

export interface FleetPlan {
  readonly keep: readonly string[]
  readonly handOver: readonly Handover[]
  readonly release: readonly string[]
  readonly acquire: readonly string[]
  /** Sessions of foreign instances, to be acquired if those do not take them. */
  readonly fallback: readonly string[]
}

export class FleetPlanner {
  #key: string | null = null
  #sessionIds: ReadonlySet<string> | null = null
  #targets: ReadonlyMap<string, string> = new Map()

  plan(situation: Situation): FleetPlan {
    const { self, sessionIds, candidates, isLeaving, isUnhealthy } = situation
    const nodes = isLeaving ? candidates.filter((node) => node.instanceId !== self) : candidates
    const targets = this.#assign(sessionIds, nodes)
    const owned = new Set(situation.owned)
    const byId = new Map(nodes.map((node) => [node.instanceId, node]))
    const others = nodes.filter((node) => node.instanceId !== self)
    const targetOf = (id: string): FleetNode | undefined => {
      const target = byId.get(targets.get(id) ?? '')
      if (target?.instanceId !== self || !isUnhealthy(id)) return target
      return byId.get(preferredNode(id, others) ?? '') ?? target
    }
    return {
      ...sortOwned(situation, targetOf),
      acquire: [...sessionIds].filter((id) => !owned.has(id) && targetOf(id)?.instanceId === self),
      fallback: fallbacks(situation, nodes, (id) => targetOf(id)?.isForeign === true),
    }
  }

  /** Computed anew only when nodes or sessions have changed: it takes a second for the largest fleets. */
  #assign(
    sessionIds: ReadonlySet<string>,
    nodes: readonly FleetNode[],
  ): ReadonlyMap<string, string> {
    const names = nodes.map(({ instanceId, weight }) => `${instanceId} ${weight}`)
    const key = names.toSorted().join('\n')
    if (this.#key === key && this.#sessionIds === sessionIds) return this.#targets
    this.#key = key
    this.#sessionIds = sessionIds
    this.#targets = assignSessions([...sessionIds], nodes)
    return this.#targets
  }
}

function sortOwned(
  { self, sessionIds, owned, isLeaving }: Situation,
  targetOf: (sessionId: string) => FleetNode | undefined,
): Pick<FleetPlan, 'keep' | 'handOver' | 'release'> {
  const keep: string[] = []
  const handOver: Handover[] = []
  const release: string[] = []
  for (const sessionId of owned) {
    const to = targetOf(sessionId)
    if (!sessionIds.has(sessionId) || (to === undefined && isLeaving)) release.push(sessionId)
    else if (to === undefined || to.instanceId === self) keep.push(sessionId)
    else handOver.push({ sessionId, to })
  }
  return { keep, handOver, release }
}

function fallbacks(
  { self, sessionIds, owned }: Situation,
  nodes: readonly FleetNode[],
  isForeign: (sessionId: string) => boolean,
): readonly string[] {
  const ours = nodes.filter((node) => !node.isForeign)
  if (ours.length === nodes.length) return []
  const isOwned = new Set(owned)
  return [...sessionIds].filter((sessionId) => {
    return (
      !isOwned.has(sessionId) && isForeign(sessionId) && preferredNode(sessionId, ours) === self
    )
  })
}
