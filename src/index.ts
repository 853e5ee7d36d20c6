/** The public face of the library: what is not named here is not promised. */
export { ERROR_CODES, isLeaseError, LeaseError } from './core/errors.ts'
export { importLedger, openApi, openTenure } from './open.ts'
export { FAULT_CHANNEL, onFault } from './runtime/diagnostics.ts'

export type {
  AcquireAllOptions,
  Attempt,
  EpochRange,
  HandleState,
  Lease,
  LeaseEvents,
  LeaseSet,
  ModeChange,
  Receiver,
  Tenure,
  TenureConfig,
  TryAcquireOptions,
} from './client/contract.ts'
export type {
  AcquireOptions,
  AdoptOptions,
  AdvanceOptions,
  SpendOptions,
  DeriveOptions,
  HistoryOptions,
  ListOptions,
  ReasonOptions,
  ReleaseOptions,
  RenewOptions,
  RevokeOptions,
  SettingOptions,
  UpdateOptions,
  UpgradeOptions,
  Wanted,
  WatchOptions,
} from './client/options.ts'
export type { GrantSigner } from './client/grant-signer.ts'
export type { Budget, Dimension } from './core/budget.ts'
export type { Scope, ScopedAct } from './core/scope.ts'
export type { SigningKey } from './registrar/ed25519.ts'
export type { Blocker } from './core/conflict.ts'
export type { ErrorDetails } from './core/error-details.ts'
export type { Effect, ErrorCode, LeaseErrorOf } from './core/errors.ts'
export type { LeaseEvent, LeaseEventType } from './core/event.ts'
export type {
  CycleStep,
  EntryState,
  LeaseId,
  LeaseInfo,
  Metadata,
  ReleaseReason,
  Revoking,
} from './core/lease.ts'
export type { Extent, Mode, Resource } from './core/resource.ts'
export type {
  SettingKey,
  SettingRow,
  SettingScope,
  Settings,
  SettingValue,
} from './core/settings.ts'
export type { ImportedLedger, ImportOptions, OpenOptions } from './open.ts'
export type { Fault } from './runtime/diagnostics.ts'
export type { Runtime, Timer, TimerOptions } from './runtime/runtime.ts'
export type { TickSource } from './runtime/tick-source.ts'
export type { StoreOptions, StoreSource } from './store-address.ts'
export type {
  CleanupResult,
  Inspection,
  LeaseApi,
  LedgerEntry,
  Position,
} from './service/lease-api.ts'
export type { CallTrace } from './service/traced-api.ts'
