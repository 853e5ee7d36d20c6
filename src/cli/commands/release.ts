/** `tenure release`: gives a lease of one's own back. */
import { parseReleaseReason } from '../../core/input.ts'
import type { ReleaseReason } from '../../core/lease.ts'
import { refusalError } from '../../core/outcome.ts'
import type { Option } from '../arguments.ts'
import { defineCommand, type Command } from '../command.ts'
import { findLeaseId } from '../lease-argument.ts'
import { visible } from '../output.ts'
import { given, withApi } from '../store-access.ts'

const reason: Option<ReleaseReason> = {
  placeholder: 'WORD',
  help: 'completed, aborted or voluntary (default: voluntary)',
  read: parseReleaseReason,
}

export const release: Command = defineCommand({
  positionals: [{ name: 'LEASE', help: 'the id of the lease, or its resource' }],
  options: { reason },
  examples: [
    'tenure release src/app.ts --holder agent-7',
    'tenure release 0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2 --holder agent-7 --reason completed',
  ],
  run: async ({ identity, positionals, options, printer, cwd }) => {
    const { holder } = identity
    return withApi(identity, async (api) => {
      const id = await findLeaseId(api, { text: positionals[0] ?? '', cwd, holder })
      const request = { id, holder, ...given({ releaseReason: options.reason }) }
      const answer = await api.release(request)
      if (answer.kind !== 'released') throw refusalError(answer)
      const { lease } = answer
      const effect = `lease ${lease.id} of ${lease.resource} was released`
      printer.effect(effect, lease, () => visible(`released ${lease.resource} (${lease.id})`))
      return 0
    })
  },
})
