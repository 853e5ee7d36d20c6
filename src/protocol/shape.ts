/**
 * The vocabulary of the descriptions: what a value may be (`Shape`), what it is called and means (`Field`), and what
 * follows from both: the TypeScript type and the reader. A request (`request`) is an object of fields with a role. A reader is made once, when its shape is; reading a value that
 * is right as it came allocates nothing, and gives the very same value back.
 */
import { DIMENSIONS, parseBudget, type Budget } from '../core/budget.ts'
import { invalid } from '../core/errors.ts'
import { parseLeaseId, parseMetadata, requireShortText, requireText } from '../core/input.ts'
import type { LeaseId, Metadata } from '../core/lease.ts'
import { NAME_BYTES_MAX, SCOPE_ITEM_BYTES_MAX, SCOPE_ITEMS_MAX } from '../core/limits.ts'
import { parseResource, type Resource } from '../core/resource.ts'
import { parseScope, type Scope } from '../core/scope.ts'

/** The keywords of JSON Schema (draft 2020-12) that shapes use. */
export interface JsonSchema {
  readonly type?: string
  readonly description?: string
  readonly default?: unknown
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly format?: string
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly propertyNames?: JsonSchema
  readonly items?: JsonSchema
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | JsonSchema
  readonly anyOf?: readonly JsonSchema[]
}

/** What a value may be. */
export interface Shape<Value> {
  /** Reads what came under this name, or throws `INVALID_INPUT` with name, expectation and value. */
  readonly read: (value: unknown, name: string) => Value
  /** What JSON Schema says of the value, but for what it is made of. */
  readonly schema: JsonSchema
  /** What TypeScript calls it, where options of the library are of it. */
  readonly type?: string
  /** Of an integer that is a span of time or a point in it. */
  readonly unit?: Unit | undefined
  /** Of a list: what each item is. */
  readonly of?: Shape<unknown>
  readonly fields?: Fields
  readonly anyOf?: readonly Shape<unknown>[]
}

export type Unit = 'ms'

/** How a value is described where it is a part of something. */
export interface Field<Value, Optional extends boolean> {
  readonly shape: Shape<Value>
  readonly isOptional: Optional
  /** One sentence, without the full stop. */
  readonly says: string
  /** What else is worth knowing, in sentences. */
  readonly more?: string
  /** What counts when it is left out: a value, or words for people. */
  readonly default?: Default
  /** Where HTTP differs. */
  readonly http?: HttpField
}

export type Default = { readonly value: string | number | boolean } | { readonly words: string }

interface HttpField {
  /** Narrower bounds. */
  readonly shape?: Shape<unknown>
  /** The server fills it in. */
  readonly isOptional?: true
  /** The server says it of the caller, who cannot. */
  readonly isAbsent?: true
  readonly default?: Default
}

export type Fields = Readonly<Record<string, Field<unknown, boolean>>>

export type ValueOf<Of> =
  Of extends Field<infer Value, boolean> ? Value : Of extends Shape<infer Value> ? Value : never

/** The object that has these fields. */
export type ObjectOf<Described extends Fields> = Flat<
  {
    readonly [
      Name in keyof Described as Described[Name] extends Field<unknown, false> ? Name : never
    ]: ValueOf<Described[Name]>
  } & {
    readonly [
      Name in keyof Described as Described[Name] extends Field<unknown, false> ? never : Name
    ]?: ValueOf<Described[Name]>
  }
>
type Flat<Type> = { [Name in keyof Type]: Type[Name] }

interface FieldFacts {
  readonly more?: string
  readonly default?: Default
  readonly http?: HttpField
}

export function required<Value>(
  shape: Shape<Value>,
  says: string,
  facts: FieldFacts = {},
): Field<Value, false> {
  return { shape, says, isOptional: false, ...facts }
}

export function optional<Value>(
  shape: Shape<Value>,
  says: string,
  facts: FieldFacts = {},
): Field<Value, true> {
  return { shape, says, isOptional: true, ...facts }
}

