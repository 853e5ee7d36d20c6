import pg from 'pg'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { ACTIONS_REMEMBERED } from '../../src/workflow/action-marks.ts'
import { ActionGuard, PostgresMarks, SqliteMarks } from '../../src/workflow/index.ts'
import { freshDatabase } from '../servers/shared-servers.ts'
import { action, codeOf, DURABLE_STAGES, NEW, OLD, type DurableStage } from './mark-stages.ts'

let stage: DurableStage

describe.each(Object.keys(DURABLE_STAGES) as (keyof typeof DURABLE_STAGES)[])(
  'marks in %s',
  (name) => {
    beforeAll(async () => {
      stage = await DURABLE_STAGES[name]()
      return () => stage.close()
    })

    beforeEach(() => stage.clear())

    it('validates by what it has carried out itself', async () => {
      const processor = stage.newProcessor()
      await processor.setLease(OLD.leaseId, OLD.fence)
      const first = action(0)
      expect(processor.validate(first)).toBe(true)
      await processor.process(first, 'a')
      expect(() => processor.validate(first)).toThrow('was carried out already')
      expect(() => processor.validate(action(0))).toThrow('epoch must be above 0, got 0')
      expect(processor.validate(action(1, { previousEpoch: 0 }))).toBe(true)
    })

    it('runs an effect once for an action that comes several times at once', async () => {
      const processor = stage.newProcessor()
      await processor.setLease(OLD.leaseId, OLD.fence)
      const one = action(0)
      const calls = await Promise.allSettled([1, 2, 3].map((n) => processor.process(one, `${n}`)))
      expect(calls.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
      expect(processor.runs()).toBe(1)
    })

    it('know a lease after a restart without anybody who can be asked', async () => {
      const before = stage.newProcessor()
      await before.setLease(OLD.leaseId, OLD.fence)
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
      await before.setLease(NEW.leaseId, NEW.fence)
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
      await processor.setLease(OLD.leaseId, OLD.fence)
      const one = action(0)
      await expect(processor.process(one, 'half', true)).rejects.toThrow('no')
      expect(await stage.values()).toEqual([])
      expect(await processor.process(one, 'whole')).toBe('whole')
      expect(await stage.values()).toEqual(['whole'])
    })

    it('are one for all processors of a name: each action is carried out once', async () => {
      const processors = [stage.newProcessor(), stage.newProcessor()]
      const one = action(0)
      for (const processor of processors) await processor.setLease(OLD.leaseId, OLD.fence)
      const results = []
      for (const processor of processors) results.push(await codeOf(processor.process(one, 'once')))
      expect(results).toEqual(['done', 'DUPLICATE_ACTION'])
      expect(await stage.values()).toEqual(['once'])
    })

    it('remember who was announced and who was revoked', async () => {
      const before = stage.newProcessor()
      await before.setLease(OLD.leaseId, OLD.fence)
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
      await processor.setLease(OLD.leaseId, OLD.fence)
      const oldest = action(0)
      await processor.process(oldest, '0')
      await stage.remember(ACTIONS_REMEMBERED - 1)
      expect(await codeOf(processor.process(oldest, 'x'))).toBe('DUPLICATE_ACTION')
      await processor.process(action(ACTIONS_REMEMBERED), 'x')
      expect(await codeOf(processor.process(oldest, 'x'))).toBe('STALE_EPOCH')
      // Not even for an operator: nobody remembers whether it was.
      expect(await codeOf(processor.processAgain(oldest, 'x'))).toBe('STALE_EPOCH')
    })
  },
)

describe('marks without their tables', () => {
  it('say what to do', async () => {
    const message = 'the database has no tables for the marks of workflows; create them with init()'
    const Driver = await loadSqlite()
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
    const own = await DURABLE_STAGES[name]()
    const processors = Array.from({ length: 4 }, () => own.newProcessor())
    for (const processor of processors) await processor.setLease(OLD.leaseId, OLD.fence)
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
