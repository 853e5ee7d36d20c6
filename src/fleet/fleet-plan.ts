/**
 * What an instance should do now, decided from what it sees. Pure: the runner does it.
 *
 *  - What it owns and should not: give it to the instance that should, or release it if there is none or if it is not
 *    wanted any more.
 *  - What it should own and does not: acquire it.
 *  - What a foreign instance should own, but has left lying: the best instance of ours takes it.
 */
import { assignSessions, preferredNode } from './assignment.ts'
import type { FleetNode } from './fleet-layout.ts'

export interface Situation {
  readonly self: string
  readonly sessionIds: ReadonlySet<string>
  readonly owned: readonly string[]
  /** Ready and not being drained. */
  readonly candidates: readonly FleetNode[]
  /** This instance wants to be empty. */
  readonly isLeaving: boolean
  /** Sessions whose poll hangs or fails here. */
  readonly isUnfit: (sessionId: string) => boolean
}

export interface Gift {
  readonly sessionId: string
  readonly to: FleetNode
}

export interface FleetPlan {
  readonly keep: readonly string[]
  readonly give: readonly Gift[]
  readonly release: readonly string[]
  readonly acquire: readonly string[]
  /** Of foreign instances, which may or may not take them. */
  readonly standIn: readonly string[]
}

export class FleetPlanner {
  #key: string | null = null
  #sessionIds: ReadonlySet<string> | null = null
  #targets: ReadonlyMap<string, string> = new Map()

  plan(situation: Situation): FleetPlan {
    const { self, sessionIds, candidates, isLeaving, isUnfit } = situation
    const nodes = isLeaving ? candidates.filter((node) => node.instanceId !== self) : candidates
    const targets = this.#assign(sessionIds, nodes)
    const owned = new Set(situation.owned)
    const byId = new Map(nodes.map((node) => [node.instanceId, node]))
    const others = nodes.filter((node) => node.instanceId !== self)
    const targetOf = (id: string): FleetNode | undefined => {
      const target = byId.get(targets.get(id) ?? '')
      if (target?.instanceId !== self || !isUnfit(id)) return target
      return byId.get(preferredNode(id, others) ?? '') ?? target
    }
    return {
      ...sortOwned(situation, targetOf),
      acquire: [...sessionIds].filter((id) => !owned.has(id) && targetOf(id)?.instanceId === self),
      standIn: standIns(situation, nodes, (id) => targetOf(id)?.isForeign === true),
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
): Pick<FleetPlan, 'keep' | 'give' | 'release'> {
  const keep: string[] = []
  const give: Gift[] = []
  const release: string[] = []
  for (const sessionId of owned) {
    const to = targetOf(sessionId)
    if (!sessionIds.has(sessionId) || (to === undefined && isLeaving)) release.push(sessionId)
    else if (to === undefined || to.instanceId === self) keep.push(sessionId)
    else give.push({ sessionId, to })
  }
  return { keep, give, release }
}

function standIns(
  { self, sessionIds, owned }: Situation,
  nodes: readonly FleetNode[],
  isForeign: (sessionId: string) => boolean,
): readonly string[] {
  const ours = nodes.filter((node) => !node.isForeign)
  if (ours.length === nodes.length) return []
  const mine = new Set(owned)
  return [...sessionIds].filter((sessionId) => {
    return !mine.has(sessionId) && isForeign(sessionId) && preferredNode(sessionId, ours) === self
  })
}
