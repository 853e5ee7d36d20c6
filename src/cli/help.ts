/** The help pages, made from the same tables that parse the command line. */
import { COMMANDS } from './command-list.ts'
import { COMMON_OPTIONS, type CliCommand } from './command.ts'
import type { Option, Positional } from './arguments.ts'

const LINE_LENGTH_MAX = 100

export function overview(): string {
  const names = Object.keys(COMMANDS)
  const width = Math.max(...names.map((name) => name.length))
  const lines = Object.entries(COMMANDS).map(([name, { summary }]) => {
    return `  ${name.padEnd(width)}  ${summary}`
  })
  return [
    'tenure: who owns this right now, and can they prove it?',
    '',
    'Usage: tenure COMMAND [ARGUMENTS] [OPTIONS]',
    '',
    ...lines,
    '',
    'A RESOURCE is kind:name (work:W-17) or a path, which means the file. For acquire, derive, run, show,',
    'wait and why, a path that ends with / means everything below it too.',
    'A DURATION reads 500ms, 30s, 5m, 1h or 2d.',
    '',
    'Exit status: 0 done, 1 unexpected, 2 bad usage or input, 10 held by another, 11 wait timed out,',
    '12 not the holder, 13 not found or ended, 14 lost while running, 15 store unavailable.',
    '',
    'Example:',
    '  tenure run notes.md --ttl 30s --wait 10s -- ./edit.sh notes.md',
    '',
    'tenure COMMAND --help says more about each.',
  ].join('\n')
}

export function commandPage(name: string, command: CliCommand): string {
  const { positionals, rest, options } = command.shape
  // An option of the command's own can have the name of a common one.
  const isCommon = ([option, value]: Row): boolean => COMMON_OPTIONS[option] === value
  const own = Object.entries(options).filter((row) => !isCommon(row))
  const shared = Object.entries(options).filter(isCommon)
  const words = [...positionals, ...(rest === undefined ? [] : [rest])]
  return [
    `tenure ${name}: ${COMMANDS[name]?.summary ?? ''}`,
    '',
    `Usage: ${usage(name, command)}`,
    '',
    ...section(words.map((word) => [word.name, word.help])),
    ...command.notes.flatMap((note) => [...wrap(note, 0), '']),
    ...(own.length === 0 ? [] : ['Options:', ...section(own.map(helpRow))]),
    'Everywhere:',
    ...section(shared.map(helpRow)),
    command.examples.length === 1 ? 'Example:' : 'Examples:',
    ...command.examples.map((example) => `  ${example}`),
  ].join('\n')
}

function usage(name: string, { shape }: CliCommand): string {
  const words = shape.positionals.map(bracketed)
  const rest = shape.rest === undefined ? [] : ['--', shape.rest.name]
  return ['tenure', name, ...words, '[OPTIONS]', ...rest].join(' ')
}

function bracketed({ name, optional, several }: Positional): string {
  const word = several === true ? `${name}…` : name
  return optional === true ? `[${word}]` : word
}

type Row = readonly [name: string, option: Option<unknown>]
type HelpRow = readonly [label: string, text: string]

function helpRow([name, { placeholder, help }]: Row): HelpRow {
  return [placeholder === null ? `--${name}` : `--${name} ${placeholder}`, help]
}

function section(rows: readonly HelpRow[]): readonly string[] {
  if (rows.length === 0) return []
  const width = Math.max(...rows.map(([label]) => label.length))
  const lines = rows.flatMap(([label, text]) => {
    const [first = '', ...more] = wrap(text, width + 4)
    return [`  ${label.padEnd(width)}  ${first.trimStart()}`, ...more]
  })
  return [...lines, '']
}

/** Breaks text at spaces into lines that start with `indent` spaces. */
function wrap(text: string, indent: number): readonly string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && indent + line.length + 1 + word.length > LINE_LENGTH_MAX) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].map((each) => `${' '.repeat(indent)}${each}`)
}
