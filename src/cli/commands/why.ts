/** `tenure why`: who stands in the way of a resource, since when, until when, in whose words, and who waits. */
import { defineCommand, type Command } from '../command.ts'
import { describeInspection } from '../inspection-text.ts'
import { readReach } from '../resource-argument.ts'
import { withApi } from '../store-access.ts'

export const why: Command = defineCommand({
  positionals: [
    {
      name: 'RESOURCE',
      help: 'kind:name, or a path, which means the file; with a / at its end, what is below it too',
    },
  ],
  options: {},
  notes: [
    'The queue is in the order in which it will be served. A cycle is a circle of those who wait for each other; it is broken within a second by refusing whoever came last.',
  ],
  examples: ['tenure why src/app.ts', 'tenure why work:W-17 --json'],
  run: async ({ identity, positionals, printer, cwd }) => {
    const { resource, extent } = readReach(positionals[0] ?? '', cwd)
    const inspection = await withApi(identity, async (api) => api.inspect(resource, extent))
    printer.answer(inspection, () => describeInspection(inspection, Date.now()))
    return 0
  },
})
