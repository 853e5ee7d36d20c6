/**
 * Checks on text that crosses a boundary: length in UTF-8 bytes, control characters, lone surrogates. Two different
 * lone surrogates would be stored as the same replacement character and become one lease, so they are refused.
 */
import { invalid } from './errors.ts'

// oxlint-disable-next-line no-control-regex -- control characters are exactly what is looked for
const CONTROL_PATTERN = /[\u0000-\u001f\u007f-\u009f]/
const LONE_SURROGATE_PATTERN =
  /[\ud800-\udbff](?![\udc00-\udfff])|(?:[^\ud800-\udbff]|^)[\udc00-\udfff]/

export function utf8Length(text: string): number {
  let bytes = 0
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index)
    if (code < 0x80) bytes += 1
    else if (code < 0x800) bytes += 2
    else if (code >= 0xd800 && code < 0xdc00) {
      bytes += 4
      index += 1
    } else bytes += 3
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
