/**
 * Ticks as the registrar's events carry them: a count of a monotonic clock, its rate, and the domain in which the count
 * means anything. Ticks of different domains or rates are never compared: the caller gets the closed answer.
 */
import { invalid, isLeaseError } from '../core/errors.ts'
import type { Tick } from '../core/time.ts'
import { requireId } from './registrar-id.ts'

export interface LogicalTick {
  readonly value: number | bigint
  readonly rateHz: number
  readonly domain: string
}

const VALUE_MAX = 2n ** 64n - 1n
const US_PER_S = 1_000_000

export function parseTick(field: string, value: unknown): LogicalTick {
  if (typeof value !== 'object' || value === null) {
    throw invalid(field, 'must be { value, rateHz, domain }', value)
  }
  const tick = value as Partial<Record<keyof LogicalTick, unknown>>
  return {
    value: parseCount(`${field}.value`, tick.value),
    rateHz: parseRate(`${field}.rateHz`, tick.rateHz),
    domain: requireId(`${field}.domain`, tick.domain),
  }
}

function parseCount(field: string, value: unknown): number | bigint {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  if (typeof value === 'bigint' && value >= 0n && value <= VALUE_MAX) return value
  throw invalid(field, 'must be an integer 0..2^64-1', value)
}

function parseRate(field: string, value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value
  throw invalid(field, 'must be a positive integer', value)
}

/** Whether a value is a tick; a caller that asks about one that is none gets the closed answer. */
export function isTick(value: unknown): value is LogicalTick {
  try {
    parseTick('tick', value)
    return true
  } catch (error) {
    if (isLeaseError(error)) return false
    throw error
  }
}

export function isComparable(a: LogicalTick, b: LogicalTick): boolean {
  return a.domain === b.domain && a.rateHz === b.rateHz
}

/** What is left until `end`, 0 once it has passed or where the two cannot be compared. */
export function ticksUntil(end: LogicalTick, now: LogicalTick): number | bigint {
  const none = typeof end.value === 'bigint' ? 0n : 0
  if (!isComparable(end, now) || end.value <= now.value) return none
  if (typeof end.value === 'number' && typeof now.value === 'number') return end.value - now.value
  return BigInt(end.value) - BigInt(now.value)
}

/** The same point for the core, whose ticks are microseconds. The registrar's own rules compare the exact counts. */
export function coreTick({ value, rateHz, domain }: LogicalTick): Tick {
  return { domain, us: Math.floor((Number(value) / rateHz) * US_PER_S) }
}
