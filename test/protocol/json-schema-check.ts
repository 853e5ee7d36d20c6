/** Whether a JSON value is what a schema allows: the keywords that the descriptions use, as draft 2020-12 defines them. */
import type { JsonSchema } from '../../src/protocol/shape.ts'

const KEYWORDS = new Set(
  'type description default const enum format pattern minimum maximum minLength maxLength minItems maxItems propertyNames items properties required additionalProperties anyOf'.split(
    ' ',
  ),
)

/** Keywords that the check does not know: a schema with one of them would be checked too little. */
export function unknownKeywords(schema: JsonSchema): readonly string[] {
  const { additionalProperties, properties = {}, anyOf = [], items, propertyNames } = schema
  const parts = [
    ...Object.values(properties),
    ...anyOf,
    ...[items, propertyNames].filter((part) => part !== undefined),
    ...(typeof additionalProperties === 'object' ? [additionalProperties] : []),
  ]
  return [
    ...Object.keys(schema).filter((keyword) => !KEYWORDS.has(keyword)),
    ...parts.flatMap(unknownKeywords),
  ]
}

export function isValid(schema: JsonSchema, value: unknown): boolean {
  if (schema.anyOf !== undefined && !schema.anyOf.some((one) => isValid(one, value))) return false
  if (schema.const !== undefined && value !== schema.const) return false
  if (schema.enum !== undefined && !schema.enum.includes(value)) return false
  if (schema.type !== undefined && !hasType(schema.type, value)) return false
  if (typeof value === 'number') return isInRange(schema, value)
  if (typeof value === 'string') return isText(schema, value)
  if (Array.isArray(value)) return isList(schema, value)
  if (typeof value === 'object' && value !== null) return isObject(schema, value)
  return true
}

function hasType(type: string, value: unknown): boolean {
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'array') return Array.isArray(value)
  if (type === 'null') return value === null
  if (type === 'object') {
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  }
  return typeof value === type
}

function isInRange(
  { minimum = -Infinity, maximum = Infinity }: JsonSchema,
  value: number,
): boolean {
  return value >= minimum && value <= maximum
}

function isText(
  { minLength = 0, maxLength = Infinity, pattern }: JsonSchema,
  text: string,
): boolean {
  const { length } = [...text]
  if (length < minLength || length > maxLength) return false
  return pattern === undefined || new RegExp(pattern, 'u').test(text)
}

function isList(schema: JsonSchema, list: readonly unknown[]): boolean {
  const { minItems = 0, maxItems = Infinity, items = {} } = schema
  if (list.length < minItems || list.length > maxItems) return false
  return list.every((item) => isValid(items, item))
}

function isObject(schema: JsonSchema, object: object): boolean {
  const { properties = {}, required = [], additionalProperties = true, propertyNames = {} } = schema
  if (required.some((name) => !Object.hasOwn(object, name))) return false
  return Object.entries(object).every(([name, item]) => {
    if (!isValid(propertyNames, name)) return false
    const own = Object.hasOwn(properties, name) ? properties[name] : undefined
    if (own !== undefined) return isValid(own, item)
    if (typeof additionalProperties === 'boolean') return additionalProperties
    return isValid(additionalProperties, item)
  })
}
