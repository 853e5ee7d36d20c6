/**
 * `tenure watch`: a line per event, as it is committed by any process, until it is interrupted. Beside the events it says
 * when the store is away and back, and at the end where to go on.
 */
import type { Position, WatchObserver } from '../../service/lease-api.ts'
import { textOption } from '../arguments.ts'
import { defineCommand, type CliCommand } from '../command.ts'
import { eventLine, eventTypesOption } from '../event-text.ts'
import type { Printer } from '../printer.ts'
import { readResourceArgument } from '../resource-argument.ts'
import { interruptible, signalExitCode } from '../signals.ts'
import { given, withApi } from '../store-access.ts'

export const watch: CliCommand = defineCommand({
  positionals: [{ name: 'RESOURCE', help: 'only of this resource', optional: true }],
  options: {
    holder: textOption('NAME', 'only of this holder'),
    type: eventTypesOption,
    after: textOption(
      'POSITION',
      'start after this position, as --json and the last line show it (default: now)',
    ),
  },
  notes: [
    'With --json, one JSON value per line.',
    'A store that is away is waited for; when it is back, nothing is missing and nothing comes twice.',
  ],
  examples: [
    'tenure watch',
    'tenure watch src/app.ts --json',
    'tenure watch --type expired,revoked',
  ],
  run: async ({ identity, positionals, options, printer, cwd }) => {
    const [text] = positionals
    const filter = given({
      resource: text === undefined ? undefined : readResourceArgument(text, cwd),
      holder: options.holder,
      types: options.type,
      after: options.after,
    })
    const observer = new Remarks(printer)
    return interruptible(async (interruption) => {
      await withApi(identity, async (api) => {
        const { signal } = interruption
        for await (const entry of api.watch(filter, { observer, signal })) {
          printer.answer(entry, () => eventLine(entry.event, printer.paint))
        }
      }).finally(() => observer.onEnd())
      return interruption.received === null ? 0 : signalExitCode(interruption.received)
    })
  },
})

/** What a watch says to people beside the events. */
class Remarks implements WatchObserver {
  readonly #printer: Printer
  #position: Position | null = null

  constructor(printer: Printer) {
    this.#printer = printer
  }

  onAway({ message }: Error): void {
    this.#printer.remark(`tenure: the store is away, waiting for it: ${message}`)
  }

  onBack(): void {
    this.#printer.remark('tenure: the store is back')
  }

  onPosition(position: Position): void {
    this.#position = position
  }

  /** Also when an error ends the watch: then more than ever the caller wants to go on. */
  onEnd(): void {
    if (this.#position !== null) this.#printer.remark(`resume with --after ${this.#position}`)
  }
}
