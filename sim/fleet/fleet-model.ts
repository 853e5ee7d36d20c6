/**
 * A fleet on Redis in virtual time, at a size that no test machine runs: 1,000 instances and 100,000 sessions. Who should
 * own what is decided by the production assignment, from each instance's own view, read at its own pace. Redis is a
 * table of owners and deadlines that counts each command as the production layout sends it. What is left out: polls,
 * and calls that fail.
 */
import {
  KeyedHeap,
  assignSessions,
  preferredNode,
  hashName,
  type Candidate,
} from '../../src/fleet/assignment.ts'
import { SCAN_COUNT, SCAN_PAGES_MAX, SCRIPT_GRANTS_MAX } from '../../src/fleet/poll/poll-layout.ts'

export const TTL_MS = 30_000
export const REFRESH_MS = 10_000
/** A handover: the script, the message, the receiver's renewal. */
const HANDOVER_MS = 5
const HINT_MS_MAX = 50
/** What a second consists of. */
const SECOND_MS = 1_000

export interface FleetEvent {
  readonly atMs: number
  readonly kind: 'join' | 'leave' | 'kill'
  readonly instances: number
}

export interface ModelOptions {
  readonly instances: number
  readonly sessions: number
  readonly durationMs: number
  readonly events: readonly FleetEvent[]
  /** 0 inclusive to 1 exclusive, the same for the same seed. */
  readonly random: () => number
}

/** One second of virtual time. */
export interface Second {
  /** Sessions on the fullest and the emptiest ready instance, relative to the mean. */
  readonly fullest: number
  readonly emptiest: number
  readonly unowned: number
  readonly moves: number
  /** Commands by what they are for. */
  readonly renewing: number
  readonly discovering: number
  readonly moving: number
}

export interface Change {
  readonly event: FleetEvent
  /** Of 1: what part of all sessions has another owner after it. */
  readonly moved: number
  /** What plain rendezvous would have moved. */
  readonly mustMove: number
  readonly settledAfterMs: number
}

export interface ModelReport {
  readonly seconds: readonly Second[]
  readonly changes: readonly Change[]
  readonly bound: number
}

interface Instance {
  readonly id: string
  readonly owned: Set<number>
  isAlive: boolean
  isReady: boolean
  heartbeatUntilMs: number
  /** The view that it acts on. */
  view: View
}

interface View {
  readonly nodes: readonly Candidate[]
  /** Session to instance, by index. */
  readonly targets: readonly (string | undefined)[]
  /** The other way around. */
  readonly wanted: ReadonlyMap<string, readonly number[]>
}

/** A change under way: how things were before it. */
interface Before {
  readonly event: FleetEvent
  readonly owners: readonly (Instance | null)[]
  readonly nodes: readonly Candidate[]
  /** When the last session moved because of it. */
  lastMs: number
}

export class FleetModel {
  readonly #options: ModelOptions
  readonly #sessionIds: readonly string[]
  readonly #owner: (Instance | null)[]
  readonly #untilMs: Float64Array
  readonly #instances = new Map<string, Instance>()
  readonly #views = new Map<string, View>()
  readonly #queue = new KeyedHeap<() => void>()
  readonly #counts = { renewing: 0, discovering: 0, moving: 0, moves: 0 }
  readonly #seconds: Second[] = []
  readonly #changes: Change[] = []
  #before: Before | null = null
  #nowMs = 0
  #joined = 0

