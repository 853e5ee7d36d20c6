/**
 * Instance ids: `{hostname}-{bootTimestamp}-{randomSuffix}`, one for each incarnation. The time is that of the start of
 * the process, in nanoseconds, and the suffix is drawn anew for each manager, so that neither a restart nor a second
 * manager in one process is ever taken for the same instance.
 */
import { invalid } from '../core/errors.ts'
import { HOLDER_BYTES_MAX } from '../core/limits.ts'
import { requireShortText } from '../core/text.ts'
import type { Runtime } from '../runtime/runtime.ts'

const HOST_LENGTH_MAX = 64
const INSTANCE_ID_PATTERN = /^[A-Za-z0-9._-]+-\d{1,19}-[0-9a-f]{8}$/
const EXPECTATION = 'must be {hostname}-{bootTimestamp in ns}-{8 hex digits}'

/** Where and when an instance began. */
export interface Birth {
  readonly host: string
  /** Wall time at the start of the process. */
  readonly startedAtMs: number
}

export function newInstanceId(runtime: Runtime, { host, startedAtMs }: Birth): string {
  // A host may be called anything; what would be special in a key or a pattern is replaced.
  const name = host.replaceAll(/[^A-Za-z0-9._-]/g, '_').slice(0, HOST_LENGTH_MAX) || 'host'
  const bootUs = Math.round(startedAtMs * 1000)
  const suffix = runtime.uuid().replaceAll('-', '').slice(-8)
  return `${name}-${BigInt(bootUs) * 1000n}-${suffix}`
}

export function parseInstanceId(value: unknown, field = 'instanceId'): string {
  const id = requireShortText({ field, bytesMax: HOLDER_BYTES_MAX }, value)
  if (INSTANCE_ID_PATTERN.test(id)) return id
  throw invalid(field, EXPECTATION, id)
}
