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
import { Obstacles, placesOf } from './obstacles.ts'

/** A request that waits, and what stands in its way. */
interface Edge {
  readonly entry: Entry
  /** Of a request for several resources all members wait or none does. */
  readonly name: string
  /** All of them must go. */
  readonly alone: readonly Entry[]
  /** Of these, fewer may be left than `places`, and than those that are left share with. */
  readonly sharers: readonly Entry[]
  readonly places: number
}

/** A request without whose end an obstacle does not go away. */
interface Tie {
  readonly edge: Edge
  readonly kind: 'said' | 'implied'
}

export class WaitGraph {
  readonly edges: readonly Edge[]
  /** Looked for when it is needed first: nearly no graph has a cycle, and of most nobody asks more. */
  readonly #ties = new Map<Entry, readonly Tie[]>()

  constructor(step: Step, evidence: Evidence) {
    this.edges = edgesAt(step, evidence)
  }

  tiesOf(obstacle: Entry): readonly Tie[] {
    const known = this.#ties.get(obstacle)
    if (known !== undefined) return known
    const ties = this.edges.flatMap((edge) => {
      const kind = tieOf(edge, obstacle)
      return kind === null ? [] : [{ edge, kind }]
    })
    this.#ties.set(obstacle, ties)
    return ties
  }

  /** The requests that wait for themselves through others, each with all in the same cycles as one name. */
  cycles(): ReadonlyMap<string, readonly Edge[]> {
    const names = this.#stuck()
    const stuck = this.edges.filter(({ name }) => names.has(name))
    const cycles = new Map<string, readonly Edge[]>()
    for (const name of names) {
      const reached = this.#reachedFrom(name, names)
      if (!reached.has(name)) continue
      const mates = stuck.filter((edge) => {
        return reached.has(edge.name) && this.#reachedFrom(edge.name, names).has(name)
      })
      cycles.set(namesOf(mates.map((mate) => mate.entry.id)), mates)
    }
    return cycles
  }

  /** The requests that no running process can unblock. */
  #stuck(): ReadonlySet<string> {
    let names: ReadonlySet<string> = new Set(this.edges.map(({ name }) => name))
    for (;;) {
      const isBlocked = (entry: Entry): boolean => {
        return this.tiesOf(entry).some(({ edge, kind }) => kind === 'said' && names.has(edge.name))
      }
      const left = this.edges.filter(({ name, alone, sharers, places }) => {
        if (!names.has(name)) return false
        if (alone.some(isBlocked)) return true
        const blocked = sharers.filter(isBlocked)
        return blocked.length >= Math.min(places, ...blocked.map(placesOf))
      })
      const next = new Set(left.map(({ name }) => name))
      if (next.size === names.size) return next
      names = next
    }
  }

  /** Of these requests, those that have to end, as was said, before an obstacle can go. */
  #behind(obstacle: Entry, names: ReadonlySet<string>): readonly string[] {
    return this.tiesOf(obstacle).flatMap(({ edge: { name }, kind }) => {
      return kind === 'said' && names.has(name) ? [name] : []
    })
  }

  /** What a request waits for, and what that waits for, as far as it goes. */
  #reachedFrom(from: string, names: ReadonlySet<string>): ReadonlySet<string> {
    const reached = new Set<string>()
    let level: ReadonlySet<string> = new Set([from])
    while (level.size > 0) {
      const next = this.edges
        .filter(({ name }) => level.has(name))
        .flatMap(({ alone, sharers }) => [...alone, ...sharers])
        .flatMap((obstacle) => this.#behind(obstacle, names))
        .filter((name) => !reached.has(name))
      for (const name of next) reached.add(name)
      level = new Set(next)
    }
    return reached
  }
}

function edgesAt(step: Step, evidence: Evidence): readonly Edge[] {
  const edges: Edge[] = []
  const obstacles = new Obstacles(step, evidence, step.atUs)
  for (const entry of step.live.values()) {
    const isTicket = entry.kind === 'ticket' && entry.state === 'pending' && entry.offer === null
    const isUpgrade = entry.kind === 'lease' && entry.state === 'active' && entry.upgrading
    if (!isTicket && !isUpgrade) continue
    const claim = isTicket ? entry : { ...entry, mode: 'exclusive' as const, slots: null }
    const keyUs = step.keys.get(entry.id) ?? Infinity
    const others = obstacles.of({ claim, keyUs }).filter(({ kind, entry: other }) => {
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
function tieOf({ entry, name }: Edge, obstacle: Entry): Tie['kind'] | null {
  if (obstacle.kind === 'ticket') return nameOf(obstacle) === name ? 'said' : null
  if (entry.id === obstacle.id) return 'said'
  if (entry.holder !== obstacle.holder) return null
  // What was transferred to a holder that waits is not released by any process, whatever its requests say that they are under.
  if (!obstacle.adopted) return 'said'
  const { under } = entry
  if (under?.implied !== false) return 'implied'
  return under.leaseIds.includes(obstacle.id) ? 'said' : null
}

function namesOf(ids: readonly LeaseId[]): string {
  return ids.toSorted().join()
}
