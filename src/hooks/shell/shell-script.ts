/** From tokens to pipelines of commands. Words of control flow (`if`, `do`, `{` …) are passed over: every branch may run. */
import {
  plainText,
  UnreadableShell,
  type Redirect,
  type ShellToken,
  type Word,
} from './shell-tokens.ts'

export interface SimpleCommand {
  readonly kind: 'simple'
  readonly words: readonly Word[]
  readonly redirects: readonly Redirect[]
}

/** `( … )`: what it does to its directory and variables ends with it. */
export interface Subshell {
  readonly kind: 'subshell'
  readonly body: readonly Pipeline[]
  readonly redirects: readonly Redirect[]
}

export type ShellCommand = SimpleCommand | Subshell
export type Pipeline = readonly ShellCommand[]

/** Of `case`, whose patterns are no commands, and functions, whose bodies run at another time, nothing is made. */
const UNREAD: ReadonlySet<string> = new Set(['case', 'function', 'select', 'coproc'])

const FLOW: ReadonlySet<string> = new Set([
  ...['if', 'then', 'else', 'elif', 'fi', 'while', 'until', 'do', 'done', '{', '}', '!', 'time'],
])

export function shellScript(tokens: readonly ShellToken[]): readonly Pipeline[] {
  const reader = new ScriptReader(tokens)
  const script = reader.list()
  if (!reader.isAtEnd) throw new UnreadableShell('there is a ) too many')
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
    while (!this.isAtEnd && !this.#isAt(')')) {
      const pipeline = this.#pipeline()
      if (pipeline.length > 0) pipelines.push(pipeline)
      if (!this.isAtEnd && !this.#isAt(')')) this.#at += 1
    }
    return pipelines
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
    if (!this.#isAt('(')) return this.#simple()
    this.#at += 1
    const body = this.list()
    if (!this.#isAt(')')) throw new UnreadableShell('( has no )')
    this.#at += 1
    return { kind: 'subshell', body, redirects: this.#simple()?.redirects ?? [] }
  }

  #skipFlow(): void {
    for (;;) {
      const token = this.#tokens[this.#at]
      const text = token?.kind === 'word' ? plainText(token.word) : null
      if (text !== null && UNREAD.has(text)) throw new UnreadableShell(`${text} is not read`)
      if (text === null || !FLOW.has(text)) return
      this.#at += 1
    }
  }

  #simple(): SimpleCommand | null {
    const words: Word[] = []
    const redirects: Redirect[] = []
    for (; !this.isAtEnd; this.#at += 1) {
      const token = this.#tokens[this.#at]
      if (token === undefined || token.kind === 'operator') break
      if (token.kind === 'word') words.push(token.word)
      else redirects.push(token.redirect)
    }
    if (this.#isAt('(')) throw new UnreadableShell('a function is not read')
    if (words.length === 0 && redirects.length === 0) return null
    return { kind: 'simple', words, redirects }
  }
}
