/** `tenure ls`: what is held and waited for; with `--all` also what has ended. */
import { parseState, ENTRY_STATES, type EntryState } from '../../core/lease.ts'
import { LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX } from '../../core/limits.ts'
import type { Resource } from '../../core/resource.ts'
import type { LeaseList, ListFilter } from '../../service/lease-api.ts'
import type { Questions } from '../../service/lease-questions.ts'
import { flag, integerOption, textOption, type Option } from '../arguments.ts'
import { defineCommand, type CliCommand } from '../command.ts'
import { leaseTable } from '../lease-text.ts'
import { given, withQuestions } from '../store-access.ts'

const state: Option<EntryState> = {
  placeholder: 'STATE',
  help: `only these: ${ENTRY_STATES.join(', ')}`,
  read: parseState,
}

export const ls: CliCommand = defineCommand({
  positionals: [{ name: 'RESOURCE', help: 'only leases of this resource', optional: true }],
  options: {
    all: flag('also what has ended, as long as it is kept'),
    state,
    holder: textOption('NAME', 'only what this holder has'),
    limit: integerOption(
      { field: 'limit', min: 1, max: LIST_LIMIT_MAX },
      `at most so many (default: ${LIST_LIMIT_DEFAULT})`,
    ),
  },
  examples: ['tenure ls', 'tenure ls --holder agent-7 --json', 'tenure ls --state expired'],
  run: async ({ identity, positionals, options, printer, cwd }) => {
    const [text] = positionals
    const resource = text === undefined ? undefined : await readLater(text, cwd)
    const limit = options.limit ?? LIST_LIMIT_DEFAULT
    const filter = { ...given({ resource, holder: options.holder, state: options.state }), limit }
    const everything = options.all === true && options.state === undefined
    const list = await withQuestions(identity, async (questions) =>
      everything ? listEverything(questions, filter) : questions.list(filter),
    )
    printer.answer(list, () => {
      if (list.leases.length === 0) return 'no leases'
      return leaseTable(list.leases, Date.now(), printer.paint)
    })
    if (list.more) printer.remark(`there are more than ${limit}; --limit shows more`)
    return 0
  },
})

/** Most lists are of everything, and should not pay for reading a resource. */
async function readLater(text: string, cwd: string): Promise<Resource> {
  const { readResourceArgument } = await import('../resource-argument.ts')
  return readResourceArgument(text, cwd)
}

/** The question is asked state by state; together, the answers are in order of creation. */
async function listEverything(
  questions: Questions,
  filter: ListFilter & { readonly limit: number },
): Promise<LeaseList> {
  const lists = await Promise.all(
    ENTRY_STATES.map(async (each) => questions.list({ ...filter, state: each })),
  )
  const leases = lists
    .flatMap((list) => list.leases)
    .sort((a, b) => a.createdAtMs - b.createdAtMs || (a.fence ?? 0) - (b.fence ?? 0))
  const more = leases.length > filter.limit || lists.some((list) => list.more)
  return { leases: leases.slice(-filter.limit), more }
}
