/**
 * I2: of two leases that touch, the one granted later has the greater fence, and so has one that was upgraded; no fence
 * is given twice in a realm; holders are told a fence that the ledger shows; and a resource that keeps the highest
 * fences it has seen accepts nothing from a lease once a later one that excludes it has written.
 */
import type { LeaseEvent } from '../../src/core/event.ts'
import { realmOf, type Mode } from '../../src/core/resource.ts'
import { seconds, short, type Checker, type Complaint, type Evidence } from '../evidence.ts'
import { touch, type Reach } from './reach.ts'

export const fencing: Checker = {
  promise: 'I2',
  name: 'fencing',
  check: (evidence) => [...inLedger(evidence), ...asTold(evidence), ...downstream(evidence)],
}

function inLedger({ ledger, lives }: Evidence): readonly Complaint[] {
  const complaints: Complaint[] = []
  const reaches = new Map(lives.map(({ lease }) => [lease.id, lease]))
  const highest = new Map<string, Reach & { readonly fence: number }>()
  const given = new Map<string, string>()
  for (const { event, atUs } of ledger) {
    const fence = fenceOf(event)
    const reach = reaches.get(event.leaseId)
    if (fence === null || reach === undefined) continue
    const { resource, extent } = reach
    const touching = [...highest.values()].filter((earlier) => touch(earlier, reach))
    const before = Math.max(0, ...touching.map((earlier) => earlier.fence))
    if (fence <= before) {
      const what = `${resource}: fence ${fence} of ${short(event.leaseId)} at ${seconds(atUs)}`
      complaints.push(`${what} does not exceed ${before}`)
    }
    highest.set(`${extent} ${resource}`, { resource, extent, fence: Math.max(before, fence) })
    const name = `${realmOf(resource)} ${fence}`
    const other = given.get(name)
    if (other !== undefined) {
      complaints.push(`fence ${fence} was given to ${short(other)} and ${short(event.leaseId)}`)
    }
    given.set(name, event.leaseId)
  }
  return complaints
}

function fenceOf(event: LeaseEvent): number | null {
  if (event.type === 'lease.issued') return event.lease.fence
  return event.type === 'lease.upgraded' ? event.fence : null
}

function asTold({ log, lives }: Evidence): readonly Complaint[] {
  const fences = new Map(lives.map((life) => [life.lease.id, life.phases.map((p) => p.fence)]))
  const complaints: Complaint[] = []
  for (const entry of log) {
    if (entry.kind !== 'believed') continue
    const known = fences.get(entry.leaseId)
    if (known === undefined || known.includes(entry.fence)) continue
    complaints.push(`${entry.session} was told fence ${entry.fence}, the ledger says ${known[0]}`)
  }
  return complaints
}

interface Written {
  readonly order: number
  readonly mode: Mode
}

function downstream({ log, ledger }: Evidence): readonly Complaint[] {
  const order = new Map<string, number>()
  ledger.forEach(({ event }, index) => {
    const fence = fenceOf(event)
    if (fence !== null) order.set(`${event.leaseId} ${fence}`, index)
  })
  const accepted = new Map<string, Written[]>()
  const complaints: Complaint[] = []
  for (const entry of log) {
    if (entry.kind !== 'write_arrived' || !entry.accepted) continue
    const { resource, leaseId, fence, mode } = entry
    const own = order.get(`${leaseId} ${fence}`)
    if (own === undefined) continue
    const before = accepted.get(resource) ?? []
    accepted.set(resource, before)
    const isLate = before.some((written) => {
      return written.order > own && (written.mode === 'exclusive' || mode === 'exclusive')
    })
    if (isLate) {
      const what = `a write of ${short(leaseId)} at ${seconds(entry.atUs)}`
      complaints.push(`${resource} accepted ${what} after a later lease had written`)
    }
    before.push({ order: own, mode })
  }
  return complaints
}
