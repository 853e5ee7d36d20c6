/**
 * Opens a store that holds `work:a`, and renews it, releases it and acquires `work:b`, in one commit each. It is killed by
 * itself before the statement with the number that it is given, counted over all that change the file; the last number is
 * printed if it comes to its end.
 */
import { parseResource } from '../../src/core/resource.ts'
import {
  loadSqlite,
  type SqliteDatabase,
  type SqliteStatement,
  type SqliteValue,
} from '../../src/drivers/sqlite-driver.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

const [file = '', id = '', killAt = ''] = process.argv.slice(2)
let statements = 0
let isCounting = false

const Driver = await loadSqlite()
const made = Driver.prototype as SqliteDatabase
const prepare = Reflect.get(made, 'prepare') as (
  this: SqliteDatabase,
  sql: string,
) => SqliteStatement
made.prepare = function prepareCounted(sql) {
  const statement = prepare.call(this, sql)
  if (!/^\s*(BEGIN|INSERT|UPDATE|DELETE|COMMIT)/.test(sql)) return statement
  const run = statement.run.bind(statement)
  return Object.assign(statement, {
    run: (...values: SqliteValue[]) => {
      if (isCounting) statements += 1
      if (statements === Number(killAt)) process.kill(process.pid, 'SIGKILL')
      return run(...values)
    },
  })
}

const store = await SqliteStore.open({ path: file })
const service = new LeaseService({ store, runtime: systemRuntime })
const holder = 'ada'
isCounting = true
await service.renew({ id, holder })
await service.release({ id, holder, requestId: systemRuntime.uuid() })
const resource = parseResource('work:b')
await service.acquire({ id: systemRuntime.uuid(), resource, holder, session: 's', waitMs: 0 })
isCounting = false
await service.close()
process.stdout.write(String(statements))
