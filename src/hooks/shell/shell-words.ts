/** From a word as it was written to the arguments that it becomes: variables that are known, `~`, and `{a,b}`. */
import type { Part, Word } from './shell-tokens.ts'

export type Variables = Readonly<Record<string, string>>

export interface ShellArgument {
  /** Null: only a running shell knows it. */
  readonly text: string | null
  /** Has an unquoted `*`, `?` or `[`. */
  readonly isPattern: boolean
  /** The text of a here-document in a substitution that is this word alone, as in `"$(cat <<'EOF' …)"`. */
  readonly heredoc: string | null
  /** The variable that is given a value which is not known. */
  readonly assigned?: string
}

/** At most so many arguments come of one word with braces. */
const BRACES_MAX = 256

export function expandWord(
  word: Word,
  variables: ReadonlyMap<string, string | null>,
): readonly ShellArgument[] {
  const known = word.parts.map((part) => textOf(part, variables))
  const heredoc = heredocOf(word)
  if (known.includes(null)) {
    const [first] = word.parts
    const name = first?.kind === 'text' ? /^([A-Za-z_]\w*)=/.exec(first.text)?.[1] : undefined
    return [
      { text: null, isPattern: false, heredoc, ...(name === undefined ? {} : { assigned: name }) },
    ]
  }
  const isPattern = word.parts.some((part, index) => {
    return isUnquoted(part) && /[*?[]/.test(known[index] ?? '')
  })
  const text = homeIn(word, known.join(''), variables)
  return partedTexts(word, text).map((each) => ({ text: each, isPattern, heredoc }))
}

function isUnquoted(part: Part | undefined): boolean {
  return (part?.kind === 'text' || part?.kind === 'variable') && !part.isQuoted
}

function textOf(part: Part, variables: ReadonlyMap<string, string | null>): string | null {
  if (part.kind === 'text') return part.text
  return part.kind === 'variable' ? (variables.get(part.name) ?? null) : null
}

/** The value of a variable without quotes is several words where it has blanks. */
function partedTexts({ parts }: Word, text: string): readonly string[] {
  const [only] = parts
  if (parts.length > 1 || !isUnquoted(only)) return [text]
  return only?.kind === 'text' ? expandBraces(text) : text.split(/\s+/).filter(Boolean)
}

function homeIn(
  { parts }: Word,
  text: string,
  variables: ReadonlyMap<string, string | null>,
): string {
  const [first] = parts
  const home = variables.get('HOME')
  const isHome = first?.kind === 'text' && !first.isQuoted && /^~(?:\/|$)/.test(first.text)
  return isHome && home ? home + text.slice(1) : text
}

/** `a{b,c}d` becomes `abd` and `acd`; innermost first, left to right. */
function expandBraces(text: string): readonly string[] {
  const found = /\{([^{}]*,[^{}]*)\}/.exec(text)
  if (found === null) return [text]
  const [whole, inner = ''] = found
  const before = text.slice(0, found.index)
  const after = text.slice(found.index + whole.length)
  const expanded = inner.split(',').flatMap((each) => expandBraces(`${before}${each}${after}`))
  return expanded.slice(0, BRACES_MAX)
}

const CAT_HEREDOC = /^\s*cat\s+<<-?\s*(['"]?)([\w-]+)\1[^\n]*\n([^]*?)\n?\t*\2\s*$/

function heredocOf({ parts }: Word): string | null {
  const whole = parts.filter((part) => part.kind !== 'text' || part.text !== '')
  const [only] = whole
  if (whole.length !== 1 || only?.kind !== 'command') return null
  return CAT_HEREDOC.exec(only.source)?.[3] ?? null
}
