/**
 * I2: of two leases of a resource the later one has the greater fence, no fence is given twice in a realm, holders
 * are told the fence that the ledger shows, and a resource that keeps the highest fence it has seen accepts nothing
 * from a lease once a later one has written.
 */
import { realmOf } from '../../src/core/resource.ts'
import { seconds, short, type Checker, type Complaint, type Evidence } from '../evidence.ts'

export const fencing: Checker = {
  promise: 'I2',
  name: 'fencing',
  check: (evidence) => [...inLedger(evidence), ...asTold(evidence), ...downstream(evidence)],
}

function inLedger({ lives }: Evidence): readonly Complaint[] {
  const complaints: Complaint[] = []
  const highest = new Map<string, number>()
  const given = new Map<string, string>()
  for (const { lease, issued } of lives) {
    const before = highest.get(lease.resource) ?? 0
    if (lease.fence <= before) {
      complaints.push(
        `${lease.resource}: fence ${lease.fence} of ${short(lease.id)} at ${seconds(issued.atUs)} ` +
          `does not exceed ${before}`,
      )
    }
    highest.set(lease.resource, Math.max(before, lease.fence))
    const name = `${realmOf(lease.resource)} ${lease.fence}`
    const other = given.get(name)
    if (other !== undefined) {
      complaints.push(`fence ${lease.fence} was given to ${short(other)} and ${short(lease.id)}`)
    }
    given.set(name, lease.id)
  }
  return complaints
}

function asTold({ log, lives }: Evidence): readonly Complaint[] {
  const fences = new Map(lives.map(({ lease }) => [lease.id, lease.fence]))
  const complaints: Complaint[] = []
  for (const entry of log) {
    if (entry.kind !== 'believed' || entry.why !== 'granted') continue
    const fence = fences.get(entry.leaseId)
    if (fence === undefined || fence === entry.fence) continue
    complaints.push(`${entry.session} was told fence ${entry.fence}, the ledger says ${fence}`)
  }
  return complaints
}

function downstream({ log, lives }: Evidence): readonly Complaint[] {
  const order = new Map(lives.map(({ lease }, index) => [lease.id, index]))
  const latest = new Map<string, number>()
  const complaints: Complaint[] = []
  for (const entry of log) {
    if (entry.kind !== 'write_arrived' || !entry.accepted) continue
    const index = order.get(entry.leaseId)
    if (index === undefined) continue
    const before = latest.get(entry.resource) ?? -1
    if (index < before) {
      complaints.push(
        `${entry.resource} accepted a write of ${short(entry.leaseId)} at ${seconds(entry.atUs)} ` +
          'after a later lease had written',
      )
    }
    latest.set(entry.resource, Math.max(before, index))
  }
  return complaints
}
