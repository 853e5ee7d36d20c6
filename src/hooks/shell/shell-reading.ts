/**
 * What a command line would do to files, read without running it. What cannot be read is said to be so (`isKnown`), with
 * the words that may be paths (`named`): the caller checks those afterwards. Words of control flow (`if`, `then`, `{` …) are
 * passed over: every branch may run. The body of a `for` loop is read once for each of its words.
 *
 * Pure: the file system is asked through `ShellContext` alone.
 */
import path from 'node:path'
import { argumentOf, writesTo, type Effects, type ShellContext } from './shell-effects.ts'
import { programEffects } from './shell-programs.ts'
import {
  shellTokens,
  UnreadableShell,
  type Redirect,
  type Word,
  plainText,
  type ShellToken,
} from './shell-tokens.ts'
import { expandWord, type ShellArgument } from './shell-words.ts'

export interface ShellReading {
  /** Absolute, in the order in which they are written. */
  readonly writes: readonly string[]
  /** Directories whose whole checkout is moved, each with the words that do it. */
  readonly checkouts: readonly { readonly directory: string; readonly command: string }[]
  /** Directories in which something is committed. */
  readonly commits: readonly string[]
  /** Absolute paths that a command names whose effect is not known. */
  readonly named: readonly string[]
  readonly isKnown: boolean
}

const NESTING_MAX = 8
/** How often the bodies of loops are read in all; beyond it, their variables are not known. */
const TURNS_MAX = 256

export function readShell(source: string, context: ShellContext): ShellReading {
  const reader = new ShellReader(context)
  reader.run(source, new Scope(context.cwd, new Map(Object.entries(context.variables))), 0)
  return reader.reading
}

/** Where a command runs, and with which variables: a copy for everything that runs in a shell of its own. */
class Scope {
  /** Null: the directory is not known. */
  cwd: string | null
  readonly variables: Map<string, string | null>
  /** What a `for` has said of the loop that comes next. */
  loop: Loop = ONCE

  constructor(cwd: string | null, variables: ReadonlyMap<string, string | null>) {
    this.cwd = cwd
    this.variables = new Map(variables)
  }

  copy(): Scope {
    return new Scope(this.cwd, this.variables)
  }
}

interface Loop {
  readonly variable: string
  /** Null: not known. */
  readonly values: readonly (string | null)[]
}

const ONCE: Loop = { variable: '', values: [null] }

class ShellReader {
  readonly #context: ShellContext
  readonly #writes = new Set<string>()
  readonly #named = new Set<string>()
  readonly #checkouts: { readonly directory: string; readonly command: string }[] = []
  readonly #commits: string[] = []
  /** How many commands could not be read. */
  #unknown = 0
  #turnsLeft = TURNS_MAX

  constructor(context: ShellContext) {
    this.#context = context
  }

  get reading(): ShellReading {
    return {
      writes: [...this.#writes],
      checkouts: this.#checkouts,
      commits: this.#commits,
      named: [...this.#named],
      isKnown: this.#unknown === 0,
    }
  }

  run(source: string, scope: Scope, depth: number): void {
    if (depth > NESTING_MAX) return this.#notRead(source, scope)
    try {
      this.#runAll(shellScript(shellTokens(source)), scope, depth)
    } catch (error) {
      // No fault: what is not read is let through and looked at afterwards, as `isKnown` says.
      if (!(error instanceof UnreadableShell)) throw error
      this.#notRead(source, scope)
    }
  }

  #notRead(source: string, { cwd }: Scope): void {
    this.#unknown += 1
    this.#name(source, cwd)
  }

  #runAll(script: readonly Pipeline[], scope: Scope, depth: number): void {
    for (const pipeline of script) {
      const before = this.#unknown
      let input: string | null = null
      for (const command of pipeline) {
        const own = pipeline.length === 1 ? scope : scope.copy()
        this.#runCommand(command, { scope: own, depth, input })
        input = this.#outputOf(command, own, input)
      }
      // What is piped into a program may tell it what to write to: `grep -l x src/* | xargs sed -i …`.
      if (this.#unknown > before) for (const command of pipeline) this.#nameAll(command, scope)
    }
  }

  #runLoop(body: readonly Pipeline[], scope: Scope, depth: number): void {
    const { variable, values } = scope.loop
    scope.loop = ONCE
    this.#turnsLeft -= values.length
    for (const value of this.#turnsLeft < 0 ? [null] : values) {
      scope.variables.set(variable, value)
      this.#runAll(body, scope, depth)
    }
  }

