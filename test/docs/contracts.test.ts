/** docs/contracts.md names tests that exist, and every id, name and error of the four designs. */
import fs from 'node:fs'
import { describe, expect, it } from 'vitest'

const ROOT = new URL('../../', import.meta.url)
const PAGE = fs.readFileSync(new URL('docs/contracts.md', ROOT), 'utf8')

/** Each row's last cell: a file of tests, and the name of one of them. */
const NAMED = [...PAGE.matchAll(/`(test\/[^`]+)`: (.+?) \|$/gm)].map(
  ([, file = '', title = '']) => {
    return [file, title] as const
  },
)

const IDS: readonly string[] = [
  ...['INV-0101', 'INV-0102', 'CTR-0101', 'CTR-0102', 'CTR-0201', 'CTR-0202'],
  ...['INV-0301', 'INV-0302', 'INV-0303', 'INV-0304', 'INV-0305'],
  ...['CTR-0301', 'CTR-0302', 'CTR-0303', 'CTR-0304', 'CTR-0305'],
  ...['INV-0401', 'INV-0402', 'CTR-0401', 'CTR-0402', 'CTR-0403'],
  ...['INV-0501', 'INV-0502', 'INV-0503', 'CTR-0501', 'CTR-0502', 'CTR-0503', 'CTR-0504'],
  ...['CTR-0505', 'CTR-0601', 'CTR-0602'],
]

/** Names and errors of the designs; each must be in the first cell of a row. */
const NAMES: readonly string[] = [
  ...['lease_id', 'epoch', 'ModelAction', 'emit_action', 'set_lease', 'validate_action'],
  ...['handle_epoch_conflict', 'handoff_lease', 'LEASE_TRANSFER', 'ModelLeaseMetadata'],
  ...[
    'is_expired',
    'remaining_ttl',
    'renew_lease',
    'revoke_lease',
    'LEASE_REVOKED',
    'event_bus.receive',
  ],
  ...['LEASE_VIOLATION', 'STALE_EPOCH', 'FUTURE_EPOCH', 'LEASE_EXPIRED', 'LEASE_NOT_FOUND'],
  ...['poll:lease:{sessionID}', 'poll:node:{instanceID}', 'InstanceID', 'LeaseManager', 'Start'],
  ...['Stop', 'TryAcquire', 'Release', 'IsOwned', 'OwnedSessions', 'GetLiveNodes'],
  ...['PreferredOwner', 'LeaseState', 'LeaseStateUncertain', 'LeaseInfo', 'RendezvousHasher'],
  ...['LeaseStatus', 'acquire_lease', 'release_lease', 'get_lease', 'get_file_leases'],
  ...['get_agent_leases', 'get_all_leases', 'is_file_locked', 'has_agent_lease'],
  ...['cleanup_expired_leases', 'force_release_agent_leases', 'leases', 'lease_history'],
  ...['lease_configs', 'migrations', 'idx_leases_expires_at', 'default_ttl_seconds'],
  ...['max_renewals', 'acquisition_timeout_ms', 'cleanup_interval_seconds'],
  ...['auto_expire_enabled', 'blocking_mode_enabled', 'keep_history', 'history_retention_days'],
  ...['WorkAlreadyLeased', 'LeaseNotFound', 'LeaseAlreadyTerminal', 'LeaseExpired'],
  ...['InvalidReleaseReason', 'InvalidLeaseState', 'InvalidSignature', 'MissingSignature'],
  ...['RenewalDoesNotExtend', 'DecodeError', 'LeaseAlreadyExists', 'Unauthorized'],
  ...['InvalidExpiration', 'InvalidInput', 'summary', 'HtfTick', 'lease_conflict_payload'],
  ...['EventRecord::new', 'issued_at', 'registrar_signature', 'lease_issued_payload'],
]

const FIRST_CELLS = [...PAGE.matchAll(/^\| (.+?) \|/gm)].map(([, cell = '']) => cell)

describe('docs/contracts.md', () => {
  it.each(NAMES)('tells of %s', (name) => {
    const isNamed = (cell: string): boolean => {
      return cell.split(/[`, ]+/).some((word) => word.replace(/:$/, '') === name)
    }
    expect(FIRST_CELLS.some(isNamed)).toBe(true)
  })

  it('names every id of the registrar once in its table', () => {
    const told = [...PAGE.matchAll(/^\| ((?:INV|CTR)-\d{4}) \|/gm)].map(([, id]) => id)
    expect(new Set(told)).toEqual(new Set(IDS))
  })

  it('names many tests', () => {
    expect(NAMED.length).toBeGreaterThan(150)
  })

  it.each(NAMED)('%s has the test: %s', (file, title) => {
    const text = fs.readFileSync(new URL(file, ROOT), 'utf8').replaceAll(/\s+/g, ' ')
    const quoted = [`'${title}'`, `"${title}"`, `\`${title}\``]
    expect(quoted.some((name) => text.includes(`(${name}`) || text.includes(`( ${name}`))).toBe(
      true,
    )
  })
})
