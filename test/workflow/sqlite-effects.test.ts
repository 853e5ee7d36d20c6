/** An effect on SQLite counts as carried out only if everything that it wrote stands with its mark. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { ActionGuard, SqliteMarks } from '../../src/workflow/index.ts'
import { action, OLD } from './mark-stages.ts'

describe('an effect on SQLite', () => {
  it.each(['ROLLBACK', 'ROLLBACK; BEGIN'])('that runs %s is not carried out', async (ending) => {
    const Driver = await loadSqlite()
    const database = new Driver(':memory:')
    onTestFinished(() => void database.close())
    database.exec('CREATE TABLE effects (value TEXT)')
    const marks = new SqliteMarks(database, 'compute')
    marks.init()
    const guard = new ActionGuard({ marks })
    await guard.setLease('w', OLD.leaseId, OLD.fence)
    const one = action(0)
    for (let deliveries = 0; deliveries < 2; deliveries += 1) {
      const ended = guard.process(one, (_, { transaction }) => {
        transaction.exec(`INSERT INTO effects VALUES ('undone'); ${ending}`)
      })
      await expect(ended).rejects.toThrow('work must not end the transaction')
    }
    await guard.process(one, (_, { transaction }) => {
      transaction.exec(`INSERT INTO effects VALUES ('done')`)
    })
    expect(database.prepare('SELECT value FROM effects').raw().all()).toEqual([['done']])
  })
})
