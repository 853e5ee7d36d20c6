/** Answers of the service are what their descriptions say, survive JSON, and may grow. */
import { describe, expect, it } from 'vitest'
import { ENTRY_STATES, RELEASE_REASONS } from '../../src/core/lease.ts'
import { readAnswer } from '../../src/protocol/answers.ts'
import { answerSchemaOf, type JsonSchema } from '../../src/protocol/json-schema.ts'
import { REQUEST_NAMES } from '../../src/protocol/requests.ts'
import { fc } from '../fast-check.ts'
import { ANSWER_SAMPLES, BLOCKER, LEASE, NODE, SESSION } from './answer-samples.ts'
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

/** The value with each of its parts in turn replaced by what no field may be, and where. */
function spoilt(value: unknown, place: string): readonly (readonly [string, unknown])[] {
  const wrong = [place, [[[]]]] as const
  if (Array.isArray(value)) {
    return [wrong, ...value.flatMap((item: unknown) => within(spoilt(item, place), (one) => [one]))]
  }
  if (typeof value !== 'object' || value === null) return [wrong]
  const fields = Object.entries(value).flatMap(([name, field]) => {
    return within(spoilt(field, `${place}.${name}`), (one) => ({ ...value, [name]: one }))
  })
  return [wrong, ...fields]
}

function within(
  parts: readonly (readonly [string, unknown])[],
  put: (part: unknown) => unknown,
): readonly (readonly [string, unknown])[] {
  return parts.map(([place, part]) => [place, put(part)])
}

/** What has its own reader in the core, and grows by a new version of both sides only. */
const CLOSED = /^(metadata|scope|limits|used|budget|budgetLeft)$/

/** The value as a later version may send it, with one field more in each object. */
function grown(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(grown)
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.entries(value).map(([name, field]) => {
    return [name, CLOSED.test(name) ? field : grown(field)] as const
  })
  return { ...Object.fromEntries(fields), later: [[]] }
}

describe.each(ANSWER_SAMPLES)('$name, answered with $kind', ({ name, answer }) => {
  const schema = answerSchemaOf(name)

  it('is read, also where it has grown', () => {
    for (const value of [answer, grown(answer)]) {
      expect(readAnswer(name, value)).toEqual(value)
      expect(isValid(schema, value)).toBe(true)
    }
  })

  it('is refused where any part of it is spoilt', () => {
    for (const [place, value] of spoilt(answer, name)) {
      expect(() => readAnswer(name, value), place).toThrow(' must be ')
      expect(isValid(schema, value), place).toBe(false)
    }
  })
})

it.each([
  ['mode', ['exclusive', 'shared']],
  ['extent', ['exact', 'subtree']],
  ['state', ENTRY_STATES],
  ['releaseReason', [...RELEASE_REASONS, null]],
] as const)('a lease has a %s among %j', (field, words) => {
  for (const word of words) {
    const lease = { ...LEASE, [field]: word }
    expect(readAnswer('get', lease)).toEqual(lease)
  }
})

it.each([
  ['kind', ['lease', 'offer', 'ticket', 'lock_delay']],
  ['mode', ['exclusive', 'shared']],
] as const)('what stands in the way has a %s among %j', (field, words) => {
  const blockers = words.map((word) => ({ ...BLOCKER, [field]: word }))
  const held = { kind: 'held', resource: 'work:a', retryAfterMs: 1, notWaiting: 'own', blockers }
  expect(readAnswer('acquire', held)).toEqual(held)
})

it.each(['not_asked', 'own', 'own_transfer', 'waiting_disabled'])(
  'a request may not have waited for the reason %s',
  (notWaiting) => {
    const held = { kind: 'held', resource: 'work:a', blockers: [], retryAfterMs: 1, notWaiting }
    expect(readAnswer('acquire', held)).toEqual(held)
  },
)

it('an instance of a fleet and its sessions have one of these states', () => {
  const fleet = {
    nodes: ['ready', 'not_ready', 'draining', 'silent'].map((state) => ({ ...NODE, state })),
    sessions: ['owned', 'uncertain', 'orphaned'].map((state) => ({ ...SESSION, state })),
  }
  expect(readAnswer('fleet', fleet)).toBe(fleet)
})

it('a batch has of each call its answer, whatever that is, or an error', () => {
  const error = { code: 'STORE_UNAVAILABLE', message: 'away', retryable: true, details: { a: [] } }
  const batch = [{ answer: [[]] }, { error: { ...error, effect: 'unknown' } }]
  expect(readAnswer('batch', batch)).toBe(batch)
  const failed = (change: object): unknown => [{ error: { ...error, effect: 'none', ...change } }]
  for (const change of [{}, { later: [[]] }]) {
    expect(readAnswer('batch', failed(change))).toEqual(failed(change))
  }
  const grownOne = [{ ...batch[0], later: [[]] }]
  expect(readAnswer('batch', grownOne)).toEqual(grownOne)
  const schema = answerSchemaOf('batch')
  expect(isValid(schema, failed({}))).toBe(true)
  expect(isValid(schema, failed({ details: 'none' }))).toBe(false)
  for (const name of ['code', 'message', 'retryable', 'effect']) {
    expect(() => readAnswer('batch', failed({ [name]: [] })), name).toThrow(`${name} must be `)
  }
  expect(() => readAnswer('batch', [{ error: {} }])).toThrow('code must be among ')
})
