/** The one description of every request: its reader, its schema and its types say the same. */
import { describe, expect, expectTypeOf, it } from 'vitest'
import { isLeaseError } from '../../src/core/errors.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { schemaOf, type JsonSchema } from '../../src/protocol/json-schema.ts'
import {
  isApiCall,
  readHttpRequest,
  readRequest,
  REQUEST_NAMES,
  REQUESTS,
  type RequestName,
  type RequestOf,
} from '../../src/protocol/requests.ts'
import {
  object,
  sentenceOf,
  type Field,
  type Fields,
  type Shape,
} from '../../src/protocol/shape.ts'
import { fc } from '../fast-check.ts'
import { allowed, nearly } from './arbitrary-values.ts'
import { isValid, unknownKeywords } from './json-schema-check.ts'

const ID = '0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2'
const WHO = { holder: 'ann', session: 's-1' }
const FACES = ['library', 'http'] as const

/** Field by field, without the rules about several fields, which JSON Schema has no words for. */
function readFields(name: RequestName, face: 'library' | 'http', value: unknown): unknown {
  return object(REQUESTS[name].fields as Fields, face).read(value, 'request')
}

function isRead(name: RequestName, face: 'library' | 'http', value: unknown): boolean {
  try {
    readFields(name, face, value)
    return true
  } catch (error) {
    if (isLeaseError(error)) return false
    throw error
  }
}

type Named = readonly [string, Field<unknown, boolean>]

/** The fields of a request, and of what is in them. */
function allFields(fields: Fields): readonly Named[] {
  return Object.entries(fields).flatMap((named) => [named, ...fieldsInside(named[1].shape)])
}

function fieldsInside({ fields = {}, of }: Shape<unknown>): readonly Named[] {
  return [...allFields(fields), ...(of === undefined ? [] : fieldsInside(of))]
}

/** What counts where a field is left out, by the fields of a schema and of what is in them. */
function defaultsIn({ properties = {}, items }: JsonSchema): Readonly<Record<string, unknown>> {
  const inside = [...Object.values(properties), ...(items === undefined ? [] : [items])]
  const own = Object.entries(properties).filter(([, field]) => 'default' in field)
  return Object.assign(
    Object.fromEntries(own.map(([name, field]) => [name, field.default])),
    ...inside.map(defaultsIn),
  )
}

describe.each(REQUEST_NAMES)('%s', (name) => {
  it('says what it does, who may, and what each field is', () => {
    const { role, says, fields } = REQUESTS[name]
    const described = allFields(fields).map(([, field]) => field)
    expect(['reader', 'holder', 'operator']).toContain(role)
    expect(schemaOf(name).description).toBe(`${says}.`)
    for (const sentence of [says, ...described.map((field) => field.says)]) {
      expect(sentence).toMatch(/^[A-Z0-9`].{3,}[^.\s]$/)
    }
    for (const { more, default: preset } of described) {
      if (more !== undefined) expect(more).toMatch(/^[A-Z0-9`].{3,}[^.]\.$/)
      const text = preset === undefined || 'value' in preset ? 'its value' : preset.words
      expect(text).toMatch(/^\S.+[^.\s]$/)
    }
  })

  it('counts in milliseconds what says so by its name', () => {
    for (const [field, { shape }] of allFields(REQUESTS[name].fields)) {
      expect(shape.unit, field).toBe(field.endsWith('Ms') ? 'ms' : undefined)
    }
  })

  it.each(FACES)('has a schema that agrees with its reader (%s)', (face) => {
    const schema = schemaOf(name, face)
    expect(unknownKeywords(schema)).toEqual([])
    fc.assert(
      fc.property(nearly(schema), (value) => {
        const json: unknown = JSON.parse(JSON.stringify(value))
        expect(isRead(name, face, json)).toBe(isValid(schema, json))
      }),
      { numRuns: 200 },
    )
  })

  it('gives back what it reads: the same value where it is right, and the same again', () => {
    fc.assert(
      fc.property(allowed(schemaOf(name, 'library')), (value) => {
        const read = readFields(name, 'library', value)
        expect(readFields(name, 'library', read)).toEqual(read)
        expect(JSON.parse(JSON.stringify(read))).toEqual(read)
      }),
      { numRuns: 100 },
    )
  })

  it('refuses an unknown field by its name, in one line', () => {
    const known = Object.keys(REQUESTS[name].fields).join(', ')
    expect(() => readRequest(name, { typo: 1 })).toThrow(
      `request must be among ${known}, got "typo"`,
    )
  })
})

