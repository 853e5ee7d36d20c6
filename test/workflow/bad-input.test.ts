/**
 * Whatever is passed to whichever function of `tenure/guard` and `tenure/workflow`: one clear line, and nothing has
 * happened. Nobody ever sees an error of the language.
 */
import { inspect } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { isLeaseError } from '../../src/core/errors.ts'
import { guard } from '../../src/guard/index.ts'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import {
  ActionGuard,
  claimWorkflow,
  grantedLease,
  LocalBus,
  parseAction,
  PostgresMarks,
  relayRevocations,
  RedisBus,
  RedisMarks,
  SqliteMarks,
  type Orchestrator,
} from '../../src/workflow/index.ts'
import { newClient, newWorld } from '../client/harness.ts'

const JUNK: readonly unknown[] = [
  ...[null, undefined, 0, -1, 1.5, Number.NaN, Infinity, 10n, true, '', ' \u0000', '\ud800'],
  ...['x'.repeat(5_000), Symbol('junk'), () => undefined, [], [null], new Date(0), new Map()],
  ...[Object.create(null) as unknown, { typo: 1 }],
]
/** Where something may be left out, that is no junk, nor is an object that names nothing. */
const OPTIONS_JUNK = JUNK.filter((junk) => {
  if (junk === undefined) return false
  return typeof junk !== 'object' || junk === null || Object.keys(junk).length > 0
})
const ID = '0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2'
const LEASE = { id: ID, resource: 'work:W', fence: 7 }
const REVOCATION = { workflowId: 'w', leaseId: ID, fence: 7, reason: null, revokedAtMs: 1 }

type Loose = (...input: readonly unknown[]) => unknown

let database: SqliteDatabase
let orchestrator: Orchestrator

beforeAll(async () => {
  const Driver = await loadSqlite()
  database = new Driver(':memory:')
  guard.sqlite(database).init()
  const world = newWorld()
  const { runtime } = world
  const { tenure } = newClient(world, 'one')
  orchestrator = await claimWorkflow(tenure, 'w', { bus: new LocalBus(), runtime })
})

interface Case {
  readonly call: () => Loose
  readonly inputs: readonly (readonly [right: unknown, wrong: readonly unknown[]])[]
}

