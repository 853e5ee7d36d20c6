/** `tenure upgrade`: makes a shared lease exclusive in place, without a moment at which another could take it. */
import { isLeaseError, LeaseError } from '../../core/errors.ts'
import type { LeaseInfo } from '../../core/lease.ts'
import { refusalError } from '../../core/outcome.ts'
import { AgentWaits } from '../../files/agent-waits.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import { waitOption } from '../arguments.ts'
import type { CliCommand } from '../command.ts'
import { defineLeaseCommand, leaseEffect, type FoundLease } from '../lease-command.ts'

export const upgradeVerb: CliCommand = defineLeaseCommand({
  isWaiting: true,
  options: {
    wait: waitOption(
      'wait',
      'wait so long for the others to leave, or forever (default: do not wait)',
    ),
  },
  notes: [
    'The lease keeps its id and gets a new fence. While it waits, the lease stays shared, no new sharer comes in, and nothing renews it. Of two upgrade requests for one resource the second is refused, because each would wait for the other.',
  ],
  examples: [
    'tenure upgrade src/app.ts --holder agent-7',
    'tenure upgrade 0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2 --holder agent-7 --wait 30s --json',
  ],
  act:
    ({ options }) =>
    async (found) => {
      const { lease, changed } = await upgradeLease(found, options.wait ?? 0)
      const nothing = `${lease.resource} is exclusive already: nothing changed`
      const title = changed ? `upgraded ${lease.resource}` : nothing
      return { ...leaseEffect(lease, 'is exclusive', title), answer: { ...lease, changed } }
    },
})

interface Upgraded {
  readonly lease: LeaseInfo
  readonly changed: boolean
}

/** The client waits, as it does for a lease that it holds; an upgrade that is given up is taken back. */
async function upgradeLease(
  { api, target, before, holder, session, signal }: FoundLease,
  waitMs: number,
): Promise<Upgraded> {
  if (before === null) throw refusalError({ kind: 'not_found', leaseId: target.id })
  const { id, resource, extent, mode } = before
  const waits = new AgentWaits(api, systemRuntime)
  try {
    const request = { target: { id, resource, extent, holder }, mode, session, waitMs }
    const outcome = await waits.upgrade(request, signal)
    if (outcome.kind === 'held') throw refusalError(outcome)
    return { lease: outcome.lease, changed: mode === 'shared' }
  } catch (error) {
    if (!isLeaseError(error, 'WAIT_TIMEOUT')) throw error
    const message = `the others did not leave within ${waitMs} ms, and lease ${id} stays shared`
    const details = { leaseId: id, waitedMs: waitMs }
    throw new LeaseError('WAIT_TIMEOUT', message, { details, cause: error })
  } finally {
    await waits.close()
  }
}
