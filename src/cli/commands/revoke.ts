/** `tenure revoke`: an operator ends a lease of any holder, or takes a waiter out of the queue. */
import type { LeaseId, LeaseInfo } from '../../core/lease.ts'
import { CHANGES } from '../../protocol/changes.ts'
import { textOption } from '../arguments.ts'
import type { CliCommand } from '../command.ts'
import { fieldOption } from '../field-option.ts'
import { defineLeaseCommand, send } from '../lease-command.ts'
import { expiryWords } from '../lease-text.ts'
import { visible } from '../output.ts'
import { given } from '../store-access.ts'

export const revoke: CliCommand = defineLeaseCommand({
  lease: 'the id of the lease or ticket, or the resource',
  isAnybodys: true,
  options: {
    reason: textOption('TEXT', 'why; recorded in the history'),
    grace: fieldOption('grace', CHANGES.revoke.fields.graceMs, {
      says: 'ask the holder to finish within so long',
      default: '0s, end the lease at once',
    }),
  },
  notes: [
    'The holder hears of it at its next renewal or sooner. Until then only the fence keeps its writes out. With --grace the lease goes on until the grace is over, or its own deadline if that is earlier, and cannot be renewed any more; a holder that releases it before ends it earlier.',
  ],
  examples: [
    'tenure revoke src/app.ts --holder operator --reason "agent-7 hangs"',
    'tenure revoke work:W-17 --holder operator --grace 30s --reason "the machine goes down"',
  ],
  act:
    ({ options }) =>
    async ({ api, target, holder: by }) => {
      const { id } = target
      const why = given({ reason: options.reason, graceMs: options.grace })
      await send('revoked', (requestId) => api.revoke({ ...target, by, ...why, requestId }))
      const going = goesOn(await api.get({ id }))
      return {
        effect: `lease ${id} was ${going === null ? 'revoked' : 'asked for'}`,
        answer: going ?? { id, state: 'revoked', by },
        text: () => (going === null ? `revoked ${id}` : askedWords(id, going)),
      }
    },
})

/** The lease, if it still runs because its holder has a grace. */
function goesOn(lease: LeaseInfo | null): LeaseInfo | null {
  return lease?.state === 'active' && lease.revoking !== null ? lease : null
}

function askedWords(leaseId: LeaseId, lease: LeaseInfo): string {
  return visible(`asked ${lease.holder} to finish: ${leaseId} ends ${expiryWords(lease)}`)
}
