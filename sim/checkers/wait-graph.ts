/**
 * Which requests wait for which at one moment, and which of them can never be granted: those in a cycle, and those that wait
 * for them. Built anew from the ledger, with none of the service's search.
 *
 * A request waits for the leases and earlier tickets in its way; a lease is released only after the requests that its
 * holder waits for under it. The ledger tells what was said. What was implied it does not tell: that counts only where a
 * refusal is judged.
 */
import type { Entry, LeaseId } from '../../src/core/lease.ts'
import type { Evidence } from '../evidence.ts'
import type { Step } from './ledger-walk.ts'
import { obstaclesOf, placesOf } from './obstacles.ts'

/** A request that waits, and what stands in its way. */
export interface Edge {
  readonly entry: Entry
  /** Of a request for several resources all members wait or none does. */
  readonly name: string
  /** All of them must go. */
  readonly alone: readonly Entry[]
  /** Of these, fewer may be left than `places`, and than those that are left share with. */
  readonly sharers: readonly Entry[]
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
      if (kind === 'delay' || kind === 'offer' || isGiftTo(entry, other)) return false
      if (other.kind === 'lease' && other.revoking !== null) return false
      return isTicket || kind !== 'ticket'
    })
    const entries = (isSharer: boolean): readonly Entry[] => {
      return others.filter((one) => one.isSharer === isSharer).map((one) => one.entry)
    }
    edges.push({
      entry,
      name: nameOf(entry),
      alone: entries(false),
      sharers: entries(true),
      places: placesOf(claim),
    })
  }
  return edges
}

function isGiftTo({ holder, resource }: Entry, other: Entry): boolean {
  const isGift = other.kind === 'lease' && !other.adopted
  return isGift && other.holder === holder && other.resource === resource
}

function nameOf(entry: Entry): string {
  return entry.kind === 'ticket' ? (entry.group ?? entry.id) : entry.id
}

/** How a request keeps an obstacle from going away: it is the obstacle, it is said to be under it, or that is implied. */
export function tieOf({ entry, name }: Edge, obstacle: Entry): 'said' | 'implied' | null {
  if (obstacle.kind === 'ticket') return nameOf(obstacle) === name ? 'said' : null
  if (entry.id === obstacle.id) return 'said'
  if (entry.holder !== obstacle.holder) return null
  // What was transferred to a holder that waits is not released by any process, whatever its requests say that they are under.
  if (!obstacle.adopted) return 'said'
  const { under } = entry
  if (under?.implied !== false) return 'implied'
  return under.leaseIds.includes(obstacle.id) ? 'said' : null
}

/** The requests that have to end, as was said, before an obstacle can go. */
function behind(obstacle: Entry, edges: readonly Edge[]): readonly Edge[] {
  return edges.filter((edge) => tieOf(edge, obstacle) === 'said')
}

/** The requests that no running process can unblock. */
export function stuckEdges(edges: readonly Edge[]): readonly Edge[] {
  let stuck = edges
  for (;;) {
    const isBlocked = (entry: Entry): boolean => behind(entry, stuck).length > 0
    const names = new Set(
      stuck
        .filter(({ alone, sharers, places }) => {
          const left = sharers.filter(isBlocked)
          return alone.some(isBlocked) || left.length >= Math.min(places, ...left.map(placesOf))
        })
        .map(({ name }) => name),
    )
    const left = stuck.filter(({ name }) => names.has(name))
    if (left.length === stuck.length) return left
    stuck = left
  }
}

/** The requests that wait for themselves through others, each with all in the same cycles as one name. */
export function cyclesIn(stuck: readonly Edge[]): ReadonlyMap<string, readonly Edge[]> {
  const cycles = new Map<string, readonly Edge[]>()
  for (const { name } of stuck) {
    const reached = reachedFrom(name, stuck)
    if (!reached.has(name)) continue
    const mates = stuck.filter((edge) => {
      return reached.has(edge.name) && reachedFrom(edge.name, stuck).has(name)
    })
    cycles.set(namesOf(mates.map((mate) => mate.entry.id)), mates)
  }
  return cycles
}

function namesOf(ids: readonly LeaseId[]): string {
  return ids.toSorted().join()
}

/** What a request waits for, and what that waits for, as far as it goes. */
function reachedFrom(name: string, stuck: readonly Edge[]): ReadonlySet<string> {
  const reached = new Set<string>()
  let level: readonly string[] = [name]
  while (level.length > 0) {
    const next = stuck
      .filter((edge) => level.includes(edge.name))
      .flatMap(({ alone, sharers }) => [...alone, ...sharers])
      .flatMap((obstacle) => behind(obstacle, stuck))
      .map((edge) => edge.name)
      .filter((one) => !reached.has(one))
    for (const one of next) reached.add(one)
    level = [...new Set(next)]
  }
  return reached
}
