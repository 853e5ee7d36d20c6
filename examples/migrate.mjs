/** Several instances start at once, one migrates, the others wait until it has: docs/recipes/migration.md */
import fs from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { openTenure } from 'tenure'

const store = process.argv[2] ?? process.env.TENURE_STORE ?? 'sqlite:leases.db'
const instance = process.argv[3] ?? `app-${process.pid}`
const tenure = await openTenure(store, { holder: instance })
const MIGRATIONS = ['create orders', 'add a column']

/** Which were applied. In a real application this is a table of the database that is migrated. */
const applied = () => (fs.existsSync('schema') ? fs.readFileSync('schema', 'utf8').split('\n') : [])

// As long as the longest migration may take; an instance that cannot start should say so and end.
const options = { waitMs: 600_000, reason: 'migration at start' }
await tenure.withLease('migration:app', options, async (lease) => {
  const missing = MIGRATIONS.slice(applied().length) // looked up under the lease, not before it
  for (const migration of missing) {
    await sleep(50)
    lease.signal.throwIfAborted()
    fs.writeFileSync('schema', [...applied(), migration].join('\n'))
    console.log(`${instance}: ${migration}`)
  }
})
console.log(`${instance} starts with ${applied().length} migrations`)
await tenure.close()
