/** `--type`: which events, by the words of the history table or the names of the ledger. */
import { invalid } from '../core/errors.ts'
import { eventWord, LEASE_EVENT_TYPES, type LeaseEventType } from '../core/event.ts'
import type { Option } from './arguments.ts'

const WORDS = LEASE_EVENT_TYPES.map(eventWord).join(', ')

export const eventTypesOption: Option<readonly LeaseEventType[]> = {
  placeholder: 'WORDS',
  help: `only these, separated by commas: ${WORDS}`,
  read: (text) => text.split(',').map(readType),
}

function readType(word: string): LeaseEventType {
  const type = LEASE_EVENT_TYPES.find((each) => {
    return each === word || each === `lease.${word}` || eventWord(each) === word
  })
  if (type !== undefined) return type
  throw invalid('type', `must be among ${WORDS}`, word)
}
