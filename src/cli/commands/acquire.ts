/** `tenure acquire`: takes a lease, or several at once, and exits; they stay until they are released or run out. */
import { isLeaseError } from '../../core/errors.ts'
import type { LeaseInfo } from '../../core/lease.ts'
import { acquireLeases, leasesAround } from '../acquire-leases.ts'
import { ACQUIRE_OPTIONS, RESOURCES, wantedLeases, type AcquireTable } from '../acquire-options.ts'
import { defineCommand, type Call, type Command } from '../command.ts'
import { leaseCard } from '../lease-text.ts'
import { listenForInterruption, signalExitCode } from '../signals.ts'
import { withTenure } from '../store-access.ts'

export const acquire: Command = defineCommand({
  positionals: [RESOURCES],
  options: ACQUIRE_OPTIONS,
  notes: [
    'Nothing renews a lease once this command has ended: use tenure renew, or tenure run to hold a lease as long as a command runs. With --json, one resource gives a lease, and several give { leases }.',
    'A lease that was transferred to you is taken over by acquiring its resource.',
  ],
  examples: [
    'tenure acquire src/app.ts --holder agent-7 --ttl 5m --wait 30s --reason "renaming a function"',
    'tenure acquire src/ docs/ --shared --holder agent-7',
    'tenure acquire work:W-17 --json',
  ],
  run,
})

async function run(call: Call<AcquireTable>): Promise<number> {
  const { identity, printer } = call
  const wanted = wantedLeases(call)
  const interruption = listenForInterruption()
  const hold = { signal: interruption.signal, autoRenew: false }
  const session = identity.session ?? identity.holder
  try {
    const leases = await withTenure({ ...identity, session }, async (tenure) => {
      const under = await leasesAround(tenure, identity)
      const held = await acquireLeases(tenure, wanted, { ...hold, ...under })
      for (const lease of held.leases) lease.abandon()
      return held.leases.map(({ info }) => info)
    })
    printer.answer(answerOf(leases), () => leases.map(cardOf).join('\n'))
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

function answerOf(leases: readonly LeaseInfo[]): unknown {
  return leases.length === 1 ? leases[0] : { leases }
}

function cardOf(lease: LeaseInfo): string {
  return leaseCard(`acquired ${lease.resource}`, lease, Date.now())
}
