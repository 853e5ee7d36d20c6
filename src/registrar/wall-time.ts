/**
 * Wall time as the registrar's events carry it: a `number` is milliseconds, a `bigint` nanoseconds since 1970. A lease
 * keeps to one of them, so that no comparison about it ever rounds.
 */
import { invalid } from '../core/errors.ts'

export type WallTime = number | bigint

const NS_PER_MS = 1_000_000n
const NS_MAX = 2n ** 64n - 1n

export function parseWallTime(field: string, value: unknown): WallTime {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  if (typeof value === 'bigint' && value >= 0n && value <= NS_MAX) return value
  throw invalid(field, 'must be milliseconds as an integer or nanoseconds as a bigint', value)
}

/** When something is verified. Without a time nothing can be told to have ended, so that nothing is accepted. */
export function requireNow(options: { readonly now: number }): number {
  const isGiven = typeof options === 'object' && options !== null
  const { now }: { readonly now?: number } = isGiven ? options : {}
  if (now !== undefined && Number.isSafeInteger(now)) return now
  throw invalid('now', 'must be whole milliseconds', now)
}

/** A time of the same lease: it must be of the same type. */
export function parseSameTime(field: string, value: unknown, as: WallTime): WallTime {
  const time = parseWallTime(field, value)
  if (typeof time === typeof as) return time
  throw invalid(field, `must be a ${typeof as} like the other times of the lease`, value)
}

export function toMs(time: WallTime): number {
  return typeof time === 'number' ? time : Number(time / NS_PER_MS)
}

/** Milliseconds in the type that a lease keeps to; beyond the last time that can be written, that one. */
export function fromMs(ms: number, as: WallTime): WallTime {
  if (typeof as === 'number') return ms
  const ns = BigInt(ms) * NS_PER_MS
  return ns > NS_MAX ? NS_MAX : ns
}

/** Negative when `a` is earlier. Only questions compare times of different types; they are then counted in ns. */
export function compareTimes(a: WallTime, b: WallTime): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  const [left, right] = [toNs(a), toNs(b)]
  return left === right ? 0 : left < right ? -1 : 1
}

/** What is left until `end`, in the type of `end`, and 0 once it has passed. */
export function timeUntil(end: WallTime, now: WallTime): WallTime {
  if (compareTimes(end, now) <= 0) return typeof end === 'number' ? 0 : 0n
  return typeof end === 'number' ? end - toMs(now) : end - toNs(now)
}

function toNs(time: WallTime): bigint {
  return typeof time === 'bigint' ? time : BigInt(Math.floor(time)) * NS_PER_MS
}
