/** `tenure spend`: uses up some of the budget of a lease of one's own. */
import { CHANGES } from '../../protocol/changes.ts'
import type { CliCommand } from '../command.ts'
import { budgetWords, readAmounts } from '../delegation-text.ts'
import { fieldOption } from '../field-option.ts'
import { defineLeaseCommand, send } from '../lease-command.ts'
import { visible } from '../output.ts'

export const spend: CliCommand = defineLeaseCommand({
  more: [
    {
      name: 'AMOUNT',
      help: 'tokens=N, toolCalls=N, episodes=N or durationMs=N; all of them are spent, or none',
      several: true,
    },
  ],
  options: {
    'request-id': fieldOption('request-id', CHANGES.spend.fields.requestId, {
      says: 'such as the id of a tool call: under one id the amounts are spent once, however often the command is repeated',
    }),
  },
  notes: ['tenure show LEASE tells what is left.'],
  examples: ['tenure spend work:W-17 tokens=1200 toolCalls=1 --holder sub-agent'],
  act: ({ positionals, options }) => {
    const amounts = readAmounts(positionals.slice(1))
    return async ({ api, target, holder }) => {
      const { lease } = await send('spent', (newId) => {
        const requestId = options['request-id'] ?? newId
        return api.spend({ ...target, holder, amounts, requestId })
      })
      const { id, resource, budget = {}, budgetLeft = {} } = lease
      const spent = Object.entries(amounts).map(([dimension, amount]) => `${amount} ${dimension}`)
      const isLimited = Object.keys(budget).length > 0
      const left = isLimited ? budgetWords(budget, budgetLeft) : 'its budget is unlimited'
      return {
        effect: `lease ${id} of ${resource} has spent ${spent.join(', ')}`,
        answer: { id, spent: amounts, budget, budgetLeft },
        text: () => visible(`spent ${spent.join(', ')} of ${resource}: ${left}`),
      }
    }
  },
})
