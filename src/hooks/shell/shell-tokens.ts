/**
 * Cuts a command line into tokens as a POSIX shell does, with what bash adds that agents use: quotes, escapes, `$'…'`,
 * comments, here-documents and here-strings, `$(…)`, backquotes, `<(…)`, `[[ … ]]` and `((…))`.
 *
 * Nothing is expanded here. A word keeps its parts, so that a reader of it knows what is literal, what is a variable,
 * and what only a running shell could tell.
 */

export type Part =
  | { readonly kind: 'text'; readonly text: string; readonly isQuoted: boolean }
  | { readonly kind: 'variable'; readonly name: string; readonly isQuoted: boolean }
  /** `$(…)`, backquotes, `<(…)`: another command line, whose output is not known. */
  | { readonly kind: 'command'; readonly source: string }
  /** `${x:-y}`, `$((…))`, `$?`: known to a running shell only. */
  | { readonly kind: 'unknown' }

export interface Word {
  readonly parts: readonly Part[]
}

export interface Redirect {
  /** `<`, `>`, `>>`, `>|`, `<>`, `&>`, `&>>`, `<<`, `<<<`, `>&`, `<&`. */
  readonly operator: string
  readonly target: Word
  /** The text of a here-document. */
  readonly body: string | null
}

export type ShellToken =
  | { readonly kind: 'word'; readonly word: Word }
  | { readonly kind: 'operator'; readonly text: string }
  | { readonly kind: 'redirect'; readonly redirect: Redirect }

/** The command line ends inside of a quote, a substitution or a here-document. */
export class UnreadableShell extends Error {}

const BLANKS = ' \t\r'
const WORD_ENDS = `${BLANKS}\n;&|<>()`
/** The longest first. */
const OPERATORS = ['&&', '||', ';;', '|&', ';', '&', '|', '(', ')', '\n']
const REDIRECTS = ['&>>', '<<<', '<<-', '&>', '<<', '>>', '>|', '<>', '>&', '<&', '<', '>']

interface PendingBody {
  readonly redirect: { operator: string; target: Word; body: string | null }
  readonly isIndented: boolean
}

export function shellTokens(source: string): readonly ShellToken[] {
  return new Lexer(source).tokens()
}

class Lexer {
  readonly #source: string
  readonly #tokens: ShellToken[] = []
  #at = 0
  #pending: PendingBody[] = []
  /** Inside of `[[ … ]]`, where `<`, `>` and parentheses are no operators. */
  #isTest = false

  constructor(source: string) {
    this.#source = source
  }

  tokens(): readonly ShellToken[] {
    while (this.#at < this.#source.length) this.#next()
    if (this.#pending.length > 0) throw new UnreadableShell('a here-document has no end')
    return this.#tokens
  }

  #next(): void {
    const char = this.#source.charAt(this.#at)
    if (BLANKS.includes(char)) this.#at += 1
    else if (this.#starts('\\\n')) this.#at += 2
    else if (char === '#') this.#skipLine()
    else if (this.#isTest) this.#testWord()
    else if (this.#starts('((')) this.#skipArithmetic()
    else if (this.#readRedirect()) return
    else if (this.#readOperator()) return
    else this.#readWord()
  }

  #starts(text: string): boolean {
    return this.#source.startsWith(text, this.#at)
  }

  #skipLine(): void {
    const end = this.#source.indexOf('\n', this.#at)
    this.#at = end === -1 ? this.#source.length : end
  }

  #skipArithmetic(): void {
    const end = this.#source.indexOf('))', this.#at)
    if (end === -1) throw new UnreadableShell('(( has no ))')
    this.#at = end + 2
    this.#tokens.push({ kind: 'word', word: { parts: [literal(':')] } })
  }

  #testWord(): void {
    if (this.#source.charAt(this.#at) === '\n') {
      this.#at += 1
      return
    }
    if (this.#starts(']]')) {
      this.#at += 2
      this.#isTest = false
      return
    }
    this.#tokens.push({ kind: 'word', word: this.#word(`${BLANKS}\n`) })
  }

  #readOperator(): boolean {
    const text = OPERATORS.find((operator) => this.#starts(operator))
    if (text === undefined) return false
    this.#at += text.length
    this.#tokens.push({ kind: 'operator', text })
    if (text === '\n') this.#readBodies()
    return true
  }

  #readRedirect(): boolean {
    const head = this.#source.slice(this.#at, this.#at + 12)
    const digits = /^\d+(?=[<>])/.exec(head)?.[0].length ?? 0
    const operator = REDIRECTS.find((one) => this.#source.startsWith(one, this.#at + digits))
    if (operator === undefined) return false
    const isSubstitution = (operator === '<' || operator === '>') && this.#isOpenAfter(digits)
    if (isSubstitution) return false
    this.#at += digits + operator.length
    this.#skipBlanks()
    const target = this.#word(WORD_ENDS)
    if (target.parts.length === 0) throw new UnreadableShell(`${operator} has no target`)
    const redirect = { operator: operator === '<<-' ? '<<' : operator, target, body: null }
    if (redirect.operator === '<<') this.#pending.push({ redirect, isIndented: operator === '<<-' })
    this.#tokens.push({ kind: 'redirect', redirect })
    return true
  }

  /** `<(` and `>(` are substitutions, not redirections. */
  #isOpenAfter(digits: number): boolean {
    return digits === 0 && this.#source.charAt(this.#at + 1) === '('
  }

  #skipBlanks(): void {
    while (this.#at < this.#source.length && BLANKS.includes(this.#source.charAt(this.#at))) {
      this.#at += 1
    }
  }

