/**
 * The state of a workflow in the ledger: every advance of the epoch records the state after it, so that the next
 * orchestrator needs only the last one.
 */
import type { Lease, Tenure } from '../client/contract.ts'
import { LeaseError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import { pause } from '../runtime/pause.ts'
import type { Runtime } from '../runtime/runtime.ts'

export const INITIAL_STATE = 'initialized'
const PREFIX = 'state: '
const WAIT_MS_MAX = 10_000
const PAUSE_MS = 50

export function stateNote(state: string): string {
  return `${PREFIX}${state}`
}

/** The lease of the orchestrator that takes the workflow over. */
type ClaimedLease = Pick<Lease, 'id' | 'resource' | 'epoch' | 'remainingMs'>

/**
 * Null when the workflow never advanced, or retention has removed the record.
 *
 * A ledger may tell of a commit after others that came later: that of PostgreSQL ends before the oldest commit that is
 * under way, whatever that is about. So a record that is not of the last epoch counts as the last one only when the ledger
 * tells of the lease itself, which was granted after it. Throws `STORE_UNAVAILABLE` when that takes too long.
 */
export async function lastState(
  tenure: Pick<Tenure, 'history' | 'config'>,
  lease: ClaimedLease,
  runtime: Runtime,
): Promise<string | null> {
  const { resource, epoch } = lease
  const question = { resource, types: ['lease.advanced'], newestFirst: true, limit: 1 } as const
  const untilMs = runtime.monotonicMs() + Math.min(WAIT_MS_MAX, lease.remainingMs / 2)
  for (let isComplete = false; ;) {
    const [last] = await tenure.history(question)
    if (isComplete || epochAfter(last?.event) === epoch) return stateIn(last?.event)
    isComplete = await isToldOf(tenure, lease)
    if (isComplete) continue
    if (runtime.monotonicMs() >= untilMs) throw unreadable(resource)
    await pause(runtime, PAUSE_MS, { keepAlive: true })
  }
}

function epochAfter(event: LeaseEvent | undefined): number | null {
  return event?.type === 'lease.advanced' ? event.to : null
}

function stateIn(event: LeaseEvent | undefined): string | null {
  const note = event?.reason ?? null
  return note?.startsWith(PREFIX) === true ? note.slice(PREFIX.length) : null
}

/** Whether the ledger tells of the grant of the lease, or never will. */
async function isToldOf(
  tenure: Pick<Tenure, 'history' | 'config'>,
  { id, resource }: ClaimedLease,
): Promise<boolean> {
  const granted = await tenure.history({ leaseId: id, types: ['lease.issued'], limit: 1 })
  return granted.length > 0 || !(await tenure.config.all(resource)).keep_history
}

function unreadable(resource: string): LeaseError {
  const message = `the last state of ${resource} cannot be read yet: an older commit is under way`
  return new LeaseError('STORE_UNAVAILABLE', message, { details: { resource } })
}
