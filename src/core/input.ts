/**
 * Reads what callers pass in. Each function takes whatever came and gives back a value that the core may trust, or
 * throws `INVALID_INPUT` with field, expectation and value. Every face uses these; none has checks of its own.
 *
 * Text is measured in bytes of UTF-8, and has neither control characters nor lone surrogates: two different ones would be
 * stored as the same replacement character and become one lease.
 */
import { invalid, LeaseError } from './errors.ts'
import type { Metadata } from './lease.ts'
import {
  HOLDER_BYTES_MAX,
  MAX_HOLD_MS_MAX,
  MAX_RENEWALS_MAX,
  NOTE_BYTES_MAX,
  PRIORITY_MAX,
  PRIORITY_MIN,
  SESSION_BYTES_MAX,
  SLOTS_MAX,
  TTL_MS_MAX,
  TTL_MS_MIN,
  WAIT_MS_MAX,
} from './limits.ts'
import type { Extent, Mode } from './resource.ts'

// oxlint-disable-next-line no-control-regex -- control characters are exactly what is looked for
const CONTROL_PATTERN = /[\u0000-\u001f\u007f-\u009f]/
const LONE_SURROGATE_PATTERN =
  /[\ud800-\udbff](?![\udc00-\udfff])|(?:[^\ud800-\udbff]|^)[\udc00-\udfff]/

export function utf8Length(text: string): number {
  let bytes = 0
  for (let index = 0; index < text.length; index += 1) {
    const code = text.codePointAt(index) ?? 0
    if (code < 0x80) bytes += 1
    else if (code < 0x800) bytes += 2
    else if (code < 0x10000) bytes += 3
    else {
      bytes += 4
      index += 1
    }
  }
  return bytes
}

/** Refuses what is not text, and text that a person could not see or a store could not keep apart. */
export function requireText(field: string, value: unknown): string {
  if (typeof value !== 'string') throw invalid(field, 'must be text', value)
  if (CONTROL_PATTERN.test(value)) {
    throw invalid(field, 'must not contain control characters', value)
  }
  return requireWellFormed(field, value)
}

export function requireWellFormed(field: string, value: string): string {
  if (!LONE_SURROGATE_PATTERN.test(value)) return value
  throw invalid(field, 'must not contain lone surrogates', value)
}

export interface TextLimit {
  readonly field: string
  readonly bytesMax: number
}

/** Text of 1..`bytesMax` bytes. */
export function requireShortText(limit: TextLimit, value: unknown): string {
  const text = requireText(limit.field, value)
  const bytes = utf8Length(text)
  if (bytes >= 1 && bytes <= limit.bytesMax) return text
  throw invalid(
    limit.field,
    `must be 1..${limit.bytesMax} bytes`,
    bytes === 0 ? text : `${bytes} bytes`,
  )
}

const UUID_PATTERN = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

export function parseHolder(value: unknown, field = 'holder'): string {
  return requireShortText({ field, bytesMax: HOLDER_BYTES_MAX }, value)
}

export function parseSession(value: unknown): string {
  return requireShortText({ field: 'session', bytesMax: SESSION_BYTES_MAX }, value)
}

/** A lease or request id: a UUID, in lower case whatever case it came in. */
export function parseLeaseId(value: unknown, field = 'leaseId'): string {
  if (typeof value === 'string') {
    const id = value.toLowerCase()
    if (UUID_PATTERN.test(id)) return id
  }
  throw invalid(field, 'must be a UUID', value)
}

interface SpanLimit {
  readonly field: string
  readonly min: number
  readonly max: number
}

export function parseSpanMs(limit: SpanLimit, value: unknown): number {
  const { field, min, max } = limit
  if (isSpan(value, min, max)) return value
  throw invalid(field, `must be an integer ${min}..${max}`, value)
}

function isSpan(value: unknown, min: number, max: number): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max
}

export function parseTtlMs(value: unknown): number {
  return parseSpanMs({ field: 'ttlMs', min: TTL_MS_MIN, max: TTL_MS_MAX }, value)
}

/** `Infinity`: until the lease is granted, or the wait is cancelled. */
export function parseWaitMs(value: unknown): number {
  const max = WAIT_MS_MAX
  if (value === Infinity || isSpan(value, 0, max)) return value
  throw invalid('waitMs', `must be an integer 0..${max}, or Infinity`, value)
}

export function parseMaxRenewals(value: unknown): number {
  return parseSpanMs({ field: 'maxRenewals', min: -1, max: MAX_RENEWALS_MAX }, value)
}

export function parseMaxHoldMs(value: unknown): number {
  return parseSpanMs({ field: 'maxHoldMs', min: TTL_MS_MIN, max: MAX_HOLD_MS_MAX }, value)
}

export function parseMode(value: unknown): Mode {
  if (value === 'exclusive' || value === 'shared') return value
  throw invalid('mode', 'must be exclusive or shared', value)
}

export function parseExtent(value: unknown): Extent {
  if (value === 'exact' || value === 'subtree') return value
  throw invalid('extent', 'must be exact or subtree', value)
}

export function parseSlots(value: unknown): number {
  return parseSpanMs({ field: 'slots', min: 1, max: SLOTS_MAX }, value)
}

export function parsePriority(value: unknown): number {
  return parseSpanMs({ field: 'priority', min: PRIORITY_MIN, max: PRIORITY_MAX }, value)
}

export function parseLockDelayMs(value: unknown): number {
  return parseSpanMs({ field: 'lockDelayMs', min: 0, max: TTL_MS_MAX }, value)
}

/** The holder's own words: a reason, metadata, or both, 1 KiB together. */
export interface Note {
  readonly reason: string | null
  readonly metadata: Metadata | null
}

export function parseNote(reason: unknown, metadata: unknown): Note {
  const note: Note = {
    reason: reason === undefined || reason === null ? null : requireText('reason', reason),
    metadata: metadata === undefined || metadata === null ? null : parseMetadata(metadata),
  }
  checkNote(note)
  return note
}

/** Refuses a reason and metadata that are too long together. */
export function checkNote({ reason = null, metadata = null }: Partial<Note>): void {
  const bytes =
    utf8Length(reason ?? '') + (metadata === null ? 0 : utf8Length(JSON.stringify(metadata)))
  if (bytes <= NOTE_BYTES_MAX) return
  throw new LeaseError(
    'LIMIT_EXCEEDED',
    `reason and metadata must be at most ${NOTE_BYTES_MAX} bytes together, got ${bytes} bytes`,
    { details: { field: metadata === null ? 'reason' : 'metadata', limit: NOTE_BYTES_MAX } },
  )
}

export function parseMetadata(value: unknown): Metadata {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalid('metadata', 'must be an object of text, numbers and booleans', value)
  }
  const entries = Object.entries(value).map(([name, item]) => {
    requireText('metadata', name)
    if (typeof item === 'string') return [name, requireText(`metadata.${name}`, item)] as const
    if (typeof item === 'boolean' || Number.isFinite(item)) return [name, item as number] as const
    throw invalid(`metadata.${name}`, 'must be text, a finite number or a boolean', item)
  })
  return Object.fromEntries(entries)
}

/** Refuses options that are not known: a misspelt option must not be silently without effect. */
export function refuseUnknown(options: unknown, known: readonly string[]): void {
  if (options === undefined) return
  if (typeof options !== 'object' || options === null) {
    throw invalid('options', 'must be an object', options)
  }
  for (const name of Object.keys(options)) {
    if (!known.includes(name)) throw invalid('options', `must be among ${known.join(', ')}`, name)
  }
}

export function parseFlag(field: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw invalid(field, 'must be true or false', value)
  return value
}
