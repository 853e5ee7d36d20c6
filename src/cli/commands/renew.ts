/** `tenure renew`: gives a lease of one's own a new deadline. */
import { TTL_MS_MAX, TTL_MS_MIN } from '../../core/limits.ts'
import { refusalError } from '../../core/outcome.ts'
import { durationOption } from '../arguments.ts'
import { defineCommand, type Command } from '../command.ts'
import { findLeaseId } from '../lease-argument.ts'
import { leaseCard } from '../lease-card.ts'
import { given, withApi } from '../store-access.ts'

export const renew: Command = defineCommand({
  positionals: [{ name: 'LEASE', help: 'the id of the lease, or its resource' }],
  options: {
    ttl: durationOption(
      { field: 'ttl', minMs: TTL_MS_MIN, maxMs: TTL_MS_MAX },
      'its new ttl, counted from now (default: the one it has)',
    ),
  },
  examples: ['tenure renew 0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2 --holder agent-7 --ttl 5m'],
  run: async ({ identity, positionals, options, printer, cwd }) => {
    const { holder } = identity
    return withApi(identity, async (api) => {
      const leaseId = await findLeaseId(api, { text: positionals[0] ?? '', cwd, holder })
      const answer = await api.renew({ id: leaseId, holder, ...given({ ttlMs: options.ttl }) })
      if (answer.kind !== 'renewed') throw refusalError(answer)
      const { lease } = answer
      const effect = `lease ${lease.id} of ${lease.resource} was renewed`
      printer.effect(effect, lease, () => leaseCard(`renewed ${lease.resource}`, lease, Date.now()))
      return 0
    })
  },
})
