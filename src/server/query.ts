/** The fields of a request that stand in a URL, where everything is text. */
import { invalid } from '../core/errors.ts'
import { REQUESTS, type RequestName } from '../protocol/requests.ts'
import type { Fields } from './call.ts'

/** Text becomes what its field is; whatever does not fit stays as it is, and is refused by the reader. */
export function fieldsOfQuery(name: RequestName, query: URLSearchParams): Fields {
  const fields: Readonly<Record<string, { readonly shape: ShapeOfText }>> = REQUESTS[name].fields
  const entries = [...query].map(([field, text]): readonly [string, unknown] => {
    if (query.getAll(field).length > 1) throw invalid(field, 'must be given once', text)
    const shape = Object.hasOwn(fields, field) ? fields[field]?.shape : undefined
    return [field, shape === undefined ? text : valueOf(shape, text)]
  })
  return Object.fromEntries(entries)
}

interface ShapeOfText {
  readonly kind: string
  readonly schema: { readonly type?: string }
}

function valueOf({ kind, schema }: ShapeOfText, text: string): unknown {
  if (kind === 'integer') return /^-?\d{1,16}$/.test(text) ? Number(text) : text
  if (kind === 'list') return text.split(',')
  if (schema.type === 'boolean' && /^(true|false)$/.test(text)) return text === 'true'
  return text
}
