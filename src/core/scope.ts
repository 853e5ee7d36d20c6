/**
 * What a derived lease may be used for: works, tools, and namespaces of paths. A set that is absent or empty allows
 * nothing. Namespaces go by whole components: `src` allows `src/a`, never `src_backup`.
 */
import { invalid, isLeaseError } from './errors.ts'
import { SCOPE_ITEM_BYTES_MAX, SCOPE_ITEMS_MAX } from './limits.ts'
import { requireShortText, requireText } from './input.ts'

export interface Scope {
  /** Everything; the sets are then empty. */
  readonly unlimited: boolean
  /** Each in order and without repeats, so that equal scopes have equal bytes. */
  readonly workIds: readonly string[]
  readonly tools: readonly string[]
  readonly namespaces: readonly string[]
}

/** An act that its holder asks to do; everything that it names must be allowed. */
export interface ScopedAct {
  readonly workId?: string
  readonly tool?: string
  readonly path?: string
}

export const NO_SCOPE: Scope = { unlimited: false, workIds: [], tools: [], namespaces: [] }
export const UNLIMITED_SCOPE: Scope = { ...NO_SCOPE, unlimited: true }

const SETS = ['workIds', 'tools', 'namespaces'] as const

export function parseScope(value: unknown): Scope {
  if (value === undefined || value === null) return NO_SCOPE
  if (typeof value !== 'object' || Array.isArray(value)) {
    throw invalid('scope', 'must be { workIds, tools, namespaces } or { unlimited: true }', value)
  }
  const given = value as Partial<Record<keyof Scope, unknown>>
  const unknown = Object.keys(given).find((name) => name !== 'unlimited' && !isSet(name))
  if (unknown !== undefined) throw invalid('scope', `must have ${SETS.join(', ')}`, unknown)
  const { unlimited = false } = given
  if (typeof unlimited !== 'boolean')
    throw invalid('scope.unlimited', 'must be a boolean', unlimited)
  const scope = {
    unlimited,
    workIds: parseSet('workIds', given.workIds, (text) => text),
    tools: parseSet('tools', given.tools, (text) => text),
    namespaces: parseSet('namespaces', given.namespaces, namespaceOf),
  }
  if (unlimited && SETS.some((set) => scope[set].length > 0)) {
    throw invalid('scope.unlimited', 'must stand alone', 'sets beside it')
  }
  return scope
}

function isSet(name: string): boolean {
  return SETS.some((set) => set === name)
}

function parseSet(
  name: (typeof SETS)[number],
  value: unknown,
  canonical: (text: string) => string,
): readonly string[] {
  if (value === undefined) return []
  const field = `scope.${name}`
  if (!Array.isArray(value) || value.length > SCOPE_ITEMS_MAX) {
    throw invalid(field, `must be a list of at most ${SCOPE_ITEMS_MAX}`, value)
  }
  const limit = { field, bytesMax: SCOPE_ITEM_BYTES_MAX }
  // What is kept is read again under the same limit, and may be longer than what was given (NFC).
  const items = value.map((item: unknown) => {
    return requireShortText(limit, canonical(requireShortText(limit, item)))
  })
  return [...new Set(items)].toSorted()
}

/**
 * A namespace or path in its one spelling. What could climb out of it, by whatever spelling, is refused: the one who
 * opens the file may decode what the one who checks it did not.
 */
export function namespaceOf(text: string): string {
  const field = 'scope.namespaces'
  const path = requireText(field, text).normalize('NFC')
  // A reader may fold letters that only look like others (NFKC) before it decodes, or afterwards.
  const decoded = decodedOnce(path)
  const foldedFirst = decodedOnce(path.normalize('NFKC'))
  if (path.includes('\\') || decoded === null || foldedFirst === null) {
    throw invalid(field, 'must be a path without "\\" or encoded dots, slashes and controls', text)
  }
  const isAbsolute = path.startsWith('/')
  const trimmed = path.slice(isAbsolute ? 1 : 0).replace(/\/$/, '')
  const parts = path === '/' ? [] : trimmed.split('/')
  const folded = decoded.normalize('NFKC').split(/[/\\]/)
  if (parts.includes('') || folded.includes('.') || folded.includes('..')) {
    throw invalid(field, 'must be a path without empty, "." or ".." components', text)
  }
  return `${isAbsolute ? '/' : ''}${parts.join('/')}`
}

