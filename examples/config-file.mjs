/** Many may read a file at once, one may change it while nobody reads: docs/recipes/config-file.md */
import fs from 'node:fs/promises'
import path from 'node:path'
import { openTenure } from 'tenure'

const store = process.argv[2] ?? process.env.TENURE_STORE ?? 'sqlite:leases.db'
const tenure = await openTenure(store, { holder: `app-${process.pid}` })
const file = path.resolve('config.json')
const options = { waitMs: 30_000 }

function read() {
  return tenure.withLease(`file:${file}`, { ...options, mode: 'shared' }, async () =>
    JSON.parse(await fs.readFile(file, 'utf8')),
  )
}

/** The lease is exclusive from the read to the write, so that no change is lost. */
function change(edit) {
  return tenure.withLease(`file:${file}`, options, async (lease) => {
    const config = edit(JSON.parse(await fs.readFile(file, 'utf8')))
    lease.signal.throwIfAborted()
    await fs.writeFile(`${file}.new`, JSON.stringify(config))
    await fs.rename(`${file}.new`, file)
  })
}

await fs.writeFile(file, JSON.stringify({ workers: 0 }))
const more = () => change(({ workers }) => ({ workers: workers + 1 }))
await Promise.all([more(), read(), more(), read(), more()])
console.log(`workers: ${(await read()).workers}`)
await tenure.close()
