/** Points in time as people write them: ISO 8601, a time of today, milliseconds since 1970, or how long ago. */
import { invalid } from '../core/errors.ts'
import type { Option } from './arguments.ts'
import { parseDuration } from './duration.ts'

export function parseInstant(field: string, text: string, nowMs: number): number {
  if (/^\d{11,15}$/.test(text)) return Number(text)
  const [, hours, minutes, seconds = '0'] = /^(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(text) ?? []
  if (hours !== undefined && minutes !== undefined) {
    const today = new Date(nowMs)
    if (Number(hours) < 24 && Number(minutes) < 60 && Number(seconds) < 60) {
      return today.setHours(Number(hours), Number(minutes), Number(seconds), 0)
    }
  }
  const parsed = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isSafeInteger(parsed)) return parsed
  throw invalid(field, 'must be a time such as 14:03:07 or 2026-03-01T14:03:07Z', text)
}

const AGO_MS_MAX = 36_500 * 86_400_000

/** A point in time, or a span of which the point is that long ago. */
export function instantOption(field: string, help: string): Option<number> {
  const read = (text: string): number => {
    const nowMs = Date.now()
    if (!/^\d+[a-z]+$/.test(text)) return parseInstant(field, text, nowMs)
    return nowMs - parseDuration({ field, minMs: 1, maxMs: AGO_MS_MAX }, text)
  }
  return { placeholder: 'TIME', help, read }
}
