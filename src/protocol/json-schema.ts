/** JSON Schema (draft 2020-12, as OpenAPI 3.1 uses it) of every request and answer, from the same descriptions. */
import { ANSWERS } from './answers.ts'
import { REQUESTS, type RequestName } from './requests.ts'
import {
  fieldsFor,
  isOptionalFor,
  object,
  defaultFor,
  sentenceOf,
  shapeFor,
  type Face,
  type Field,
  type Fields,
  type JsonSchema,
  type Shape,
} from './shape.ts'

export type { JsonSchema }

/** The schema of a request, in the bounds of a face. */
export function schemaOf(name: RequestName, face: 'library' | 'http' = 'http'): JsonSchema {
  const { fields, says } = REQUESTS[name]
  return { description: `${says}.`, ...schemaOfShape(object(fields as Fields, face), face) }
}

/** The schema of what a request is answered with. */
export function answerSchemaOf(name: RequestName): JsonSchema {
  return schemaOfShape(ANSWERS[name], 'answer')
}

export function schemaOfShape(shape: Shape<unknown>, face: Face): JsonSchema {
  if (shape.anyOf !== undefined) {
    return { anyOf: shape.anyOf.map((one) => schemaOfShape(one, face)) }
  }
  if (shape.of !== undefined) return { ...shape.schema, items: schemaOfShape(shape.of, face) }
  if (shape.fields === undefined) return shape.schema
  const entries = fieldsFor(face, shape.fields)
  const needed = entries.filter(([, field]) => !isOptionalFor(face, field)).map(([name]) => name)
  return {
    ...shape.schema,
    properties: Object.fromEntries(
      entries.map(([name, field]) => [name, property(field, face)] as const),
    ),
    ...(needed.length === 0 ? {} : { required: needed }),
    ...(face === 'answer' ? {} : { additionalProperties: false }),
  }
}

function property(field: Field<unknown, boolean>, face: Face): JsonSchema {
  const given = defaultFor(face, field)
  const preset = given !== undefined && 'value' in given ? given : null
  return {
    ...schemaOfShape(shapeFor(face, field), face),
    description: sentenceOf(field, face),
    ...(preset === null ? {} : { default: preset.value }),
  }
}
