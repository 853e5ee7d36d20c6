/** Random values that a schema allows, nearly allows, or does not allow at all. */
import type { JsonSchema } from '../../src/protocol/shape.ts'
import { fc } from '../fast-check.ts'

/** What fits patterns; a pattern that is missing here fails the test that needs it. */
const SAMPLES: readonly string[] = [
  '0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2',
  '0D7C7A54-5C1F-4A44-9D4C-6A1CE6F0A5C3',
  'work:W-17',
  'file:/src/app.ts',
  'plain text',
  '12',
  '~',
]

const JUNK: fc.Arbitrary<unknown> = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom<unknown>(null, -1, 1.5, '', ' \u0000', 'x'.repeat(2_000), [], {}, [null], true),
)

/** A value that the schema allows. */
export function allowed(schema: JsonSchema): fc.Arbitrary<unknown> {
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(allowed))
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  switch (schema.type) {
    case 'integer':
    case 'number': {
      const { minimum = -1_000, maximum = 1_000 } = schema
      return fc.oneof(
        fc.constantFrom(minimum, maximum),
        fc.integer({ min: Math.max(minimum, -100), max: Math.min(maximum, 100) }),
      )
    }
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'string':
      return fc.constantFrom(...textsFor(schema))
    case 'array':
      return fc.array(allowed(schema.items ?? {}), {
        minLength: schema.minItems ?? 0,
        maxLength: Math.min(schema.maxItems ?? 3, 3),
      })
    case 'object':
      return allowedObject(schema)
    case undefined:
    default:
      return fc.jsonValue({ maxDepth: 1 })
  }
}

function textsFor({ pattern = '', minLength = 0, maxLength = Infinity }: JsonSchema): string[] {
  const fits = new RegExp(pattern, 'u')
  const long = maxLength === Infinity ? [] : ['x'.repeat(maxLength)]
  return [...SAMPLES, ...long].filter((text) => {
    return fits.test(text) && text.length >= minLength && text.length <= maxLength
  })
}

function allowedObject({ properties = {}, required = [] }: JsonSchema): fc.Arbitrary<unknown> {
  const values = Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [name, allowed(schema)]),
  )
  return fc.record(values, { requiredKeys: [...required] })
}

/** A value that the schema allows but for one or two fields, which are anything; or anything at all. */
export function nearly(schema: JsonSchema): fc.Arbitrary<unknown> {
  const names = [...Object.keys(schema.properties ?? {}), 'typo', 'constructor', 'toString']
  const spoilt = fc
    .tuple(allowed(schema), fc.array(fc.tuple(fc.constantFrom(...names), JUNK), { maxLength: 2 }))
    .map(([value, changes]) => ({ ...(value as object), ...Object.fromEntries(changes) }))
  const without = fc
    .tuple(allowed(schema), fc.constantFrom(...names))
    .map(([value, name]) =>
      Object.fromEntries(Object.entries(value as object).filter(([key]) => key !== name)),
    )
  return fc.oneof(spoilt, without, JUNK)
}
