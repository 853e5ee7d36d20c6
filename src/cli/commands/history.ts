/** `tenure history`: the ledger, oldest first, and of a long one its end. */
import { parseLeaseId } from '../../core/input.ts'
import { LIST_LIMIT_MAX } from '../../core/limits.ts'
import { integerOption, textOption, type Option } from '../arguments.ts'
import { defineCommand, type Command } from '../command.ts'
import { eventTypesOption } from '../event-type-option.ts'
import { eventTable } from '../event-text.ts'
import { instantOption } from '../instant.ts'
import { readResource } from '../resource-argument.ts'
import { given, withQuestions } from '../store-access.ts'

const LIMIT_DEFAULT = 100

const leaseId: Option<string> = {
  placeholder: 'UUID',
  help: 'only of this lease',
  read: (text) => parseLeaseId(text, 'id'),
}

export const history: Command = defineCommand({
  positionals: [{ name: 'RESOURCE', help: 'only of this resource', optional: true }],
  options: {
    id: leaseId,
    holder: textOption('NAME', 'only of this holder'),
    type: eventTypesOption,
    since: instantOption(
      'since',
      'only what happened after it: 1h (ago), 14:03:07, 2026-03-01T14:03:07Z; local without a zone',
    ),
    until: instantOption('until', 'only what happened up to it, written like since'),
    limit: integerOption(
      { field: 'limit', min: 1, max: LIST_LIMIT_MAX },
      `the last so many (default: ${LIMIT_DEFAULT})`,
    ),
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
      resource: text === undefined ? undefined : readResource(text, cwd),
      leaseId: options.id,
      holder: options.holder,
      types: options.type,
      fromMs: options.since,
      toMs: options.until,
    })
    const limit = options.limit ?? LIMIT_DEFAULT
    const newest = await withQuestions(identity, async (questions) =>
      questions.history({ ...filter, limit, newestFirst: true }),
    )
    const entries = newest.toReversed()
    printer.answer(entries, () => {
      if (entries.length === 0) return 'no events'
      return eventTable(
        entries.map(({ event }) => event),
        printer.paint,
      )
    })
    if (entries.length === limit) printer.remark(`the last ${limit}; --limit shows more`)
    return 0
  },
})
