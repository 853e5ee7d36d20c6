/**
 * The check of a fence inside one's own write: a database and a file refuse a holder that a later one has passed, with
 * one line each. Neither asks the store of the leases for anything.
 *
 * Run it with `node examples/guarded-writes.mjs` (after `npm run build`).
 */
import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { openTenure } from 'tenure'
import { guard } from 'tenure/guard'

const directory = realpathSync(mkdtempSync(join(tmpdir(), 'tenure-example-')))
const file = join(directory, 'report.txt')
const database = new Database(join(directory, 'app.db'))
database.exec(`CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT);
               INSERT INTO orders VALUES ('991', 'new')`)

const orders = guard.sqlite(database)
const files = guard.file(database)
orders.init() // or once, when it is deployed: tenure guard init sqlite:app.db

const setState = (lease, state) => {
  orders.write(lease, (db) => db.prepare(`UPDATE orders SET state = ?`).run(state))
}
const attempt = (write) => {
  try {
    write()
    return 'written'
  } catch (error) {
    return `${error.code}, nothing written`
  }
}

// A client is a process's: these two stand for two processes, in one program so that it is short.
const slow = await openTenure('memory:shop', { holder: 'slow' })
const quick = await openTenure('memory:shop', { holder: 'quick' })

const first = await slow.acquire('order:991', { ttlMs: 30_000 })
console.log(`slow sets the state: ${attempt(() => setState(first, 'paid'))}`)

// Somebody thinks that slow is stuck, and takes the order away from it; slow does not know that yet.
await quick.revoke(first.id, { reason: 'stuck' })
const second = await quick.acquire('order:991')
console.log(`quick sets the state: ${attempt(() => setState(second, 'shipped'))}`)
console.log(`slow sets the state again: ${attempt(() => setState(first, 'cancelled'))}`)
console.log(`the order is ${database.prepare('SELECT state FROM orders').get().state}`)

console.log(
  `quick writes the report: ${attempt(() => files.write(second, 'shipped\n', { path: file }))}`,
)
console.log(
  `slow writes the report: ${attempt(() => files.write(first, 'paid\n', { path: file }))}`,
)
console.log(`the report says ${readFileSync(file, 'utf8').trim()}`)

await Promise.all([slow.close(), quick.close()])
database.close()
rmSync(directory, { recursive: true })
