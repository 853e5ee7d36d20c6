/**
 * Ids as the registrar's events carry them: any text of 1..128 bytes, so that `lease-001` is as good as a UUID. And text
 * of any length.
 */
import { invalid } from '../core/errors.ts'
import { REGISTRAR_ID_BYTES_MAX } from '../core/limits.ts'
import { requireWellFormed, utf8Length } from '../core/input.ts'

export function requireId(field: string, value: unknown): string {
  const bytes = typeof value === 'string' ? utf8Length(value) : 0
  if (typeof value === 'string' && bytes >= 1 && bytes <= REGISTRAR_ID_BYTES_MAX) {
    // Most are plain ASCII, which needs no second look; every event has several.
    return bytes === value.length ? value : requireWellFormed(field, value)
  }
  const got = bytes > REGISTRAR_ID_BYTES_MAX ? `${bytes} bytes` : value
  throw invalid(field, `must be text of 1..${REGISTRAR_ID_BYTES_MAX} bytes`, got)
}

export function requireIds(field: string, value: unknown): readonly string[] {
  if (!Array.isArray(value)) throw invalid(field, 'must be a list of ids', value)
  return value.map((id) => requireId(field, id))
}

export function requireWords(field: string, value: unknown): string {
  if (typeof value === 'string') return requireWellFormed(field, value)
  throw invalid(field, 'must be text', value)
}
