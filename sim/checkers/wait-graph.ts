/**
 * Who waits for whom at one moment, and who can be helped by nobody: sessions in a circle, and those who wait for them.
 * Built anew from the ledger, with none of the service's search.
 */
import type { Entry, LeaseId } from '../../src/core/lease.ts'
import type { Evidence } from '../evidence.ts'
import type { Step } from './ledger-walk.ts'
import { obstaclesOf } from './obstacles.ts'

/** One who waits, and the sessions that stand in its way. */
export interface Edge {
  readonly entry: Entry
  /** All of them must go. */
  readonly alone: readonly string[]
  /** Of these, fewer than `places` may be left. */
  readonly sharers: readonly string[]
  readonly places: number
}

export function edgesAt(step: Step, evidence: Evidence): readonly Edge[] {
  const edges: Edge[] = []
  for (const entry of step.live.values()) {
    const isTicket = entry.kind === 'ticket' && entry.state === 'pending' && entry.offer === null
    const isUpgrade = entry.kind === 'lease' && entry.state === 'active' && entry.upgrading
    if (!isTicket && !isUpgrade) continue
    const claim = isTicket ? entry : { ...entry, mode: 'exclusive' as const, slots: null }
    const keyUs = step.keys.get(entry.id) ?? Infinity
    const found = obstaclesOf({ claim, keyUs }, step, { evidence, byUs: step.atUs })
    const others = found.filter(({ kind, entry: other }) => {
      if (kind === 'delay' || other.session === entry.session) return false
      return isTicket || kind !== 'ticket'
    })
    const sessions = (isSharer: boolean): readonly string[] => {
      return others.filter((one) => one.isSharer === isSharer).map((one) => one.entry.session)
    }
    const places = claim.slots ?? Infinity
    edges.push({ entry, alone: sessions(false), sharers: sessions(true), places })
  }
  return edges
}

/** Those whom nobody who runs can help. */
export function stuckEdges(edges: readonly Edge[]): readonly Edge[] {
  let stuck = edges
  for (;;) {
    const sessions = new Set(stuck.map(({ entry }) => entry.session))
    const left = stuck.filter(({ alone, sharers, places }) => {
      if (alone.some((session) => sessions.has(session))) return true
      return sharers.filter((session) => sessions.has(session)).length >= places
    })
    if (left.length === stuck.length) return left
    stuck = left
  }
}

/** The sessions that wait for themselves through others, each with all in the same circles as one name. */
export function circlesIn(stuck: readonly Edge[]): ReadonlyMap<string, readonly Edge[]> {
  const circles = new Map<string, readonly Edge[]>()
  for (const { entry } of stuck) {
    const reached = reachedFrom(entry.session, stuck)
    if (!reached.has(entry.session)) continue
    const mates = stuck.filter((edge) => {
      const { session } = edge.entry
      return reached.has(session) && reachedFrom(session, stuck).has(entry.session)
    })
    circles.set(nameOf(mates.map((mate) => mate.entry.id)), mates)
  }
  return circles
}

function nameOf(ids: readonly LeaseId[]): string {
  return ids.toSorted().join()
}

/** Whom a session waits for, and whom those wait for, as far as it goes. */
function reachedFrom(session: string, stuck: readonly Edge[]): ReadonlySet<string> {
  const reached = new Set<string>()
  const waiting = new Set(stuck.map(({ entry }) => entry.session))
  let level = [session]
  while (level.length > 0) {
    const next = stuck
      .filter(({ entry }) => level.includes(entry.session))
      .flatMap(({ alone, sharers }) => [...alone, ...sharers])
      .filter((one) => waiting.has(one) && !reached.has(one))
    for (const one of next) reached.add(one)
    level = [...new Set(next)]
  }
  return reached
}
