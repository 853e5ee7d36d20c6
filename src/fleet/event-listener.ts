/** A misspelt event would never be heard, and a listener that is no function would fail where nobody hears of it. */
import { invalid } from '../core/errors.ts'
import type { FleetEvents, RunnerEvents } from './contract.ts'

export const FLEET_EVENTS: readonly (keyof FleetEvents)[] = [
  'acquired',
  'renewed',
  'renew_failed',
  'uncertain',
  'recovered',
  'released',
  'lost',
  'taken_over',
  'rebalanced',
]

export const RUNNER_EVENTS: readonly (keyof RunnerEvents)[] = ['poll_failed', 'failed']

export function requireListener(names: readonly string[], name: unknown, listener: unknown): void {
  if (typeof name !== 'string' || !names.includes(name)) {
    throw invalid('event', `must be one of ${names.join(', ')}`, name)
  }
  if (typeof listener !== 'function') throw invalid('listener', 'must be a function', listener)
}
