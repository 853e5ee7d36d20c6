/**
 * Finds waits that nobody can explain: a resource was free, a healthy process waited for it, and still it was offered
 * to nobody for longer than that process takes to look again. Only waiters that nothing happened to count, because
 * whoever is stopped, cut off or dead cannot look. A lost wake-up is no excuse.
 */
import type { LeaseId } from '../../src/core/lease.ts'
import type { Evidence } from '../evidence.ts'
import type { TimedEvent } from '../store-host.ts'

export interface VainWait {
  readonly resource: string
  readonly leaseId: LeaseId
  readonly freeUs: number
  readonly untilUs: number
}

/** A waiter looks again at a third of its claim window, and each place further back a little later. */
const STAGGER_US = 50_000
/** Messages, timers and a clock that is slow by one percent. */
const SLACK_US = 150_000

/** A request may have been sent so long before the store answered it with a ticket. */
const LONGEST_REQUEST_US = 5_000_000

interface Queue {
  busyUntilUs: number
  readonly waiting: Map<LeaseId, { readonly sinceUs: number; readonly session: string }>
}

export function waits(evidence: Evidence): readonly VainWait[] {
  const found: VainWait[] = []
  const queues = new Map<string, Queue>()
  const troubles = troublesOf(evidence)
  const judge = (queue: Queue, resource: string, untilUs: number): void => {
    const windowUs = evidence.claimWindowMs * 1000
    const allowedUs = windowUs / 3 + queue.waiting.size * STAGGER_US + SLACK_US
    for (const [leaseId, { sinceUs, session }] of queue.waiting) {
      const freeUs = Math.max(queue.busyUntilUs, sinceUs)
      if (untilUs - freeUs <= allowedUs) continue
      const isTroubled = troubles.some(
        (trouble) =>
          concerns(trouble, session, leaseId) &&
          trouble.atUs >= sinceUs - LONGEST_REQUEST_US &&
          trouble.atUs <= freeUs + allowedUs,
      )
      if (!isTroubled) found.push({ resource, leaseId, freeUs, untilUs })
    }
  }
  for (const timed of evidence.ledger) {
    const { resource } = timed.event
    const queue = queues.get(resource) ?? { busyUntilUs: 0, waiting: new Map() }
    queues.set(resource, queue)
    if (CLOSING.has(timed.event.type)) judge(queue, resource, timed.atUs)
    follow(queue, timed, evidence)
  }
  for (const [resource, queue] of queues) judge(queue, resource, evidence.endUs)
  return found
}

/** Events after which a wait is over for somebody. */
const CLOSING: ReadonlySet<string> = new Set(['lease.offered', 'lease.issued', 'lease.failed'])

function follow(queue: Queue, { event, atUs }: TimedEvent, evidence: Evidence): void {
  const { leaseId, session } = event
  switch (event.type) {
    case 'lease.queued':
      queue.waiting.set(leaseId, { sinceUs: atUs, session })
      return
    case 'lease.offered':
    case 'lease.renewed':
    case 'lease.revoking':
    case 'lease.adopted':
      queue.busyUntilUs = evidence.trueUs(event.deadline)
      return
    case 'lease.issued':
      queue.waiting.delete(leaseId)
      queue.busyUntilUs = evidence.trueUs(event.lease.deadline)
      return
    case 'lease.expired':
      queue.busyUntilUs =
        event.lockedUntil === null ? queue.busyUntilUs : evidence.trueUs(event.lockedUntil)
      return
    case 'lease.released':
    case 'lease.revoked':
    case 'lease.transferred':
      queue.busyUntilUs = Math.min(queue.busyUntilUs, atUs)
      return
    case 'lease.failed':
      queue.waiting.delete(leaseId)
      return
    case 'lease.denied':
    case 'lease.accounted':
    case 'lease.unlocked':
    case 'lease.waiting':
    case 'lease.upgrading':
    case 'lease.upgraded':
    case 'lease.downgraded':
      return
  }
}

interface Trouble {
  readonly atUs: number
  /** Null: it befell everybody. */
  readonly session: string | null
  /** Null: it befell the whole process. */
  readonly leaseId: string | null
}

function concerns(trouble: Trouble, session: string, leaseId: LeaseId): boolean {
  if (trouble.leaseId !== null) return trouble.leaseId === leaseId
  return trouble.session === null || trouble.session === session
}

const STOPS_WAITING: ReadonlySet<string> = new Set(['crash', 'pause', 'suspension'])

function troublesOf({ log, clockChanges }: Evidence): readonly Trouble[] {
  const sessions = new Map<string, string>()
  const everybody = { session: null, leaseId: null }
  const troubles: Trouble[] = clockChanges.map(({ atUs }) => ({ atUs, ...everybody }))
  for (const entry of log) {
    if (entry.kind === 'started') sessions.set(entry.process, entry.session)
    if (entry.kind !== 'fault' || entry.process === null) continue
    const { atUs, fault, leaseId } = entry
    const session = sessions.get(entry.process) ?? null
    if (leaseId !== null || STOPS_WAITING.has(fault)) troubles.push({ atUs, session, leaseId })
  }
  return troubles
}
