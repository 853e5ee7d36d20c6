/**
 * JSON with comments and trailing commas, read with the place of everything in it, so that something can be put in or taken out
 * and all else stays as it is, byte for byte. It is never printed anew.
 */

/** Text in place of a stretch of the old text. */
export interface Edit {
  readonly start: number
  readonly end: number
  readonly text: string
}

export interface Container {
  readonly kind: 'object' | 'array'
  readonly start: number
  readonly end: number
  readonly items: readonly Item[]
}

export interface Scalar {
  readonly kind: 'scalar'
  readonly start: number
  readonly end: number
  readonly value: string | number | boolean | null
}

export type Node = Container | Scalar

/** A member of an object, with its key, or an element of an array. */
export interface Item {
  /** Null in an array. */
  readonly key: string | null
  readonly start: number
  readonly end: number
  readonly node: Node
  /** Where the comma behind it is; null for a last one without. */
  readonly comma: number | null
}

/** Deeper than any configuration, and less than what the stack takes. */
const DEPTH_MAX = 200

export class JsonTextError extends Error {}

/** Throws `JsonTextError` for what is no JSON even with comments. */
export function readJsonText(text: string): Node {
  return new Reader(text).read()
}

const SPACE = /(?:[ \t\r\n\ufeff]+|\/\/[^\n\r]*|\/\*[\s\S]*?\*\/)*/y
// oxlint-disable-next-line no-control-regex -- a string of JSON has none of these as they are
const STRING = /"(?:[^"\\\u0000-\u001f]|\\.)*"/y
const WORD = /(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w.])/y

class Reader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  read(): Node {
    this.#take(SPACE)
    const node = this.#node(0)
    this.#take(SPACE)
    if (this.#at < this.#text.length) throw this.#unexpected('nothing more')
    return node
  }

  #node(depth: number): Node {
    if (depth > DEPTH_MAX) throw this.#unexpected(`at most ${DEPTH_MAX} levels`)
    const start = this.#at
    if (this.#skip('{')) return this.#container('object', start, depth)
    if (this.#skip('[')) return this.#container('array', start, depth)
    const value = this.#scalar()
    return { kind: 'scalar', start, end: this.#at, value }
  }

  #container(kind: Container['kind'], start: number, depth: number): Container {
    const close = kind === 'object' ? '}' : ']'
    const items: Item[] = []
    for (;;) {
      this.#take(SPACE)
      if (this.#skip(close)) return { kind, start, end: this.#at, items }
      if (items.length > 0 && items.at(-1)?.comma === null) throw this.#unexpected(`, or ${close}`)
      items.push(this.#item(kind, depth))
    }
  }

  #item(kind: Container['kind'], depth: number): Item {
    const start = this.#at
    const key = kind === 'object' ? this.#key() : null
    const node = this.#node(depth + 1)
    const end = this.#at
    this.#take(SPACE)
    const comma = this.#skip(',') ? this.#at - 1 : null
    return { key, start, end, node, comma }
  }

  #key(): string {
    const key = this.#string()
    if (key === null) throw this.#unexpected('a key')
    this.#take(SPACE)
    if (!this.#skip(':')) throw this.#unexpected(':')
    this.#take(SPACE)
    return key
  }

  #scalar(): Scalar['value'] {
    const string = this.#string()
    if (string !== null) return string
    const word = this.#take(WORD)
    if (word === '') throw this.#unexpected('a value')
    return JSON.parse(word) as Scalar['value']
  }

  #string(): string | null {
    const start = this.#at
    const token = this.#take(STRING)
    if (token === '') return null
    try {
      return JSON.parse(token) as string
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error
      this.#at = start
      throw this.#unexpected('a string')
    }
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at
    const [found = ''] = pattern.exec(this.#text) ?? []
    this.#at += found.length
    return found
  }

  #skip(character: string): boolean {
    if (this.#text[this.#at] !== character) return false
    this.#at += 1
    return true
  }

  #unexpected(expected: string): JsonTextError {
    const line = this.#text.slice(0, this.#at).split('\n').length
    const found = this.#at < this.#text.length ? JSON.stringify(this.#text[this.#at]) : 'the end'
    return new JsonTextError(`line ${line}: expected ${expected}, got ${found}`)
  }
}

/** The last of the same name counts, as for every other reader. */
export function member(node: Node, key: string): Item | null {
  if (node.kind !== 'object') return null
  return node.items.findLast((item) => item.key === key) ?? null
}

export function valueOf(node: Node): unknown {
  if (node.kind === 'scalar') return node.value
  if (node.kind === 'array') return node.items.map((item) => valueOf(item.node))
  return Object.fromEntries(node.items.map((item) => [item.key ?? '', valueOf(item.node)]))
}

