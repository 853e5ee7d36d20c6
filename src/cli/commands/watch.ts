/** `tenure watch`: a line per event, as it is committed by any process, until it is interrupted. */
import { textOption } from '../arguments.ts'
import { defineCommand, type Command } from '../command.ts'
import { eventTypesOption } from '../event-type-option.ts'
import { eventLine } from '../event-text.ts'
import { readResource } from '../resource-argument.ts'
import { listenForInterruption, signalExitCode } from '../signals.ts'
import { given, withApi } from '../store-access.ts'

export const watch: Command = defineCommand({
  positionals: [{ name: 'RESOURCE', help: 'only of this resource', optional: true }],
  options: {
    holder: textOption('NAME', 'only of this holder'),
    type: eventTypesOption,
    after: textOption('POSITION', 'start after this position, as --json shows it (default: now)'),
  },
  notes: ['With --json, one JSON value per line.'],
  examples: [
    'tenure watch',
    'tenure watch src/app.ts --json',
    'tenure watch --type expired,revoked',
  ],
  run: async ({ identity, positionals, options, printer, cwd }) => {
    const [text] = positionals
    const filter = given({
      resource: text === undefined ? undefined : readResource(text, cwd),
      holder: options.holder,
      types: options.type,
      after: options.after,
    })
    const interruption = listenForInterruption()
    await withApi(identity, async (api) => {
      for await (const entry of api.watch({ ...filter, signal: interruption.signal })) {
        printer.line(printer.json ? JSON.stringify(entry) : eventLine(entry.event, printer.paint))
      }
    })
    interruption.stop()
    return interruption.received === null ? 0 : signalExitCode(interruption.received)
  },
})