/** The same field with another sentence, or another default. */
export function reworded<Of extends Field<unknown, boolean>>(
  field: Of,
  says: string,
  facts: FieldFacts = {},
): Of {
  const { more: _more, default: _default, ...rest } = field
  return { ...(rest as Of), says, ...facts }
}

export function integer(min: number, max: number, unit?: Unit): Shape<number> {
  const expectation = `must be an integer ${min}..${max}`
  return {
    read: (value, name) => {
      if (isInteger(value, min, max)) return value
      throw invalid(name, expectation, value)
    },
    schema: { type: 'integer', minimum: min, maximum: max },
    type: 'number',
    unit,
  }
}

/** An integer, or a word instead of it. */
export function integerOr<Word extends string>(
  bounds: Shape<number>,
  word: Word,
): Shape<number | Word> {
  const { type: _number, ...rest } = bounds
  return {
    ...rest,
    read: (value, name) => (value === word ? word : bounds.read(value, name)),
    anyOf: [bounds, literal(word)],
  }
}

function isInteger(value: unknown, min: number, max: number): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max
}

export function literal<Value extends string | boolean>(only: Value): Shape<Value> {
  return {
    read: (value, name) => {
      if (value === only) return only
      throw invalid(name, `must be ${only}`, value)
    },
    schema: { const: only },
  }
}

export function choice<const Value extends string>(
  values: readonly Value[],
  read?: (value: unknown) => Value,
): Shape<Value> {
  const expectation = `must be ${orList(values)}`
  const known: ReadonlySet<unknown> = new Set(values)
  return {
    read:
      read ??
      ((value, name) => {
        if (known.has(value)) return value as Value
        throw invalid(name, expectation, value)
      }),
    schema: { type: 'string', enum: values },
  }
}

function orList(words: readonly string[]): string {
  if (words.length > 4) return `among ${words.join(', ')}`
  return words.length === 1
    ? (words[0] ?? '')
    : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}

/** What text may not contain, as a pattern of JSON Schema. */
const NO_CONTROLS = '^[^\\u0000-\\u001f\\u007f-\\u009f]*$'

/** Text of 1..`bytesMax` bytes. JSON Schema counts characters: it refuses no more than the reader does. */
export function text(bytesMax: number): Shape<string> {
  return {
    read: (value, name) => requireShortText({ field: name, bytesMax }, value),
    schema: { type: 'string', minLength: 1, maxLength: bytesMax, pattern: NO_CONTROLS },
    type: 'string',
  }
}

/** Text whose length is limited together with something else. */
export const WORDS: Shape<string> = {
  read: (value, name) => requireText(name, value),
  schema: { type: 'string', pattern: NO_CONTROLS },
  type: 'string',
}

/** Text of which only its maker knows what it means: a position, a page. */
export const OPAQUE: Shape<string> = {
  read: (value, name) => {
    if (typeof value === 'string') return value
    throw invalid(name, 'must be text', value)
  },
  schema: { type: 'string' },
}

const HEX = '[0-9a-fA-F]'

export const UUID: Shape<LeaseId> = {
  type: 'LeaseId',
  read: parseLeaseId,
  schema: {
    type: 'string',
    format: 'uuid',
    pattern: `^${HEX}{8}-${HEX}{4}-${HEX}{4}-${HEX}{4}-${HEX}{12}$`,
  },
}

export const FLAG: Shape<boolean> = {
  type: 'boolean',
  read: (value, name) => {
    if (typeof value === 'boolean') return value
    throw invalid(name, 'must be true or false', value)
  },
  schema: { type: 'boolean' },
}

export const RESOURCE: Shape<Resource> = {
  read: (value) => parseResource(value),
  schema: {
    type: 'string',
    pattern: '^(?!file:(?!/))[a-z][a-z0-9-]{0,31}:[^\\u0000-\\u001f\\u007f-\\u009f]+$',
    maxLength: NAME_BYTES_MAX + 33,
  },
}

/** An object that its receiver reads. */
export const ANY_OBJECT: Shape<Readonly<Record<string, unknown>>> = {
  read: (value, name) => {
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return value as Readonly<Record<string, unknown>>
    }
    throw invalid(name, 'must be an object', value)
  },
  schema: { type: 'object' },
}

