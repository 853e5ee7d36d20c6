/**
 * The state of a workflow in the ledger: every advance of the epoch records the state after it, so that the next
 * orchestrator needs only the last one.
 */
import type { Tenure } from '../client/contract.ts'

export const INITIAL_STATE = 'initialized'
const PREFIX = 'state: '

export function stateNote(state: string): string {
  return `${PREFIX}${state}`
}

/** Null when the workflow never advanced, or retention has removed the record. */
export async function lastState(
  tenure: Pick<Tenure, 'history'>,
  workflowId: string,
): Promise<string | null> {
  const resource = `workflow:${workflowId}`
  const types = ['lease.advanced'] as const
  const [last] = await tenure.history({ resource, types, newestFirst: true, limit: 1 })
  const note = last?.event.reason ?? null
  return note?.startsWith(PREFIX) === true ? note.slice(PREFIX.length) : null
}