  #readBodies(): void {
    for (const { redirect, isIndented } of this.#pending) {
      const end = redirect.target.parts
        .map((part) => (part.kind === 'text' ? part.text : ''))
        .join('')
      redirect.body = this.#body(end, isIndented)
    }
    this.#pending = []
  }

  #body(end: string, isIndented: boolean): string {
    const lines: string[] = []
    while (this.#at < this.#source.length) {
      const found = this.#source.indexOf('\n', this.#at)
      const stop = found === -1 ? this.#source.length : found
      const raw = this.#source.slice(this.#at, stop)
      const line = isIndented ? raw.replace(/^\t+/, '') : raw
      this.#at = stop + 1
      if (line === end) return lines.map((one) => `${one}\n`).join('')
      lines.push(line)
    }
    throw new UnreadableShell(`the here-document has no ${end}`)
  }

  #readWord(): void {
    const word = this.#word(WORD_ENDS)
    if (plainText(word) === '[[') this.#isTest = true
    this.#tokens.push({ kind: 'word', word })
  }

  #word(ends: string): Word {
    const parts: Part[] = []
    while (this.#at < this.#source.length) {
      const char = this.#source.charAt(this.#at)
      const isProcess = (char === '<' || char === '>') && this.#isOpenAfter(0)
      if (ends.includes(char) && !isProcess) break
      if (isProcess) parts.push(this.#substitution(2))
      else parts.push(...this.#part(char, ends))
    }
    return { parts }
  }

  #part(char: string, ends: string): readonly Part[] {
    switch (char) {
      case "'":
        return [this.#singleQuoted()]
      case '"':
        return this.#doubleQuoted()
      case '`':
        return [this.#backquoted()]
      case '$':
        return [this.#dollar(false)]
      case '\\':
        return this.#escaped()
      default:
        return [this.#bare(ends)]
    }
  }

  #bare(ends: string): Part {
    return { kind: 'text', text: this.#untilAny(`${ends}'"\`$\\`), isQuoted: false }
  }

  #escaped(): readonly Part[] {
    const next = this.#source.charAt(this.#at + 1)
    this.#at += 2
    return next === '\n' ? [] : [literal(next)]
  }

  #singleQuoted(): Part {
    const end = this.#source.indexOf("'", this.#at + 1)
    if (end === -1) throw new UnreadableShell("' has no end")
    const text = this.#source.slice(this.#at + 1, end)
    this.#at = end + 1
    return literal(text)
  }

  #doubleQuoted(): readonly Part[] {
    const parts: Part[] = [literal('')]
    this.#at += 1
    for (;;) {
      const char = this.#source.charAt(this.#at)
      if (char === '') throw new UnreadableShell('" has no end')
      if (char === '"') break
      if (char === '$') parts.push(this.#dollar(true))
      else if (char === '`') parts.push(this.#backquoted())
      else if (char === '\\' && '$`"\\\n'.includes(this.#source.charAt(this.#at + 1))) {
        parts.push(...this.#escaped())
      } else {
        parts.push(literal(this.#untilAny('"$`\\')))
      }
    }
    this.#at += 1
    return joined(parts)
  }

  /** At least one character, and all that follow up to one of these. */
  #untilAny(stops: string): string {
    const start = this.#at
    do this.#at += 1
    while (this.#at < this.#source.length && !stops.includes(this.#source.charAt(this.#at)))
    return this.#source.slice(start, this.#at)
  }

  #backquoted(): Part {
    const end = this.#source.indexOf('`', this.#at + 1)
    if (end === -1) throw new UnreadableShell('` has no end')
    const source = this.#source.slice(this.#at + 1, end)
    this.#at = end + 1
    return { kind: 'command', source }
  }

  #dollar(isQuoted: boolean): Part {
    if (this.#starts("$'")) {
      this.#at += 1
      return this.#ansiQuoted()
    }
    if (this.#starts('$((')) {
      const end = this.#source.indexOf('))', this.#at)
      if (end === -1) throw new UnreadableShell('$(( has no ))')
      this.#at = end + 2
      return { kind: 'unknown' }
    }
    if (this.#starts('$(')) return this.#substitution(2)
    if (this.#starts('${')) return this.#braced(isQuoted)
    const name = /^[A-Za-z_]\w*/.exec(this.#source.slice(this.#at + 1, this.#at + 200))?.[0]
    if (name !== undefined) {
      this.#at += 1 + name.length
      return { kind: 'variable', name, isQuoted }
    }
    const isSpecial = /^[?$!#@*\d-]/.test(this.#source.charAt(this.#at + 1))
    this.#at += isSpecial ? 2 : 1
    return isSpecial ? { kind: 'unknown' } : literal('$')
  }

  #ansiQuoted(): Part {
    const found = /^'((?:[^'\\]|\\[^])*)'/.exec(this.#source.slice(this.#at))
    if (found === null) throw new UnreadableShell("$' has no end")
    this.#at += found[0].length
    const text = found[1] ?? ''
    return /\\[^nt'"\\]/.test(text) ? { kind: 'unknown' } : literal(plainEscapes(text))
  }

  #braced(isQuoted: boolean): Part {
    const end = this.#source.indexOf('}', this.#at)
    if (end === -1) throw new UnreadableShell('${ has no }')
    const name = this.#source.slice(this.#at + 2, end)
    this.#at = end + 1
    return /^[A-Za-z_]\w*$/.test(name) ? { kind: 'variable', name, isQuoted } : { kind: 'unknown' }
  }

  /** From an opening parenthesis, whose `length` includes what stands before it, to the one that closes it. */
  #substitution(length: number): Part {
    const start = this.#at + length
    const end = closingParenthesis(this.#source, start)
    this.#at = end + 1
    return { kind: 'command', source: this.#source.slice(start, end) }
  }
}

/** Where the parenthesis that was opened before `start` is closed; quotes and here-documents inside are passed over. */
function closingParenthesis(source: string, start: number): number {
  let depth = 1
  for (let at = start; at < source.length; at += 1) {
    const char = source.charAt(at)
    if (char === '\\') at += 1
    else if (char === "'" || char === '"') at = closingQuote(source, at)
    else if (char === '<' && source.startsWith('<<', at)) at = hereDocumentEnd(source, at)
    else if (char === '(') depth += 1
    else if (char === ')') {
      depth -= 1
      if (depth === 0) return at
    }
  }
  throw new UnreadableShell('( has no )')
}

function closingQuote(source: string, at: number): number {
  const quote = source.charAt(at)
  for (let end = at + 1; end < source.length; end += 1) {
    if (quote === '"' && source.charAt(end) === '\\') end += 1
    else if (source.charAt(end) === quote) return end
  }
  throw new UnreadableShell(`${quote} has no end`)
}

/** The last character of a here-document that begins at `at`; `at` itself for a here-string. */
function hereDocumentEnd(source: string, at: number): number {
  const head = /^<<-?\s*(['"]?)([\w-]+)\1/.exec(source.slice(at, at + 200))
  const [whole, , delimiter] = head ?? []
  if (whole === undefined || delimiter === undefined) return at + 1
  const lines = source.indexOf('\n', at)
  if (lines === -1) throw new UnreadableShell(`the here-document has no ${delimiter}`)
  const end = new RegExp(`^\\t*${delimiter}$`, 'm').exec(source.slice(lines + 1))
  if (end === null) throw new UnreadableShell(`the here-document has no ${delimiter}`)
  return lines + end.index + end[0].length
}

function plainEscapes(text: string): string {
  const meanings: Readonly<Record<string, string>> = { n: '\n', t: '\t' }
  return text.replaceAll(/\\(.)/gs, (_, char: string) => meanings[char] ?? char)
}

function literal(text: string): Part {
  return { kind: 'text', text, isQuoted: true }
}

/** Neighbours that are quoted text become one. */
function joined(parts: readonly Part[]): readonly Part[] {
  const whole: Part[] = []
  for (const part of parts) {
    const last = whole.at(-1)
    if (part.kind === 'text' && last?.kind === 'text') {
      whole[whole.length - 1] = literal(last.text + part.text)
    } else whole.push(part)
  }
  return whole
}

/** The text of a word that has nothing quoted and nothing to expand; null for any other. */
export function plainText({ parts }: Word): string | null {
  const [only] = parts
  return parts.length === 1 && only?.kind === 'text' && !only.isQuoted ? only.text : null
}