const bus = new LocalBus()
const CASES: Readonly<Record<string, Case>> = {
  'guard.sqlite': { call: () => guard.sqlite as Loose, inputs: [[null, JUNK]] },
  'guard.postgres': { call: () => guard.postgres as Loose, inputs: [[null, JUNK]] },
  'guard.redis': { call: () => guard.redis as Loose, inputs: [[null, JUNK]] },
  'guard.file': { call: () => guard.file as Loose, inputs: [[null, JUNK]] },
  'sqlite.write': {
    call: () => bound(guard.sqlite(database), 'write'),
    inputs: [
      [LEASE, JUNK],
      [() => undefined, JUNK.filter((junk) => typeof junk !== 'function')],
      [{}, OPTIONS_JUNK],
    ],
  },
  'sqlite.check': {
    call: () => bound(guard.sqlite(database), 'check'),
    inputs: [
      ['work:W', JUNK],
      [7, JUNK],
    ],
  },
  'memory.write': {
    call: () => bound(guard.memory(), 'write'),
    inputs: [
      [LEASE, JUNK],
      [() => undefined, JUNK.filter((junk) => typeof junk !== 'function')],
      [{}, OPTIONS_JUNK],
    ],
  },
  'file.write': {
    call: () => bound(guard.file(database), 'write'),
    inputs: [
      [LEASE, JUNK],
      ['content', JUNK.filter((junk) => typeof junk !== 'string')],
      [{ path: '/nowhere/file' }, [...OPTIONS_JUNK, { path: 'relative' }, { path: 7 }]],
    ],
  },
  'new ActionGuard': { call: () => constructing(ActionGuard), inputs: [[{}, OPTIONS_JUNK]] },
  'guard.setLease': {
    call: () => bound(new ActionGuard(), 'setLease'),
    inputs: [
      ['w', JUNK],
      [ID, JUNK],
      [7, JUNK],
      [{}, OPTIONS_JUNK],
    ],
  },
  'guard.validate': { call: () => bound(new ActionGuard(), 'validate'), inputs: [[null, JUNK]] },
  'guard.process': {
    call: () => bound(new ActionGuard(), 'process'),
    inputs: [[null, JUNK]],
  },
  'guard.revoke': { call: () => bound(new ActionGuard(), 'revoke'), inputs: [[null, JUNK]] },
  claimWorkflow: {
    call: () => (id, options) => {
      const { tenure } = newClient(newWorld(), 'one')
      return (claimWorkflow as Loose)(tenure, id, options)
    },
    inputs: [
      ['w', JUNK],
      [{ bus }, JUNK],
    ],
  },
  'orchestrator.emit': {
    call: () => bound(orchestrator, 'emit'),
    inputs: [
      ['A', JUNK],
      [{}, [undefined, 10n, Symbol('junk'), () => undefined]],
      [{}, [...OPTIONS_JUNK, { target: 7 }, { target: 'x', priority: 0 }, { typo: 1 }]],
    ],
  },
  'orchestrator.advance': { call: () => bound(orchestrator, 'advance'), inputs: [['s', JUNK]] },
  'orchestrator.handoff': { call: () => bound(orchestrator, 'handoff'), inputs: [['to', JUNK]] },
  'new LocalBus': { call: () => constructing(LocalBus), inputs: [[{}, OPTIONS_JUNK]] },
  'bus.subscribe': {
    call: () => bound(bus, 'subscribe'),
    inputs: [
      ['x', [...JUNK, '*']],
      [{ onAction: () => undefined }, JUNK],
    ],
  },
  'bus.announce': {
    call: () => bound(bus, 'announce'),
    inputs: [[REVOCATION, [...JUNK, ...wrongIn(REVOCATION)]]],
  },
  'new RedisBus': {
    call: () => constructing(RedisBus),
    inputs: [
      [{ call: async () => null, duplicate: () => null }, JUNK],
      [{}, OPTIONS_JUNK],
    ],
  },
  'new RedisMarks': {
    call: () => constructing(RedisMarks),
    inputs: [
      [{ call: async () => null }, JUNK],
      ['compute', JUNK],
    ],
  },
  'new PostgresMarks': {
    call: () => constructing(PostgresMarks),
    inputs: [
      [{ query: async () => null }, JUNK],
      ['compute', JUNK],
    ],
  },
  'new SqliteMarks': {
    call: () => (processor) => new SqliteMarks(database, processor as string),
    inputs: [['compute', JUNK]],
  },
  relayRevocations: {
    call: () => relayRevocations as Loose,
    inputs: [
      [{ watch: () => [] }, JUNK],
      [bus, JUNK],
      [{ signal: AbortSignal.abort() }, JUNK],
    ],
  },
  grantedLease: {
    call: () => grantedLease as Loose,
    inputs: [
      [[], []],
      [{}, OPTIONS_JUNK],
    ],
  },
  parseAction: { call: () => parseAction, inputs: [['', JUNK]] },
}

describe.each(Object.entries(CASES))('%s', (_, { call, inputs }) => {
  it('answers every wrong input with one clear line', async () => {
    for (const [at, [, wrong]] of inputs.entries()) {
      for (const junk of wrong) {
        const input = inputs.map(([right], index) => (index === at ? junk : right))
        const error = await thrownBy(() => call()(...input))
        const shown = `argument ${at}: ${inspect(junk)} → ${inspect(error)}`
        expect(isLeaseError(error), shown).toBe(true)
        if (!isLeaseError(error)) continue
        expect(['INVALID_INPUT', 'LEASE_VIOLATION', 'DECODE_ERROR'], shown).toContain(error.code)
        expect(error.message, shown).toMatch(/^[^\n]{5,300}$/)
      }
    }
  })
})

/** Each field missing, or not what it must be. */
function wrongIn(right: object): readonly object[] {
  return Object.keys(right).flatMap((field) => {
    const wrong = [10n, -1, 1e300]
    if (field !== 'reason') wrong.push(undefined as never)
    return wrong.map((value) => ({ ...right, [field]: value }))
  })
}

async function thrownBy(call: () => unknown): Promise<unknown> {
  try {
    await call()
    return 'nothing was thrown'
  } catch (error) {
    return error
  }
}

function bound(object: object, name: string): Loose {
  return (...input) => (object as Readonly<Record<string, Loose>>)[name]?.(...input)
}

function constructing(Class: unknown): Loose {
  return (...input) => Reflect.construct(Class as new () => unknown, input)
}
