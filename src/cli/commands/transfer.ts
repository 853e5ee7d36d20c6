/** `tenure transfer`: gives a lease of one's own to another, without a moment at which nobody has it. */
import { invalid } from '../../core/errors.ts'
import { parseHolder } from '../../core/input.ts'
import { refusalError } from '../../core/outcome.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import { flag, textOption, type Option, type OptionValues } from '../arguments.ts'
import { defineCommand, type Call, type Command } from '../command.ts'
import { findLeaseId } from '../lease-argument.ts'
import { leaseCard } from '../lease-card.ts'
import { withApi } from '../store-access.ts'

type TransferTable = { readonly to: Option<string>; readonly next: Option<true> }

export const transfer: Command = defineCommand({
  positionals: [{ name: 'LEASE', help: 'the id of the lease, or its resource' }],
  options: {
    to: textOption('HOLDER', 'who gets it, past everybody who waits'),
    next: flag('whoever is next in the queue gets it; nothing changes if nobody waits'),
  },
  notes: [
    'The receiver gets a new lease with a new id and a higher fence. It is the receiver’s from this moment on, whether or not the receiver knows, and it runs out like any other: the receiver takes it over with tenure adopt ID, or by acquiring the resource, and its ttl runs anew from there.',
  ],
  examples: [
    'tenure transfer work:W-17 --holder agent-7 --to agent-8',
    'tenure transfer 0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2 --holder agent-7 --next',
  ],
  run,
})

async function run(call: Call<TransferTable>): Promise<number> {
  const { identity, positionals, printer, cwd } = call
  const { holder } = identity
  const to = receiverOf(call.options)
  return withApi(identity, async (api) => {
    const leaseId = await findLeaseId(api, { text: positionals[0] ?? '', cwd, holder })
    const newLeaseId = systemRuntime.uuid()
    const answer = await api.transfer({ id: leaseId, holder, to, newId: newLeaseId })
    if (answer.kind !== 'transferred') throw refusalError(answer)
    const { lease } = answer
    const heir = lease === null ? 'the next in the queue' : `${lease.holder} as ${lease.id}`
    const effect = `lease ${leaseId} was transferred to ${heir}`
    printer.effect(effect, { id: leaseId, state: 'released', to, lease }, () => {
      if (lease === null) return `transferred ${leaseId} to the next in the queue`
      return leaseCard(`transferred ${lease.resource} to ${lease.holder}`, lease, Date.now())
    })
    return 0
  })
}

/** Null: whoever is next in the queue. */
function receiverOf({ to, next }: OptionValues<TransferTable>): string | null {
  if (to !== undefined && next === true) throw invalid('to', 'must not be given with --next', to)
  if (to !== undefined) return parseHolder(to, 'to')
  if (next === true) return null
  throw invalid('to', 'must be given, or --next', to)
}
