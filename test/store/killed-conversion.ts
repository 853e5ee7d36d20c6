/** Converts a store of the older layout, and is killed by itself when so many events of it are written. */
import {
  loadSqlite,
  type SqliteDatabase,
  type SqliteStatement,
  type SqliteValue,
} from '../../src/drivers/sqlite-driver.ts'
import { configureConnection } from '../../src/store/sqlite/sqlite-connection.ts'
import { migrate } from '../../src/store/sqlite/sqlite-migrations.ts'
import { ManualTicks } from '../../src/testing/fake-runtime.ts'

const [file = '', count = ''] = process.argv.slice(2)
const Driver = await loadSqlite()
const database = new Driver(file)
configureConnection(database, 'full')
// Small enough that pages of the transaction are in the file's log when it is killed.
database.pragma('cache_size = 10')
let written = 0
const counting: SqliteDatabase = new Proxy(database, {
  get(target, name) {
    if (name === 'prepare') return (sql: string) => counted(target.prepare(sql), sql)
    const value: unknown = Reflect.get(target, name, target)
    return typeof value === 'function' ? (value.bind(target) as unknown) : value
  },
})

function counted(statement: SqliteStatement, sql: string): SqliteStatement {
  if (!sql.startsWith('INSERT INTO lease_history')) return statement
  const run = statement.run.bind(statement)
  return Object.assign(statement, {
    run: (...values: SqliteValue[]) => {
      const result = run(...values)
      written += 1
      if (written === Number(count)) process.kill(process.pid, 'SIGKILL')
      return result
    },
  })
}

migrate(counting, { url: `sqlite:${file}`, wallMs: 0, ticks: new ManualTicks(), isForced: true })
