/**
 * Values as JSON can hold them: large integers as decimal text, bytes in base64url. What is read back is read by the
 * field that it stands in, since the text alone does not say what it was.
 */
export function jsonOf(fields: object): object {
  const written = Object.entries(fields).map(([name, value]: [string, unknown]) => {
    return [name, jsonValue(value)] as const
  })
  return Object.fromEntries(written)
}

function jsonValue(value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64url')
  if (Array.isArray(value)) return value.map(jsonValue)
  return typeof value === 'object' && value !== null ? jsonOf(value) : value
}