  #runCommand(command: ShellCommand, run: Run): void {
    const { scope, depth } = run
    for (const redirect of command.redirects) this.#redirect(redirect, scope, depth)
    if (command.kind !== 'simple') {
      if (command.kind === 'loop') this.#runLoop(command.body, scope, depth)
      else this.#runAll(command.body, scope.copy(), depth)
      return
    }
    for (const word of command.words) this.#nested(word, scope, depth)
    const words = this.#expandAll(command.words, scope)
    const first = words.findIndex(({ text }) => !/^[A-Za-z_]\w*\+?=/.test(text ?? ''))
    const assigned = first === -1 ? words : words.slice(0, first)
    if (first === -1) for (const each of assigned) assign(scope, each)
    const [program, ...args] = first === -1 ? [] : words.slice(first)
    if (program === undefined) return
    if (program.text === 'for') scope.loop = loopOf(args)
    else this.#runProgram(program, args, { ...run, command })
  }

  #runProgram(program: ShellArgument, args: readonly ShellArgument[], run: Run & Called): void {
    const { scope, depth, command } = run
    const { cwd } = scope
    if (program.text === null || cwd === null) {
      this.#unknown += 1
      return
    }
    if (ASSIGNING.has(program.text)) for (const each of args) assign(scope, each)
    const input = inputOf(command) ?? this.#inputFile(command, scope) ?? run.input
    const call = { program: program.text, args, cwd, input, context: this.#context }
    for (const effects of programEffects(call)) {
      this.#take(effects)
      if (effects.isUnknown === true) this.#name(input ?? '', cwd)
      if (effects.cwd !== undefined) scope.cwd = effects.cwd
      if (effects.script !== undefined) this.run(effects.script, scope.copy(), depth + 1)
    }
  }

  #take({ writes = [], named = [], checkout, commit, isUnknown = false }: Effects): void {
    for (const file of writes) this.#writes.add(file)
    for (const file of named) this.#named.add(file)
    if (checkout !== undefined) this.#checkouts.push(checkout)
    if (commit !== undefined) this.#commits.push(commit)
    if (isUnknown) this.#unknown += 1
  }

  #nameAll(command: ShellCommand, scope: Scope): void {
    const words = command.kind === 'simple' ? this.#expandAll(command.words, scope) : []
    for (const { text } of words) this.#name(text ?? '', scope.cwd)
  }

  /** What may be a path, whole or a word of it, also behind the `=` of an option: a script names files in quotes. */
  #name(text: string, cwd: string | null): void {
    const some = text.slice(0, NAMING_MAX)
    for (const word of [some, ...some.split(BETWEEN_WORDS)]) {
      const name = word.replace(/^-[\w-]*=?/, '')
      if (name === '' || name.length > NAME_MAX || name.includes('\n')) continue
      if (cwd !== null || path.isAbsolute(name)) this.#named.add(path.resolve(cwd ?? '/', name))
    }
  }

  #redirect({ operator, target }: Redirect, scope: Scope, depth: number): void {
    this.#nested(target, scope, depth)
    if (operator.startsWith('<') && operator !== '<>') return
    for (const { text } of this.#expand(target, scope)) {
      if (operator === '>&' && /^(?:\d+|-)$/.test(text ?? '')) continue
      const isSomewhere = scope.cwd === null && !path.isAbsolute(text ?? '')
      const file = argumentOf(isSomewhere ? null : text)
      for (const effects of writesTo([file], scope.cwd ?? '/')) this.#take(effects)
    }
  }

  #nested(word: Word, scope: Scope, depth: number): void {
    for (const part of word.parts) {
      if (part.kind === 'command') this.run(part.source, scope.copy(), depth + 1)
    }
  }

  #expandAll(words: readonly Word[], scope: Scope): readonly ShellArgument[] {
    return words.flatMap((word) => this.#expand(word, scope))
  }

  #expand(word: Word, { variables, cwd }: Scope): readonly ShellArgument[] {
    return expandWord(word, variables).flatMap((argument): readonly ShellArgument[] => {
      const { text, isPattern } = argument
      if (!isPattern || text === null || cwd === null) return [argument]
      const found = this.#context.glob(path.resolve(cwd, text))
      if (found.length === 0) return [argument]
      return found.map(argumentOf)
    })
  }

  /** What the next command of a pipeline reads, where this one only passes text on. */
  #outputOf(command: ShellCommand, scope: Scope, input: string | null): string | null {
    if (command.kind !== 'simple') return null
    const [program, ...args] = this.#expandAll(command.words, scope)
    const texts = args.map(({ text }) => text)
    if (program?.text === 'echo' || program?.text === 'printf') {
      return texts.includes(null) ? null : texts.join(' ')
    }
    if (program?.text !== 'cat') return null
    const [file] = texts
    if (file === undefined || file === '-') return inputOf(command) ?? input
    return file === null || scope.cwd === null
      ? null
      : this.#context.readText(path.resolve(scope.cwd, file))
  }

  #inputFile({ redirects }: SimpleCommand, scope: Scope): string | null {
    const redirect = redirects.findLast(({ operator }) => operator === '<')
    const [target] = redirect === undefined ? [] : this.#expand(redirect.target, scope)
    if (target === undefined || target.text === null || scope.cwd === null) return null
    return this.#context.readText(path.resolve(scope.cwd, target.text))
  }
}

