/**
 * The faults that affected waiters: a process that was stopped, cut off or dead, or whose message was lost or late. The
 * service of a waiter, or of one who transfers a lease to it, searches for cycles and refuses a ticket in them: if it reads
 * slowly, or its refusal is lost, the waiter hears of it late. And what a process says about one lease may keep back what
 * it says about another of the same resource: a release takes the claim of the next waiter along, and an optimistic store
 * sends what touches a call that is under way only after that.
 */
import type { Entry } from '../../src/core/lease.ts'
import type { Evidence } from '../evidence.ts'
import type { FaultKind } from '../log.ts'
import { groupsOf, type Groups } from './groups.ts'

interface FaultRecord {
  readonly atUs: number
  /** Null: it affected all sessions. */
  readonly sessions: ReadonlySet<string> | null
  /** Null: it affected the whole process. */
  readonly leaseId: string | null
  /** Where others of the process waited for the message as well: a resource, or a tree. */
  readonly resource: string | null
  /** It made late only what waited at that moment, or looked for cycles. */
  readonly isDelay: boolean
}

const STOPS_WAITING: ReadonlySet<FaultKind> = new Set<FaultKind>(['crash', 'pause', 'suspension'])
const OUTAGES: ReadonlySet<FaultKind> = new Set<FaultKind>(['store_away', 'store_back'])
const DELAYS: ReadonlySet<FaultKind> = new Set<FaultKind>([
  ...(['slow_request', 'slow_answer', 'call_hangs', 'answer_lost', 'outcome_unknown'] as const),
  ...(['late_delivery', 'request_repeated'] as const),
])
const ACQUIRES: ReadonlySet<string> = new Set(['acquire', 'acquire_all'])

/** What affected all sessions. */
const EVERYBODYS = { sessions: null, leaseId: null, resource: null, isDelay: false } as const

interface Span {
  readonly fromUs: number
  /** Since when they look for cycles. */
  readonly lookingUs: number
  readonly toUs: number
}

export type Affected = Pick<Entry, 'id' | 'session' | 'resource'>

export class Faults {
  readonly #faults: readonly FaultRecord[]
  readonly #groups: Groups['of']

  constructor(evidence: Evidence) {
    const { log, clockChanges, store } = evidence
    this.#groups = groupsOf(evidence).of
    const lives = new Map<string, Set<string>>()
    const faults: FaultRecord[] = clockChanges.map(({ atUs }) => {
      return { ...EVERYBODYS, atUs }
    })
    const askers = new Map<string, string>()
    const released = new Set<string>()
    const resources = resourcesOf(evidence)
    for (const entry of log) {
      if (entry.kind === 'started') {
        lives.set(entry.process, (lives.get(entry.process) ?? new Set()).add(entry.session))
      }
      if (entry.kind === 'asked' && ACQUIRES.has(entry.method)) {
        askers.set(entry.leaseId, entry.session)
      }
      if (entry.kind === 'asked' && entry.method === 'release') released.add(entry.leaseId)
      if (entry.kind === 'fault' && OUTAGES.has(entry.fault)) {
        faults.push({ ...EVERYBODYS, atUs: entry.atUs })
      }
      if (entry.kind !== 'fault' || entry.process === null) continue
      const { atUs, fault, leaseId } = entry
      const sessions = lives.get(entry.process) ?? null
      // An optimistic store has two calls in flight, and what else its process asks for goes with one of the next.
      const stopsAll =
        STOPS_WAITING.has(fault) || (fault === 'call_hangs' && store === 'optimistic')
      const isOwn =
        !stopsAll && leaseId !== null && sessions?.has(askers.get(leaseId) ?? '') === true
      const isDelay = !isOwn && !stopsAll && DELAYS.has(fault)
      const record = { atUs, sessions, resource: null, isDelay }
      if (isOwn) faults.push({ ...record, leaseId })
      else if (isDelay || stopsAll) faults.push({ ...record, leaseId: null })
      const keepsBack = leaseId !== null && (store === 'optimistic' || released.has(leaseId))
      const resource = keepsBack ? placeOf(resources.get(leaseId)) : undefined
      if (resource !== undefined) faults.push({ ...record, leaseId: null, resource, isDelay: true })
    }
    this.#faults = faults
  }

  /** Whether a fault affected one of these entries or its session. */
  affected(entries: readonly Affected[], { fromUs, lookingUs, toUs }: Span): boolean {
    return this.#faults.some(({ atUs, sessions, leaseId, resource, isDelay }) => {
      if (atUs < (isDelay ? lookingUs : fromUs) || atUs > toUs) return false
      const own = entries.filter(
        (entry) => resource === null || placeOf(entry.resource) === resource,
      )
      if (leaseId !== null) return own.some((entry) => this.#isAbout(leaseId, entry))
      return sessions === null || own.some((entry) => sessions.has(entry.session))
    })
  }

  /** A message about several that belong together names one of them. */
  #isAbout(leaseId: string, entry: Affected): boolean {
    const group = this.#groups.get(leaseId)
    return entry.id === leaseId || (group !== undefined && this.#groups.get(entry.id) === group)
  }
}

/** Of every lease, those that were asked for and never filed among them. */
export function resourcesOf({ ledger, log }: Evidence): ReadonlyMap<string, string> {
  const resources = new Map<string, string>()
  for (const { event } of ledger) resources.set(event.leaseId, event.resource)
  for (const entry of log) {
    if (entry.kind !== 'call' || entry.leaseId === null || entry.resource === null) continue
    resources.set(entry.leaseId, entry.resource)
  }
  return resources
}

/** A resource, or the tree that it is in. */
export function placeOf(resource: string | undefined): string | undefined {
  return resource?.replace(/^file:.*/, 'file:')
}
