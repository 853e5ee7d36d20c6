/** The options that `acquire` and `run` share. */
import type { AcquireOptions } from '../client/contract.ts'
import { invalid } from '../core/errors.ts'
import { parseLeaseId } from '../core/input.ts'
import { MAX_RENEWALS_MAX, TTL_MS_MAX, TTL_MS_MIN, WAIT_MS_MAX } from '../core/limits.ts'
import {
  durationOption,
  flag,
  integerOption,
  textOption,
  type Option,
  type OptionValues,
} from './arguments.ts'
import { formatExact } from './duration.ts'
import { given } from './store-access.ts'

export interface AcquireTable {
  readonly [name: string]: Option<unknown>
  readonly ttl: Option<number>
  readonly wait: Option<number>
  readonly timeout: Option<number>
  readonly blocking: Option<true>
  readonly 'max-renewals': Option<number>
  readonly 'max-hold': Option<number>
  readonly reason: Option<string>
  readonly 'lease-id': Option<string>
}

/** Ten thousand days: what a hold may add up to is bounded like everything else. */
const MAX_HOLD_MS_MAX = 864_000_000_000

export const ACQUIRE_OPTIONS: AcquireTable = {
  ttl: durationOption(
    { field: 'ttl', minMs: TTL_MS_MIN, maxMs: TTL_MS_MAX },
    'how long the lease lives without renewal (default: the configured default_ttl_seconds)',
  ),
  wait: durationOption(
    { field: 'wait', minMs: 0, maxMs: WAIT_MS_MAX },
    'wait in the queue for so long (default: do not wait)',
  ),
  timeout: durationOption(
    { field: 'timeout', minMs: 0, maxMs: WAIT_MS_MAX },
    'another name for --wait',
  ),
  blocking: flag('wait as long as the configured acquisition_timeout_ms says'),
  'max-renewals': integerOption(
    { field: 'max-renewals', min: -1, max: MAX_RENEWALS_MAX },
    'renew at most so often; -1 for no limit (default: the configured max_renewals)',
  ),
  'max-hold': durationOption(
    { field: 'max-hold', minMs: TTL_MS_MIN, maxMs: MAX_HOLD_MS_MAX },
    'no renewal carries the lease beyond this time since its grant',
  ),
  reason: textOption('TEXT', 'in your own words; shown to whoever is blocked'),
  'lease-id': {
    placeholder: 'UUID',
    help: 'the id of the lease, so that a repeated command is recognised (default: a new one)',
    read: (text) => parseLeaseId(text, 'lease-id'),
  },
}

export function acquireOptionsOf(options: OptionValues<AcquireTable>): AcquireOptions {
  return given({
    ttlMs: options.ttl,
    waitMs: waitMsOf(options),
    maxRenewals: options['max-renewals'],
    maxHoldMs: options['max-hold'],
    reason: options.reason,
    leaseId: options['lease-id'],
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
