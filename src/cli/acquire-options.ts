/** The resources and options that `acquire` and `run` share. */
import type { AcquireAllOptions } from '../client/contract.ts'
import type { AcquireOptions } from '../client/options.ts'
import type { Budget } from '../core/budget.ts'
import { invalid } from '../core/errors.ts'
import type { Mode, Reach } from '../core/resource.ts'
import type { Scope } from '../core/scope.ts'
import { LIBRARY_OPTIONS } from '../protocol/library.ts'
import type { LinkedPath } from '../files/linked-path.ts'
import { flag, waitOption, type Option, type OptionValues, type Positional } from './arguments.ts'
import type { CliCall } from './command.ts'
import { BUDGET_OPTION, SCOPE_OPTION } from './delegation-text.ts'
import { formatExact } from './duration.ts'
import { fieldOption } from './field-option.ts'
import { readLinkedPath } from './resource-argument.ts'
import { given } from './store-access.ts'

export interface AcquireTable {
  readonly [name: string]: Option<unknown>
  readonly wait: Option<number>
  readonly timeout: Option<number>
  readonly blocking: Option<true>
  readonly shared: Option<true>
  readonly subtree: Option<true>
  readonly scope: Option<Scope>
  readonly budget: Option<Budget>
}

/** Fields that the command line has other words for, or none. */
const {
  mode: _mode,
  extent: _extent,
  waitMs: _waitMs,
  scope: _scope,
  budget: _budget,
  metadata: _metadata,
  under: _under,
  autoRenew: _autoRenew,
  signal: _signal,
  ...FIELDS
} = LIBRARY_OPTIONS.AcquireOptions.fields

type FieldName = keyof typeof FIELDS
const FIELD_NAMES = Object.keys(FIELDS) as FieldName[]

/** What only one of several resources can have. */
const OF_ONE: readonly FieldName[] = ['slots', 'leaseId']

/** `lockDelayMs` is `--lock-delay`. */
function optionName(field: FieldName): string {
  if (field === 'breakGraceMs') return 'break-after'
  return field.replace(/Ms$/, '').replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}

const WORDINGS: Partial<Record<FieldName, Parameters<typeof fieldOption>[2]>> = {
  ttlMs: {
    default:
      'the configured default_ttl_seconds; until it is configured, 30s for run and 1h for acquire',
  },
  leaseId: { says: 'the id of the lease, so that a repeated command is recognised' },
}

export const ACQUIRE_OPTIONS: AcquireTable = {
  wait: waitOption(
    'wait',
    'wait in the queue for so long, or forever, also while the store is away (default: do not wait)',
  ),
  timeout: waitOption('timeout', 'another name for --wait'),
  blocking: flag('wait as long as the configured acquisition_timeout_ms says'),
  shared: flag('share it with others who share it; nobody has it alone meanwhile'),
  subtree: flag('everything below the path too; the same as a / at its end'),
  scope: SCOPE_OPTION,
  budget: BUDGET_OPTION,
  ...Object.fromEntries(
    FIELD_NAMES.map((name) => {
      const option = optionName(name)
      return [option, fieldOption<unknown>(option, FIELDS[name], WORDINGS[name])]
    }),
  ),
}

export const RESOURCES: Positional = {
  name: 'RESOURCE',
  help: 'kind:name, or a path, which means the file, or with a / at its end everything below it too; several are taken all together or not at all',
  several: true,
}

/** What the caller wants to hold, and how. */
export interface WantedLeases {
  readonly reaches: readonly Reach[]
  /** As they were spelt, before links were followed. */
  readonly paths: readonly LinkedPath[]
  /** What concerns one resource: of several, the mode is that of all, and the rest was refused. */
  readonly own: Pick<AcquireOptions, 'mode' | 'slots' | 'leaseId' | 'scope' | 'budget'>
  readonly common: AcquireAllOptions
}

export function wantedLeases(
  call: Pick<CliCall<AcquireTable>, 'positionals' | 'options' | 'cwd'>,
): WantedLeases {
  const { positionals, options, cwd } = call
  const paths = positionals.map((text): LinkedPath => {
    const path = readLinkedPath(text, cwd)
    return options.subtree === true ? { ...path, extent: 'subtree' } : path
  })
  const reaches = paths.map(({ resource, extent }): Reach => ({ resource, extent }))
  if (reaches.length > 1) refuseForSeveral(options)
  const mode: Mode | undefined = options.shared === true ? 'shared' : undefined
  const { scope, budget } = options
  const own = { ...given({ mode, scope, budget }), ...fieldsOf(options, isOfOne) }
  const waitMs = given({ waitMs: waitMsOf(options) })
  const common = { ...fieldsOf(options, (name) => !isOfOne(name)), ...waitMs }
  return { reaches, paths, own, common }
}

function isOfOne(name: FieldName): boolean {
  return OF_ONE.includes(name)
}

function fieldsOf(
  options: OptionValues<AcquireTable>,
  isWanted: (name: FieldName) => boolean,
): Pick<AcquireOptions, FieldName> {
  const values = FIELD_NAMES.filter(isWanted).map((name) => [name, options[optionName(name)]])
  return given(Object.fromEntries(values))
}

function refuseForSeveral(options: OptionValues<AcquireTable>): void {
  for (const name of [...OF_ONE.map(optionName), 'scope', 'budget']) {
    const value = options[name]
    if (value !== undefined) throw invalid(name, 'must not be given for several resources', value)
  }
}

/** Undefined leaves the choice to the configuration; without any of the three the command does not wait. */
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
