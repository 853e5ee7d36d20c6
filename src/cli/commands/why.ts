/** `tenure why`: who stands in the way of a resource, since when, until when, in whose words, and who waits. */
import { leadingOutWords, leadsOutOf } from '../../files/linked-path.ts'
import { defineCommand, type CliCommand } from '../command.ts'
import { describeInspection } from '../inspection-text.ts'
import { visible } from '../output.ts'
import { readLinkedPath } from '../resource-argument.ts'
import { withApi } from '../store-access.ts'

export const why: CliCommand = defineCommand({
  positionals: [
    {
      name: 'RESOURCE',
      help: 'kind:name, or a path, which means the file; with a / at its end, what is below it too',
    },
  ],
  options: {},
  notes: [
    'A path that leads through a symbolic link is the file that it leads to. If it is spelt inside what another holds and leads out of it, that lease does not cover the file, and why says so.',
    'The queue is in the order in which it will be served. In a cycle each waits for the next, and none could go on; it is broken by refusing the request that came last.',
  ],
  examples: ['tenure why src/app.ts', 'tenure why work:W-17 --json'],
  run: async ({ identity, positionals, printer, cwd }) => {
    const path = readLinkedPath(positionals[0] ?? '', cwd)
    const answer = await withApi(identity, async (api) => {
      const inspection = await api.inspect({ resource: path.resource, extent: path.extent })
      const outOf = await leadsOutOf(api, path)
      return outOf.length === 0 ? inspection : { ...inspection, leadsOutOf: outOf }
    })
    const outOf = 'leadsOutOf' in answer ? answer.leadsOutOf : []
    printer.answer(answer, () => {
      const links = outOf.map((lease) => {
        return visible(`${leadingOutWords(path, lease)}; that lease does not cover it`)
      })
      return [describeInspection(answer, Date.now()), ...links].join('\n')
    })
    return 0
  },
})
