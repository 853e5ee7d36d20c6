/**
 * How many actions an orchestrator can send with durable epochs, on SQLite, with so many in flight. Besides the time of
 * the clock, which includes the disk's and that of whoever else uses the machine, the processor's own time is measured.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { openTenure } from '../../src/open.ts'
import { claimWorkflow, type Action, type Bus } from '../../src/workflow/index.ts'

/** Takes actions and does nothing with them: what is measured is the orchestrator and the store. */
class NullBus implements Bus {
  count = 0

  async publish(actions: readonly Action[]): Promise<void> {
    this.count += actions.length
  }

  async announce(): Promise<void> {}

  async subscribe(): Promise<never> {
    throw new Error('nobody listens')
  }
}

export interface EmissionSpeed {
  /** By the clock. */
  readonly perSecond: number
  /** By this process's own time: what a disk that answers at once would allow. */
  readonly perCpuSecond: number
  readonly emitted: number
  /** The epoch in the store when all is done. */
  readonly epoch: number
  readonly commits: number
}

export async function measureEmissions(total: number, inFlight: number): Promise<EmissionSpeed> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-emissions-'))
  const url = `sqlite:${path.join(directory, 'leases.db')}`
  const tenure = await openTenure(url, { holder: 'orchestrator', synchronous: 'full' })
  try {
    const bus = new NullBus()
    const orchestrator = await claimWorkflow(tenure, 'order-991', { bus })
    const target = { target: 'compute' }
    const lane = async (): Promise<void> => {
      for (let n = 0; n < total / inFlight; n += 1) {
        await orchestrator.emit('VALIDATE_DATA', { n }, target)
      }
    }
    const [startMs, startCpu] = [performance.now(), process.cpuUsage()]
    await Promise.all(Array.from({ length: inFlight }, lane))
    const elapsedMs = performance.now() - startMs
    const { user, system } = process.cpuUsage(startCpu)
    const lease = await tenure.get(orchestrator.leaseId)
    const events = await tenure.history({ types: ['lease.advanced'], limit: 10_000 })
    return {
      perSecond: (bus.count / elapsedMs) * 1000,
      perCpuSecond: (bus.count / (user + system)) * 1_000_000,
      emitted: bus.count,
      epoch: lease?.epoch ?? -1,
      commits: events.length,
    }
  } finally {
    await tenure.close()
    fs.rmSync(directory, { recursive: true, force: true })
  }
}
