/** A job of minutes that shows its progress, can be cancelled, and goes on where it stopped: docs/recipes/long-job.md */
import { setTimeout as sleep } from 'node:timers/promises'
import { openTenure } from 'tenure'

const store = process.argv[2] ?? process.env.TENURE_STORE ?? 'sqlite:leases.db'
const tenure = await openTenure(store, { holder: 'importer' })
const STEPS = 5
let saved = 0 // in a real job: in a file or a table, written with lease.fence

async function importAll(lease, onProgress = async () => {}) {
  let asked = ''
  lease.on('revoking', ({ by, reason }) => (asked = `${by}: ${reason}`)) // finish the step, then stop
  while (saved < STEPS && asked === '') {
    lease.signal.throwIfAborted() // lost: nothing may be written any more
    await sleep(20, null, { signal: lease.signal }) // fetch and spawn take the same signal
    saved += 1
    await lease.update({ metadata: { saved, of: STEPS } }) // whoever is blocked sees it
    await onProgress(saved, lease)
  }
  console.log(asked === '' ? `done: ${saved} of ${STEPS}` : `stopped at ${saved} by ${asked}`)
}

// From another process: tenure revoke job:import --grace 1m --reason "not now"
const operator = await openTenure(store, { holder: 'operator' })
const cancelAtTwo = async (step, lease) => {
  if (step !== 2) return
  const { leases } = await operator.inspect('job:import')
  console.log(`${leases[0].holder} is busy with: ${leases[0].reason}`)
  const heard = new Promise((resolve) => lease.on('revoking', resolve))
  await operator.revoke(leases[0].id, { graceMs: 60_000, reason: 'not now' })
  await heard
}
const options = { reason: 'the import of May' }
await tenure.withLease('job:import', options, (lease) => importAll(lease, cancelAtTwo))
await tenure.withLease('job:import', options, (lease) => importAll(lease)) // the next attempt goes on
await operator.close()
await tenure.close()
