import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SqliteDatabase } from '../../src/store/sqlite/sqlite-client.ts'
import { loadDriver } from '../../src/store/sqlite/sqlite-client.ts'
import { LeaseError } from '../../src/core/errors.ts'
import { createAction, type Action } from '../../src/workflow/action.ts'
import {
  ActionGuard,
  PostgresMarks,
  RedisMarks,
  SqliteMarks,
  type LeaseLookUp,
  type RedisEffects,
} from '../../src/workflow/index.ts'
import { freshDatabase, freshRedis } from '../servers/shared-servers.ts'

/** A processor whose effect is a value in its database, in the transaction of its mark. */
interface Processor {
  setLease(leaseId: string, fence: number): void
  revoke(leaseId: string, fence: number): Promise<void>
  process(action: Action, value: string, fail?: boolean): Promise<unknown>
  validate(action: Action): true
  /** How often an effect has run. */
  runs(): number
}

interface Stage {
  /** As after a restart: it knows what is durable and nothing else. */
  newProcessor(lookUp?: LeaseLookUp): Processor
  values(): Promise<readonly string[]>
  close(): Promise<void>
}

type Write<Transaction> = (transaction: Transaction, value: string) => unknown

function processorOf<Transaction>(
  guard: ActionGuard<Transaction>,
  write: Write<Transaction>,
): Processor {
  let runs = 0
  return {
    runs: () => runs,
    setLease: (leaseId, fence) => guard.setLease('w', leaseId, fence),
    revoke: (leaseId, fence) => guard.revoke({ workflowId: 'w', leaseId, fence }),
    validate: (action) => guard.validate(action),
    process: (action, value, fail = false) => {
      return guard.process(action, async (_, { transaction }) => {
        runs += 1
        await write(transaction, value)
        if (fail) throw new Error('no')
        return value
      })
    },
  }
}

async function sqliteStage(): Promise<Stage> {
  const Driver = await loadDriver()
  const database = new Driver(':memory:')
  database.exec('CREATE TABLE effects (value TEXT)')
  new SqliteMarks(database, 'compute').init()
  const write: Write<SqliteDatabase> = async (transaction, value) => {
    await Promise.resolve()
    transaction.prepare('INSERT INTO effects VALUES (?)').run(value)
  }
  return {
    newProcessor: (lookUp) => {
      const marks = new SqliteMarks(database, 'compute')
      return processorOf(
        new ActionGuard({ strict: true, marks, ...(lookUp === undefined ? {} : { lookUp }) }),
        write,
      )
    },
    values: async () => {
      const rows = database.prepare('SELECT value FROM effects ORDER BY rowid').raw().all()
      return (rows as [string][]).flat()
    },
    close: async () => void database.close(),
  }
}

async function postgresStage(): Promise<Stage> {
  const place = await freshDatabase()
  const pool = new pg.Pool({ connectionString: place.url })
  // The database is dropped under connections that are still on their way out.
  pool.on('error', () => undefined)
  await pool.query('CREATE TABLE effects (id serial, value text)')
  await new PostgresMarks(pool, 'compute').init()
  const write: Write<pg.PoolClient> = (client, value) => {
    return client.query('INSERT INTO effects (value) VALUES ($1)', [value])
  }
  return {
    newProcessor: (lookUp) => {
      const marks = new PostgresMarks(pool, 'compute')
      return processorOf(
        new ActionGuard({ strict: true, marks, ...(lookUp === undefined ? {} : { lookUp }) }),
        write,
      )
    },
    values: async () => {
      const { rows } = await pool.query<{ value: string }>('SELECT value FROM effects ORDER BY id')
      return rows.map(({ value }) => value)
    },
    close: async () => {
      await pool.end()
      await place.remove()
    },
  }
}

async function redisStage(): Promise<Stage> {
  const place = await freshRedis()
  const client = new Redis(place.url)
  const write: Write<RedisEffects> = (effects, value) => effects.command('RPUSH', 'effects', value)
  return {
    newProcessor: (lookUp) => {
      const marks = new RedisMarks(client, 'compute')
      return processorOf(
        new ActionGuard({ strict: true, marks, ...(lookUp === undefined ? {} : { lookUp }) }),
        write,
      )
    },
    values: () => client.lrange('effects', 0, -1),
    close: async () => {
      client.disconnect()
      await place.remove()
    },
  }
}

const STAGES = { sqlite: sqliteStage, postgres: postgresStage, redis: redisStage } as const
const OLD = { leaseId: randomUUID(), fence: 10 }
const NEW = { leaseId: randomUUID(), fence: 20 }

function action(epoch: number, change: Partial<Action> = {}): Action {
  return createAction({
    ...{ actionId: randomUUID(), actionType: 'A', target: 'compute', payload: null },
    ...{ workflowId: 'w', ...OLD, epoch, previousEpoch: null, priority: 5, issuedAtMs: 1 },
    ...change,
  })
}

async function codeOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => 'done',
    (error: { readonly code: unknown }) => error.code,
  )
}

let stage: Stage

