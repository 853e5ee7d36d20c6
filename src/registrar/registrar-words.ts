/** The registrar's words for states and reasons: canonical in upper case, read in any. */
import { LeaseError, show } from '../core/errors.ts'
import type { LeaseState, ReleaseReason } from '../core/lease.ts'

export type RegistrarState = Uppercase<LeaseState>
export type RegistrarReason = Uppercase<ReleaseReason>

export const STATE_WORDS: Readonly<Record<LeaseState, RegistrarState>> = {
  active: 'ACTIVE',
  released: 'RELEASED',
  expired: 'EXPIRED',
  revoked: 'REVOKED',
}

export const REASON_WORDS: Readonly<Record<ReleaseReason, RegistrarReason>> = {
  completed: 'COMPLETED',
  aborted: 'ABORTED',
  voluntary: 'VOLUNTARY',
  transferred: 'TRANSFERRED',
}

const STATES: readonly RegistrarState[] = Object.values(STATE_WORDS)
/** A release is never said to be a transfer: that is an event of its own. */
const REASONS = ['COMPLETED', 'ABORTED', 'VOLUNTARY'] as const

/** Only letters that these words are written with: others have upper cases among them, as the dotless i has. */
const WORD_PATTERN = /^[A-Za-z]+$/

function upperCase(value: unknown): string | null {
  return typeof value === 'string' && WORD_PATTERN.test(value) ? value.toUpperCase() : null
}

export function parseLeaseState(value: unknown): RegistrarState {
  const word = upperCase(value)
  const state = STATES.find((candidate) => candidate === word)
  if (state !== undefined) return state
  throw new LeaseError(
    'INVALID_STATE',
    `state must be one of ${STATES.join(', ')}, got ${show(value)}`,
    { details: { field: 'state', value } },
  )
}

export function parseReleaseReason(value: unknown): (typeof REASONS)[number] {
  const word = upperCase(value)
  const reason = REASONS.find((candidate) => candidate === word)
  if (reason !== undefined) return reason
  throw new LeaseError(
    'INVALID_REASON',
    `releaseReason must be one of ${REASONS.join(', ')}, got ${show(value)}`,
    { details: { field: 'releaseReason', value } },
  )
}

/** Nothing leads out of a terminal state. */
export function isTerminal(state: RegistrarState): boolean {
  return state !== 'ACTIVE'
}
