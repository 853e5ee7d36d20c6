/** What a command is: its shape, its examples, and what it does. */
import { invalid } from '../core/errors.ts'
import { hasCode } from '../runtime/file-system.ts'
import {
  flag,
  parseArguments,
  textOption,
  type Arguments,
  type Option,
  type OptionTable,
  type OptionValues,
  type CommandShape,
} from './arguments.ts'
import { fromEnv, identify, type Identity } from './identity.ts'
import { Printer } from './printer.ts'

interface CommonTable {
  readonly [name: string]: Option<unknown>
  readonly store: Option<string>
  readonly namespace: Option<string>
  readonly holder: Option<string>
  readonly session: Option<string>
  readonly json: Option<true>
  readonly debug: Option<true>
  readonly help: Option<true>
  readonly version: Option<true>
}

export const COMMON_OPTIONS: CommonTable = {
  store: textOption(
    'URL',
    'memory:, sqlite:PATH, postgres://…, redis://… or http://… with $TENURE_TOKEN (default: $TENURE_STORE, else tenure.db in the git directory, else in the state directory)',
  ),
  namespace: textOption(
    'NAME',
    'a world of its own in the store (default: $TENURE_NAMESPACE, else default)',
  ),
  holder: textOption('NAME', 'in whose name (default: $TENURE_HOLDER, else user@host)'),
  session: textOption(
    'NAME',
    "who waits for whom (default: $TENURE_SESSION, else the holder's name; run has one of its own)",
  ),
  json: flag('one JSON value on stdout; an error as JSON on stderr'),
  debug: flag(
    'say on stderr what fails in the background, and show the stack of an unexpected error (also $TENURE_DEBUG)',
  ),
  help: flag('this text'),
  version: flag('the version of tenure'),
}

export interface CliCall<Table extends OptionTable> {
  readonly options: OptionValues<Table>
  readonly positionals: readonly string[]
  readonly rest: readonly string[]
  readonly identity: Identity
  readonly printer: Printer
  readonly cwd: string
}

export interface CommandDefinition<Table extends OptionTable> extends CommandShape<Table> {
  /** Paragraphs of help, beyond the summary. */
  readonly notes?: readonly string[]
  readonly examples: readonly string[]
  /** Resolves to the exit status. */
  readonly run: (call: CliCall<Table>) => Promise<number>
}

/** A command as the command line sees it, whatever its options are. */
export interface CliCommand {
  readonly shape: CommandShape<OptionTable>
  readonly notes: readonly string[]
  readonly examples: readonly string[]
  run(argv: readonly string[]): Promise<number>
}

export function defineCommand<Table extends OptionTable>(
  definition: CommandDefinition<Table>,
): CliCommand {
  const { options, positionals, rest, notes = [], examples } = definition
  const shape: CommandShape<OptionTable> = {
    options: { ...COMMON_OPTIONS, ...options },
    positionals,
    ...(rest === undefined ? {} : { rest }),
  }
  const run: CliCommand['run'] = async (argv) => definition.run(callOf(parseArguments(shape, argv)))
  return { shape, notes, examples, run }
}

/** The table that was parsed with is the common one and the command's own, so that both views of it are right. */
function callOf<Table extends OptionTable>(parsed: Arguments<OptionTable>): CliCall<Table> {
  const common = parsed.options as OptionValues<CommonTable>
  const cwd = workingDirectory()
  // What it says was looked at before there was a command that could refuse it.
  fromEnv(process.env, 'TENURE_DEBUG')
  return {
    options: parsed.options as OptionValues<Table>,
    positionals: parsed.positionals,
    rest: parsed.rest,
    identity: identify(common, cwd, process.env),
    printer: new Printer({ json: common.json === true }),
    cwd,
  }
}

/** A worktree can be removed under a shell that stands in it; what paths mean there, and which store, nobody knows. */
function workingDirectory(): string {
  try {
    return process.cwd()
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error
    throw invalid('working directory', 'must be one that still exists', process.env['PWD'])
  }
}
