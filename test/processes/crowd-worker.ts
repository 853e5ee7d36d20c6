/**
 * A process of one client in which many tasks each hold something of their own and wait, under it, for one and the same
 * resource, which they do not get. Says at the end how many of what they held was lost, how long the event loop stood
 * still at most, and how many bytes the process has read.
 */
import { setMaxListeners } from 'node:events'
import fs from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { isLeaseError, openTenure, type Tenure } from '../../src/index.ts'

const [store = '', resource = '', holder = '', ...numbers] = process.argv.slice(2)
const [tasks = 1, ttlMs = 5_000, forMs = 1_000] = numbers.map(Number)

let waiting = 0
let lost = 0
const refused: string[] = []

async function hold(tenure: Tenure, index: number, signal: AbortSignal): Promise<void> {
  const lease = await tenure.acquire(`own:${holder}-${index}`, { ttlMs, waitMs: 0 })
  lease.on('lost', () => void (lost += 1))
  waiting += 1
  try {
    await lease.acquire(resource, { ttlMs: 60_000, waitMs: 3_600_000, signal })
  } catch (error) {
    if (!isLeaseError(error) || error.code !== 'ABORTED') refused.push(String(error))
  }
}

function bytesRead(): number {
  const [, read = '0'] = /^rchar: (\d+)$/m.exec(fs.readFileSync('/proc/self/io', 'utf8')) ?? []
  return Number(read)
}

const tenure = await openTenure(store, { holder })
const over = new AbortController()
setMaxListeners(0, over.signal)
const all = Array.from({ length: tasks }, (_, index) => hold(tenure, index, over.signal))
const begun = performance.now()
while (waiting < tasks) {
  if (performance.now() - begun > 240_000) throw new Error(`only ${waiting} of ${tasks} hold`)
  await new Promise((resolve) => setTimeout(resolve, 50))
}
// From here on all of them are there: what it costs to keep them is what is asked.
process.stdout.write(`${JSON.stringify({ kind: 'waiting' })}\n`)
await new Promise((resolve) => process.stdin.once('data', resolve))
const delay = monitorEventLoopDelay({ resolution: 10 })
delay.enable()
const before = bytesRead()
await new Promise((resolve) => setTimeout(resolve, forMs))
const report = {
  kind: 'report',
  lost,
  refused: refused.length,
  firstRefusal: refused[0] ?? null,
  longestBlockMs: Math.round(delay.max / 1e6),
  bytesRead: bytesRead() - before,
}
process.stdout.write(`${JSON.stringify(report)}\n`)
over.abort()
await Promise.all(all)
process.exit(0)
