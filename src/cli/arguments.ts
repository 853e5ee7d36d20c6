/**
 * Command lines. Each command declares one table of options and a list of positionals; that table alone drives the
 * parsing, `--help`, and what is said about an option that is not known.
 */
import { invalid, LeaseError, show } from '../core/errors.ts'
import { WAIT_MS_MAX } from '../core/limits.ts'
import { parseDuration, type DurationLimit } from './duration.ts'

export interface Option<Value> {
  /** What stands for the value in help; null for a flag, which takes none. */
  readonly placeholder: string | null
  readonly help: string
  readonly read: (text: string) => Value
}

export type OptionTable = Readonly<Record<string, Option<unknown>>>

export type OptionValues<Table extends OptionTable> = {
  readonly [Name in keyof Table]: Table[Name] extends Option<infer Value>
    ? Value | undefined
    : never
}

export interface Positional {
  readonly name: string
  readonly help: string
  readonly optional?: boolean
  /** May be given more than once; only the last of a command's positionals. */
  readonly several?: boolean
}

export interface CommandShape<Table extends OptionTable> {
  readonly options: Table
  readonly positionals: readonly Positional[]
  /** What follows `--`, when the command takes such a thing. */
  readonly rest?: Positional
}

export interface Arguments<Table extends OptionTable> {
  readonly options: OptionValues<Table>
  readonly positionals: readonly string[]
  readonly rest: readonly string[]
}

export function flag(help: string): Option<true> {
  return { placeholder: null, help, read: () => true }
}

export function textOption(placeholder: string, help: string): Option<string> {
  return { placeholder, help, read: (text) => text }
}

/** An empty one would mean the working directory, and is most often a variable whose value went missing. */
export function directoryOption(field: string, help: string): Option<string> {
  const read = (text: string): string => {
    if (text === '') throw invalid(field, 'must be a path', text)
    return text
  }
  return { placeholder: 'DIR', help, read }
}

export function durationOption(limit: DurationLimit, help: string): Option<number> {
  return { placeholder: 'DURATION', help, read: (text) => parseDuration(limit, text) }
}

/** How long to wait, which may be for ever. */
export function waitOption(field: string, help: string): Option<number> {
  const limit = { field, minMs: 0, maxMs: WAIT_MS_MAX, orForever: true }
  return durationOption(limit, help)
}

export interface IntegerLimit {
  readonly field: string
  readonly min: number
  readonly max: number
}

export function integerOption(limit: IntegerLimit, help: string): Option<number> {
  return { placeholder: 'N', help, read: (text) => parseInteger(limit, text) }
}

function parseInteger({ field, min, max }: IntegerLimit, text: string): number {
  const value = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (value >= min && value <= max) return value
  throw invalid(field, `must be an integer ${min}..${max}`, text)
}

export function wordOption<Word extends string>(
  field: string,
  words: readonly Word[],
  { placeholder, help }: Pick<Option<Word>, 'placeholder' | 'help'>,
): Option<Word> {
  return { placeholder, help, read: (text) => readWord(field, words, text) }
}

/** One of a few words, such as what a command with several actions is to do. */
export function readWord<Word extends string>(
  field: string,
  words: readonly Word[],
  text: string | undefined,
): Word {
  const word = words.find((candidate) => candidate === text)
  if (word !== undefined) return word
  const few = words.length < 3 ? words.join(' or ') : `one of ${words.join(', ')}`
  throw invalid(field, `must be ${few}`, text)
}

/** Whether help is asked for, before anything else is looked at: a person who is lost gets help, not a complaint. */
export function asksFor(argv: readonly string[], ...names: readonly string[]): boolean {
  const end = argv.indexOf('--')
  return argv.slice(0, end < 0 ? argv.length : end).some((argument) => names.includes(argument))
}

export function parseArguments<Table extends OptionTable>(
  shape: CommandShape<Table>,
  argv: readonly string[],
): Arguments<Table> {
  argv.forEach(refuseBrokenText)
  const values = new Map<string, unknown>()
  const positionals: string[] = []
  let rest: readonly string[] = []
  for (let index = 0; index < argv.length; index += 1) {
    const argument = argv[index] ?? ''
    if (argument === '--') {
      const remaining = argv.slice(index + 1)
      if (shape.rest === undefined) positionals.push(...remaining)
      else rest = remaining
      break
    }
    if (!isOption(argument)) positionals.push(argument)
    else index += readOption({ shape, values }, argument, argv[index + 1])
  }
  checkPositionals(shape, positionals)
  if (shape.rest !== undefined && rest.length === 0) throw missing(shape.rest, ' after --')
  return { options: Object.fromEntries(values) as OptionValues<Table>, positionals, rest }
}

