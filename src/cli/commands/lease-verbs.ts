/** `tenure renew`, `release`, `downgrade`, `adopt` and `transfer`: one request about a lease of the caller's own. */
import { invalid } from '../../core/errors.ts'
import { parseHolder } from '../../core/input.ts'
import type { LeaseInfo } from '../../core/lease.ts'
import { CHANGES } from '../../protocol/changes.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import { flag, textOption, type OptionValues } from '../arguments.ts'
import type { CliCommand } from '../command.ts'
import { fieldOption } from '../field-option.ts'
import { leaseCard } from '../lease-card.ts'
import { defineLeaseCommand, leaseEffect, send } from '../lease-command.ts'
import { visible } from '../output.ts'
import { given } from '../store-access.ts'

export const renew: CliCommand = defineLeaseCommand({
  options: {
    ttl: fieldOption('ttl', CHANGES.renew.fields.ttlMs, { says: 'its new ttl, counted from now' }),
  },
  examples: ['tenure renew 0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2 --holder agent-7 --ttl 5m'],
  act:
    ({ options }) =>
    async ({ api, target, holder }) => {
      const request = { ...target, holder, ...given({ ttlMs: options.ttl }) }
      const { lease } = await send('renewed', (requestId) => api.renew({ ...request, requestId }))
      return leaseEffect(lease, 'was renewed', `renewed ${lease.resource}`)
    },
})

export const release: CliCommand = defineLeaseCommand({
  options: {
    reason: fieldOption('reason', CHANGES.release.fields.releaseReason, {
      says: 'completed, aborted or voluntary',
    }),
  },
  examples: [
    'tenure release src/app.ts --holder agent-7',
    'tenure release 0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2 --holder agent-7 --reason completed',
  ],
  act:
    ({ options }) =>
    async ({ api, target, holder }) => {
      const request = { ...target, holder, ...given({ releaseReason: options.reason }) }
      const { lease } = await send('released', (requestId) =>
        api.release({ ...request, requestId }),
      )
      const text = (): string => visible(`released ${lease.resource} (${lease.id})`)
      return { ...leaseEffect(lease, 'was released', ''), text }
    },
})

export const downgrade: CliCommand = defineLeaseCommand({
  options: {},
  notes: ['The lease keeps its id and its fence. Those who wait to share it are served at once.'],
  examples: ['tenure downgrade src/app.ts --holder agent-7'],
  act:
    () =>
    async ({ api, target, holder }) => {
      const { lease, changed } = await send('downgraded', (requestId) =>
        api.downgrade({ ...target, holder, requestId }),
      )
      const nothing = `${lease.resource} is shared already: nothing changed`
      const title = changed ? `downgraded ${lease.resource}` : nothing
      return { ...leaseEffect(lease, 'is shared', title), answer: { ...lease, changed } }
    },
})

export const adoptVerb: CliCommand = defineLeaseCommand({
  options: {},
  notes: [
    'The lease keeps its id and its fence, and its ttl runs anew. Acquiring the resource in the name of the receiver does the same, and tenure run then holds it as long as its command runs.',
  ],
  examples: ['tenure adopt 0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2 --holder agent-8'],
  act:
    () =>
    async ({ api, target, holder, session }) => {
      const { lease, repeated } = await send('granted', (requestId) =>
        api.adopt({ ...target, holder, session, requestId }),
      )
      const title = repeated ? `${lease.resource} is yours already` : `adopted ${lease.resource}`
      return leaseEffect(lease, 'was adopted', title)
    },
})

const transferOptions = {
  to: textOption('HOLDER', 'who gets it, past everybody who waits'),
  next: flag('the first waiter in the queue gets it; nothing changes if nobody waits'),
}

export const transfer: CliCommand = defineLeaseCommand({
  options: transferOptions,
  notes: [
    'The receiver gets a new lease with a new id and a higher fence. It is the receiver’s from this moment on, whether or not the receiver knows, and it runs out like any other: the receiver takes it over with tenure adopt ID, or by acquiring the resource, and its ttl runs anew from there.',
  ],
  examples: [
    'tenure transfer work:W-17 --holder agent-7 --to agent-8',
    'tenure transfer 0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2 --holder agent-7 --next',
  ],
  act: ({ options }) => {
    const to = receiverOf(options)
    return async ({ api, target, holder }) => {
      const { id } = target
      const request = { ...target, holder, to, newId: systemRuntime.uuid() }
      const { lease } = await send('transferred', (requestId) =>
        api.transfer({ ...request, requestId }),
      )
      const heir = lease === null ? 'the next in the queue' : `${lease.holder} as ${lease.id}`
      return {
        effect: `lease ${id} was transferred to ${heir}`,
        answer: { id, state: 'released', to, lease },
        text: () => transferText(id, lease),
      }
    }
  },
})

function transferText(id: string, lease: LeaseInfo | null): string {
  if (lease === null) return `transferred ${id} to the next in the queue`
  return leaseCard(`transferred ${lease.resource} to ${lease.holder}`, lease, Date.now())
}

/** Null: the first waiter in the queue. */
function receiverOf({ to, next }: OptionValues<typeof transferOptions>): string | null {
  if (to !== undefined && next === true) throw invalid('to', 'must not be given with --next', to)
  if (to !== undefined) return parseHolder(to, 'to')
  if (next === true) return null
  throw invalid('to', 'must be given, or --next', to)
}