export const METADATA: Shape<Metadata> = {
  type: 'Metadata',
  read: (value) => parseMetadata(value),
  schema: {
    type: 'object',
    propertyNames: { pattern: NO_CONTROLS },
    additionalProperties: {
      anyOf: [{ type: 'string', pattern: NO_CONTROLS }, { type: 'number' }, { type: 'boolean' }],
    },
  },
}

/** What is unlimited has no sets. */
function scopeSchema(unlimited: boolean): JsonSchema {
  const set: JsonSchema = {
    type: 'array',
    maxItems: unlimited ? 0 : SCOPE_ITEMS_MAX,
    items: text(SCOPE_ITEM_BYTES_MAX).schema,
  }
  return {
    type: 'object',
    properties: { unlimited: { const: unlimited }, workIds: set, tools: set, namespaces: set },
    additionalProperties: false,
  }
}

export const SCOPE: Shape<Partial<Scope>> = {
  type: 'Partial<Scope>',
  read: (value) => parseScope(value),
  schema: { anyOf: [scopeSchema(false), scopeSchema(true), { type: 'null' }] },
}

const BUDGET_SCHEMA: JsonSchema = {
  type: 'object',
  properties: Object.fromEntries(
    DIMENSIONS.map((dimension) => {
      return [dimension, { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER }]
    }),
  ),
  additionalProperties: false,
}

export const BUDGET: Shape<Budget> = {
  type: 'Budget',
  read: (value, name) => parseBudget(name, value),
  schema: { anyOf: [BUDGET_SCHEMA, { type: 'null' }] },
}

/** Null where there is none. */
export function nullable<Value>(of: Shape<Value>): Shape<Value | null> {
  return {
    read: (value, name) => (value === null ? null : of.read(value, name)),
    schema: {},
    anyOf: [of, NULL],
  }
}

/** Only described here: `nullable` reads it. */
const NULL: Shape<null> = { read: () => null, schema: { type: 'null' } }

interface ListLimit {
  readonly min?: number
  readonly max: number
  /** What is expected, in words. */
  readonly expectation: string
  /** How callers know the list, where its name is not that. */
  readonly label?: string
}

export function list<Item>(of: Shape<Item>, limit: ListLimit): Shape<readonly Item[]> {
  const { min = 0, max, expectation, label } = limit
  return {
    read: (value, name) => {
      if (!Array.isArray(value)) throw invalid(label ?? name, expectation, value)
      if (value.length < min || value.length > max) {
        throw invalid(label ?? name, expectation, value.length)
      }
      const items = value.map((item: unknown) => of.read(item, name))
      return items.every((item, index) => item === value[index]) ? value : items
    },
    schema: {
      type: 'array',
      ...(min > 0 ? { minItems: min } : {}),
      ...(Number.isFinite(max) ? { maxItems: max } : {}),
    },
    of,
  }
}

type Loose = Readonly<Record<string, unknown>>

/** The same, for a value whose parts are bounded together. */
export function checked<Value>(shape: Shape<Value>, check: (value: Value) => void): Shape<Value> {
  return {
    ...shape,
    read: (value, name) => {
      const read = shape.read(value, name)
      check(read)
      return read
    },
  }
}

/** An object that has these fields, and no others unless it is an answer: those may grow. */
export function object<const Described extends Fields>(
  fields: Described,
  face: Face = 'library',
): Shape<ObjectOf<Described>> {
  return objectShape(fields, face) as Shape<ObjectOf<Described>>
}

/** In whose bounds a request is read. */
export type Face = 'library' | 'http' | 'answer'

export function shapeFor(face: Face, { shape, http }: Field<unknown, boolean>): Shape<unknown> {
  return face === 'http' ? (http?.shape ?? shape) : shape
}

export function defaultFor(face: Face, field: Field<unknown, boolean>): Default | undefined {
  return face === 'http' ? (field.http?.default ?? field.default) : field.default
}

