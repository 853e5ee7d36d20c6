/** `tenure derive`: gives another holder a part of a lease of one's own. */
import { invalid } from '../../core/errors.ts'
import { parseHolder } from '../../core/input.ts'
import { CHANGES } from '../../protocol/changes.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import { flag, textOption } from '../arguments.ts'
import type { CliCommand } from '../command.ts'
import { BUDGET_OPTION, SCOPE_OPTION } from '../delegation-text.ts'
import { fieldOption } from '../field-option.ts'
import { defineLeaseCommand, leaseEffect, send } from '../lease-command.ts'
import { readReach } from '../resource-argument.ts'
import { given } from '../store-access.ts'

export const derive: CliCommand = defineLeaseCommand({
  lease: 'the id of your lease, or its resource',
  options: {
    to: textOption('HOLDER', 'who gets the derived lease; its session has the same name'),
    resource: textOption(
      'RESOURCE',
      "what of yours it is for, alone: below a subtree (default: all of yours, shared with the lease's other children)",
    ),
    shared: flag('of a resource of its own: share it with others that are derived so'),
    ttl: fieldOption('ttl', CHANGES.derive.fields.ttlMs, { says: 'no longer than yours has left' }),
    scope: SCOPE_OPTION,
    budget: BUDGET_OPTION,
    audience: textOption('NAME', 'who is to check its grants'),
    reason: textOption('TEXT', 'in your own words'),
    'lease-id': fieldOption('lease-id', CHANGES.derive.fields.id, {
      says: 'the id of the derived lease, so that a repeated command is recognised',
      default: 'a new one',
    }),
  },
  notes: [
    'A derived lease has less of everything, ends with its parent, and is never renewed beyond it. Without --scope it may be used for nothing; without --budget it is unlimited, which a limited parent refuses. What it was given counts as used by its parent until it ends; then what is left comes back.',
    'Its holder renews, spends and releases it like any other lease, and a program takes it over with adopt.',
  ],
  examples: [
    "tenure derive work:W-17 --to sub-agent --scope 'tools=edit namespaces=src' --budget tokens=100",
    'tenure derive src --to sub-agent --resource src/app.ts --scope unlimited --ttl 5m',
  ],
  act: ({ options, cwd }) => {
    const { to, resource, shared, ttl, scope, budget, audience, reason } = options
    if (to === undefined) throw invalid('to', 'must be given', to)
    if (shared === true && resource === undefined) {
      throw invalid('shared', 'must not be given without --resource, which makes it', true)
    }
    const holder = parseHolder(to, 'to')
    const reach = resource === undefined ? {} : readReach(resource, cwd)
    const mode = shared === true ? ('shared' as const) : undefined
    const id = options['lease-id'] ?? systemRuntime.uuid()
    return async ({ api, target, holder: by }) => {
      const request = {
        ...{ id, parent: target, by, holder, session: holder, ...reach },
        ...given({ mode, ttlMs: ttl, scope, budget, audience, reason }),
      }
      // The id of the derived lease is what a repeated request is known by.
      const { lease } = await send('granted', () => api.derive(request))
      return leaseEffect(lease, `was derived for ${holder}`, `derived ${lease.resource}`)
    }
  },
})