/**
 * The path as one who decodes it reads it. Null where it is not encoded as every encoder would do it: characters that
 * need no encoding (a dot among them), separators, a percent sign or control that would be decoded again, bytes that are
 * no UTF-8 in its shortest form, and `%u`, which is no encoding but is decoded by some. A percent sign that begins
 * nothing stands for itself.
 */
function decodedOnce(path: string): string | null {
  if (/%u/i.test(path)) return null
  let isCanonical = true
  const decoded = path.replaceAll(/(?:%[0-9a-f]{2})+/gi, (run) => {
    const characters = decodedRun(run)
    isCanonical &&= characters !== null && [...characters].every(mustBeEncoded)
    return characters ?? run
  })
  return isCanonical ? decoded : null
}

function decodedRun(run: string): string | null {
  try {
    return decodeURIComponent(run)
  } catch {
    // No fault: decoding is the check itself, and throws for nothing but bytes that are no UTF-8.
    return null
  }
}

// oxlint-disable-next-line no-control-regex -- control characters are exactly what is looked for
const NEVER_ENCODED_PATTERN = /[/\\%\u0000-\u001f\u007f-\u009f]/

function mustBeEncoded(character: string): boolean {
  return encodeURIComponent(character) !== character && !NEVER_ENCODED_PATTERN.test(character)
}

/** Whether a lies in b, which may be the same. */
function isInNamespace(a: string, b: string): boolean {
  return a === b || a.startsWith(b.endsWith('/') ? b : `${b}/`)
}

/** Whether all that `child` allows is allowed by `parent`. */
export function isScopeWithin(child: Scope, parent: Scope): boolean {
  if (parent.unlimited) return true
  if (child.unlimited) return false
  return (
    child.workIds.every((workId) => parent.workIds.includes(workId)) &&
    child.tools.every((tool) => parent.tools.includes(tool)) &&
    child.namespaces.every((namespace) => inSome(namespace, parent.namespaces))
  )
}

function inSome(path: string, namespaces: readonly string[]): boolean {
  return namespaces.some((namespace) => isInNamespace(path, namespace))
}

const ACT_FIELDS = ['workId', 'tool', 'path'] as const

/** An act as its caller has named it. A field that is not known might be the one that is not allowed. */
export function parseAct(value: unknown): ScopedAct {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalid('act', `must have ${ACT_FIELDS.join(', ')}`, value)
  }
  const unknown = Object.keys(value).find((name) => !ACT_FIELDS.some((field) => field === name))
  if (unknown !== undefined) throw invalid('act', `must have ${ACT_FIELDS.join(', ')}`, unknown)
  const act = value as Partial<Record<keyof ScopedAct, unknown>>
  const odd = ACT_FIELDS.find((field) => act[field] !== undefined && typeof act[field] !== 'string')
  if (odd !== undefined) throw invalid(odd, 'must be text', act[odd])
  return value as ScopedAct
}

/** What of an act is not allowed; null if all of it is. An act that names nothing is none that could be allowed. */
export function outsideScope(scope: Scope, act: ScopedAct): keyof ScopedAct | 'act' | null {
  const { workId, tool, path } = act
  if (workId === undefined && tool === undefined && path === undefined) return 'act'
  const canonical = path === undefined ? undefined : canonicalPath(path)
  if (canonical === null) return 'path'
  if (scope.unlimited) return null
  if (workId !== undefined && !scope.workIds.includes(workId)) return 'workId'
  if (tool !== undefined && !scope.tools.includes(tool)) return 'tool'
  if (canonical !== undefined && !inSome(canonical, scope.namespaces)) return 'path'
  return null
}

function canonicalPath(path: string): string | null {
  try {
    return namespaceOf(path)
  } catch (error) {
    // A path that cannot be read is outside of every namespace.
    if (isLeaseError(error)) return null
    throw error
  }
}
