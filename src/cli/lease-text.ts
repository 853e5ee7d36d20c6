/** Leases, tickets and events in words. */
import type { LeaseEvent, LeaseEventType } from '../core/event.ts'
import type { EntryState, LeaseInfo } from '../core/lease.ts'
import { formatSpan } from './duration.ts'
import {
  clockTime,
  cut,
  formatTable,
  relativeTime,
  visible,
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
  { title: 'RESOURCE' },
  { title: 'HOLDER' },
  { title: 'STATE' },
  { title: 'FENCE', align: 'right' },
  { title: 'SINCE' },
  { title: 'ENDS' },
  { title: 'RENEWALS', align: 'right' },
  { title: 'REASON' },
  { title: 'ID' },
]

export function leaseTable(leases: readonly LeaseInfo[], nowMs: number, paint: Paint): string {
  const rows = leases.map((lease): readonly Cell[] => [
    { text: lease.resource, colour: 'bold' },
    { text: lease.holder },
    { text: lease.state, colour: STATE_COLOURS[lease.state] },
    { text: lease.fence === null ? '-' : String(lease.fence) },
    { text: relativeTime(lease.grantedAtMs ?? lease.createdAtMs, nowMs) },
    { text: endOf(lease, nowMs) },
    { text: String(lease.renewals) },
    { text: cut(lease.reason ?? '-', REASON_WIDTH_MAX) },
    { text: lease.id, colour: 'dim' },
  ])
  return formatTable(LEASE_COLUMNS, rows, paint)
}

/** Of a running lease what the deciding clock says, not what the wall clock would make of it. */
function endOf(lease: LeaseInfo, nowMs: number): string {
  if (lease.state === 'active') return `in ${formatSpan(lease.remainingMs)}`
  return lease.terminatedAtMs === null ? '-' : relativeTime(lease.terminatedAtMs, nowMs)
}

/** Everything about one lease, a line per fact; `title` says what happened to it. */
export function leaseCard(title: string, lease: LeaseInfo, nowMs: number): string {
  const facts: readonly (readonly [string, string | null])[] = [
    ['id', lease.id],
    ['holder', holderAndSession(lease)],
    ['state', stateWords(lease)],
    ['fence', lease.fence === null ? null : String(lease.fence)],
    ['ttl', formatSpan(lease.ttlMs)],
    ['granted', moment(lease.grantedAtMs, nowMs)],
    ['renewed', moment(lease.renewedAtMs, nowMs)],
    ['renewals', renewalWords(lease)],
    ['longest', lease.maxHoldMs === null ? null : formatSpan(lease.maxHoldMs)],
    ['expires', lease.state === 'active' ? expiryWords(lease) : null],
    ['ended', moment(lease.terminatedAtMs, nowMs)],
    ['reason', lease.reason],
    ['metadata', lease.metadata === null ? null : JSON.stringify(lease.metadata)],
  ]
  const lines = facts.flatMap(([name, value]) => {
    return value === null ? [] : [`  ${name.padEnd(8)}  ${visible(value)}`]
  })
  return [visible(title), ...lines].join('\n')
}

function holderAndSession({ holder, session }: LeaseInfo): string {
  return session === holder ? holder : `${holder} (session ${session})`
}

function stateWords({ state, releaseReason }: LeaseInfo): string {
  return releaseReason === null ? state : `${state} (${releaseReason})`
}

function renewalWords({ renewals, maxRenewals, grantedAtMs }: LeaseInfo): string | null {
  if (grantedAtMs === null) return null
  return maxRenewals < 0 ? String(renewals) : `${renewals} of at most ${maxRenewals}`
}

export function expiryWords({ remainingMs, expiresAtMs }: LeaseInfo): string {
  const wall = expiresAtMs === null ? '' : ` (${clockTime(expiresAtMs)})`
  return `in ${formatSpan(remainingMs)}${wall}`
}

function moment(atMs: number | null, nowMs: number): string | null {
  return atMs === null ? null : `${relativeTime(atMs, nowMs)} (${clockTime(atMs)})`
}

/** Events as people speak of them; the ledger's own names are `lease.` and so on. */
export const EVENT_WORDS: Readonly<Record<LeaseEventType, string>> = {
  'lease.issued': 'acquired',
  'lease.renewed': 'renewed',
  'lease.released': 'released',
  'lease.expired': 'expired',
  'lease.revoked': 'revoked',
  'lease.revoking': 'revoking',
  'lease.upgrading': 'upgrading',
  'lease.upgraded': 'upgraded',
  'lease.downgraded': 'downgraded',
  'lease.transferred': 'transferred',
  'lease.adopted': 'adopted',
  'lease.unlocked': 'unlocked',
  'lease.queued': 'queued',
  'lease.offered': 'offered',
  'lease.waiting': 'waiting',
  'lease.failed': 'failed',
  'lease.denied': 'denied',
}

export const EVENT_COLOURS: Readonly<Record<LeaseEventType, Colour>> = {
  'lease.issued': 'green',
  'lease.renewed': 'dim',
  'lease.released': 'cyan',
  'lease.expired': 'red',
  'lease.revoked': 'red',
  'lease.revoking': 'red',
  'lease.upgrading': 'yellow',
  'lease.upgraded': 'green',
  'lease.downgraded': 'cyan',
  'lease.transferred': 'cyan',
  'lease.adopted': 'green',
  'lease.unlocked': 'dim',
  'lease.queued': 'yellow',
  'lease.offered': 'yellow',
  'lease.waiting': 'dim',
  'lease.failed': 'red',
  'lease.denied': 'red',
}

const EVENT_COLUMNS: readonly Column[] = [
  { title: 'AT' },
  { title: 'EVENT' },
  { title: 'RESOURCE' },
  { title: 'HOLDER' },
  { title: 'STATE' },
  { title: 'RENEWALS', align: 'right' },
  { title: 'REASON' },
  { title: 'LEASE' },
]

export function eventTable(events: readonly LeaseEvent[], paint: Paint): string {
  const rows = events.map((event): readonly Cell[] => [
    { text: clockTime(event.atMs), colour: 'dim' },
    { text: EVENT_WORDS[event.type], colour: EVENT_COLOURS[event.type] },
    { text: event.resource, colour: 'bold' },
    { text: event.holder },
    { text: `${event.before ?? '-'} → ${event.after}` },
    { text: String(event.renewals) },
    { text: cut(event.reason ?? '-', REASON_WIDTH_MAX) },
    { text: event.leaseId, colour: 'dim' },
  ])
  return formatTable(EVENT_COLUMNS, rows, paint)
}

/** One event on a line of its own, for a stream whose next line nobody knows yet. */
export function eventLine(event: LeaseEvent, paint: Paint): string {
  const word = paint(EVENT_WORDS[event.type].padEnd(8), EVENT_COLOURS[event.type])
  const fence = event.type === 'lease.issued' ? `  fence ${event.lease.fence}` : ''
  const reason = event.reason === null ? '' : `  ${visible(event.reason)}`
  const at = paint(clockTime(event.atMs), 'dim')
  return `${at}  ${word}  ${visible(event.resource)}  ${visible(event.holder)}${fence}${reason}`
}
