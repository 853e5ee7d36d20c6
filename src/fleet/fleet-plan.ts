/**
 * Decides what an instance should do now, and when a session may be handed over: `HandoverBackOff` decides that for one
 * session, `HandoverLimiter` for all together. The plan is pure: the runner carries it out.
 *
 *  - A session that it owns and should not: hand it to the instance that should own it, or release it if there is none or
 *    if the session is not in the list any more.
 *  - A session that it should own and does not: acquire it.
 *  - A session that a foreign instance should own and does not take: the best instance of ours acquires it.
 */
import type { Runtime } from '../runtime/runtime.ts'
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

const DOUBLINGS_MAX = 6

interface Receipt {
  /** How often the session has come back. */
  readonly returns: number
  readonly heldUntilMs: number
}

interface Conditions {
  /** The receiver is a foreign instance. */
  readonly isForeign: boolean
  /** The session must leave: this instance is draining, or the session is unhealthy here. */
  readonly isUrgent: boolean
}

/**
 * Back-off against ping-pong. Two instances with different views of the fleet could hand a session to each other for
 * ever. So an instance that received a session holds it for a while, and twice as long each time the session comes back.
 */
export class HandoverBackOff {
  readonly #runtime: Runtime
  readonly #stepMs: number
  readonly #receipts = new Map<string, Receipt>()
  readonly #neglectedUntilMs = new Map<string, number>()
  /** A session whose handover failed is not offered again at once. */
  readonly #failedUntilMs = new Map<string, number>()
  /** When each session was last handed over. */
  readonly #transferredAtMs = new Map<string, number>()

  constructor(runtime: Runtime, stepMs: number) {
    this.#runtime = runtime
    this.#stepMs = stepMs
  }

  /** The time until the session may be handed over; 0 or less: now. An urgent handover waits only after a failure. */
  leftMs(sessionId: string, { isForeign, isUrgent }: Conditions): number {
    const nowMs = this.#runtime.monotonicMs()
    const failedUntilMs = this.#failedUntilMs.get(sessionId) ?? 0
    if (isUrgent) return failedUntilMs - nowMs
    const heldUntilMs = this.#receipts.get(sessionId)?.heldUntilMs ?? 0
    const neglectedUntilMs = isForeign ? (this.#neglectedUntilMs.get(sessionId) ?? 0) : 0
    return Math.max(heldUntilMs, neglectedUntilMs, failedUntilMs) - nowMs
  }

  /** Another instance handed the session to this one. */
  received(sessionId: string): void {
    const nowMs = this.#runtime.monotonicMs()
    const hasReturned = this.#transferredAtMs.has(sessionId)
    const before = this.#receipts.get(sessionId)?.returns ?? 0
    const returns = hasReturned ? Math.min(DOUBLINGS_MAX, before + 1) : 0
    this.#receipts.set(sessionId, { returns, heldUntilMs: nowMs + this.#stepMs * 2 ** returns })
  }

  /** A foreign instance did not take the session: none is offered it again for long. */
  neglected(sessionId: string): void {
    const untilMs = this.#runtime.monotonicMs() + this.#stepMs * 2 ** DOUBLINGS_MAX
    this.#neglectedUntilMs.set(sessionId, untilMs)
  }

  failed(sessionId: string): void {
    this.#failedUntilMs.set(sessionId, this.#runtime.monotonicMs() + this.#stepMs)
  }

  transferred(sessionId: string): void {
    this.#transferredAtMs.set(sessionId, this.#runtime.monotonicMs())
  }

  /** Forgets sessions that have not moved for twice the longest back-off. */
  prune(): void {
    const idleMs = 2 * this.#stepMs * 2 ** DOUBLINGS_MAX
    const oldMs = this.#runtime.monotonicMs() - idleMs
    for (const times of [this.#transferredAtMs, this.#neglectedUntilMs, this.#failedUntilMs]) {
      for (const [id, atMs] of times) if (atMs < oldMs) times.delete(id)
    }
    for (const [id, { heldUntilMs }] of this.#receipts) {
      if (heldUntilMs < oldMs && !this.#transferredAtMs.has(id)) this.#receipts.delete(id)
    }
  }
}

const GROUP_MAX = 16
const EVERY_MS = 10

/**
 * Starts handovers in groups. A session is not polled from the moment its poller stops until the receiver has begun; if a
 * thousand handovers started at once, none of these sessions would be polled until the last was received. So groups
 * follow each other, small ones first, because a receiver that has just started is slow with the first few. A group
 * waits while too many transfers are in flight to the store, and the sessions of the next group are polled until it
 * starts; it does not wait for a slow poll.
 */
export class HandoverLimiter {
  readonly #runtime: Runtime
  readonly #waiting: (() => void)[] = []
  #inFlight = 0
  #group = 1
  /** How many may still start before the next group; null while no handover is waiting. */
  #left: number | null = null

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** Resolves when the caller may start its handover. */
  admit(): Promise<void> {
    if (this.#left === null) {
      this.#group = 1
      this.#open()
    }
    const left = this.#left ?? 0
    if (left === 0) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#left = left - 1
    return Promise.resolve()
  }

  /** Counts a transfer as in flight until the store has answered it. */
  async transfer<Answer>(call: () => Promise<Answer>): Promise<Answer> {
    this.#inFlight += 1
    try {
      return await call()
    } finally {
      this.#inFlight -= 1
    }
  }

  #open(): void {
    this.#left = this.#group
    this.#runtime.setTimer(EVERY_MS, () => this.#next(), { keepAlive: true })
  }

  #next(): void {
    if (this.#waiting.length === 0) {
      this.#left = null
      return
    }
    this.#group = Math.min(GROUP_MAX, 2 * this.#group)
    this.#open()
    const free = Math.max(0, this.#group - this.#inFlight)
    for (const resolve of this.#waiting.splice(0, free)) {
      this.#left = (this.#left ?? 1) - 1
      resolve()
    }
  }
}
