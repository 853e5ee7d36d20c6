/**
 * A circle of sessions that wait for each other lasts a second at most, if nothing befalls anybody in it; and nobody is
 * refused for a circle that there was not.
 *
 * A circle is as old as the last change to it: whoever joins it looks for it. What one who joins reads is not one
 * snapshot, so a refusal is right if the circle that it names stood at some moment since the refused one got in line.
 */
import type { CycleStep, Entry, LeaseId } from '../../src/core/lease.ts'
import { seconds, short, type Checker, type Complaint, type Evidence } from '../evidence.ts'
import { groupsOf } from './groups.ts'
import { walk, type Step } from './ledger-walk.ts'
import { Troubles } from './troubles.ts'
import { circlesIn, edgesAt, stuckEdges, type Edge } from './wait-graph.ts'

/** A second, and the time that the messages of the search take. */
const CIRCLE_US_MAX = 1_000_000
const SLACK_US = 500_000
/** A message that was lost so long before may still be what keeps somebody from looking. */
const EARLIER_US = 5_000_000

export const cycleFreedom: Checker = {
  promise: 'I9',
  name: 'no circle lasts',
  check: (evidence) => {
    const complaints: Complaint[] = []
    const watch = new CircleWatch(evidence)
    for (const step of walk(evidence.ledger)) {
      complaints.push(...watch.refusedWrongly(step))
      complaints.push(...watch.lasting(step))
    }
    return [...complaints, ...watch.unfounded()]
  },
}

interface Circle {
  readonly members: readonly Entry[]
  readonly sinceUs: number
  isTold: boolean
}

class CircleWatch {
  readonly #evidence: Evidence
  readonly #troubles: Troubles
  readonly #refused = new Set<LeaseId>()
  /** Who has been seen to wait for whom, where, since when it got in line. */
  readonly #seen = new Map<LeaseId, Set<string>>()
  #circles: ReadonlyMap<string, Circle> = new Map()
  #edges: readonly Edge[] = []

  constructor(evidence: Evidence) {
    this.#evidence = evidence
    this.#troubles = new Troubles(evidence)
  }

  /** Circles that have stood for too long when this commit came. */
  lasting(step: Step): readonly Complaint[] {
    const complaints = [...this.#circles.values()].flatMap((circle) => this.#judge(circle, step))
    this.#edges = edgesAt(step, this.#evidence)
    this.#note(step)
    const next = new Map<string, Circle>()
    for (const [name, mates] of circlesIn(stuckEdges(this.#edges))) {
      const known = this.#circles.get(name)
      const members = mates.map(({ entry }) => entry)
      next.set(name, known ?? { members, sinceUs: step.atUs, isTold: false })
    }
    this.#circles = next
    return complaints
  }

  #judge(circle: Circle, { atUs }: Step): readonly Complaint[] {
    const { members, sinceUs, isTold } = circle
    if (isTold || atUs - sinceUs <= CIRCLE_US_MAX + SLACK_US) return []
    const fromUs = sinceUs - EARLIER_US
    if (this.#troubles.befell(members, { fromUs, lookingUs: fromUs, toUs: atUs })) return []
    circle.isTold = true
    const who = members.map(({ session, resource }) => `${session} for ${resource}`).join(', ')
    return [`${who}: in a circle from ${seconds(sinceUs)} to ${seconds(atUs)}`]
  }

  /** Refusals that name a circle which nobody has seen. */
  refusedWrongly({ events }: Step): readonly Complaint[] {
    return events.flatMap(({ event, atUs }) => {
      if (event.type === 'lease.queued') this.#seen.delete(event.leaseId)
      if (event.type !== 'lease.failed' || event.failure !== 'deadlock') return []
      this.#refused.add(event.leaseId)
      if (this.#isKnown(event.leaseId, event.cycle ?? [])) return []
      const what = `${event.holder} (${short(event.leaseId)}) on ${event.resource}`
      return [`${what} was refused at ${seconds(atUs)} for a circle that there was not`]
    })
  }

  /** Answers that speak of a circle although nobody was refused for one. */
  unfounded(): readonly Complaint[] {
    const groups = groupsOf(this.#evidence).of
    const refused = new Set([...this.#refused].map((id) => groups.get(id) ?? id))
    return this.#evidence.log.flatMap((entry) => {
      if (entry.kind !== 'answered' || entry.answer !== 'deadlock') return []
      const asked = groups.get(entry.leaseId) ?? entry.leaseId
      if (entry.method === 'upgrade' || refused.has(asked)) return []
      const what = `${entry.session} heard of a circle around ${short(entry.leaseId)}`
      return [`${what} at ${seconds(entry.atUs)} for a circle that there was not`]
    })
  }

  /** Each ticket remembers all waits that were seen while it stood. */
  #note({ live }: Step): void {
    const present = this.#edges.flatMap(({ entry, alone, sharers }) => {
      return [...alone, ...sharers].map((to) => `${entry.session} ${entry.resource} ${to}`)
    })
    for (const [id, entry] of live) {
      if (entry.kind !== 'ticket') continue
      const seen = this.#seen.get(id) ?? new Set()
      for (const edge of present) seen.add(edge)
      this.#seen.set(id, seen)
    }
  }

  #isKnown(leaseId: LeaseId, cycle: readonly CycleStep[]): boolean {
    const seen = this.#seen.get(leaseId)
    return (
      cycle.length > 1 &&
      cycle.every(({ session, resource }, index) => {
        const next = cycle[(index + 1) % cycle.length]
        return seen?.has(`${session} ${resource} ${next?.session}`) === true
      })
    )
  }
}