/** Node has already turned bytes that are no UTF-8 into U+FFFD: two different names would become one. */
function refuseBrokenText(argument: string): void {
  if (argument.includes('\ufffd')) throw invalid('argument', 'must be valid UTF-8', argument)
}

/** A minus before a digit is a number (`config set max_renewals -1`), and a minus alone a name. */
function isOption(argument: string): boolean {
  return /^-[^\d]/.test(argument)
}

interface Reading<Table extends OptionTable> {
  readonly shape: CommandShape<Table>
  readonly values: Map<string, unknown>
}

/** Reads one option into `values`; returns how many arguments beyond its own it used up. */
function readOption<Table extends OptionTable>(
  { shape, values }: Reading<Table>,
  argument: string,
  next: string | undefined,
): number {
  const equals = argument.indexOf('=')
  const spelling = equals < 0 ? argument : argument.slice(0, equals)
  const name = spelling.replace(/^--/, '')
  const option = Object.hasOwn(shape.options, name) ? shape.options[name] : undefined
  if (option === undefined || !spelling.startsWith('--'))
    throw unknownOption(shape.options, spelling)
  const inline = equals < 0 ? undefined : argument.slice(equals + 1)
  if (option.placeholder === null) {
    if (inline !== undefined) throw invalid(name, 'must be given without a value', inline)
    values.set(name, option.read(''))
    return 0
  }
  if (values.has(name)) throw invalid(name, 'must be given once', inline ?? next)
  const value = inline ?? (next?.startsWith('--') === true ? undefined : next)
  if (value === undefined) {
    throw usageError(name, `${name} must be followed by ${option.placeholder}, got nothing`)
  }
  values.set(name, option.read(value))
  return inline === undefined ? 1 : 0
}

function unknownOption(options: OptionTable, spelling: string): LeaseError {
  const known = Object.keys(options).map((name) => `--${name}`)
  const got = gotInstead(spelling, known)
  return usageError('option', `option must be one that --help lists, ${got}`)
}

function checkPositionals(shape: CommandShape<OptionTable>, given: readonly string[]): void {
  const needed = shape.positionals.filter(({ optional }) => optional !== true)
  const absent = needed[given.length]
  if (absent !== undefined) throw missing(absent, '')
  const extra = given[shape.positionals.length]
  if (extra === undefined || shape.positionals.at(-1)?.several === true) return
  const names = shape.positionals.map(({ name }) => name).join(' ')
  throw invalid('arguments', names === '' ? 'must be none' : `must be ${names} and no more`, extra)
}

function missing({ name }: Positional, where: string): LeaseError {
  return usageError(name, `${name} must be given${where}, got nothing (see --help)`)
}

export function usageError(field: string, message: string): LeaseError {
  return new LeaseError('INVALID_INPUT', message, { details: { field } })
}

/** Longer than any option; a longer word is no mistyped one. */
const WORD_LENGTH_MAX = 40

/** What came instead of a known word, and which of them the caller probably meant. */
export function gotInstead(word: string, known: readonly string[]): string {
  const near = nearest(word, known)
  return `got ${show(word)}${near === null ? '' : ` (did you mean ${near}?)`}`
}

/** The known word that the caller probably meant, or null when none is close. */
export function nearest(word: string, known: readonly string[]): string | null {
  if (word.length > WORD_LENGTH_MAX) return null
  const close = known
    .map((candidate) => ({ candidate, distance: editDistance(word, candidate) }))
    .filter(({ candidate, distance }) => distance <= Math.max(1, Math.floor(candidate.length / 3)))
    .sort((a, b) => a.distance - b.distance)
  return close[0]?.candidate ?? null
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row]
    for (let column = 1; column <= b.length; column += 1) {
      const swap = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1)
      const step = Math.min(previous[column] ?? 0, current[column - 1] ?? 0) + 1
      current.push(Math.min(swap, step))
    }
    previous = current
  }
  return previous[b.length] ?? 0
}
