/** `tenure/fleet`: instances that share sessions. What is not named here is not promised. */
export { runFleet } from './fleet/fleet-runner.ts'
export type {
  Fleet,
  FleetEvents,
  FleetOptions,
  LeaseInfo,
  LeaseManager,
  LeaseState,
  LossReason,
  PollContext,
  PollFunction,
  RunnerEvents,
  SessionSource,
} from './fleet/contract.ts'
export type { FleetNode } from './fleet/fleet-layout.ts'
export type { LayoutName, LeaseManagerOptions } from './fleet/fleet-options.ts'
export { assignOwners, preferredOwner, type RankedNode } from './fleet/assignment.ts'
export { openLeaseManager, type OpenManagerOptions } from './open-fleet.ts'
