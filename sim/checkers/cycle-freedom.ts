/**
 * A cycle of requests that wait for each other lasts a second at most, if no fault affects its members; and no request is
 * refused for a cycle that there was not.
 *
 * A cycle is as old as the last change to it: a request that joins it searches for it. What that search reads is not one
 * snapshot, so a refusal is right if the cycle that it names stood at some moment since the refused one got in line.
 */
import type { CycleStep, Entry, LeaseId } from '../../src/core/lease.ts'
import { seconds, short, type Checker, type Complaint, type Evidence } from '../evidence.ts'
import { groupsOf } from './groups.ts'
import { walk, type Step } from './ledger-walk.ts'
import { Faults, type Affected } from './faults.ts'
import { WaitGraph } from './wait-graph.ts'

/** A second, and the time that the messages of the search take. */
const CYCLE_US_MAX = 1_000_000
const SLACK_US = 500_000
/** A message that was lost so long before may still delay a search. */
const EARLIER_US = 5_000_000

export const cycleFreedom: Checker = {
  promise: 'I9',
  name: 'no cycle lasts',
  check: (evidence) => {
    const complaints: Complaint[] = []
    const watch = new CycleWatch(evidence)
    for (const step of walk(evidence.ledger)) {
      complaints.push(...watch.refusedWrongly(step))
      complaints.push(...watch.lasting(step))
    }
    return [...complaints, ...watch.unfounded()]
  },
}

interface LiveCycle {
  readonly members: readonly Entry[]
  /** The leases by whose transfer it came about: the process that transfers is the one that looks. */
  readonly transferred: readonly Affected[]
  readonly sinceUs: number
  isTold: boolean
}

class CycleWatch {
  readonly #evidence: Evidence
  readonly #faults: Faults
  readonly #refused = new Set<LeaseId>()
  /** The commit in which each ticket was queued, and what each commit left, in order. */
  readonly #filed = new Map<LeaseId, number>()
  readonly #graphs: { readonly commit: number; readonly graph: WaitGraph }[] = []
  #cycles: ReadonlyMap<string, LiveCycle> = new Map()

  constructor(evidence: Evidence) {
    this.#evidence = evidence
    this.#faults = new Faults(evidence)
  }

  /** Cycles that have stood for too long when this commit came. */
  lasting(step: Step): readonly Complaint[] {
    const complaints = [...this.#cycles.values()].flatMap((cycle) => this.#judge(cycle, step))
    const graph = new WaitGraph(step, this.#evidence)
    this.#graphs.push({ commit: step.commit, graph })
    const next = new Map<string, LiveCycle>()
    for (const [name, mates] of graph.cycles()) {
      const known = this.#cycles.get(name)
      const members = mates.map(({ entry }) => entry)
      const { atUs: sinceUs } = step
      next.set(name, known ?? { members, transferred: transferredIn(step), sinceUs, isTold: false })
    }
    this.#cycles = next
    return complaints
  }

  #judge(cycle: LiveCycle, { atUs }: Step): readonly Complaint[] {
    const { members, transferred, sinceUs, isTold } = cycle
    if (isTold || atUs - sinceUs <= CYCLE_US_MAX + SLACK_US) return []
    const fromUs = sinceUs - EARLIER_US
    const searchers = [...members, ...transferred]
    if (this.#faults.affected(searchers, { fromUs, lookingUs: fromUs, toUs: atUs })) return []
    cycle.isTold = true
    const who = members.map(({ session, resource }) => `${session} for ${resource}`).join(', ')
    return [`${who}: in a cycle from ${seconds(sinceUs)} to ${seconds(atUs)}`]
  }

  /** Refusals that name a cycle which did not exist. */
  refusedWrongly({ events, commit }: Step): readonly Complaint[] {
    return events.flatMap(({ event, atUs }) => {
      if (event.type === 'lease.queued') this.#filed.set(event.leaseId, commit)
      if (event.type !== 'lease.failed' || event.failure !== 'deadlock') return []
      this.#refused.add(event.leaseId)
      if (this.#isKnown(event.leaseId, event.cycle ?? [])) return []
      const what = `${event.holder} (${short(event.leaseId)}) on ${event.resource}`
      return [`${what} was refused at ${seconds(atUs)} for a cycle that there was not`]
    })
  }

  /** Answers that speak of a cycle although no request was refused for one. */
  unfounded(): readonly Complaint[] {
    const groups = groupsOf(this.#evidence).of
    const refused = new Set([...this.#refused].map((id) => groups.get(id) ?? id))
    return this.#evidence.log.flatMap((entry) => {
      if (entry.kind !== 'answered' || entry.answer !== 'deadlock') return []
      const asked = groups.get(entry.leaseId) ?? entry.leaseId
      if (entry.method === 'upgrade' || refused.has(asked)) return []
      const what = `${entry.session} heard of a cycle around ${short(entry.leaseId)}`
      return [`${what} at ${seconds(entry.atUs)} for a cycle that there was not`]
    })
  }

  /** One alone is in a cycle if the lease in its way was transferred to its holder, and is not adopted. */
  #isKnown(leaseId: LeaseId, cycle: readonly CycleStep[]): boolean {
    const filed = this.#filed.get(leaseId) ?? Infinity
    const seen = new Set<string>()
    for (let index = this.#graphs.length - 1; index >= 0; index -= 1) {
      const known = this.#graphs[index]
      if (known === undefined || known.commit < filed) break
      for (const name of stepsOf(known.graph)) seen.add(name)
    }
    return (
      cycle.length > 0 &&
      cycle.every((step, index) => {
        const next = cycle[(index + 1) % cycle.length]
        if (next === undefined) return false
        if (seen.has(stepName(step, next, false))) return true
        return next.implied === true && seen.has(stepName(step, next, true))
      })
    )
  }
}

function transferredIn({ events }: Step): readonly Affected[] {
  return events.flatMap(({ event: { type, leaseId: id, session, resource } }) => {
    return type === 'lease.transferred' ? [{ id, session, resource }] : []
  })
}

function stepsOf(graph: WaitGraph): readonly string[] {
  return graph.edges.flatMap(({ entry, alone, sharers }) => {
    return [...alone, ...sharers].flatMap((obstacle) => {
      return graph.tiesOf(obstacle).flatMap(({ edge, kind }) => {
        // A client that waits for itself is no cycle unless it says so.
        if (kind === 'implied' && entry.session === obstacle.session) return []
        return [stepName(entry, edge.entry, kind === 'implied')]
      })
    })
  })
}

/** One request that waits at a place, and the next, without which what blocks the first does not go. */
function stepName(
  from: Pick<CycleStep, 'session' | 'resource'>,
  to: Pick<CycleStep, 'session' | 'resource'>,
  isImplied: boolean,
): string {
  const tie = isImplied ? 'implied' : 'said'
  return `${from.session} ${from.resource} ${tie} ${to.session} ${to.resource}`
}
