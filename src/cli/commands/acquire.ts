/** `tenure acquire`: takes a lease and exits; the lease stays until it is released or runs out. */
import { isLeaseError } from '../../core/errors.ts'
import type { LeaseInfo } from '../../core/lease.ts'
import { ACQUIRE_OPTIONS, acquireOptionsOf, type AcquireTable } from '../acquire-options.ts'
import { defineCommand, type Call, type Command } from '../command.ts'
import { leaseCard } from '../lease-text.ts'
import { readResource } from '../resource-argument.ts'
import { listenForInterruption, signalExitCode } from '../signals.ts'
import { withTenure } from '../store-access.ts'

export const acquire: Command = defineCommand({
  positionals: [{ name: 'RESOURCE', help: 'kind:name, or a path, which means the file' }],
  options: ACQUIRE_OPTIONS,
  notes: [
    'Nothing renews the lease once this command has ended: use tenure renew, or tenure run to hold a lease as long as a command runs.',
  ],
  examples: [
    'tenure acquire src/app.ts --holder agent-7 --ttl 5m --wait 30s --reason "renaming a function"',
    'tenure acquire work:W-17 --json',
  ],
  run,
})

async function run(call: Call<AcquireTable>): Promise<number> {
  const { identity, printer, positionals, cwd } = call
  const resource = readResource(positionals[0] ?? '', cwd)
  const options = { ...acquireOptionsOf(call.options), autoRenew: false }
  const interruption = listenForInterruption()
  const session = identity.session ?? identity.holder
  try {
    const lease = await withTenure({ ...identity, session }, async (tenure): Promise<LeaseInfo> => {
      const held = await tenure.acquire(resource, { ...options, signal: interruption.signal })
      held.abandon()
      return held.info
    })
    printer.answer(lease, () => leaseCard(`acquired ${lease.resource}`, lease, Date.now()))
    return 0
  } catch (error) {
    const { received } = interruption
    if (received !== null && isLeaseError(error) && error.code === 'ABORTED') {
      return signalExitCode(received)
    }
    throw error
  } finally {
    interruption.stop()
  }
}
