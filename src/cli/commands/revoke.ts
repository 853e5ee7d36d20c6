/** `tenure revoke`: an operator ends a lease, whoever holds it, or takes a waiter out of the queue. */
import { TTL_MS_MAX } from '../../core/limits.ts'
import type { LeaseId, LeaseInfo } from '../../core/lease.ts'
import { refusalError } from '../../core/outcome.ts'
import { durationOption, textOption } from '../arguments.ts'
import { defineCommand, type Command } from '../command.ts'
import { findLeaseId } from '../lease-argument.ts'
import { expiryWords } from '../lease-text.ts'
import { visible } from '../output.ts'
import { given, withApi } from '../store-access.ts'

export const revoke: Command = defineCommand({
  positionals: [{ name: 'LEASE', help: 'the id of the lease or ticket, or the resource' }],
  options: {
    reason: textOption('TEXT', 'why; kept in the history'),
    grace: durationOption(
      { field: 'grace', minMs: 0, maxMs: TTL_MS_MAX },
      'ask the holder to finish within so long (default: 0s, end the lease at once)',
    ),
  },
  notes: [
    'The holder hears of it at its next renewal or sooner. Until then only the fence keeps its writes out. With --grace the lease goes on until the grace is over, or its own deadline if that is earlier, and cannot be renewed any more; a holder that releases it before ends it earlier.',
  ],
  examples: [
    'tenure revoke src/app.ts --holder operator --reason "agent-7 hangs"',
    'tenure revoke work:W-17 --holder operator --grace 30s --reason "the machine goes down"',
  ],
  run: async ({ identity, positionals, options, printer, cwd }) =>
    withApi(identity, async (api) => {
      const leaseId = await findLeaseId(api, { text: positionals[0] ?? '', cwd, holder: null })
      const by = identity.holder
      const wish = given({ reason: options.reason, graceMs: options.grace })
      const answer = await api.revoke({ id: leaseId, by, ...wish })
      if (answer.kind !== 'revoked') throw refusalError(answer)
      const going = goesOn(await api.get({ id: leaseId }))
      const effect = `lease ${leaseId} was ${going === null ? 'revoked' : 'asked for'}`
      printer.effect(effect, going === null ? { id: leaseId, state: 'revoked', by } : going, () => {
        return going === null ? `revoked ${leaseId}` : askedWords(leaseId, going)
      })
      return 0
    }),
})

/** The lease, if it still runs because its holder has a grace. */
function goesOn(lease: LeaseInfo | null): LeaseInfo | null {
  return lease?.state === 'active' && lease.revoking !== null ? lease : null
}

function askedWords(leaseId: LeaseId, lease: LeaseInfo): string {
  return visible(`asked ${lease.holder} to finish: ${leaseId} ends ${expiryWords(lease)}`)
}
