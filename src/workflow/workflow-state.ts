/**
 * The state of a workflow as the ledger keeps it: every advance of the epoch notes which state the workflow is in after
 * it, so that the last one tells whoever takes the workflow over, and the ones before it may be forgotten.
 */
import type { Tenure } from '../client/contract.ts'

export const INITIAL_STATE = 'initialized'
const PREFIX = 'state: '

export function stateNote(state: string): string {
  return `${PREFIX}${state}`
}

/** Null when nothing is known: the workflow never advanced, or so long ago that retention has taken the record. */
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
