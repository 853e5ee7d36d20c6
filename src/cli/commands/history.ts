/** `tenure history`: the ledger, oldest first, and of a long one its end. */
import { parseLeaseId } from '../../core/input.ts'
import { LIST_LIMIT_MAX } from '../../core/limits.ts'
import { durationOption, integerOption, textOption, type Option } from '../arguments.ts'
import { defineCommand, type Command } from '../command.ts'
import { eventTypesOption } from '../event-type-option.ts'
import { eventTable } from '../event-text.ts'
import { readResource } from '../resource-argument.ts'
import { given, withQuestions } from '../store-access.ts'

const LIMIT_DEFAULT = 100
const SINCE_MS_MAX = 36_500 * 86_400_000

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
    since: durationOption(
      { field: 'since', minMs: 1, maxMs: SINCE_MS_MAX },
      'only what happened in this time',
    ),
    limit: integerOption(
      { field: 'limit', min: 1, max: LIST_LIMIT_MAX },
      `the last so many (default: ${LIMIT_DEFAULT})`,
    ),
  },
  examples: [
    'tenure history src/app.ts',
    'tenure history --type expired,revoked --since 1h --json',
  ],
  run: async ({ identity, positionals, options, printer, cwd }) => {
    const [text] = positionals
    const filter = given({
      resource: text === undefined ? undefined : readResource(text, cwd),
      leaseId: options.id,
      holder: options.holder,
      types: options.type,
      fromMs: options.since === undefined ? undefined : Date.now() - options.since,
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
