/** One leader, any number of standbys, and a clean step-down on SIGTERM: docs/recipes/leader.md */
import { setTimeout as sleep } from 'node:timers/promises'
import { isLeaseError, openTenure } from 'tenure'

const store = process.argv[2] ?? process.env.TENURE_STORE ?? 'sqlite:leases.db'
const holder = process.argv[3] ?? `node-${process.pid}`
const tenure = await openTenure(store, { holder })
const stopping = new AbortController()
process.once('SIGTERM', () => stopping.abort())
process.once('SIGINT', () => stopping.abort())

/** Does what only a leader does, until it stops or is no longer the leader. */
async function lead(lease) {
  console.log(`${holder} leads`)
  while (!lease.signal.aborted && !stopping.signal.aborted) {
    await sleep(50) // one round of the leader's work, with lease.fence in what it writes
  }
}

console.log(`${holder} is ready`)
while (!stopping.signal.aborted) {
  try {
    const options = { waitMs: Infinity, signal: stopping.signal }
    await tenure.withLease('leader:main', options, lead)
    console.log(`${holder} steps down`)
  } catch (error) {
    if (isLeaseError(error, 'ABORTED')) break // it was told to stop while it was a standby
    if (!isLeaseError(error)) throw error
    console.log(`${holder} is a standby again: ${error.code}`) // LEASE_LOST, or the store is away
    await sleep(100)
  }
}
await tenure.close()
console.log(`${holder} stopped`)
