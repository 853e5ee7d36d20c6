/**
 * Fleets by their nodes. With leases `node:ID` says who is there, `session:ID` who polls what, `drain:ID` who should be empty; a
 * fleet on keys of polling services has no leases, and the server reads its keys.
 */
import type { LeaseInfo } from '../../core/lease.ts'
import { kindOf, nameOf, type Resource } from '../../core/resource.ts'
import type { AnswerOf } from '../../protocol/answers.ts'
import type { LedgerRow } from '../wire/answers.ts'

export interface NodeLoad {
  readonly id: string
  readonly name: string | null
  /** `silent`: it owns something and shows no heartbeat. */
  readonly state: 'ready' | 'not_ready' | 'draining' | 'silent'
  readonly weight: number
  readonly sessions: readonly NodeSession[]
  /** Null: it has none, or none that is a lease. */
  readonly heartbeat: LeaseInfo | null
}

export interface NodeSession {
  readonly name: string
  /** Null: a key of polling services, of which there is no other view. */
  readonly resource: Resource | null
}

export function nodesOf(leases: Iterable<LeaseInfo>): readonly NodeLoad[] {
  const heartbeats = new Map<string, LeaseInfo>()
  const draining = new Set<string>()
  const sessions = new Map<string, NodeSession[]>()
  for (const lease of leases) {
    if (lease.state !== 'active') continue
    const kind = kindOf(lease.resource)
    if (kind === 'node') heartbeats.set(nameOf(lease.resource), lease)
    else if (kind === 'drain') draining.add(nameOf(lease.resource))
    else if (kind === 'session') {
      const { holder, resource } = lease
      const own = sessions.get(holder) ?? []
      own.push({ name: nameOf(resource), resource })
      sessions.set(holder, own)
    }
  }
  const ids = new Set([...heartbeats.keys(), ...draining, ...sessions.keys()])
  return [...ids].toSorted().map((id) => {
    const heartbeat = heartbeats.get(id) ?? null
    const weight = Number(heartbeat?.metadata?.['weight'] ?? 1)
    const name = heartbeat?.metadata?.['name']
    return {
      ...{ id, heartbeat, weight: weight > 0 ? weight : 1, sessions: sessions.get(id) ?? [] },
      name: typeof name === 'string' ? name : null,
      state: draining.has(id) ? 'draining' : heartbeat === null ? 'silent' : 'ready',
    }
  })
}

export function pollNodesOf({ nodes, sessions }: AnswerOf<'fleet'>): readonly NodeLoad[] {
  return nodes.map(({ instanceId: id, name, state, weight }) => ({
    ...{ id, name, state, weight: weight ?? 1, heartbeat: null },
    sessions: sessions
      .filter(({ ownerId }) => ownerId === id)
      .map(({ sessionId }) => ({ name: sessionId, resource: null })),
  }))
}

export interface Rebalance {
  readonly atMs: number
  /** `from → to` and how many. */
  readonly moves: readonly { readonly from: string; readonly to: string; readonly count: number }[]
  readonly count: number
}

/** Handovers that follow each other within this time are one rebalance. */
const TOGETHER_MS = 5_000

/** The newest first. `rows` in order of commit. */
export function rebalancesOf(rows: readonly LedgerRow[]): readonly Rebalance[] {
  const owners = new Map<Resource, string>()
  const groups: { atMs: number; untilMs: number; moves: Map<string, number> }[] = []
  for (const { event } of rows) {
    if (kindOf(event.resource) !== 'session') continue
    if (event.type === 'lease.issued') {
      const before = owners.get(event.resource)
      owners.set(event.resource, event.holder)
      if (before === undefined || before === event.holder) continue
      const last = groups.at(-1)
      const isSame = last !== undefined && event.atMs - last.untilMs < TOGETHER_MS
      const group = isSame ? last : { atMs: event.atMs, untilMs: event.atMs, moves: new Map() }
      if (!isSame) groups.push(group)
      group.untilMs = event.atMs
      const move = `${before}\n${event.holder}`
      group.moves.set(move, (group.moves.get(move) ?? 0) + 1)
    }
  }
  return groups.toReversed().map(({ atMs, moves }) => {
    const named = [...moves].map(([move, count]) => {
      const [from = '', to = ''] = move.split('\n')
      return { from, to, count }
    })
    return { atMs, moves: named, count: named.reduce((sum, { count }) => sum + count, 0) }
  })
}