interface Run {
  readonly scope: Scope
  readonly depth: number
  readonly input: string | null
}

interface Called {
  readonly command: SimpleCommand
}

/** `for NAME in WORDS`; without words it is about the arguments of the script, which are not known. */
function loopOf([variable, keyword, ...words]: readonly ShellArgument[]): Loop {
  const values = keyword?.text === 'in' ? words.map(({ text }) => text) : [null]
  return { variable: variable?.text ?? '', values }
}

const BETWEEN_WORDS = /[\s;|&<>()'"`]+/
/** Of a longer script its beginning is looked at for names. */
const NAMING_MAX = 8_192

/** Longer words are scripts and messages, not names of files. */
const NAME_MAX = 1024

/** The text of a here-document or here-string. */
function inputOf({ redirects }: SimpleCommand): string | null {
  const redirect = redirects.findLast(({ operator }) => operator === '<<' || operator === '<<<')
  if (redirect === undefined) return null
  if (redirect.body !== null) return redirect.body
  const [part] = redirect.target.parts
  return redirect.target.parts.length === 1 && part?.kind === 'text' ? part.text : null
}

const ASSIGNING: ReadonlySet<string> = new Set([
  'export',
  'declare',
  'local',
  'readonly',
  'typeset',
])

function assign({ variables }: Scope, { text, assigned }: ShellArgument): void {
  const [, name, value = ''] = /^([A-Za-z_]\w*)=([^]*)$/.exec(text ?? '') ?? []
  if (name !== undefined) variables.set(name, value)
  else if (assigned !== undefined) variables.set(assigned, null)
}

interface SimpleCommand {
  readonly kind: 'simple'
  readonly words: readonly Word[]
  readonly redirects: readonly Redirect[]
}

/** `( … )`, whose directory and variables end with it, or `do … done`. */
interface Compound {
  readonly kind: 'subshell' | 'loop'
  readonly body: readonly Pipeline[]
  readonly redirects: readonly Redirect[]
}

type ShellCommand = SimpleCommand | Compound
type Pipeline = readonly ShellCommand[]

/** Of `case`, whose patterns are no commands, and functions, whose bodies run at another time, nothing is made. */
const UNREAD: ReadonlySet<string> = new Set(['case', 'function', 'select', 'coproc'])

const FLOW: ReadonlySet<string> = new Set([
  ...['if', 'then', 'else', 'elif', 'fi', 'while', 'until', '{', '}', '!', 'time'],
])

function shellScript(tokens: readonly ShellToken[]): readonly Pipeline[] {
  const reader = new ScriptReader(tokens)
  const script = reader.list()
  if (!reader.isAtEnd) throw new UnreadableShell('there is a ) or done too many')
  return script
}

class ScriptReader {
  readonly #tokens: readonly ShellToken[]
  #at = 0

  constructor(tokens: readonly ShellToken[]) {
    this.#tokens = tokens
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#tokens.length
  }

  list(): readonly Pipeline[] {
    const pipelines: Pipeline[] = []
    while (!this.isAtEnd && !this.#isAt(')') && this.#nextWord() !== 'done') {
      const pipeline = this.#pipeline()
      if (pipeline.length > 0) pipelines.push(pipeline)
      if (this.#tokens[this.#at]?.kind === 'operator' && !this.#isAt(')')) this.#at += 1
    }
    return pipelines
  }

  /** The plain word that comes next, if one does. */
  #nextWord(): string | null {
    const token = this.#tokens[this.#at]
    return token?.kind === 'word' ? plainText(token.word) : null
  }

  #isAt(...operators: readonly string[]): boolean {
    const token = this.#tokens[this.#at]
    return token?.kind === 'operator' && operators.includes(token.text)
  }

  #pipeline(): Pipeline {
    const commands: ShellCommand[] = []
    for (;;) {
      const command = this.#command()
      if (command !== null) commands.push(command)
      if (!this.#isAt('|', '|&')) return commands
      this.#at += 1
      while (this.#isAt('\n')) this.#at += 1
    }
  }

  #command(): ShellCommand | null {
    this.#skipFlow()
    const isLoop = this.#nextWord() === 'do'
    if (!isLoop && !this.#isAt('(')) return this.#simple()
    this.#at += 1
    const body = this.list()
    if (isLoop ? this.#nextWord() !== 'done' : !this.#isAt(')')) {
      throw new UnreadableShell(isLoop ? 'do has no done' : '( has no )')
    }
    this.#at += 1
    const { redirects } = this.#wordsAndRedirects(false)
    return { kind: isLoop ? 'loop' : 'subshell', body, redirects }
  }

  #skipFlow(): void {
    for (;;) {
      const text = this.#nextWord()
      if (text !== null && UNREAD.has(text)) throw new UnreadableShell(`${text} is not read`)
      if (text === null || !FLOW.has(text)) return
      this.#at += 1
    }
  }

  #wordsAndRedirects(hasWords: boolean): Omit<SimpleCommand, 'kind'> {
    const words: Word[] = []
    const redirects: Redirect[] = []
    for (; !this.isAtEnd; this.#at += 1) {
      const token = this.#tokens[this.#at]
      if (token?.kind === 'redirect') redirects.push(token.redirect)
      else if (token?.kind === 'word' && hasWords) words.push(token.word)
      else break
    }
    return { words, redirects }
  }

  #simple(): SimpleCommand | null {
    const { words, redirects } = this.#wordsAndRedirects(true)
    if (this.#isAt('(')) throw new UnreadableShell('a function is not read')
    if (words.length === 0 && redirects.length === 0) return null
    return { kind: 'simple', words, redirects }
  }
}
