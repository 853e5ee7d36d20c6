/** `tenure adopt`: the receiver of a transfer takes its lease over. */
import { refusalError } from '../../core/outcome.ts'
import { defineCommand, type Command } from '../command.ts'
import { findLeaseId } from '../lease-argument.ts'
import { leaseCard } from '../lease-card.ts'
import { withApi } from '../store-access.ts'

export const adopt: Command = defineCommand({
  positionals: [{ name: 'LEASE', help: 'the id of the lease, or its resource' }],
  options: {},
  notes: [
    'The lease keeps its id and its fence, and its ttl runs anew. Acquiring the resource in the name of the receiver does the same, and tenure run then holds it as long as its command runs.',
  ],
  examples: ['tenure adopt 0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2 --holder agent-8'],
  run: async ({ identity, positionals, printer, cwd }) => {
    const { holder } = identity
    const session = identity.session ?? holder
    return withApi(identity, async (api) => {
      const leaseId = await findLeaseId(api, { text: positionals[0] ?? '', cwd, holder })
      const answer = await api.adopt({ id: leaseId, holder, session })
      if (answer.kind === 'queued') throw new Error('an adoption cannot be queued')
      if (answer.kind !== 'granted') throw refusalError(answer)
      const { lease, repeated } = answer
      const title = repeated ? `${lease.resource} is yours already` : `adopted ${lease.resource}`
      const effect = `lease ${lease.id} of ${lease.resource} was adopted`
      printer.effect(effect, lease, () => leaseCard(title, lease, Date.now()))
      return 0
    })
  },
})
