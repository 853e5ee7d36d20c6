/**
 * A process that watches a store and says of each event, a line at a time, what it was and when it heard of it, in
 * microseconds of the host's monotonic clock. It says `watching` once nothing can escape it any more.
 */
import { openTenure } from '../../src/index.ts'
import { nowUs } from './chaos-log.ts'

const [store = '', after = ''] = process.argv.slice(2)

const tenure = await openTenure(store, { holder: 'watcher' })
const from =
  after === '' ? (await tenure.history({ newestFirst: true, limit: 1 }))[0]?.position : after
const events = tenure.watch({ after: from ?? '0' })
process.stdout.write(`${JSON.stringify({ kind: 'watching' })}\n`)
for await (const { position, event } of events) {
  const { type, leaseId } = event
  const line = { kind: 'event', position, type, leaseId, atUs: nowUs() }
  process.stdout.write(`${JSON.stringify(line)}\n`)
}