  constructor(options: ModelOptions) {
    this.#options = options
    this.#sessionIds = Array.from({ length: options.sessions }, (_, index) => `session-${index}`)
    this.#owner = this.#sessionIds.map(() => null)
    this.#untilMs = new Float64Array(options.sessions)
    for (let index = 0; index < options.instances; index += 1) this.#add()
    const view = this.#viewOf(this.#ready())
    for (const instance of this.#instances.values()) this.#begin(instance, view)
    for (const event of options.events) this.#at(event.atMs, () => this.#happen(event))
  }

  run(): ModelReport {
    const { durationMs } = this.#options
    for (let second = 0; second * SECOND_MS < durationMs; second += 1) {
      this.#runSecond(second)
      this.#seconds.push(this.#closeSecond())
    }
    const capacity = Math.ceil((1.2 * this.#options.sessions) / this.#ready().length)
    const bound = (capacity * this.#ready().length) / this.#options.sessions
    this.#closeChange()
    return { seconds: this.#seconds, changes: this.#changes, bound }
  }

  #runSecond(second: number): void {
    const endMs = (second + 1) * SECOND_MS
    for (;;) {
      const next = this.#queue.first
      if (next === undefined || next.key >= endMs) break
      this.#queue.delete(next.item)
      this.#nowMs = next.key
      next.item()
    }
    this.#nowMs = endMs
  }

  #at(atMs: number, work: () => void): void {
    this.#queue.set(work, atMs)
  }

  #add(): Instance {
    const id = `api-${this.#joined}-${hashName(String(this.#joined)).high >>> 0}`
    this.#joined += 1
    const view: View = { nodes: [], targets: [], wanted: new Map() }
    const facts = { isAlive: true, isReady: true, heartbeatUntilMs: this.#nowMs + TTL_MS }
    const instance: Instance = { id, owned: new Set(), ...facts, view }
    this.#instances.set(id, instance)
    return instance
  }

  /** Renews and looks around from now on, at a pace that is its own. */
  #begin(instance: Instance, view: View): void {
    instance.view = view
    const phaseMs = this.#options.random() * REFRESH_MS
    this.#pass(instance)
    this.#at(this.#nowMs + phaseMs, () => this.#beat(instance))
    this.#at(this.#nowMs + phaseMs + 1, () => this.#look(instance))
  }

  #beat(instance: Instance): void {
    if (!instance.isAlive) return
    instance.heartbeatUntilMs = this.#nowMs + TTL_MS
    for (const session of instance.owned) this.#untilMs[session] = this.#nowMs + TTL_MS
    // Weight, list and heartbeat; then one script for each thousand leases.
    this.#counts.renewing += 3 + Math.ceil(instance.owned.size / SCRIPT_GRANTS_MAX)
    this.#at(this.#nowMs + REFRESH_MS, () => this.#beat(instance))
  }

  #look(instance: Instance): void {
    if (!instance.isAlive) return
    this.#read(instance)
    this.#at(this.#nowMs + REFRESH_MS, () => this.#look(instance))
  }

