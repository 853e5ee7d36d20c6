/** An effect on PostgreSQL counts as carried out only if everything that it wrote stands with its mark. */
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { isLeaseError } from '../../src/core/errors.ts'
import { guard as fences } from '../../src/guard/index.ts'
import { ActionGuard, PostgresMarks } from '../../src/workflow/index.ts'
import { freshDatabase, type Place } from '../servers/shared-servers.ts'
import { action, OLD } from './mark-stages.ts'

let place: Place
let pool: pg.Pool
let guard: ActionGuard<pg.PoolClient>

beforeAll(async () => {
  place = await freshDatabase()
  pool = new pg.Pool({ connectionString: place.url, max: 2 })
  // The database is dropped under connections that are still on their way out.
  pool.on('error', () => undefined)
  await new PostgresMarks(pool, 'compute').init()
  await pool.query(`CREATE TABLE effects (id int PRIMARY KEY);
    CREATE TABLE later (id int REFERENCES effects DEFERRABLE INITIALLY DEFERRED)`)
})

afterAll(async () => {
  await pool.end()
  await place.remove()
})

beforeEach(async () => {
  await pool.query('TRUNCATE effects, later, tenure_workflow_marks, tenure_workflow_actions')
  guard = new ActionGuard({ marks: new PostgresMarks(pool, 'compute') })
  await guard.setLease('w', OLD.leaseId, OLD.fence)
})

/** Fails with `failure` each time that it comes, and is carried out when its effect is one that may be. */
async function failsUntilMended(statements: readonly string[], failure: object): Promise<void> {
  const one = action(0)
  for (let deliveries = 0; deliveries < 2; deliveries += 1) {
    const broken = guard.process(one, async (_, { transaction }) => {
      for (const statement of statements) await transaction.query(statement).catch(() => undefined)
    })
    const error: unknown = await broken.catch((reason: unknown) => reason)
    expect(error).toMatchObject(failure)
    expect(isLeaseError(error) && error.retryable).toBe(false)
  }
  await guard.process(one, (_, { transaction }) => {
    return transaction.query('INSERT INTO effects VALUES (1)')
  })
  const { rows } = await pool.query('SELECT id FROM effects')
  expect(rows).toEqual([{ id: 1 }])
}

describe('an effect on PostgreSQL is not carried out', () => {
  it.each([
    ['has rolled back', ['INSERT INTO effects VALUES (2)', 'ROLLBACK']],
    ['has begun another transaction', ['INSERT INTO effects VALUES (2)', 'ROLLBACK', 'BEGIN']],
    ['has rolled back into another', ['INSERT INTO effects VALUES (2)', 'ROLLBACK AND CHAIN']],
  ])('when it %s', async (_, statements) => {
    const message = expect.stringMatching(/^work must not end the transaction/)
    await failsUntilMended(statements, { code: 'INVALID_INPUT', message })
  })

  it('when it goes on after a statement that failed', async () => {
    const message = expect.stringMatching(/^work must not go on after a statement that failed/)
    const statements = ['INSERT INTO effects VALUES (2)', 'SELECT 1 / 0']
    await failsUntilMended(statements, { code: 'INVALID_INPUT', message })
  })

  it('when PostgreSQL finds its error only at the end, which is not the error of a store', async () => {
    await failsUntilMended(['INSERT INTO later VALUES (7)'], { code: '23503' })
  })
})

describe('the tables of marks', () => {
  it('are created once by processors that start at the same moment', async () => {
    const other = await freshDatabase()
    const pools = Array.from({ length: 8 }, () => new pg.Pool({ connectionString: other.url }))
    for (const one of pools) one.on('error', () => undefined)
    await Promise.all(pools.map((one) => new PostgresMarks(one, 'compute').init()))
    await Promise.all(pools.map((one) => fences.postgres(one).init()))
    await Promise.all(pools.map((one) => one.end()))
    await other.remove()
  })
})
