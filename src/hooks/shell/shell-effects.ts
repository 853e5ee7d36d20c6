/** What a program does to files, and how its arguments are told apart; used by all programs that are read. */
import path from 'node:path'
import type { ShellArgument, Variables } from './shell-words.ts'

export interface ShellContext {
  readonly cwd: string
  readonly variables: Variables
  readonly isThere: (file: string) => boolean
  readonly isDirectory: (file: string) => boolean
  /** The text of a file, such as a patch; null if it cannot be read. */
  readonly readText: (file: string) => string | null
  /** The paths that a pattern with `*`, `?` or `[…]` stands for. */
  readonly glob: (pattern: string) => readonly string[]
}

/** What one program does. */
export interface Effects {
  readonly writes?: readonly string[]
  readonly checkout?: { readonly directory: string; readonly command: string }
  readonly commit?: string
  readonly named?: readonly string[]
  readonly isUnknown?: boolean
  /** Goes on in another directory; null: the directory is not known. */
  readonly cwd?: string | null
  /** Another command line that it runs. */
  readonly script?: string
}

/** A command and what it reads from its standard input, where that can be known. */
export interface ProgramCall {
  readonly program: string
  readonly args: readonly ShellArgument[]
  readonly cwd: string
  readonly input: string | null
  readonly context: ShellContext
}

export const UNKNOWN: readonly Effects[] = [{ isUnknown: true }]

/** Absolute; unknown as soon as one of them is. */
export function writesTo(files: readonly ShellArgument[], cwd: string): readonly Effects[] {
  const texts = files.map(({ text }) => text)
  const writes = texts.filter((text) => text !== null).map((text) => path.resolve(cwd, text))
  const isUnknown = texts.includes(null)
  const real = writes.filter((file) => !file.startsWith('/dev/'))
  return [{ writes: real, ...(isUnknown ? { isUnknown } : {}) }]
}

/** The arguments that are no options; `withValue` are options that take the next argument. */
export function operandsOf(
  args: readonly ShellArgument[],
  withValue: readonly string[] = [],
): readonly ShellArgument[] {
  const operands: ShellArgument[] = []
  for (let index = 0; index < args.length; index += 1) {
    const argument = args[index]
    if (argument === undefined) break
    const { text } = argument
    if (text === '--') return [...operands, ...args.slice(index + 1)]
    if (text !== null && takesNext(text, withValue)) index += 1
    else if (text === null || text === '-' || !text.startsWith('-')) operands.push(argument)
  }
  return operands
}

/** Also behind other letters: `-fsSLo x`. */
function takesNext(text: string, names: readonly string[]): boolean {
  const last = /^-[A-Za-z]+([A-Za-z])$/.exec(text)?.[1]
  return names.includes(text) || (last !== undefined && names.includes(`-${last}`))
}

/** What is given to options, as `-o x`, `-fo x`, `-ox`, `--output x` or `--output=x`. */
export function optionValues(
  args: readonly ShellArgument[],
  names: readonly string[],
): readonly ShellArgument[] {
  return args.flatMap((argument, index): readonly ShellArgument[] => {
    const { text } = argument
    if (text === null) return []
    const next = args[index + 1]
    if (takesNext(text, names)) return next === undefined ? [] : [next]
    const name = names.find((one) => {
      return one.startsWith('--') ? text.startsWith(`${one}=`) : text.startsWith(one)
    })
    if (name === undefined) return []
    return [
      { ...argument, text: text.slice(name.startsWith('--') ? name.length + 1 : name.length) },
    ]
  })
}

export function argumentOf(text: string | null): ShellArgument {
  return { text, isPattern: false, heredoc: null }
}
