/** Leases and tickets in words. */
import { holderMetadata, type EntryState, type LeaseInfo } from '../core/lease.ts'
import { formatSpan } from './duration.ts'
import {
  clockTime,
  cut,
  formatTable,
  relativeTime,
  type Cell,
  type Colour,
  type Column,
  type Paint,
} from './output.ts'

const STATE_COLOURS: Readonly<Record<EntryState, Colour>> = {
  active: 'green',
  pending: 'yellow',
  released: 'dim',
  expired: 'red',
  revoked: 'red',
  failed: 'red',
}

const REASON_WIDTH_MAX = 40

const LEASE_COLUMNS: readonly Column[] = [
  'RESOURCE',
  'HOLDER',
  'MODE',
  'STATE',
  { title: 'FENCE', align: 'right' },
  'SINCE',
  'ENDS',
  { title: 'RENEWALS', align: 'right' },
  'REASON',
  'ID',
]

export function leaseTable(leases: readonly LeaseInfo[], nowMs: number, paint: Paint): string {
  const rows = leases.map((lease): readonly Cell[] => [
    { text: lease.resource, colour: 'bold' },
    lease.holder,
    sharingWords(lease),
    { text: [lease.state, ...underWay(lease)].join(', '), colour: STATE_COLOURS[lease.state] },
    lease.fence === null ? '-' : String(lease.fence),
    relativeTime(lease.grantedAtMs ?? lease.createdAtMs, nowMs),
    endOf(lease, nowMs),
    String(lease.renewals),
    cut(noteWords(lease) ?? '-', REASON_WIDTH_MAX),
    { text: lease.id, colour: 'dim' },
  ])
  return formatTable(LEASE_COLUMNS, rows, paint)
}

/** The holder's own words: its reason, and what it said beside it, such as how far it has come. */
export function noteWords(lease: Pick<LeaseInfo, 'reason' | 'metadata'>): string | null {
  const metadata = holderMetadata(lease.metadata)
  const words = [lease.reason, metadata === null ? null : JSON.stringify(metadata)]
  const given = words.filter((word) => word !== null)
  return given.length === 0 ? null : given.join(' ')
}

/** `exclusive`, `shared`, `shared, subtree`, `shared by up to 3`. */
export function sharingWords({ mode, extent, slots }: Sharing): string {
  const words = slots === null || mode === 'exclusive' ? mode : `${mode} by up to ${slots}`
  return extent === 'subtree' ? `${words}, subtree` : words
}

/** `ann`, or `ann (token ci)` for what was asked for through a server with tokens. */
export function holderWords({
  holder,
  tokenName,
}: Pick<LeaseInfo, 'holder' | 'tokenName'>): string {
  return tokenName === undefined ? holder : `${holder} (token ${tokenName})`
}

export type Sharing = Pick<LeaseInfo, 'mode' | 'extent' | 'slots'>

/** What is about to happen to a live lease. */
function underWay({ state, revoking, upgrading, adopted }: LeaseInfo): readonly string[] {
  if (state !== 'active') return []
  return [
    ...(revoking === null ? [] : ['revoking']),
    ...(upgrading ? ['upgrading'] : []),
    ...(adopted ? [] : ['not adopted']),
  ]
}

/** Of a running lease what the deciding clock says, not what the wall clock would make of it. */
function endOf(lease: LeaseInfo, nowMs: number): string {
  if (lease.state === 'active') return `in ${formatSpan(lease.remainingMs)}`
  return lease.terminatedAtMs === null ? '-' : relativeTime(lease.terminatedAtMs, nowMs)
}

/** Who asked the holder to finish, and why; null while none has, or when it is over. */
export function revokingWords({ state, revoking }: LeaseInfo): string | null {
  if (state !== 'active' || revoking === null) return null
  return `to finish by ${revoking.by}${revoking.reason === null ? '' : `: ${revoking.reason}`}`
}

/** Of a lease that was transferred and that its holder may not know of; null for any other. */
export function adoptionWords({ adopted, holder }: LeaseInfo): string | null {
  return adopted ? null : `not yet: it was transferred to ${holder}`
}

export function expiryWords({ remainingMs, expiresAtMs }: LeaseInfo): string {
  const wall = expiresAtMs === null ? '' : ` (${clockTime(expiresAtMs)})`
  return `in ${formatSpan(remainingMs)}${wall}`
}
