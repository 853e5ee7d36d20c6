/** `tenure/files`: file leases by agent and path. */
export { FileLeases, type FileLeasesOptions } from './file-leases.ts'
export type { FileLease, FileLeaseStatus, LeaseHolder } from './file-lease.ts'
export type {
  FileLeasePage,
  ForceReleaseOptions,
  LeaseAcquisitionRequest,
  LeaseAcquisitionResponse,
  LeaseDowngradeRequest,
  LeaseDowngradeResponse,
  LeaseReleaseRequest,
  LeaseReleaseResponse,
  LeaseRenewalRequest,
  LeaseRenewalResponse,
  LeaseTransferRequest,
  LeaseTransferResponse,
  LeaseUpgradeRequest,
  LeaseUpgradeResponse,
  LookUpOptions,
  Patience,
  Refused,
} from './requests.ts'
