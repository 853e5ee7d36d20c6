/** Everything about one lease in words. Apart from the table, so that `ls` does not load what only this needs. */
import type { LeaseInfo } from '../core/lease.ts'
import { sessionDigest } from '../service/session-digest.ts'
import { delegationFacts } from './delegation-text.ts'
import { formatSpan } from './duration.ts'
import { adoptionWords, expiryWords, revokingWords, sharingWords } from './lease-text.ts'
import { clockTime, relativeTime, visible } from './output.ts'

/** Everything about one lease, a line per fact; `title` says what happened to it. */
export function leaseCard(title: string, lease: LeaseInfo, nowMs: number): string {
  const facts: readonly (readonly [string, string | null])[] = [
    ['id', lease.id],
    ['holder', holderAndSession(lease)],
    ['token', lease.tokenName ?? null],
    ['state', stateWords(lease)],
    ['mode', sharingWords(lease)],
    ...delegationFacts(lease),
    ['priority', lease.priority === null ? null : String(lease.priority)],
    ['fence', lease.fence === null ? null : String(lease.fence)],
    ['epoch', lease.epoch === null ? null : String(lease.epoch)],
    ['ttl', formatSpan(lease.ttlMs)],
    ['granted', moment(lease.grantedAtMs, nowMs)],
    ['renewed', moment(lease.renewedAtMs, nowMs)],
    ['renewals', renewalWords(lease)],
    ['longest', lease.maxHoldMs === null ? null : formatSpan(lease.maxHoldMs)],
    ['expires', lease.state === 'active' ? expiryWords(lease) : null],
    ['asked', revokingWords(lease)],
    ['upgrade', lease.upgrading ? 'waits for the other sharers to leave' : null],
    ['adopted', adoptionWords(lease)],
    ['group', lease.group],
    ['yields', lease.breakable ? 'when somebody who waits asks for it' : null],
    ['delay', lease.lockDelayMs === 0 ? null : delayWords(lease)],
    ['ended', moment(lease.terminatedAtMs, nowMs)],
    ['revoked', revokerWords(lease)],
    ['reason', lease.reason],
    ['metadata', lease.metadata === null ? null : JSON.stringify(lease.metadata)],
  ]
  const lines = facts.flatMap(([name, value]) => {
    return value === null ? [] : [`  ${name.padEnd(8)}  ${visible(value)}`]
  })
  return [visible(title), ...lines].join('\n')
}

function holderAndSession({ holder, session }: LeaseInfo): string {
  return session === sessionDigest(holder) ? holder : `${holder} (session ${session})`
}

function stateWords({ state, releaseReason }: LeaseInfo): string {
  return releaseReason === null ? state : `${state} (${releaseReason})`
}

function revokerWords({ state, revoking }: LeaseInfo): string | null {
  if (state !== 'revoked' || revoking === null) return null
  return `by ${revoking.by}${revoking.reason === null ? '' : `: ${revoking.reason}`}`
}

function delayWords({ lockDelayMs }: LeaseInfo): string {
  return `kept free for ${formatSpan(lockDelayMs)} if it expires or is revoked`
}

function renewalWords({ renewals, maxRenewals, grantedAtMs }: LeaseInfo): string | null {
  if (grantedAtMs === null) return null
  return maxRenewals < 0 ? String(renewals) : `${renewals} of at most ${maxRenewals}`
}

function moment(atMs: number | null, nowMs: number): string | null {
  return atMs === null ? null : `${relativeTime(atMs, nowMs)} (${clockTime(atMs)})`
}