  #read(instance: Instance): void {
    if (!instance.isAlive) return
    const keys = 2 * this.#options.sessions + 2 * this.#instances.size
    const pages = Math.min(SCAN_PAGES_MAX, Math.ceil(keys / SCAN_COUNT))
    this.#counts.discovering += 2 + pages
    instance.view = this.#viewOf(this.#ready())
    this.#pass(instance)
  }

  /** As the runner does: gives away what another should own, acquires what it should own itself. */
  #pass(instance: Instance): void {
    const { view } = instance
    for (const session of [...instance.owned]) {
      const target = view.targets[session]
      const receiver = target === undefined ? undefined : this.#instances.get(target)
      if (receiver === undefined || receiver === instance) continue
      this.#give(session, instance, receiver)
    }
    for (const session of view.wanted.get(instance.id) ?? []) {
      if (this.#owner[session] === instance) continue
      this.#counts.moving += 1
      if (this.#owner[session] === null || (this.#untilMs[session] ?? 0) <= this.#nowMs) {
        this.#own(session, instance)
      }
    }
  }

  #give(session: number, giver: Instance, receiver: Instance): void {
    giver.owned.delete(session)
    // The transfer with its message, and the receiver's renewal.
    this.#counts.moving += 2
    this.#owner[session] = receiver
    this.#untilMs[session] = this.#nowMs + REFRESH_MS
    this.#noteMove()
    this.#at(this.#nowMs + HANDOVER_MS, () => {
      if (receiver.isAlive && this.#owner[session] === receiver) this.#own(session, receiver)
    })
  }

  #own(session: number, instance: Instance): void {
    const before = this.#owner[session]
    before?.owned.delete(session)
    if (before !== instance && this.#nowMs > 0) this.#noteMove()
    this.#owner[session] = instance
    this.#untilMs[session] = this.#nowMs + TTL_MS
    instance.owned.add(session)
  }

  #noteMove(): void {
    this.#counts.moves += 1
    if (this.#before !== null) this.#before.lastMs = this.#nowMs
  }

  #happen(event: FleetEvent): void {
    this.#closeChange()
    const { nodes } = this.#viewOf(this.#ready())
    this.#before = { event, owners: [...this.#owner], nodes, lastMs: this.#nowMs }
    const { kind, instances } = event
    if (kind === 'join') {
      const newcomers = Array.from({ length: instances }, () => this.#add())
      for (const newcomer of newcomers) this.#begin(newcomer, this.#viewOf(this.#ready()))
    } else this.#end(kind, instances)
    if (kind !== 'kill') this.#hintAll()
  }

  /** Those that leave hand over first; those that are killed are noticed when their heartbeats are over. */
  #end(kind: 'leave' | 'kill', instances: number): void {
    const ready = [...this.#ready()].sort((a, b) => a.owned.size - b.owned.size)
    const middle = Math.floor(ready.length / 2)
    const victims = ready.slice(middle, middle + instances)
    for (const victim of victims) {
      if (kind === 'leave') Object.assign(victim, { isReady: false, heartbeatUntilMs: this.#nowMs })
      else this.#at(victim.heartbeatUntilMs + 5, () => this.#hintAll())
    }
    for (const victim of victims) {
      if (kind === 'leave') {
        victim.view = this.#viewOf(this.#ready())
        this.#pass(victim)
      }
      victim.isAlive = false
    }
  }

  /** All instances are notified of a change, and read the nodes soon. */
  #hintAll(): void {
    this.#counts.discovering += 1
    for (const instance of this.#instances.values()) {
      if (!instance.isAlive) continue
      const delayMs = this.#options.random() * HINT_MS_MAX
      this.#at(this.#nowMs + delayMs, () => this.#read(instance))
    }
  }

  #ready(): readonly Instance[] {
    return [...this.#instances.values()].filter(
      ({ isReady, heartbeatUntilMs }) => isReady && heartbeatUntilMs > this.#nowMs,
    )
  }

  /** The same view is the same assignment on every instance, so it is computed once. */
  #viewOf(ready: readonly Instance[]): View {
    const key = ready.map(({ id }) => id).join(' ')
    const known = this.#views.get(key)
    if (known !== undefined) return known
    const nodes = ready.map(({ id: instanceId }) => ({ instanceId, weight: 1 }))
    const assignment = assignSessions(this.#sessionIds, nodes)
    const targets = this.#sessionIds.map((id) => assignment.get(id))
    const wanted = new Map<string, number[]>()
    for (const [session, target] of targets.entries()) {
      if (target === undefined) continue
      const list = wanted.get(target) ?? []
      list.push(session)
      wanted.set(target, list)
    }
    const view = { nodes, targets, wanted }
    this.#views.set(key, view)
    return view
  }

  #closeSecond(): Second {
    const sizes = this.#ready().map(({ owned }) => owned.size)
    const mean = this.#options.sessions / sizes.length
    const unowned = this.#owner.filter((owner, session) => {
      return owner === null || !owner.isAlive || (this.#untilMs[session] ?? 0) <= this.#nowMs
    }).length
    const second = {
      fullest: Math.max(...sizes) / mean,
      emptiest: Math.min(...sizes) / mean,
      unowned,
      ...this.#counts,
    }
    Object.assign(this.#counts, { renewing: 0, discovering: 0, moving: 0, moves: 0 })
    return second
  }

  #closeChange(): void {
    if (this.#before === null) return
    const { event, owners, nodes, lastMs } = this.#before
    const after = this.#viewOf(this.#ready()).nodes
    const moved = owners.filter((owner, session) => owner !== this.#owner[session]).length
    const mustMove = this.#sessionIds.filter(
      (id) => preferredNode(id, nodes) !== preferredNode(id, after),
    )
    this.#changes.push({
      event,
      moved: moved / owners.length,
      mustMove: mustMove.length / owners.length,
      settledAfterMs: lastMs - event.atMs,
    })
    this.#before = null
  }
}
