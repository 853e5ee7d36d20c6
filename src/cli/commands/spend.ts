/** `tenure spend`: uses up some of the budget of a lease of one's own. */
import { parseLeaseId } from '../../core/input.ts'
import { refusalError } from '../../core/outcome.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import { defineCommand, type Command } from '../command.ts'
import { budgetWords, readAmounts } from '../delegation-text.ts'
import { findLeaseId } from '../lease-argument.ts'
import { visible } from '../output.ts'
import { withApi } from '../store-access.ts'

export const spend: Command = defineCommand({
  positionals: [
    { name: 'LEASE', help: 'the id of the lease, or its resource' },
    {
      name: 'AMOUNT',
      help: 'tokens=N, toolCalls=N, episodes=N or durationMs=N; all of them are spent, or none',
      several: true,
    },
  ],
  options: {
    'request-id': {
      placeholder: 'UUID',
      help: 'such as the id of a tool call: under one id the amounts are spent once, however often the command is repeated',
      read: (text) => parseLeaseId(text, 'request-id'),
    },
  },
  notes: ['tenure show LEASE tells what is left.'],
  examples: ['tenure spend work:W-17 tokens=1200 toolCalls=1 --holder sub-agent'],
  run: async ({ identity, positionals, options, printer, cwd }) => {
    const [text = '', ...words] = positionals
    const { holder } = identity
    const amounts = readAmounts(words)
    return withApi(identity, async (api) => {
      const leaseId = await findLeaseId(api, { text, cwd, holder })
      const requestId = options['request-id'] ?? systemRuntime.uuid()
      const answer = await api.spend({ id: leaseId, holder, amounts, requestId })
      if (answer.kind !== 'spent') throw refusalError(answer)
      const { id, resource, budget = {}, budgetLeft = {} } = answer.lease
      const spent = Object.entries(amounts).map(([dimension, amount]) => `${amount} ${dimension}`)
      const effect = `lease ${id} of ${resource} has spent ${spent.join(', ')}`
      printer.effect(effect, { id, spent: amounts, budget, budgetLeft }, () => {
        const isLimited = Object.keys(budget).length > 0
        const left = isLimited ? budgetWords(budget, budgetLeft) : 'its budget is unlimited'
        return visible(`spent ${spent.join(', ')} of ${resource}: ${left}`)
      })
      return 0
    })
  },
})
