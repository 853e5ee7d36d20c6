/**
 * JSON as a server may trust it. `JSON.parse` alone takes the last of two equal keys where a proxy in front may have looked
 * at the first, and makes a field named `__proto__` that careless code further in takes for a prototype. Both are refused,
 * and so is nesting that no request of Tenure has.
 */
import { invalid } from '../../core/errors.ts'

const DEPTH_MAX = 32

/** Reads UTF-8; throws `INVALID_INPUT`. */
export function parseStrictJson(bytes: Uint8Array): unknown {
  const text = decode(bytes)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // No fault: this is the answer, and the parser's own words would repeat what was sent.
    throw invalid('body', 'must be JSON', `${bytes.length} bytes that are not`)
  }
  refuseTricks(text)
  return value
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    // No fault: this is the answer.
    throw invalid('body', 'must be UTF-8', `${bytes.length} bytes that are not`)
  }
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\]:]/g

/** The text is valid JSON: a string is a key exactly where a colon follows. */
function refuseTricks(text: string): void {
  const keys: Set<string>[] = []
  let last = ''
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === '{' || token === '[') {
      keys.push(new Set())
      if (keys.length > DEPTH_MAX)
        throw invalid('body', `must nest at most ${DEPTH_MAX} deep`, 'more')
    } else if (token === '}' || token === ']') {
      keys.pop()
    } else if (token === ':') {
      refuseKey(keys.at(-1), JSON.parse(last) as string)
    } else last = token
  }
}

function refuseKey(keys: Set<string> | undefined, key: string): void {
  if (key === '__proto__') throw invalid('body', 'must have no field of this name', key)
  if (keys?.has(key) === true) throw invalid('body', 'must have each field once', key)
  keys?.add(key)
}