export function isOptionalFor(face: Face, { isOptional, http }: Field<unknown, boolean>): boolean {
  return isOptional || (face === 'http' && http?.isOptional === true)
}

export function fieldsFor(
  face: Face,
  fields: Fields,
): readonly (readonly [string, Field<unknown, boolean>])[] {
  const described = Object.entries(fields)
  return face === 'http' ? described.filter(([, { http }]) => http?.isAbsent !== true) : described
}

function objectShape(fields: Fields, face: Face): Shape<unknown> {
  const described = fieldsFor(face, fields)
  const readers = new Map(described.map(([name, field]) => [name, shapeFor(face, field).read]))
  const needed = described.filter(([, field]) => !isOptionalFor(face, field)).map(([name]) => name)
  const known = [...readers.keys()].join(', ')
  const read = (value: unknown, name: string): unknown => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw invalid(name, 'must be an object', value)
    }
    const given = value as Loose
    let copy: Record<string, unknown> | null = null
    // Not `Object.keys`: every request of every call comes by here, and would make a list.
    for (const key in given) {
      if (!Object.hasOwn(given, key)) continue
      const reader = readers.get(key)
      if (reader === undefined) {
        if (face === 'answer') continue
        throw invalid(name, `must be among ${known}`, key)
      }
      const item = given[key]
      if (item === undefined) continue
      const own = reader(item, key)
      if (own === item) continue
      copy ??= { ...given }
      copy[key] = own
    }
    for (const key of needed) {
      if (given[key] !== undefined) continue
      readers.get(key)?.(undefined, key)
      throw invalid(key, 'must be given', undefined)
    }
    return copy ?? given
  }
  return { read, schema: { type: 'object' }, fields }
}

/** Who may send a request: one who looks, one who acts on what its own holders hold, one who may everything. */
export type Role = 'reader' | 'holder' | 'operator'

/** One request of `LeaseApi`. */
export interface RequestDescription<Described extends Fields> {
  readonly role: Role
  /** What it does, in one sentence without the full stop. */
  readonly says: string
  readonly fields: Described
  /** Rules about several fields at once. */
  readonly checks: Checks
  /**
   * Reads a request as the library's own faces send it: the value itself where it is right as it came. Refuses unknown
   * fields.
   */
  readonly read: (value: unknown) => ObjectOf<Described>
}

type Checks = readonly ((request: never) => void)[]

export function request<const Described extends Fields>(
  facts: Pick<RequestDescription<Described>, 'role' | 'says'> & {
    readonly checks?: readonly ((request: ObjectOf<Described>) => void)[]
  },
  fields: Described,
): RequestDescription<Described> {
  const { role, says, checks = [] } = facts
  return { role, says, fields, checks, read: requestReader({ fields, checks }) }
}

/** The reader of a request, in the bounds of a face. */
export function requestReader<const Described extends Fields>(
  { fields, checks }: Pick<RequestDescription<Described>, 'fields' | 'checks'>,
  face: Face = 'library',
): (value: unknown) => ObjectOf<Described> {
  const shape = object(fields, face)
  return (value) => {
    const asked = shape.read(value, 'request')
    for (const check of checks) check(asked as never)
    return asked
  }
}

/** All that is said of a field: its sentence, its bounds, its default, and what else there is. */
export function sentenceOf(field: Field<unknown, boolean>, face: Face = 'library'): string {
  const { says, more } = field
  const preset = defaultFor(face, field)
  const { minimum, maximum } = shapeFor(face, field).schema
  const isBounded = minimum !== undefined && maximum !== Number.MAX_SAFE_INTEGER
  const bounds = isBounded ? `, ${minimum}..${maximum}` : ''
  const sentences = [
    `${says}${bounds}.`,
    ...(preset === undefined ? [] : [`Default: ${defaultText(preset)}.`]),
    ...(more === undefined ? [] : [more]),
  ]
  return sentences.join(' ')
}

function defaultText(preset: NonNullable<Field<unknown, boolean>['default']>): string {
  if ('words' in preset) return preset.words
  return typeof preset.value === 'string' ? `\`${preset.value}\`` : String(preset.value)
}
