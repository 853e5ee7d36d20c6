/**
 * States and types of events in one letter each: they are in every head, mark and event, and a script pays for every
 * byte that it is given. What a letter means never changes; new words get new letters.
 */
import type { LeaseEventType } from '../../core/event.ts'
import type { EntryState } from '../../core/lease.ts'

const STATE_CODES: Readonly<Record<EntryState, string>> = {
  active: 'a',
  expired: 'e',
  failed: 'f',
  pending: 'p',
  released: 'r',
  revoked: 'v',
}

const TYPE_CODES: Readonly<Record<LeaseEventType, string>> = {
  'lease.accounted': 'c',
  'lease.adopted': 'a',
  'lease.advanced': 'A',
  'lease.denied': 'd',
  'lease.downgraded': 'D',
  'lease.expired': 'e',
  'lease.failed': 'f',
  'lease.issued': 'i',
  'lease.offered': 'o',
  'lease.queued': 'q',
  'lease.released': 'r',
  'lease.renewed': 'n',
  'lease.revoked': 'v',
  'lease.revoking': 'V',
  'lease.transferred': 't',
  'lease.unlocked': 'u',
  'lease.updated': 'U',
  'lease.upgraded': 'g',
  'lease.upgrading': 'G',
  'lease.waiting': 'w',
}

const STATES = wordsOf(STATE_CODES)
const TYPES = wordsOf(TYPE_CODES)

function wordsOf<Word extends string>(codes: Readonly<Record<Word, string>>): Map<unknown, Word> {
  return new Map(Object.entries(codes).map(([word, code]) => [code, word as Word]))
}

export function stateCode(state: EntryState): string {
  return STATE_CODES[state]
}

export function stateOf(code: unknown): EntryState {
  const state = STATES.get(code)
  if (state === undefined) throw new Error(`there is no state ${String(code)}`)
  return state
}

export function typeCode(type: LeaseEventType): string {
  return TYPE_CODES[type]
}

export function typeOf(code: unknown): LeaseEventType {
  const type = TYPES.get(code)
  if (type === undefined) throw new Error(`there is no event ${String(code)}`)
  return type
}
