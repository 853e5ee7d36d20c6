/** Processors on every kind of marks, whose effect is a value beside the mark, for what holds for all of them. */
import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import pg from 'pg'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import { readAction, type Action } from '../../src/workflow/action.ts'
import {
  ActionGuard,
  MemoryMarks,
  PostgresMarks,
  RedisMarks,
  SqliteMarks,
  type ActionMarks,
  type LeaseLookUp,
  type ProcessOptions,
  type RedisEffects,
} from '../../src/workflow/index.ts'
import { freshDatabase, freshRedis } from '../servers/shared-servers.ts'

/** A processor whose effect is a value in its database, in the transaction of its mark. */
export interface Processor {
  setLease(leaseId: string, fence: number, epoch?: number): Promise<void>
  revoke(leaseId: string, fence: number): Promise<void>
  process(action: Action, value: string, fail?: boolean): Promise<unknown>
  /** As when an operator sends a dead letter again. */
  processAgain(action: Action, value: string): Promise<unknown>
  /** Runs `inside` in the middle of an effect. */
  processWith(action: Action, inside: () => Promise<unknown>): Promise<unknown>
  validate(action: Action): true
  /** How often an effect has run. */
  runs(): number
}

/** Of processors whose marks outlast them. */
export interface DurableStage extends Stage {
  /** As if so many actions had been carried out, under the epochs from 1 on. */
  remember(count: number): Promise<unknown>
}

export interface Stage {
  /** As after a restart: it knows what is durable and nothing else. */
  newProcessor(lookUp?: LeaseLookUp): Processor
  values(): Promise<readonly string[]>
  /** Everything as at first. */
  clear(): Promise<void>
  close(): Promise<void>
}

const TABLES = ['effects', 'tenure_workflow_marks', 'tenure_workflow_actions']

type Write<Transaction> = (transaction: Transaction, value: string) => unknown

function processorOf<Transaction>(
  marks: ActionMarks<Transaction>,
  write: Write<Transaction>,
  lookUp: LeaseLookUp | undefined,
): Processor {
  const guard = new ActionGuard({
    ...{ strict: true, marks },
    ...(lookUp === undefined ? {} : { lookUp }),
  })
  let runs = 0
  const process = (
    action: Action,
    work: (transaction: Transaction) => Promise<unknown>,
    options?: ProcessOptions,
  ): Promise<unknown> => {
    const effect = (_: unknown, context: { readonly transaction: Transaction }) => {
      runs += 1
      return work(context.transaction)
    }
    return guard.process(action, effect, options)
  }
  return {
    runs: () => runs,
    setLease: (leaseId, fence, epoch) => {
      return guard.setLease('w', leaseId, fence, epoch === undefined ? {} : { epoch })
    },
    revoke: (leaseId, fence) => guard.revoke({ workflowId: 'w', leaseId, fence }),
    validate: (action) => guard.validate(action),
    process: (action, value, fail = false) => {
      return process(action, async (transaction) => {
        await write(transaction, value)
        if (fail) throw new Error('no')
        return value
      })
    },
    processAgain: (action, value) => {
      const work = async (transaction: Transaction): Promise<string> => {
        await write(transaction, value)
        return value
      }
      return process(action, work, { resent: true })
    },
    processWith: (action, inside) => process(action, inside),
  }
}

async function memoryStage(): Promise<Stage> {
  let marks = new MemoryMarks()
  let values: string[] = []
  const write: Write<undefined> = (_, value) => void values.push(value)
  return {
    clear: async () => {
      marks = new MemoryMarks()
      values = []
    },
    newProcessor: (lookUp) => processorOf(marks, write, lookUp),
    values: async () => values,
    close: async () => undefined,
  }
}

async function sqliteStage(): Promise<DurableStage> {
  const Driver = await loadSqlite()
  const database = new Driver(':memory:')
  database.exec('CREATE TABLE effects (value TEXT)')
  new SqliteMarks(database, 'compute').init()
  const write: Write<SqliteDatabase> = async (transaction, value) => {
    await Promise.resolve()
    transaction.prepare('INSERT INTO effects VALUES (?)').run(value)
  }
  return {
    clear: async () => {
      for (const table of TABLES) database.exec(`DELETE FROM ${table}`)
    },
    remember: async (count) => {
      const insert = database.prepare('INSERT INTO tenure_workflow_actions VALUES (?, ?, ?, ?)')
      for (let n = 1; n <= count; n += 1) insert.run('compute', 'w', `action ${n}`, n)
    },
    newProcessor: (lookUp) => processorOf(new SqliteMarks(database, 'compute'), write, lookUp),
    values: async () => {
      const rows = database.prepare('SELECT value FROM effects ORDER BY rowid').raw().all()
      return (rows as [string][]).flat()
    },
    close: async () => void database.close(),
  }
}

async function postgresStage(): Promise<DurableStage> {
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
    clear: async () => void (await pool.query(`TRUNCATE ${TABLES.join(', ')}`)),
    remember: (count) => {
      const rows = `SELECT 'compute', 'w', 'action ' || n, n FROM generate_series(1, $1::int) AS n`
      return pool.query(`INSERT INTO tenure_workflow_actions ${rows}`, [count])
    },
    newProcessor: (lookUp) => processorOf(new PostgresMarks(pool, 'compute'), write, lookUp),
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

async function redisStage(): Promise<DurableStage> {
  const place = await freshRedis()
  const client = new Redis(place.url)
  const write: Write<RedisEffects> = (effects, value) => effects.command('RPUSH', 'effects', value)
  return {
    clear: async () => void (await client.flushdb()),
    remember: (count) => {
      const scores = Array.from({ length: count }, (_, n) => [n + 1, `action ${n + 1}`])
      return client.zadd('tenure:marks:compute:actions:w', ...scores.flat())
    },
    newProcessor: (lookUp) => processorOf(new RedisMarks(client, 'compute'), write, lookUp),
    values: () => client.lrange('effects', 0, -1),
    close: async () => {
      client.disconnect()
      await place.remove()
    },
  }
}

/** Marks that undo an effect which fails, and that outlast a process. */
export const DURABLE_STAGES = {
  sqlite: sqliteStage,
  postgres: postgresStage,
  redis: redisStage,
} as const
export const STAGES = { memory: memoryStage, ...DURABLE_STAGES } as const

export const OLD = { leaseId: randomUUID(), fence: 10 }
export const NEW = { leaseId: randomUUID(), fence: 20 }

export function action(epoch: number, change: Partial<Action> = {}): Action {
  return readAction({
    ...{ actionId: randomUUID(), actionType: 'A', target: 'compute', payload: { n: epoch } },
    ...{ workflowId: 'w', ...OLD, epoch, previousEpoch: null, priority: 5, issuedAtMs: 1 },
    ...change,
  })
}

export async function codeOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => 'done',
    (error: { readonly code?: unknown; readonly message: string }) => error.code ?? error.message,
  )
}
