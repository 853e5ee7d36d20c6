/**
 * One of several orchestrators of one workflow: claims it, emits as long as it holds it, and claims it again. It may be
 * killed or stopped at any moment. What it had in hand when it was stopped it sends when it goes on, as a real program
 * would: it has looked at its lease already.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { isLeaseError, openTenure } from '../../src/index.ts'
import {
  claimWorkflow,
  formatAction,
  type Action,
  type Bus,
  type Orchestrator,
} from '../../src/workflow/index.ts'
import { IN_FLIGHT, TTL_MS, WORKFLOW, type WorkerMessage, type WorkerOrder } from './takeovers.ts'

const [store = '', holder = ''] = process.argv.slice(2)
let isToStop = false
process.on('message', (order: WorkerOrder) => (isToStop = order === 'stop'))

function tell(message: WorkerMessage): void {
  process.send?.(message)
}

/** It stops itself, so that nothing comes between; who goes on with it (SIGCONT) is up to its parent. */
async function stopInHand(): Promise<void> {
  isToStop = false
  await new Promise((resolve) => process.send?.({ kind: 'in_hand' }, resolve))
  process.kill(process.pid, 'SIGSTOP')
}

/** To the process that started this one. The road takes a while, in which anything may happen. */
class ParentBus implements Bus {
  async publish(actions: readonly Action[]): Promise<void> {
    if (isToStop) await stopInHand()
    await sleep(30)
    for (const action of actions) tell({ kind: 'action', text: formatAction(action) })
  }

  async announce(): Promise<void> {}

  async subscribe(): Promise<never> {
    throw new Error('nobody listens here')
  }
}

async function drive(orchestrator: Orchestrator): Promise<void> {
  const { fence, leaseId } = orchestrator
  tell({ kind: 'claimed', fence, leaseId })
  while (!orchestrator.signal.aborted) {
    const emissions = Array.from({ length: IN_FLIGHT }, (_, n) => {
      return orchestrator.emit('STEP', { holder, n }, { target: 'compute' })
    })
    const failed = (await Promise.allSettled(emissions)).find(({ status }) => status === 'rejected')
    if (failed !== undefined && !isExpected(failed)) throw new Error(JSON.stringify(failed))
  }
}

function isExpected(result: PromiseSettledResult<unknown>): boolean {
  return result.status === 'rejected' && isLeaseError(result.reason)
}

const tenure = await openTenure(store, { holder, claimWindowMs: 500 })
process.on('disconnect', () => process.exit(0))
for (;;) {
  try {
    const bus = new ParentBus()
    await drive(await claimWorkflow(tenure, WORKFLOW, { bus, ttlMs: TTL_MS, waitMs: 10_000 }))
  } catch (error) {
    if (!isLeaseError(error)) throw error
    // On a busy machine a lease this short may be over before its grant has arrived.
    if (!error.retryable && error.code !== 'LEASE_EXPIRED') throw error
  }
}
