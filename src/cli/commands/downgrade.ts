/** `tenure downgrade`: lets others share what one had alone. */
import { refusalError } from '../../core/outcome.ts'
import { defineCommand, type Command } from '../command.ts'
import { findLeaseId } from '../lease-argument.ts'
import { leaseCard } from '../lease-card.ts'
import { withApi } from '../store-access.ts'

export const downgrade: Command = defineCommand({
  positionals: [{ name: 'LEASE', help: 'the id of the lease, or its resource' }],
  options: {},
  notes: ['The lease keeps its id and its fence. Those who wait to share it are served at once.'],
  examples: ['tenure downgrade src/app.ts --holder agent-7'],
  run: async ({ identity, positionals, printer, cwd }) => {
    const { holder } = identity
    return withApi(identity, async (api) => {
      const leaseId = await findLeaseId(api, { text: positionals[0] ?? '', cwd, holder })
      const answer = await api.downgrade({ id: leaseId, holder })
      if (answer.kind !== 'downgraded') throw refusalError(answer)
      const { lease, changed } = answer
      const effect = `lease ${lease.id} of ${lease.resource} is shared`
      printer.effect(effect, { ...lease, changed }, () => {
        const title = changed ? `downgraded ${lease.resource}` : nothingChanged(lease.resource)
        return leaseCard(title, lease, Date.now())
      })
      return 0
    })
  },
})

function nothingChanged(resource: string): string {
  return `${resource} is shared already: nothing changed`
}
