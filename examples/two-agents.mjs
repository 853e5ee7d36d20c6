/**
 * File leases for agents that edit one tree: one asks and gets the file, the other is told who has it, waits, and gets
 * it when it is released.
 *
 * Run it with `node examples/two-agents.mjs` (after `npm run build`).
 */
import { openApi } from 'tenure'
import { FileLeases } from 'tenure/files'

const api = await openApi('memory:')
const files = new FileLeases(api)
const filePath = '/repo/src/app.ts'

const first = await files.acquireLease({
  filePath,
  agentId: 'agent-1',
  ttlSeconds: 60,
  reason: 'renaming a function',
})
if (!first.success) throw first.error
console.log(`agent-1 has ${first.lease.filePath} for ${first.lease.ttlSeconds} s`)

const refused = await files.acquireLease({ filePath, agentId: 'agent-2' })
if (!refused.success) {
  console.log(`agent-2 is refused: ${refused.error.code}`)
  console.log(`  ${refused.holder.agentId} is ${refused.holder.reason}`)
}

const turn = files.acquireLease({ filePath, agentId: 'agent-2', blocking: true, timeoutMs: 5_000 })
const renewed = await files.renewLease({ leaseId: first.lease.id, agentId: 'agent-1' })
if (renewed.success) console.log(`agent-1 renewed ${renewed.lease.renewalCount} time`)
await files.releaseLease({ leaseId: first.lease.id, agentId: 'agent-1' })

const second = await turn
if (!second.success) throw second.error
console.log(`agent-2 has it now: ${second.lease.status}`)
console.log(`its fence is greater: ${second.lease.fence > first.lease.fence}`)
console.log(`agent-2 is forced out of ${await files.forceReleaseAgentLeases('agent-2')} file`)
console.log(`locked: ${await files.isFileLocked(filePath)}`)

await files.close()
await api.close()