export function applyEdits(text: string, edits: readonly Edit[]): string {
  const inOrder = edits.toSorted((a, b) => a.start - b.start || a.end - b.end)
  let result = ''
  let at = 0
  for (const edit of inOrder) {
    result += text.slice(at, edit.start) + edit.text
    at = edit.end
  }
  return result + text.slice(at)
}

/** Something to put in: a value, with its key if it goes into an object. */
export interface Addition {
  readonly key: string | null
  readonly value: unknown
}

/**
 * Puts items behind the last one of a container, each on a line of its own. Into an empty one they go right behind its bracket, by
 * which `removalEdits` knows later that it was there before.
 */
export function additionEdits(
  text: string,
  container: Container,
  additions: readonly Addition[],
): readonly Edit[] {
  if (additions.length === 0) return []
  const last = container.items.at(-1)
  const { lineBreak, unit } = layoutOf(text)
  const indent = itemIndent(text, container, unit)
  const printed = additions.map((addition) => print(addition, { lineBreak, unit, indent }))
  const between = `${lineBreak}${indent}`
  if (last === undefined) return [insertion(container.start + 1, printed.join(`,${between}`))]
  const items = printed.map((item) => `${between}${item}`)
  if (last.comma !== null) {
    return [
      insertion(behindComments(text, last.comma + 1), items.map((item) => `${item},`).join('')),
    ]
  }
  return [insertion(last.end, ','), insertion(behindComments(text, last.end), items.join(','))]
}

function insertion(at: number, text: string): Edit {
  return { start: at, end: at, text }
}

/** Comments that are on the same line belong to what they stand behind. */
const COMMENTS = /(?:[ \t]*(?:\/\*(?:(?!\*\/)[^\n\r])*\*\/|\/\/[^\n\r]*))*/y

function behindComments(text: string, at: number): number {
  COMMENTS.lastIndex = at
  return at + (COMMENTS.exec(text)?.[0].length ?? 0)
}

interface Layout {
  readonly lineBreak: string
  readonly unit: string
}

/** As the text is laid out already: its line breaks, and its first indented line. */
function layoutOf(text: string): Layout {
  const [, unit = '  '] = /^([ \t]+)["{[]/m.exec(text) ?? []
  return { lineBreak: text.includes('\r\n') ? '\r\n' : '\n', unit }
}

function itemIndent(text: string, container: Container, unit: string): string {
  const [first] = container.items
  const own = first === undefined ? null : lineStart(text, first.start)
  if (first !== undefined && own !== null) return text.slice(own.end, first.start)
  const line = text.slice(0, container.start).split('\n').at(-1) ?? ''
  const [indent = ''] = /^[ \t]*/.exec(line) ?? []
  return `${indent}${unit}`
}

function print(
  { key, value }: Addition,
  { lineBreak, unit, indent }: Layout & { readonly indent: string },
): string {
  const lines = JSON.stringify(value, null, unit).split('\n')
  const name = key === null ? '' : `${JSON.stringify(key)}: `
  return `${name}${lines.join(`${lineBreak}${indent}`)}`
}

/** The line break before something that is the first of its line; null if it is not. */
function lineStart(
  text: string,
  at: number,
): { readonly start: number; readonly end: number } | null {
  let end = at
  while (end > 0 && (text[end - 1] === ' ' || text[end - 1] === '\t')) end -= 1
  if (text[end - 1] !== '\n') return null
  return { start: text[end - 2] === '\r' ? end - 2 : end - 1, end }
}

/** Takes items out of a container, with the commas that came with them. */
export function removalEdits(
  text: string,
  { items }: Container,
  isRemoved: (item: Item) => boolean,
): readonly Edit[] {
  const lastKept = items.findLastIndex((item) => !isRemoved(item))
  const hasTrailingComma = items.at(-1)?.comma !== null
  return items.flatMap((item, index) => {
    if (!isRemoved(item)) return []
    const start = lineStart(text, item.start)?.start ?? item.start
    const takesBefore = lastKept >= 0 && index > lastKept && !hasTrailingComma
    const comma = takesBefore ? items[index - 1]?.comma : item.comma
    const own: Edit = { start, end: item.end, text: '' }
    return comma === null || comma === undefined ? [own] : [own, removal(comma)]
  })
}

function removal(comma: number): Edit {
  return { start: comma, end: comma + 1, text: '' }
}

/** Whether a container was empty before `additionEdits` put something in. */
export function wasEmpty({ start, items }: Container): boolean {
  return items[0]?.start === start + 1
}
