/** `tenure show`: one lease or ticket, in full. */
import { parseLeaseId } from '../../core/input.ts'
import { refusalError } from '../../core/outcome.ts'
import { defineCommand, type Command } from '../command.ts'
import { leaseCard } from '../lease-text.ts'
import { withQuestions } from '../store-access.ts'

export const show: Command = defineCommand({
  positionals: [{ name: 'ID', help: 'the id of the lease or ticket' }],
  options: {},
  examples: ['tenure show 0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2'],
  run: async ({ identity, positionals, printer }) => {
    const leaseId = parseLeaseId(positionals[0], 'id')
    const lease = await withQuestions(identity, async (questions) => questions.get(leaseId))
    if (lease === null) throw refusalError({ kind: 'not_found', leaseId })
    printer.answer(lease, () => leaseCard(lease.resource, lease, Date.now()))
    return 0
  },
})
