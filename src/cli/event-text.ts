/** Events of the ledger in words, and by which words people choose among them. */
import type { Budget } from '../core/budget.ts'
import { invalid } from '../core/errors.ts'
import {
  eventWord,
  LEASE_EVENT_TYPES,
  type LeaseEvent,
  type LeaseEventType,
  type LeaseTrespassed,
} from '../core/event.ts'
import type { Option } from './arguments.ts'
import { holderWords, sharingWords, type Sharing } from './lease-text.ts'
import {
  clockTime,
  cut,
  formatTable,
  visible,
  type Cell,
  type Colour,
  type Column,
  type Paint,
} from './output.ts'

const REASON_WIDTH_MAX = 40

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
  'lease.updated': 'dim',
  'lease.transferred': 'cyan',
  'lease.adopted': 'green',
  'lease.advanced': 'dim',
  'lease.unlocked': 'dim',
  'lease.queued': 'yellow',
  'lease.offered': 'yellow',
  'lease.waiting': 'dim',
  'lease.failed': 'red',
  'lease.denied': 'red',
  'lease.accounted': 'dim',
  'lease.trespassed': 'red',
}

const EVENT_COLUMNS: readonly Column[] = [
  'AT',
  'EVENT',
  'RESOURCE',
  'HOLDER',
  'STATE',
  'MODE',
  { title: 'RENEWALS', align: 'right' },
  'REASON',
  'LEASE',
]

export function eventTable(events: readonly LeaseEvent[], paint: Paint): string {
  const rows = events.map((event): readonly Cell[] => [
    { text: clockTime(event.atMs), colour: 'dim' },
    { text: eventWord(event.type), colour: EVENT_COLOURS[event.type] },
    { text: event.resource, colour: 'bold' },
    holderOf(event),
    `${event.before ?? '-'} → ${event.after}`,
    modeOf(event),
    String(event.renewals),
    cut(event.reason ?? '-', REASON_WIDTH_MAX),
    { text: event.leaseId, colour: 'dim' },
  ])
  return formatTable(EVENT_COLUMNS, rows, paint)
}

/** With the name of the token that asked, where the event tells of the whole entry. */
function holderOf(event: LeaseEvent): string {
  if (event.type === 'lease.issued') return holderWords(event.lease)
  return event.type === 'lease.queued' ? holderWords(event.ticket) : event.holder
}

/** How the lease stands after the event, where the event tells. */
function modeOf(event: LeaseEvent): string {
  if (event.type === 'lease.issued') return sharingWords(event.lease)
  if (event.type === 'lease.queued' || event.type === 'lease.denied') {
    return event.ticket === null ? '-' : sharingWords(event.ticket)
  }
  if (event.type === 'lease.upgraded') return 'exclusive'
  return event.type === 'lease.downgraded' ? 'shared' : '-'
}

/** One event on a line of its own, for a stream whose next line is not known yet. */
export function eventLine(event: LeaseEvent, paint: Paint): string {
  const word = paint(eventWord(event.type).padEnd(11), EVENT_COLOURS[event.type])
  const parts = [visible(event.resource), visible(holderOf(event)), ...factsOf(event)]
  if (event.reason !== null) parts.push(visible(event.reason))
  return [paint(clockTime(event.atMs), 'dim'), word, ...parts].join('  ')
}

/** What is particular to an event of its kind. */
function factsOf(event: LeaseEvent): readonly string[] {
  switch (event.type) {
    case 'lease.issued':
      return [`fence ${event.lease.fence}`, ...sharingFacts(event.lease)]
    case 'lease.queued':
      return [...sharingFacts(event.ticket), ...priorityFacts(event.ticket)]
    case 'lease.denied':
      return event.ticket === null ? [] : sharingFacts(event.ticket)
    case 'lease.offered':
    case 'lease.upgraded':
      return [`fence ${event.fence}`]
    case 'lease.advanced':
      return [`epoch ${event.from} → ${event.to}`]
    case 'lease.upgrading':
      return event.wished ? [] : ['no longer']
    case 'lease.revoking':
      return [`until ${clockTime(event.expiresAtMs)}`]
    case 'lease.accounted':
      return amountFacts(event.change.amounts)
    case 'lease.trespassed':
      return [`by ${visible(event.by)}`, ...targetFacts(event)]
    case 'lease.updated':
      return event.metadata === null ? [] : [visible(JSON.stringify(event.metadata))]
    case 'lease.renewed':
    case 'lease.released':
    case 'lease.expired':
    case 'lease.revoked':
    case 'lease.downgraded':
    case 'lease.transferred':
    case 'lease.adopted':
    case 'lease.unlocked':
    case 'lease.waiting':
    case 'lease.failed':
      return []
  }
}

/** Most leases are exclusive and of one resource; only the others are worth a word. */
function sharingFacts(entry: Sharing): readonly string[] {
  const words = sharingWords(entry)
  return words === 'exclusive' ? [] : [words]
}

/** `tokens 1200, toolCalls 1`. */
function amountFacts(amounts: Budget): readonly string[] {
  const words = Object.entries(amounts).map(([dimension, amount]) => `${dimension} ${amount}`)
  return words.length === 0 ? [] : [words.join(', ')]
}

/** What was written to, where that is not the lease's own resource. */
function targetFacts({ target, resource }: LeaseTrespassed): readonly string[] {
  return target === resource ? [] : [`at ${visible(target)}`]
}

function priorityFacts({ priority }: { readonly priority: number }): readonly string[] {
  return priority === 0 ? [] : [`priority ${priority}`]
}

const WORDS = LEASE_EVENT_TYPES.map(eventWord).join(', ')

/** `--type`: which events, by the words of the history table or the names of the ledger. */
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
