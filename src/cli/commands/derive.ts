/** `tenure derive`: gives another holder a part of a lease of one's own. */
import { invalid } from '../../core/errors.ts'
import { parseHolder, parseLeaseId } from '../../core/input.ts'
import { TTL_MS_MAX, TTL_MS_MIN } from '../../core/limits.ts'
import { refusalError } from '../../core/outcome.ts'
import type { Budget } from '../../core/budget.ts'
import type { Scope } from '../../core/scope.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import { durationOption, flag, textOption, type Option } from '../arguments.ts'
import { defineCommand, type Call, type Command } from '../command.ts'
import { BUDGET_OPTION, SCOPE_OPTION } from '../delegation-text.ts'
import { findLeaseId } from '../lease-argument.ts'
import { leaseCard } from '../lease-card.ts'
import { readReach } from '../resource-argument.ts'
import { given, withApi } from '../store-access.ts'

type DeriveTable = {
  readonly to: Option<string>
  readonly resource: Option<string>
  readonly shared: Option<true>
  readonly ttl: Option<number>
  readonly scope: Option<Scope>
  readonly budget: Option<Budget>
  readonly audience: Option<string>
  readonly reason: Option<string>
  readonly 'lease-id': Option<string>
}

export const derive: Command = defineCommand({
  positionals: [{ name: 'LEASE', help: 'the id of your lease, or its resource' }],
  options: {
    to: textOption('HOLDER', 'who gets the derived lease; its session has the same name'),
    resource: textOption(
      'RESOURCE',
      "what of yours it is for, alone: below a subtree (default: all of yours, shared with the lease's other children)",
    ),
    shared: flag('of a resource of its own: share it with others that are derived so'),
    ttl: durationOption(
      { field: 'ttl', minMs: TTL_MS_MIN, maxMs: TTL_MS_MAX },
      'no longer than yours has left (default: as long as that)',
    ),
    scope: SCOPE_OPTION,
    budget: BUDGET_OPTION,
    audience: textOption('NAME', 'who is to check its grants'),
    reason: textOption('TEXT', 'in your own words'),
    'lease-id': {
      placeholder: 'UUID',
      help: 'the id of the derived lease, so that a repeated command is recognised (default: a new one)',
      read: (text) => parseLeaseId(text, 'lease-id'),
    },
  },
  notes: [
    'A derived lease has less of everything, ends with its parent, and is never renewed beyond it. Without --scope it may be used for nothing; without --budget it is unlimited, which a limited parent refuses. What it was given counts as used by its parent until it ends; then what is left comes back.',
    'Its holder renews, spends and releases it like any other lease, and a program takes it over with adopt.',
  ],
  examples: [
    "tenure derive work:W-17 --to sub-agent --scope 'tools=edit namespaces=src' --budget tokens=100",
    'tenure derive src --to sub-agent --resource src/app.ts --scope unlimited --ttl 5m',
  ],
  run,
})

async function run(call: Call<DeriveTable>): Promise<number> {
  const { identity, positionals, options, printer, cwd } = call
  const { to, resource, shared, ttl, scope, budget, audience, reason } = options
  if (to === undefined) throw invalid('to', 'must be given', to)
  if (shared === true && resource === undefined) {
    throw invalid('shared', 'must not be given without --resource, which makes it', true)
  }
  const holder = parseHolder(to, 'to')
  const reach = resource === undefined ? {} : readReach(resource, cwd)
  const mode = shared === true ? ('shared' as const) : undefined
  return withApi(identity, async (api) => {
    const question = { text: positionals[0] ?? '', cwd, holder: identity.holder }
    const answer = await api.derive({
      id: options['lease-id'] ?? systemRuntime.uuid(),
      parent: { id: await findLeaseId(api, question) },
      by: identity.holder,
      ...{ holder, session: holder },
      ...reach,
      ...given({ mode, ttlMs: ttl, scope, budget, audience, reason }),
    })
    if (answer.kind === 'queued') throw new Error('a derivation never waits')
    if (answer.kind !== 'granted') throw refusalError(answer)
    const { lease } = answer
    const effect = `lease ${lease.id} of ${lease.resource} was derived for ${holder}`
    printer.effect(effect, lease, () => leaseCard(`derived ${lease.resource}`, lease, Date.now()))
    return 0
  })
}
