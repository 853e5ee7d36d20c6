/** `tenure/files`: file leases by agent and path. */
export { FileLeases, type FileLeasesOptions } from './file-leases.ts'
export type { FileLease, FileLeaseStatus, LeaseHolder } from './file-lease.ts'
export type {
  FileLeasePage,
  ForceReleaseOptions,
  LeaseAcquisitionRequest,
  LeaseAcquisitionResponse,
  LeaseReleaseRequest,
  LeaseReleaseResponse,
  LeaseRenewalRequest,
  LeaseRenewalResponse,
  LookUpOptions,
  Refused,
} from './requests.ts'
