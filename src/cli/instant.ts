/** Points in time as people write them: ISO 8601, a time of today, milliseconds since 1970, or how long ago. */
import { invalid } from '../core/errors.ts'
import type { Option } from './arguments.ts'
import { parseDuration } from './duration.ts'

const TIME = String.raw`(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,3})\d*)?)?`
const TIME_PATTERN = new RegExp(`^${TIME}$`)
const DATE_PATTERN = new RegExp(
  String.raw`^(\d{4})-(\d{2})-(\d{2})(?:[Tt ]${TIME}(Z|z|[+-]\d{2}:?\d{2})?)?$`,
)

/** Whatever has no zone is local, a date alone too. */
export function parseInstant(field: string, text: string, nowMs: number): number {
  if (/^\d{11,15}$/.test(text)) return Number(text)
  const instantMs = timeOfToday(text, nowMs) ?? dated(text)
  if (instantMs !== null) return instantMs
  throw invalid(field, 'must be a time such as 14:03:07 or 2026-03-01T14:03:07Z', text)
}

function timeOfToday(text: string, nowMs: number): number | null {
  const time = readTime(TIME_PATTERN.exec(text)?.slice(1) ?? null)
  return time === null ? null : new Date(nowMs).setHours(...time)
}

function dated(text: string): number | null {
  const match = DATE_PATTERN.exec(text)
  if (match === null) return null
  const [year = 0, month = 0, day = 0] = match.slice(1, 4).map(Number)
  const time = match[4] === undefined ? MIDNIGHT : readTime(match.slice(4, 8))
  if (time === null) return null
  // Setting the year keeps those before 100 apart from those after 1900.
  const utc = new Date(Date.UTC(2000, 0, 1, ...time))
  utc.setUTCFullYear(year, month - 1, day)
  if (utc.getUTCMonth() !== month - 1 || utc.getUTCDate() !== day) return null
  if (match[8] === undefined) {
    const local = new Date(2000, 0, 1)
    local.setFullYear(year, month - 1, day)
    return local.setHours(...time)
  }
  const offsetMs = readOffset(match[8])
  return offsetMs === null ? null : utc.getTime() - offsetMs
}

type Time = readonly [hours: number, minutes: number, seconds: number, ms: number]

const MIDNIGHT: Time = [0, 0, 0, 0]

function readTime(parts: readonly (string | undefined)[] | null): Time | null {
  if (parts === null) return null
  const [hours = '', minutes = '', seconds = '0', fraction = '0'] = parts
  const time: Time = [
    ...([Number(hours), Number(minutes), Number(seconds)] as const),
    Number(fraction.padEnd(3, '0')),
  ]
  return time[0] < 24 && time[1] < 60 && time[2] < 60 ? time : null
}

function readOffset(zone: string): number | null {
  const [, sign, hours, minutes] = /^([+-])(\d{2}):?(\d{2})$/.exec(zone) ?? []
  if (sign === undefined) return 0
  if (Number(hours) > 23 || Number(minutes) > 59) return null
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000
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
