/** `tenure release-all`: ends every lease of a holder that does not answer any more. */
import { parseHolder } from '../../core/input.ts'
import { textOption } from '../arguments.ts'
import { defineCommand, type CliCommand } from '../command.ts'
import { sendAgain } from '../lease-command.ts'
import { plural, visible } from '../output.ts'
import { withApi } from '../store-access.ts'

export const releaseAll: CliCommand = defineCommand({
  positionals: [{ name: 'HOLDER', help: 'whose leases and places in queues end' }],
  options: { reason: textOption('TEXT', 'why; kept in the history') },
  notes: ['They end as revoked, in the name of --holder.'],
  examples: ['tenure release-all agent-7 --holder operator --reason "its machine is gone"'],
  run: async ({ identity, positionals, options, printer }) => {
    const holder = parseHolder(positionals[0])
    const { reason = null } = options
    return withApi(identity, async (api) => {
      let tries = 0
      const revoked = await sendAgain(() => {
        tries += 1
        return api.revokeAll({ holder, by: identity.holder, reason })
      })
      if (tries > 1)
        printer.remark('the store was away meanwhile: a try before may have ended more')
      const effect = `${plural(revoked, 'lease')} of ${holder} ended`
      printer.effect(effect, { holder, revoked }, () =>
        visible(`revoked ${plural(revoked, 'lease')} of ${holder}`),
      )
      return 0
    })
  },
})
