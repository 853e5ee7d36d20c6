/** `tenure show`: one lease or ticket in full, or all that there are of a resource. */
import { LeaseError, show as shown } from '../../core/errors.ts'
import type { LeaseId } from '../../core/lease.ts'
import { refusalError } from '../../core/outcome.ts'
import { defineCommand, type CliCall, type CliCommand } from '../command.ts'
import { readLeaseId } from '../lease-argument.ts'
import { leaseCard } from '../lease-card.ts'
import { readReach } from '../resource-argument.ts'
import { withApi, withQuestions } from '../store-access.ts'

type NoOptions = Record<never, never>

export const showCommand: CliCommand = defineCommand({
  positionals: [
    {
      name: 'LEASE',
      help: 'the id of a lease or ticket, or a resource: all who hold or wait for it',
    },
  ],
  options: {},
  notes: [
    'With --json, an id gives one lease, and a resource gives leases and queue, the latter in the order in which it will be served.',
  ],
  examples: ['tenure show 0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2', 'tenure show src/app.ts'],
  run: async (call) => {
    const leaseId = readLeaseId(call.positionals[0] ?? '')
    if (leaseId === null) await showResource(call)
    else await showLease(call, leaseId)
    return 0
  },
})

async function showLease(
  { identity, printer }: CliCall<NoOptions>,
  leaseId: LeaseId,
): Promise<void> {
  const lease = await withQuestions(identity, async (questions) => questions.get({ id: leaseId }))
  if (lease === null) throw refusalError({ kind: 'not_found', leaseId })
  printer.answer(lease, () => leaseCard(lease.resource, lease, Date.now()))
}

async function showResource({
  identity,
  positionals,
  printer,
  cwd,
}: CliCall<NoOptions>): Promise<void> {
  const { resource, extent } = readReach(positionals[0] ?? '', cwd)
  const { leases, queue } = await withApi(identity, async (api) =>
    api.inspect({ resource, extent }),
  )
  const all = [...leases, ...queue]
  if (all.length === 0) {
    const message = `nobody holds or waits for ${shown(resource)}`
    throw new LeaseError('LEASE_NOT_FOUND', message, { details: { resource } })
  }
  printer.answer({ leases, queue }, () => {
    return all.map((lease) => leaseCard(lease.resource, lease, Date.now())).join('\n\n')
  })
}
