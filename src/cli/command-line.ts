/** From the words on the command line to a command's exit status. */
import { ERROR_TABLE } from '../core/errors.ts'
import { asksFor, gotInstead, parseArguments, usageError } from './arguments.ts'
import { COMMANDS, type CommandEntry } from './command-list.ts'
import { COMMON_OPTIONS } from './command.ts'
import { STDERR, STDOUT, write } from './terminal.ts'

/** Resolves to the exit status; what cannot be done is thrown as a `LeaseError`. */
export async function runCommandLine(words: readonly string[]): Promise<number> {
  const [name, ...argv] = commandFirst(words)
  if (asksFor(words, '--version')) return printVersion(words)
  if (name === undefined) return withoutCommand(words)
  if (name === 'help') return printHelp(argv.find((word) => !word.startsWith('-')))
  if (asksFor(argv, '--help', '-h')) return printHelp(name)
  return (await find(name).load()).run(argv)
}

/** `tenure --store URL ls` means `tenure ls --store URL`. */
function commandFirst(words: readonly string[]): readonly string[] {
  let index = 0
  while (words[index]?.startsWith('-') === true && words[index] !== '--') {
    index += takesValue(words[index] ?? '') ? 2 : 1
  }
  const name = words[index]
  if (name === undefined || name === '--') return []
  return [name, ...words.slice(0, index), ...words.slice(index + 1)]
}

function takesValue(word: string): boolean {
  const option = Object.entries(COMMON_OPTIONS).find(([name]) => word === `--${name}`)?.[1]
  return option !== undefined && option.placeholder !== null
}

/** No command was given: a person who typed `tenure` alone gets the overview, and a script that did, a failure. */
async function withoutCommand(words: readonly string[]): Promise<number> {
  if (asksFor(words, '--help', '-h')) return printHelp(undefined)
  if (words.length > 0) {
    parseArguments({ options: COMMON_OPTIONS, positionals: [] }, words)
    throw usageError('command', 'command must be given, got nothing (see tenure --help)')
  }
  const { overview } = await import('./help.ts')
  write(STDERR, `${overview()}\n`)
  return ERROR_TABLE.INVALID_INPUT.exitCode
}

async function printHelp(name: string | undefined): Promise<number> {
  const { commandPage, overview } = await import('./help.ts')
  if (name === undefined) return print(overview())
  return print(commandPage(name, await find(name).load()))
}

async function printVersion(words: readonly string[]): Promise<number> {
  const { version } = await import('../runtime/version.ts')
  return print(asksFor(words, '--json') ? JSON.stringify({ version: version() }) : version())
}

function print(text: string): number {
  write(STDOUT, `${text}\n`)
  return 0
}

function find(name: string): CommandEntry {
  const entry = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (entry !== undefined) return entry
  const got = gotInstead(name, Object.keys(COMMANDS))
  throw usageError('command', `command must be one that tenure --help lists, ${got}`)
}
