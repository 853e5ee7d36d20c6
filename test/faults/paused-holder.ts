/**
 * A holder that is stopped at the worst moment: after it has seen that it holds the lease, and before it writes. It
 * stops itself, so that nothing comes between; who goes on with it (SIGCONT) is up to the test. It prints what became
 * of its write.
 */
import { openTenure } from '../../src/index.ts'
import { FencedFiles } from '../processes/fenced-files.ts'

export interface PausedHolderReport {
  readonly fence: number
  readonly stateBefore: string
  readonly accepted: boolean
  readonly stateAfter: string
  readonly signalAborted: boolean
}

const [store = '', writes = '', resource = '', ttlMs = ''] = process.argv.slice(2)
const files = await FencedFiles.open(writes)
const tenure = await openTenure(store, { holder: 'paused' })
const lease = await tenure.acquire(resource, { ttlMs: Number(ttlMs) })
const { fence, state: stateBefore } = lease
process.kill(process.pid, 'SIGSTOP')
const accepted = files.write(resource, fence)
const { state: stateAfter, signal } = lease
const signalAborted = signal.aborted
const report = { fence, stateBefore, accepted, stateAfter, signalAborted }
process.stdout.write(JSON.stringify(report satisfies PausedHolderReport))
await tenure.close()
files.close()
