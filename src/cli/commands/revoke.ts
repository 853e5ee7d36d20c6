/** `tenure revoke`: an operator ends a lease, whoever holds it, or takes a waiter out of the queue. */
import { refusalError } from '../../core/outcome.ts'
import { textOption } from '../arguments.ts'
import { defineCommand, type Command } from '../command.ts'
import { findLeaseId } from '../lease-argument.ts'
import { given, withApi } from '../store-access.ts'

export const revoke: Command = defineCommand({
  positionals: [{ name: 'LEASE', help: 'the id of the lease or ticket, or the resource' }],
  options: { reason: textOption('TEXT', 'why; kept in the history') },
  notes: [
    'The holder hears of it at its next renewal or sooner. Until then only the fence keeps its writes out.',
  ],
  examples: ['tenure revoke src/app.ts --holder operator --reason "agent-7 hangs"'],
  run: async ({ identity, positionals, options, printer, cwd }) =>
    withApi(identity, async (api) => {
      const leaseId = await findLeaseId(api, { text: positionals[0] ?? '', cwd, holder: null })
      const by = identity.holder
      const answer = await api.revoke({ leaseId, by, ...given({ reason: options.reason }) })
      if (answer.kind !== 'revoked') throw refusalError(answer)
      printer.answer({ id: leaseId, state: 'revoked', by }, () => `revoked ${leaseId}`)
      return 0
    }),
})
