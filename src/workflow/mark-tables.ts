/**
 * The tables in which processors keep their marks beside their effects, the same on SQLite and PostgreSQL: one row for
 * each workflow, and one for each of the last actions.
 */
import { LeaseError } from '../core/errors.ts'
import type { WorkflowMark } from './action-decision.ts'

export const SQLITE_ACTION_TABLES: string = `CREATE TABLE IF NOT EXISTS tenure_workflow_marks (
  processor TEXT NOT NULL,
  workflow_id TEXT NOT NULL,
  lease_id TEXT NOT NULL,
  fence INTEGER NOT NULL,
  revoked INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  PRIMARY KEY (processor, workflow_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tenure_workflow_actions (
  processor TEXT NOT NULL,
  workflow_id TEXT NOT NULL,
  action_id TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  PRIMARY KEY (processor, workflow_id, action_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tenure_workflow_actions_epoch
  ON tenure_workflow_actions (processor, workflow_id, epoch)`

export const POSTGRES_ACTION_TABLES: string = `CREATE TABLE IF NOT EXISTS tenure_workflow_marks (
  processor text NOT NULL,
  workflow_id text NOT NULL,
  lease_id text NOT NULL,
  fence bigint NOT NULL,
  revoked integer NOT NULL,
  epoch bigint NOT NULL,
  PRIMARY KEY (processor, workflow_id)
);
CREATE TABLE IF NOT EXISTS tenure_workflow_actions (
  processor text NOT NULL,
  workflow_id text NOT NULL,
  action_id text NOT NULL,
  epoch bigint NOT NULL,
  PRIMARY KEY (processor, workflow_id, action_id)
);
CREATE INDEX IF NOT EXISTS tenure_workflow_actions_epoch
  ON tenure_workflow_actions (processor, workflow_id, epoch)`

export interface WorkflowMarkRow {
  readonly lease_id: string
  readonly fence: number | bigint | string
  readonly revoked: number | bigint
  readonly epoch: number | bigint | string
}

export function workflowMarkOf(row: WorkflowMarkRow | undefined): WorkflowMark | null {
  if (row === undefined) return null
  const { lease_id: leaseId, fence, revoked, epoch } = row
  return { leaseId, fence: Number(fence), revoked: Number(revoked) === 1, epoch: Number(epoch) }
}

/** Says what to do when the tables are not there; any other error is passed on as it is. */
export function tablesError(cause: unknown): unknown {
  const text = cause instanceof Error ? cause.message : ''
  if (!/(no such table|does not exist)/.test(text) || !text.includes('tenure_workflow_'))
    return cause
  const message = 'the database has no tables for the marks of workflows; create them with init()'
  return new LeaseError('STORE_SCHEMA', message, { cause })
}
