/** `tenure/workflow`: one orchestrator drives a workflow; processors refuse the actions of all others. */
export { ActionGuard } from './action-guard.ts'
export { MemoryMarks } from './action-marks.ts'
export { claimWorkflow } from './orchestrator.ts'
export { createAction } from './wire/action-json.ts'
export { currentLease, grantedLease } from './lease-look-up.ts'
export { LocalBus } from './local-bus.ts'
export { POSTGRES_ACTION_TABLES, SQLITE_ACTION_TABLES } from './mark-tables.ts'
export { PostgresMarks } from './postgres-marks.ts'
export { RedisBus } from './redis-bus.ts'
export { RedisMarks } from './redis-marks.ts'
export { relayRevocations } from './revocations.ts'
export { SqliteMarks } from './sqlite-marks.ts'
export { formatAction, parseAction } from './wire/action-json.ts'

export type { Action, IncomingAction } from './action.ts'
export type {
  ActionEffect,
  ActionGuardOptions,
  LeaseLookUp,
  ProcessOptions,
  SetLeaseOptions,
} from './action-guard.ts'
export type { ActionMarks, ActionRef, MarkDecision as Verdict } from './action-marks.ts'
export type { Bus, DeadLetter, Delivery, Listener, Subscription } from './bus.ts'
export type { ClaimOptions } from './orchestrator.ts'
export type { NewAction } from './wire/action-json.ts'
export type { Known, LeaseFact, Strictness, WorkflowMark } from './action-decision.ts'
export type { GrantedLeaseOptions } from './lease-look-up.ts'
export type { LocalBusOptions } from './local-bus.ts'
export type { EmitOptions, Handoff, Orchestrator } from './orchestrator.ts'
export type { RedisBusClient, RedisBusOptions } from './redis-bus.ts'
export type { RedisEffects, RedisMarksOptions } from './redis-marks.ts'
export type { RelayOptions } from './revocations.ts'
export type { SqliteMarksOptions } from './sqlite-marks.ts'
export type { Revocation } from './wire/action-json.ts'