describe.each(Object.keys(STAGES) as (keyof typeof STAGES)[])('marks in %s', (name) => {
  beforeEach(async () => {
    stage = await STAGES[name]()
  })

  afterEach(async () => {
    await stage.close()
  })

  it('validates by what it has carried out itself', async () => {
    const processor = stage.newProcessor()
    processor.setLease(OLD.leaseId, OLD.fence)
    const first = action(0)
    expect(processor.validate(first)).toBe(true)
    await processor.process(first, 'a')
    expect(() => processor.validate(first)).toThrow('was carried out already')
    expect(() => processor.validate(action(0))).toThrow('epoch must be above 0, got 0')
    expect(processor.validate(action(1, { previousEpoch: 0 }))).toBe(true)
  })

  it('runs an effect once for an action that comes several times at once', async () => {
    const processor = stage.newProcessor()
    processor.setLease(OLD.leaseId, OLD.fence)
    const one = action(0)
    const calls = await Promise.allSettled([1, 2, 3].map((n) => processor.process(one, `${n}`)))
    expect(calls.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
    expect(processor.runs()).toBe(1)
  })

  it('know a lease after a restart without anybody who can be asked', async () => {
    const before = stage.newProcessor()
    before.setLease(OLD.leaseId, OLD.fence)
    await before.process(action(0), 'a')
    const away = new LeaseError('STORE_UNAVAILABLE', 'the store is away')
    let asked = 0
    const after = stage.newProcessor(() => {
      asked += 1
      throw away
    })
    await after.process(action(1, { previousEpoch: 0 }), 'b')
    expect(asked).toBe(0)
    await expect(after.process(action(2, NEW), 'c')).rejects.toBe(away)
    expect(asked).toBe(1)
    expect(await stage.values()).toEqual(['a', 'b'])
  })

  it('let a processor that is started again refuse what it refused before', async () => {
    const before = stage.newProcessor()
    before.setLease(NEW.leaseId, NEW.fence)
    const carriedOut = action(5, NEW)
    await before.process(carriedOut, 'a')
    const after = stage.newProcessor()
    expect(await codeOf(after.process(carriedOut, 'x'))).toBe('DUPLICATE_ACTION')
    expect(await codeOf(after.process(action(5, NEW), 'x'))).toBe('STALE_EPOCH')
    expect(await codeOf(after.process(action(6), 'x'))).toBe('LEASE_VIOLATION')
    const gap = action(9, { ...NEW, previousEpoch: 7 })
    expect(await codeOf(after.process(gap, 'x'))).toBe('FUTURE_EPOCH')
    expect(await after.process(action(6, { ...NEW, previousEpoch: 5 }), 'b')).toBe('b')
    expect(await stage.values()).toEqual(['a', 'b'])
  })

  it('are raised with the effect or not at all', async () => {
    const processor = stage.newProcessor()
    processor.setLease(OLD.leaseId, OLD.fence)
    const one = action(0)
    await expect(processor.process(one, 'half', true)).rejects.toThrow('no')
    expect(await stage.values()).toEqual([])
    expect(await processor.process(one, 'whole')).toBe('whole')
    expect(await stage.values()).toEqual(['whole'])
  })

  it('are one for all processors of a name: each action is carried out once', async () => {
    const processors = [stage.newProcessor(), stage.newProcessor()]
    const one = action(0)
    for (const processor of processors) processor.setLease(OLD.leaseId, OLD.fence)
    const results = []
    for (const processor of processors) results.push(await codeOf(processor.process(one, 'once')))
    expect(results).toEqual(['done', 'DUPLICATE_ACTION'])
    expect(await stage.values()).toEqual(['once'])
  })

  it('remember who was announced and who was revoked', async () => {
    const before = stage.newProcessor()
    before.setLease(OLD.leaseId, OLD.fence)
    const payload = { new_lease_id: NEW.leaseId, new_fence: NEW.fence }
    await before.process(action(0, { actionType: 'LEASE_TRANSFER', payload }), 'x')
    const after = stage.newProcessor()
    expect(await codeOf(after.process(action(1), 'x'))).toBe('LEASE_VIOLATION')
    expect(await after.process(action(1, NEW), 'a')).toBe('a')
    await after.revoke(NEW.leaseId, NEW.fence)
    const last = stage.newProcessor()
    expect(await codeOf(last.process(action(2, NEW), 'x'))).toBe('LEASE_VIOLATION')
    expect(await stage.values()).toEqual(['a'])
  })

  it('forget old actions, and still carry none out twice', async () => {
    const processor = stage.newProcessor()
    processor.setLease(OLD.leaseId, OLD.fence)
    const oldest = action(0)
    await processor.process(oldest, '0')
    for (let epoch = 1; epoch <= 1_000; epoch += 1) await processor.process(action(epoch), 'x')
    expect(await codeOf(processor.process(oldest, 'x'))).toBe('STALE_EPOCH')
  })
})

describe('marks without their tables', () => {
  it('say what to do', async () => {
    const message = 'the database has no tables for the marks of workflows; create them with init()'
    const Driver = await loadDriver()
    const database = new Driver(':memory:')
    const sqlite = new ActionGuard({ marks: new SqliteMarks(database, 'compute') })
    await expect(sqlite.process(action(0), () => 0)).rejects.toThrow(message)
    expect(database.inTransaction).toBe(false)
    database.close()
    await using place = await freshDatabase()
    const pool = new pg.Pool({ connectionString: place.url })
    // The database is dropped under connections that are still on their way out.
    pool.on('error', () => undefined)
    const postgres = new ActionGuard({ marks: new PostgresMarks(pool, 'compute') })
    await expect(postgres.process(action(0), () => 0)).rejects.toThrow(message)
    await pool.end()
  })
})

describe('marks in PostgreSQL and Redis', () => {
  it.each(['postgres', 'redis'] as const)('in %s let processes compete', async (name) => {
    const own = await STAGES[name]()
    const processors = Array.from({ length: 4 }, () => own.newProcessor())
    for (const processor of processors) processor.setLease(OLD.leaseId, OLD.fence)
    const actions = Array.from({ length: 10 }, (_, epoch) => action(epoch))
    for (const one of actions) {
      const codes = await Promise.all(
        processors.map((processor) => codeOf(processor.process(one, String(one.epoch)))),
      )
      expect(codes.filter((code) => code === 'done')).toHaveLength(1)
    }
    expect(await own.values()).toEqual(actions.map(({ epoch }) => String(epoch)))
    await own.close()
  })
})
