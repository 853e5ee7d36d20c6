/**
 * Why a fence: a writer is stopped while it holds a lease, another takes over, and the first wakes up and writes.
 * The document refuses it, because it remembers the greatest fence that it has seen.
 *
 * Run it with `node examples/fenced-writer.mjs` (after `npm run build`). It takes about two seconds.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { openTenure } from 'tenure'

const TTL_MS = 2_000

/** The check and the write are one statement: nothing can come between them. */
function write(database, body, fence) {
  const update = database.prepare('UPDATE documents SET body = ?, fence = ? WHERE fence <= ?')
  return update.run(body, fence, fence).changes === 1 ? 'written' : 'refused: a later holder wrote'
}

/**
 * In a process of its own: takes the lease, says so, and writes when it is told to. It does not renew: a process that is
 * stopped in the middle of a commit keeps everybody else out of the database.
 */
async function slowWriter(directory) {
  const tenure = await openTenure(`sqlite:${join(directory, 'leases.db')}`, { holder: 'slow' })
  const lease = await tenure.acquire('document:report', { ttlMs: TTL_MS, autoRenew: false })
  process.send({ state: lease.state })
  await once(process, 'message')
  const database = new Database(join(directory, 'documents.db'))
  process.send({ state: lease.state, answer: write(database, 'by slow', lease.fence) })
  database.close()
  await tenure.close()
  process.disconnect()
}

async function main() {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-example-'))
  const database = new Database(join(directory, 'documents.db'))
  database.exec(`CREATE TABLE documents (body TEXT, fence INTEGER);
                 INSERT INTO documents VALUES ('empty', 0)`)
  const slow = fork(fileURLToPath(import.meta.url), [directory])
  const [hello] = await once(slow, 'message')
  console.log(`slow has the lease: ${hello.state}`)
  slow.kill('SIGSTOP')
  console.log('slow is stopped, as by a long pause')

  const tenure = await openTenure(`sqlite:${join(directory, 'leases.db')}`, { holder: 'quick' })
  const lease = await tenure.acquire('document:report', { ttlMs: 30_000, waitMs: 30_000 })
  console.log(`quick waited until it was over: ${write(database, 'by quick', lease.fence)}`)

  slow.kill('SIGCONT')
  slow.send('write')
  const [late] = await once(slow, 'message')
  console.log(`slow wakes up, its lease is ${late.state}, and writes: ${late.answer}`)
  await once(slow, 'exit')
  console.log(`the document is ${database.prepare('SELECT body FROM documents').get().body}`)
  await tenure.close()
  database.close()
  rmSync(directory, { recursive: true })
}

const [, , directory] = process.argv
await (directory === undefined ? main() : slowWriter(directory))
