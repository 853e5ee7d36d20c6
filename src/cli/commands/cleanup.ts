/** `tenure cleanup`: what the background sweep would do, now. */
import { defineCommand, type CliCommand } from '../command.ts'
import { sendAgain } from '../lease-command.ts'
import { plural } from '../output.ts'
import { withApi } from '../store-access.ts'

export const cleanup: CliCommand = defineCommand({
  positionals: [],
  options: {},
  notes: [
    'Expired leases stand in nobody’s way whether or not this runs; it only writes their end down and prunes what history_retention_days no longer keeps.',
  ],
  examples: ['tenure cleanup'],
  run: async ({ identity, printer }) => {
    const result = await withApi(identity, (api) => sendAgain(() => api.cleanup()))
    const { expired, prunedLeases, prunedEvents } = result
    const pruned = `${plural(prunedLeases, 'ended lease')} and ${plural(prunedEvents, 'event')}`
    const effect = `${plural(expired, 'lease')} found expired, ${pruned} pruned`
    printer.effect(effect, result, () => effect)
    return 0
  },
})
