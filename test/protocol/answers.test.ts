/** Answers of the service are what their descriptions say, survive JSON, and may grow. */
import { expect, it } from 'vitest'
import { readAnswer } from '../../src/protocol/answers.ts'
import { answerSchemaOf, type JsonSchema } from '../../src/protocol/json-schema.ts'
import { REQUEST_NAMES } from '../../src/protocol/requests.ts'
import { fc } from '../fast-check.ts'
import { allowed } from './arbitrary-values.ts'
import { isValid, unknownKeywords } from './json-schema-check.ts'

it.each(REQUEST_NAMES)('the answer of %s: its schema agrees with its reader', (name) => {
  const schema = answerSchemaOf(name)
  expect(unknownKeywords(schema)).toEqual([])
  fc.assert(
    fc.property(allowed(schema), (value) => {
      const json: unknown = JSON.parse(JSON.stringify(value))
      expect(isValid(schema, json)).toBe(true)
      const read = readAnswer(name, json)
      expect(readAnswer(name, read)).toEqual(read)
    }),
    { numRuns: 50 },
  )
})

/** Every field of a schema and of what is in it, by its path. */
function fieldsIn(schema: JsonSchema, path: string): readonly (readonly [string, JsonSchema])[] {
  const inside = [...(schema.items === undefined ? [] : [schema.items]), ...(schema.anyOf ?? [])]
  return [
    ...Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
      const place = `${path}.${name}`
      return [[place, field] as const, ...fieldsIn(field, place)]
    }),
    ...inside.flatMap((part) => fieldsIn(part, path)),
  ]
}

/** What is in a scope or a budget has a name that says it all, as the kind of an answer has. */
const PLAIN = /\.(kind|(scope|budget|budgetLeft|limits|used)\.\w+)$/

it('every field of every answer says what it is', () => {
  const fields = REQUEST_NAMES.flatMap((name) => fieldsIn(answerSchemaOf(name), name))
  expect(fields.length).toBeGreaterThan(1_000)
  const silent = fields.filter(([path, { description = '' }]) => {
    return !PLAIN.test(path) && !/^[A-Z0-9`][^.]{2,}/.test(description)
  })
  expect([...new Set(silent.map(([path]) => path))]).toEqual([])
})

it('an answer may have fields that this version does not know', () => {
  const answer = { expired: 1, prunedLeases: 0, prunedEvents: 0, later: true }
  expect(readAnswer('cleanup', answer)).toBe(answer)
  expect(isValid(answerSchemaOf('cleanup'), answer)).toBe(true)
})

it.each([
  ['renew', { kind: 'gone' }, 'answer must be of a kind among renewed, held, not_found, '],
  ['renew', {}, 'got undefined'],
  ['renew', 'renewed', 'answer must be of a kind among renewed'],
  ['renew', null, 'answer must be of a kind among renewed'],
  ['renew', { kind: 'renewed' }, 'lease must be an object'],
  ['list', { leases: [] }, 'more must be true or false'],
  ['list', { leases: 'none' }, 'leases must be a list, got "none"'],
  ['list', { leases: [], more: false, next: 1 }, 'next must be text, got 1'],
  ['claim', { kind: 'waiting', waitedMs: '5' }, 'waitedMs must be a number, got "5"'],
  ['claim', { kind: 'held', notWaiting: 'x' }, 'must be not_asked, own, own_transfer or waiting_d'],
  ['claim', { kind: 'terminal', releaseReason: 'x' }, 'must be transferred, got "x"'],
  ['revokeAll', -1, 'answer must be an integer 0..9007199254740991, got -1'],
] as const)('to %s no answer is %j', (name, answer, line) => {
  expect(() => readAnswer(name, answer)).toThrow(line)
})
