/** The resources and options that `acquire` and `run` share. */
import type { AcquireAllOptions, AcquireOptions } from '../client/contract.ts'
import type { Budget } from '../core/budget.ts'
import { invalid } from '../core/errors.ts'
import { parseLeaseId } from '../core/input.ts'
import {
  MAX_HOLD_MS_MAX,
  MAX_RENEWALS_MAX,
  PRIORITY_MAX,
  PRIORITY_MIN,
  SLOTS_MAX,
  TTL_MS_MAX,
  TTL_MS_MIN,
} from '../core/limits.ts'
import type { Mode, Reach } from '../core/resource.ts'
import type { Scope } from '../core/scope.ts'
import type { LinkedPath } from '../files/linked-path.ts'
import {
  durationOption,
  flag,
  integerOption,
  textOption,
  waitOption,
  type Option,
  type OptionValues,
  type Positional,
} from './arguments.ts'
import type { Call } from './command.ts'
import { BUDGET_OPTION, SCOPE_OPTION } from './delegation-text.ts'
import { formatExact } from './duration.ts'
import { readLinkedPath } from './resource-argument.ts'
import { given } from './store-access.ts'

export interface AcquireTable {
  readonly [name: string]: Option<unknown>
  readonly ttl: Option<number>
  readonly wait: Option<number>
  readonly timeout: Option<number>
  readonly blocking: Option<true>
  readonly shared: Option<true>
  readonly subtree: Option<true>
  readonly slots: Option<number>
  readonly priority: Option<number>
  readonly 'max-renewals': Option<number>
  readonly 'max-hold': Option<number>
  readonly 'lock-delay': Option<number>
  readonly breakable: Option<true>
  readonly 'break-after': Option<number>
  readonly scope: Option<Scope>
  readonly budget: Option<Budget>
  readonly reason: Option<string>
  readonly 'lease-id': Option<string>
}

export const ACQUIRE_OPTIONS: AcquireTable = {
  ttl: durationOption(
    { field: 'ttl', minMs: TTL_MS_MIN, maxMs: TTL_MS_MAX },
    'how long the lease lives without renewal (default: the configured default_ttl_seconds; until it is configured, 30s for run and 1h for acquire)',
  ),
  wait: waitOption(
    'wait',
    'wait in the queue for so long, or forever, also while the store is away (default: do not wait)',
  ),
  timeout: waitOption('timeout', 'another name for --wait'),
  blocking: flag('wait as long as the configured acquisition_timeout_ms says'),
  shared: flag('share it with others who share it; nobody has it alone meanwhile'),
  subtree: flag('everything below the path too; the same as a / at its end'),
  slots: integerOption(
    { field: 'slots', min: 1, max: SLOTS_MAX },
    'share it with so many at most; the smallest number among those who share counts',
  ),
  priority: integerOption(
    { field: 'priority', min: PRIORITY_MIN, max: PRIORITY_MAX },
    'in the queue, a point counts like having come 10 s earlier (default: 0)',
  ),
  'max-renewals': integerOption(
    { field: 'max-renewals', min: -1, max: MAX_RENEWALS_MAX },
    'renew at most so often; -1 for no limit (default: the configured max_renewals)',
  ),
  'max-hold': durationOption(
    { field: 'max-hold', minMs: TTL_MS_MIN, maxMs: MAX_HOLD_MS_MAX },
    'no renewal carries the lease beyond this time since its grant',
  ),
  'lock-delay': durationOption(
    { field: 'lock-delay', minMs: 0, maxMs: TTL_MS_MAX },
    'if the lease expires or is revoked, nobody gets the resource for so long (default: 0s)',
  ),
  breakable: flag('somebody who waits may ask you to finish'),
  'break-after': durationOption(
    { field: 'break-after', minMs: 0, maxMs: TTL_MS_MAX },
    'when you have to wait: ask those who hold it --breakable to finish within so long',
  ),
  scope: SCOPE_OPTION,
  budget: BUDGET_OPTION,
  reason: textOption('TEXT', 'in your own words; shown to whoever is blocked'),
  'lease-id': {
    placeholder: 'UUID',
    help: 'the id of the lease, so that a repeated command is recognised (default: a new one)',
    read: (text) => parseLeaseId(text, 'lease-id'),
  },
}

export const RESOURCES: Positional = {
  name: 'RESOURCE',
  help: 'kind:name, or a path, which means the file, or with a / at its end everything below it too; several are taken all together or not at all',
  several: true,
}

/** What somebody wants to hold, and how. */
export interface WantedLeases {
  readonly reaches: readonly Reach[]
  /** As they were spelt, before links were followed. */
  readonly paths: readonly LinkedPath[]
  /** What concerns one resource: of several, the mode is that of all, and the rest was refused. */
  readonly own: Pick<AcquireOptions, 'mode' | 'slots' | 'leaseId' | 'scope' | 'budget'>
  readonly common: AcquireAllOptions
}

export function wantedLeases(
  call: Pick<Call<AcquireTable>, 'positionals' | 'options' | 'cwd'>,
): WantedLeases {
  const { positionals, options, cwd } = call
  const paths = positionals.map((text): LinkedPath => {
    const path = readLinkedPath(text, cwd)
    return options.subtree === true ? { ...path, extent: 'subtree' } : path
  })
  const reaches = paths.map(({ resource, extent }): Reach => ({ resource, extent }))
  if (reaches.length > 1) refuseForSeveral(options)
  const mode: Mode | undefined = options.shared === true ? 'shared' : undefined
  const { slots, scope, budget } = options
  const own = given({ mode, slots, leaseId: options['lease-id'], scope, budget })
  return { reaches, paths, own, common: commonOptions(options) }
}

function refuseForSeveral(options: OptionValues<AcquireTable>): void {
  for (const name of ['slots', 'lease-id', 'scope', 'budget'] as const) {
    const value = options[name]
    if (value !== undefined) throw invalid(name, 'must not be given for several resources', value)
  }
}

function commonOptions(options: OptionValues<AcquireTable>): AcquireAllOptions {
  return given({
    priority: options.priority,
    ttlMs: options.ttl,
    waitMs: waitMsOf(options),
    maxRenewals: options['max-renewals'],
    maxHoldMs: options['max-hold'],
    lockDelayMs: options['lock-delay'],
    breakable: options.breakable,
    breakGraceMs: options['break-after'],
    reason: options.reason,
  })
}

/** Undefined leaves the choice to the configuration; without any of the three nobody waits. */
function waitMsOf({ wait, timeout, blocking }: OptionValues<AcquireTable>): number | undefined {
  if (wait !== undefined && timeout !== undefined) {
    throw invalid(
      'timeout',
      'must not be given beside --wait, which means the same',
      formatExact(timeout),
    )
  }
  const waitMs = wait ?? timeout
  if (waitMs !== undefined) return waitMs
  return blocking === true ? undefined : 0
}
