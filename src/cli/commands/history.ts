/** `tenure history`: the ledger and what was refused beside it, oldest first, and of much its end. */
import type { LeaseEvent } from '../../core/event.ts'
import { QUESTIONS } from '../../protocol/questions.ts'
import { textOption } from '../arguments.ts'
import { defineCommand, type CliCommand } from '../command.ts'
import { eventTable, eventTypesOption } from '../event-text.ts'
import { fieldOption } from '../field-option.ts'
import { instantOption } from '../instant.ts'
import { readResourceArgument } from '../resource-argument.ts'
import { given, withQuestions } from '../store-access.ts'

const LIMIT_DEFAULT = 100

const { id, limit } = QUESTIONS.history.fields

function counted(event: LeaseEvent, count: number): LeaseEvent {
  return { ...event, reason: `${event.reason ?? '-'} (${count} times)` }
}

export const history: CliCommand = defineCommand({
  positionals: [{ name: 'RESOURCE', help: 'only of this resource', optional: true }],
  options: {
    id: fieldOption('id', id),
    holder: textOption('NAME', 'only of this holder'),
    type: eventTypesOption,
    since: instantOption(
      'since',
      'only what happened after it: 1h (ago), 14:03:07, 2026-03-01T14:03:07Z; local without a zone',
    ),
    until: instantOption('until', 'only what happened up to it, written like since'),
    limit: fieldOption('limit', limit, {
      says: 'the last so many',
      default: String(LIMIT_DEFAULT),
    }),
  },
  notes: [
    'What somebody held over a stretch of time, also what was taken before it, tells tenure ledger replay --holder NAME --since TIME --until TIME.',
  ],
  examples: [
    'tenure history src/app.ts',
    'tenure history --type expired,revoked --since 1h --json',
    'tenure history --holder agent-7 --since 13:00 --until 14:00',
  ],
  run: async ({ identity, positionals, options, printer, cwd }) => {
    const [text] = positionals
    const filter = given({
      resource: text === undefined ? undefined : readResourceArgument(text, cwd),
      leaseId: options.id,
      holder: options.holder,
      types: options.type,
      fromMs: options.since,
      toMs: options.until,
    })
    const rows = options.limit ?? LIMIT_DEFAULT
    const newest = await withQuestions(identity, async (questions) =>
      questions.history({ ...filter, limit: rows, newestFirst: true }),
    )
    const entries = newest.slice(0, rows).toReversed()
    printer.answer(entries, () => {
      if (entries.length === 0) return 'no events'
      return eventTable(
        entries.map(({ event, count = 1 }) => (count === 1 ? event : counted(event, count))),
        printer.paint,
      )
    })
    if (entries.length === rows) printer.remark(`the last ${rows}; --limit shows more`)
    return 0
  },
})
