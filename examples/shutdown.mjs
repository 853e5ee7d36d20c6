/** On SIGTERM: take no new work, end the waits, finish what runs, release, close: docs/recipes/shutdown.md */
import { setTimeout as sleep } from 'node:timers/promises'
import { isLeaseError, openTenure } from 'tenure'

const store = process.argv[2] ?? process.env.TENURE_STORE ?? 'sqlite:leases.db'
const tenure = await openTenure(store, { holder: `worker-${process.pid}` })
const stopping = new AbortController()
process.once('SIGTERM', () => stopping.abort())
process.once('SIGINT', () => stopping.abort())

async function print(job) {
  try {
    const options = { waitMs: 3_600_000, signal: stopping.signal }
    await tenure.withLease('printer:p1', options, async (lease) => {
      console.log(`${job} began`)
      await sleep(100, null, { signal: lease.signal }) // a lost lease ends it, stopping does not
      console.log(`${job} finished`)
    })
  } catch (error) {
    if (!isLeaseError(error, 'ABORTED')) throw error
    console.log(`${job} was not begun`) // it still waited: put it back where it came from
  }
}

async function worker(name) {
  for (let n = 1; !stopping.signal.aborted; n++) await print(`${name}${n}`)
}

await Promise.all([worker('a'), worker('b')]) // until a signal comes: Ctrl-C
await tenure.close()
console.log('nothing is left')