describe('a request', () => {
  it('is the very value that came, where nothing has to be normalised', () => {
    const asked = { id: ID, resource: 'work:a', ...WHO, ttlMs: 5, under: [ID] }
    expect(readRequest('acquire', asked)).toBe(asked)
  })

  it('has its ids in lower case and its resource normalised, and leaves the caller’s object alone', () => {
    const asked = { id: ID.toUpperCase(), resource: 'file:/a/../b', ...WHO }
    expect(readRequest('acquire', asked)).toEqual({ id: ID, resource: 'file:/b', ...WHO })
    expect(asked.id).toBe(ID.toUpperCase())
  })

  it.each([
    [{ ttlMs: 0 }, 'ttlMs must be an integer 1..2592000000, got 0'],
    [{ ttlMs: '5' }, 'ttlMs must be an integer 1..2592000000, got "5"'],
    [{ mode: 'both' }, 'mode must be exclusive or shared, got "both"'],
    [{ extent: 'deep' }, 'extent must be exact or subtree, got "deep"'],
    [{ breakable: 1 }, 'breakable must be true or false, got 1'],
    [{ holder: '' }, 'holder must be 1..128 bytes, got ""'],
    [{ holder: undefined }, 'holder must be text, got undefined'],
    [{ resource: undefined }, 'resource must be text, got undefined'],
    [{ slots: 2, mode: 'exclusive' }, 'slots must not be given for an exclusive lease, got 2'],
    [{ extent: 'subtree' }, 'extent must be exact for a kind that is not a tree, got "subtree"'],
    [{ under: [1] }, 'under must be a UUID, got 1'],
    [{ reason: 'x'.repeat(1_025) }, 'reason and metadata must be at most 1024 bytes together'],
  ])('with %o is refused in one line', (wrong, line) => {
    const asked = { id: ID, resource: 'work:a', ...WHO, ...wrong }
    expect(() => readRequest('acquire', asked)).toThrow(line)
  })

  it('that ends a lease may leave a note, whole and of at most 1 KiB', () => {
    const asked = (note: object): unknown => readRequest('release', { id: ID, ...WHO, note })
    const note = { reason: 'half done', metadata: { tick: 5 } }
    expect(asked(note)).toMatchObject({ note })
    expect(() => asked({ reason: 'half done' })).toThrow('metadata must be ')
    expect(() => asked({ metadata: null })).toThrow('reason must be text, got undefined')
    expect(() => asked({ ...note, reason: 'x'.repeat(1_024) })).toThrow(
      'reason and metadata must be at most 1024 bytes together',
    )
  })

  it('for several refuses none, more than 64, and two that overlap', () => {
    const member = (resource: string): object => ({ id: ID, resource })
    const ask = (members: readonly object[]): unknown =>
      readRequest('acquireAll', { group: ID, members, ...WHO })
    expect(() => ask([])).toThrow('resources must be 1..64, got 0')
    expect(() => ask(Array.from({ length: 65 }, (_, index) => member(`work:${index}`)))).toThrow(
      'resources must be 1..64, got 65',
    )
    expect(() => ask([member('work:a'), member('work:a')])).toThrow(
      'resources must not overlap work:a, got "work:a"',
    )
    expect(ask([member('work:a'), member('work:b')])).toMatchObject({ group: ID })
  })

  it('for several names up to 64', () => {
    const members = Array.from({ length: 64 }, (_, index) => ({
      id: ID,
      resource: `work:${index}`,
    }))
    expect(readRequest('acquireAll', { group: ID, members, ...WHO }).members).toHaveLength(64)
  })

  it('has its ids and its session from its sender in the library, and from the server over HTTP', () => {
    expect(readHttpRequest('acquire', { resource: 'work:a', holder: 'ann' })).not.toHaveProperty(
      'id',
    )
    const asked = { id: ID, resource: 'work:a', ...WHO }
    for (const name of ['id', 'session']) {
      expect(() => readRequest('acquire', { ...asked, [name]: undefined })).toThrow(
        `${name} must be `,
      )
    }
  })

  it('has ids that are UUIDs, as its schema says', () => {
    expect(schemaOf('get').properties?.['id']).toMatchObject({ type: 'string', format: 'uuid' })
  })

  it('waits a day at most in the library, and a minute over HTTP', () => {
    const asked = { id: ID, resource: 'work:a', ...WHO, waitMs: 86_400_000 }
    expect(readRequest('acquire', asked).waitMs).toBe(86_400_000)
    expect(() => readHttpRequest('acquire', asked)).toThrow(
      'waitMs must be an integer 0..60000, got 86400000',
    )
    expect(readRequest('acquire', { ...asked, waitMs: 'configured' }).waitMs).toBe('configured')
    expect(() => readHttpRequest('acquire', { ...asked, waitMs: 'configured' })).toThrow(
      'waitMs must be an integer 0..60000, got "configured"',
    )
    expect(readHttpRequest('acquire', { resource: 'work:a', holder: 'ann' }).id).toBeUndefined()
    expect(() => readHttpRequest('list', { limit: 1_001 })).toThrow(
      'limit must be an integer 1..1000',
    )
  })

  it.each([
    ['list', { limit: 1_000 }],
    ['inspect', { extent: 'exact' }],
    ['history', { newestFirst: false, refusals: true, unbroken: false, limit: 1_000 }],
    [
      'acquire',
      {
        extent: 'exact',
        isRenewed: false,
        priority: 0,
        lockDelayMs: 0,
        breakable: false,
        claimWindowMs: 5_000,
        sequential: false,
        behindOwn: false,
      },
    ],
    ['claimAll', { extent: 'exact', behindOwn: false }],
    ['release', { extent: 'exact', releaseReason: 'voluntary' }],
    ['revoke', { extent: 'exact', graceMs: 0 }],
    ['upgrade', { extent: 'exact', implied: false, sequential: false }],
    ['advance', { extent: 'exact', count: 1 }],
    ['fleet', { layout: 'lease' }],
  ] as const)('to %s says what counts where a field is left out', (name, defaults) => {
    expect(defaultsIn(schemaOf(name, 'library'))).toEqual(defaults)
  })

  it.each([
    ['watch', 'after', 'from now on'],
    ['settings', 'resource', 'the global values'],
    ['acquire', 'ttlMs', 'the configured `default_ttl_seconds`; where none is configured 30 s for'],
    ['release', 'note', 'those it has'],
    ['authorize', 'spending', 'nothing'],
  ] as const)('to %s without %s counts as with %s', (name, field, words) => {
    const { description } = schemaOf(name).properties?.[field] ?? {}
    expect(description).toContain(`. Default: ${words}`)
  })

  it('over HTTP does not wait unless it says so', () => {
    expect(schemaOf('acquire').properties?.['waitMs']).toMatchObject({ default: 0 })
    expect(schemaOf('acquire', 'library').properties?.['waitMs']).not.toHaveProperty('default')
  })

  it.each([
    [{ metadata: { ticket: 'T-1', size: 2.5, isLast: true } }, true],
    [{ metadata: { 'ticket\u0000': 1 } }, false],
    [{ metadata: { ticket: 'T\u0000' } }, false],
    [{ metadata: { ticket: null } }, false],
    [{ metadata: { ticket: {} } }, false],
    [{ metadata: null }, true],
    [{ scope: { workIds: ['W-1'], tools: ['edit'], namespaces: ['team'] } }, true],
    [{ scope: { unlimited: false } }, true],
    [{ scope: { unlimited: true, workIds: [] } }, true],
    [{ scope: { unlimited: true, workIds: ['W-1'] } }, false],
    [{ scope: { typo: [] } }, false],
    [{ scope: { unlimited: true, typo: [] } }, false],
    [{ resource: `${'k'.repeat(32)}:${'x'.repeat(1_024)}` }, true],
    [{ resource: `${'k'.repeat(32)}:${'x'.repeat(1_025)}` }, false],
  ])('with %o is allowed by its schema and its reader, or by neither: %s', (fields, isAllowed) => {
    const asked = { id: ID, resource: 'work:a', ...WHO, ...fields }
    expect(isRead('acquire', 'library', asked)).toBe(isAllowed)
    expect(isValid(schemaOf('acquire', 'library'), asked)).toBe(isAllowed)
  })

  it.each([
    ['acquireAll', { group: ID, ...WHO, members: 'x' }, 'resources must be 1..64, got "x"'],
    ['history', { types: 'x' }, 'types must be a list of event types, got "x"'],
    [
      'history',
      { types: ['lease.issued', 'x'] },
      'types must be among lease.issued, lease.renewed',
    ],
    [
      'acquire',
      { under: Array.from({ length: 65 }, () => ID) },
      'under must be at most 64 lease ids, got 65',
    ],
    [
      'claim',
      { id: ID, resource: 'work:a', ...WHO, expects: 'x' },
      'expects must be offer or nothing, got "x"',
    ],
    ['history', { after: 1 }, 'after must be a position, got 1'],
    ['watch', { kinds: Array.from({ length: 65 }, () => 'x') }, 'kinds must be at most 64 kinds'],
    [
      'configure',
      { key: 'max_renewals', value: '1', scope: 'x', resourceId: null },
      'scope must be global, kind or resource, got "x"',
    ],
    ['batch', { calls: [] }, 'calls must be 1..1000 calls, got 0'],
    ['batch', { calls: [{ call: 'get', request: 'x' }] }, 'request must be an object, got "x"'],
    ['batch', { calls: [{ call: 'get', request: [] }] }, 'request must be an object, got an array'],
  ] as const)('to %s with %o is refused in one line', (name, asked, line) => {
    expect(() => readRequest(name, asked)).toThrow(line)
  })

  it.each([
    ['acquire', { resource: 'work:a', holder: 'ann' }, 'tokenName', 'ci'],
    ['history', {}, 'unbroken', true],
  ] as const)('to %s over HTTP with %o has no %s', (name, asked, field, value) => {
    expect(readHttpRequest(name, asked)).toBe(asked)
    expect(() => readHttpRequest(name, { ...asked, [field]: value })).toThrow(
      new RegExp(`^request must be among .*, got "${field}"$`),
    )
    expect(schemaOf(name).properties).not.toHaveProperty(field)
  })

  it('says of a reason of its own how long it may be', () => {
    for (const { fields } of Object.values(REQUESTS)) {
      const { reason } = fields as Fields
      if (reason !== undefined) expect(sentenceOf(reason)).toContain('1 KiB')
    }
  })

  it('for several kinds of calls at once takes all that have one answer, and names them', () => {
    const many = { calls: REQUEST_NAMES.filter(isApiCall).map((call) => ({ call, request: {} })) }
    expect(readRequest('batch', many)).toBe(many)
    const most = Array.from({ length: 1_001 }, () => ({ call: 'get', request: {} }))
    expect(() => readRequest('batch', { calls: most })).toThrow('must be 1..1000 calls, got 1001')
    for (const call of ['watch', 'wakes', 'authorize', 'fleet', 'batch']) {
      expect(() => readRequest('batch', { calls: [{ call, request: {} }] })).toThrow(
        /^call must be among get, list, inspect, .*, got /,
      )
    }
  })

  it.each([
    ...[`~${ID} 12 34`, `~${ID} 12`, `~${ID}`, '~', '~ 12'],
    ...['12', '12 34', `${'9'.repeat(16)} ${'9'.repeat(16)}`],
  ])('goes on after %s, which a list may have given as next', (after) => {
    expect(readRequest('list', { after })).toEqual({ after })
  })

  it.each([
    ...['', 'x', '12x', 'x12', '12 34 56', `~${ID}0`, `~${ID}0 12`, `~${ID.toUpperCase()}`],
    ...['9'.repeat(17), `12 ${'9'.repeat(17)}`, `~${ID}x`, 12, null],
  ])('does not go on after %s, which no list gave as next', (after) => {
    expect(() => readRequest('list', { after })).toThrow(
      'after must be what another list gave as next',
    )
  })

  it('that changes something names its holder or operator', () => {
    for (const name of REQUEST_NAMES.filter((each) => REQUESTS[each].role !== 'reader')) {
      const own = Object.keys(REQUESTS[name].fields)
      const who = ['cleanup', 'configure', 'wakes'].includes(name)
        ? own
        : ['holder', 'by', 'tickets']
      expect(who.length === 0 || own.some((field) => who.includes(field)), name).toBe(true)
    }
  })
})

describe('the types', () => {
  it('follow from the descriptions', () => {
    expectTypeOf<RequestOf<'get'>>().toEqualTypeOf<{ readonly id: string }>()
    expectTypeOf<RequestOf<'acquire'>['ttlMs']>().toEqualTypeOf<number | undefined>()
    expectTypeOf<RequestOf<'acquire'>['waitMs']>().toEqualTypeOf<
      number | 'configured' | undefined
    >()
    expectTypeOf<RequestOf<'release'>['holder']>().toEqualTypeOf<string>()
    expectTypeOf<keyof LeaseApi>().not.toBeNever()
  })
})
