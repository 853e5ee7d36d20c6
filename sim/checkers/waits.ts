/**
 * Finds waits without a reason: nothing blocked a healthy process, and still it was neither offered
 * nor given what it waited for, for longer than it takes to look again. Tickets of several resources wait as one, and
 * an upgrade request waits as well. Only waiters without faults count, because a process that is stopped,
 * cut off or dead cannot look. A lost wake-up is no excuse.
 */
import type { Entry, LeaseId } from '../../src/core/lease.ts'
import type { Evidence } from '../evidence.ts'
import { walk, type Step } from './ledger-walk.ts'
import { Obstacles, standingOf, type Claimed } from './obstacles.ts'
import { Faults } from './faults.ts'

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
/** A waiting upgrade is checked again after so long. */
const UPGRADE_LOOK_US = 1_500_000

/** A request may have been sent so long before the store answered it with a ticket. */
const LONGEST_REQUEST_US = 5_000_000

/** What is served together: one ticket, those of several resources, or an upgrade request. */
interface Unit {
  readonly name: string
  readonly members: readonly Entry[]
  readonly first: Entry
}

interface Free {
  readonly sinceUs: number
  readonly freeUs: number
  isTold: boolean
}

export function waits(evidence: Evidence): readonly VainWait[] {
  const found: VainWait[] = []
  const faults = new Faults(evidence)
  const joined = new Map<LeaseId, number>()
  let free = new Map<string, Free>()
  const steps = walk(evidence.ledger)
  for (const [index, untilUs] of commitEnds(evidence).entries()) {
    const { value: step } = steps.next()
    if (step === undefined) throw new Error(`commit ${index} is missing`)
    for (const { event, atUs } of step.events) joined.set(event.leaseId, atUs)
    const next = new Map<string, Free>()
    const obstacles = new Obstacles(step, evidence, untilUs)
    for (const unit of unitsOf(step)) {
      const blockedUs = blockedUntilUs(unit, step, { evidence, obstacles })
      if (blockedUs >= untilUs) continue
      const before = blockedUs <= step.atUs ? free.get(unit.name) : undefined
      const sinceUs = joined.get(unit.first.id) ?? 0
      const freeUs = Math.max(step.atUs, blockedUs)
      const span = before ?? { sinceUs, freeUs, isTold: false }
      next.set(unit.name, span)
      const endUs = Math.min(untilUs, aliveUntilUs(unit, evidence, untilUs))
      const allowedUs = allowedOf(unit, step, evidence)
      if (span.isTold || endUs - span.freeUs <= allowedUs) continue
      const fromUs = span.sinceUs - LONGEST_REQUEST_US
      const lookingUs = span.sinceUs
      const toUs = span.freeUs + allowedUs
      if (faults.affected(unit.members, { fromUs, lookingUs, toUs })) continue
      span.isTold = true
      const { resource, id: leaseId } = unit.first
      found.push({ resource, leaseId, freeUs: span.freeUs, untilUs: endUs })
    }
    free = next
  }
  return found
}

/** When the commit after each commit happened; after the last, the end. */
function commitEnds({ ledger, endUs }: Evidence): readonly number[] {
  const starts: number[] = []
  ledger.forEach(({ commit, atUs }, index) => {
    if (commit !== ledger[index - 1]?.commit) starts.push(atUs)
  })
  return [...starts.slice(1), ...(starts.length > 0 ? [endUs] : [])]
}

function unitsOf({ live }: Step): readonly Unit[] {
  const units = new Map<string, Entry[]>()
  for (const entry of live.values()) {
    const isUpgrade = entry.kind === 'lease' && entry.state === 'active' && entry.upgrading
    const isTicket = entry.kind === 'ticket' && entry.state === 'pending' && entry.offer === null
    if (!isUpgrade && !isTicket) continue
    const name = entry.kind === 'ticket' ? (entry.group ?? entry.id) : entry.id
    units.set(name, [...(units.get(name) ?? []), entry])
  }
  return [...units].flatMap(([name, members]) => {
    const [first] = members
    return first === undefined ? [] : [{ name, members, first }]
  })
}

function blockedUntilUs(
  { members }: Unit,
  step: Step,
  { evidence, obstacles }: { readonly evidence: Evidence; readonly obstacles: Obstacles },
): number {
  let blockedUs = -Infinity
  const own = new Set(members.map((entry) => entry.id))
  for (const entry of members) {
    for (const obstacle of obstacles.of(claimedBy(entry, step))) {
      if (own.has(obstacle.entry.id)) continue
      if (entry.kind === 'lease' && obstacle.kind === 'ticket') continue
      blockedUs = Math.max(blockedUs, evidence.trueUs(obstacle.until))
    }
  }
  return blockedUs
}

/** An upgrade request counts as exclusive. */
function claimedBy(entry: Entry, { keys }: Step): Claimed {
  const keyUs = keys.get(entry.id) ?? Infinity
  if (entry.kind === 'ticket') return { claim: entry, keyUs }
  return { claim: { ...entry, mode: 'exclusive', slots: null }, keyUs }
}

/** A ticket whose waiter is not heard of in time waits no more, nor does a lease that has run out. */
function aliveUntilUs({ members }: Unit, evidence: Evidence, byUs: number): number {
  const ends = members.map((entry) => {
    const standing = standingOf(entry, evidence, byUs)
    return standing === null ? 0 : evidence.trueUs(standing.until)
  })
  return Math.min(...ends)
}

function allowedOf({ first }: Unit, { live }: Step, { claimWindowMs }: Evidence): number {
  if (first.kind === 'lease') return UPGRADE_LOOK_US + SLACK_US
  const queue = [...live.values()].filter((entry) => entry.kind === 'ticket').length
  return (claimWindowMs * 1000) / 3 + queue * STAGGER_US + SLACK_US
}
