/** Reads what `runFleet` is given. */
import { invalid } from '../core/errors.ts'
import { parseSpanMs, refuseUnknown } from '../core/input.ts'
import type { FleetOptions, PollFunction, SessionSource } from './contract.ts'

export interface ReadFleetOptions {
  readonly poll: PollFunction
  readonly intervalMs: number
  readonly pollTimeoutMs: number
  readonly stopTimeoutMs: number
}

const INTERVAL_MS_DEFAULT = 1_000
const POLL_TIMEOUT_MS_DEFAULT = 30_000
const STOP_TIMEOUT_MS_DEFAULT = 1_000
const SPAN_MS_MAX = 86_400_000

export function readFleetOptions(options: FleetOptions): ReadFleetOptions {
  refuseUnknown(options, ['poll', 'intervalMs', 'pollTimeoutMs', 'stopTimeoutMs'])
  if (typeof options?.poll !== 'function')
    throw invalid('poll', 'must be a function', options?.poll)
  const span = (field: keyof ReadFleetOptions, value: unknown): number =>
    parseSpanMs({ field, min: 1, max: SPAN_MS_MAX }, value)
  return {
    poll: options.poll,
    intervalMs: span('intervalMs', options.intervalMs ?? INTERVAL_MS_DEFAULT),
    pollTimeoutMs: span('pollTimeoutMs', options.pollTimeoutMs ?? POLL_TIMEOUT_MS_DEFAULT),
    stopTimeoutMs: span('stopTimeoutMs', options.stopTimeoutMs ?? STOP_TIMEOUT_MS_DEFAULT),
  }
}

export function isList(source: SessionSource): source is readonly string[] {
  return Array.isArray(source)
}

export function isAsyncSource(source: unknown): source is AsyncIterable<readonly string[]> {
  return typeof source === 'object' && source !== null && Symbol.asyncIterator in source
}
